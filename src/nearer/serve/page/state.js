// What the reader sees, kept in the address after '#', so that a link shows it again. It is never sent anywhere.

export const VIEWS = ["search", "rank", "compare", "map", "geometry"];
const NAMES = { view: "view", query: "q", list: "list", model: "model", over: "over" };
// Longer lists would make addresses that programs cut; such a link opens without the list
const LONGEST_LIST = 4000;

export const state = { view: "", query: "", list: "", model: "", over: "" };

/** Reads the address. Of what it does not say, nothing is kept, except a list that was too long for it. */
export function readAddress() {
  const said = new URLSearchParams(location.hash.slice(1));
  for (const [name, short] of Object.entries(NAMES)) {
    if (name === "list" && !said.has("list") && state.list.length > LONGEST_LIST) continue;
    state[name] = said.get(short) ?? "";
  }
  if (!VIEWS.includes(state.view)) state.view = "";
  if (!["list", "index"].includes(state.over)) state.over = "";
}

/** Changes the state and the address. `step`: the browser's Back returns to what was. */
export function change(changes, { step = false } = {}) {
  Object.assign(state, changes);
  const said = new URLSearchParams();
  for (const [name, short] of Object.entries(NAMES)) {
    if (state[name] && !(name === "list" && state.list.length > LONGEST_LIST)) said.set(short, state[name]);
  }
  const address = `#${said}`;
  if (address === location.hash) return;
  if (step) history.pushState(null, "", address);
  else history.replaceState(null, "", address);
}

/** The pasted sentences: lines that hold more than space. */
export const sentences = () => state.list.split(/\r?\n/).map((line) => line.trim()).filter(Boolean);

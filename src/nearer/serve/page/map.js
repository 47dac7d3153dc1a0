// The corpus as a map, and the query's place on it.

import { COLOURS, MapCanvas } from "./canvas.js";
import { counted, make } from "./dom.js";
import { movable } from "./moving.js";
import { Panel } from "./panel.js";
import { rankedList } from "./ranked.js";
import { found, withoutIndex } from "./search.js";
import { ask } from "./service.js";
import { state } from "./state.js";

const K = 10;
const EXAMPLES = 5; // sentences of a group in the list
const KEYS = "Arrow keys go from sentence to sentence, plus and minus zoom, 0 shows all, Enter asks with the sentence.";

/** use(text): makes a sentence the query. */
export function mapView(served, use) {
  const panel = new Panel("map");
  let drawn = null; // { model, map, … } once a map is there
  // where the query alone is at fault, the map stays
  panel.empty = () => (drawn?.frame.isConnected ? rest(panel, drawn) : panel.answer.replaceChildren());

  const refresh = () => {
    const model = served.current();
    if (!model.index) {
      drawn = null;
      return panel.rest("", ...withoutIndex(served, model));
    }
    const query = state.query.trim();
    return panel.show(JSON.stringify([model.id, query]), async (signal) => {
      if (drawn?.model !== model.id || !drawn.frame.isConnected) {
        panel.say("Drawing the map …");
        panel.answer.replaceChildren();
        const told = await ask(`/map?model=${encodeURIComponent(model.id)}`, { signal });
        drawn = { model: model.id, told, ...frame(told, use) };
        panel.answer.replaceChildren(drawn.frame);
      }
      if (!query) return rest(panel, drawn);
      const body = { query, k: Math.min(K, model.index.texts), model: model.id };
      place(panel, drawn, await ask("/map/place", { body, signal }), served.series(model));
    });
  };

  return { refresh };
}

function about({ sampled, of, method, explained }) {
  const part = sampled < of ? `${sampled.toLocaleString("en")} of ` : "";
  const some = `${part}${counted(of, "sentence")}`;
  const kept = explained && Math.round((explained[0] + explained[1]) * 100);
  const share = explained ? `; both directions hold ${kept} % of the variance` : "";
  return `${some}, laid out by ${method}${share}. Near on the map is a hint; the scores are the measure.`;
}

function rest(panel, { map, told, nearest }) {
  map.placed = null;
  map.redraw();
  nearest.replaceChildren(make("p", { class: "quiet" }, "Type a sentence to see where it lies."));
  panel.say(about(told));
}

function place(panel, { map, told, nearest }, placed, series) {
  map.placed = placed;
  map.redraw();
  const rows = placed.results.map((hit, n) => ({ ...found(hit), key: n }));
  const list = rankedList(rows, { series, label: "Nearest to the sentence" });
  const point = (event) => {
    const row = event.target.closest("li");
    map.pointed = row ? placed.results[row.dataset.key] : null;
    map.redraw();
  };
  list.addEventListener("pointerover", point);
  list.addEventListener("pointerleave", () => point({ target: list }));
  nearest.replaceChildren(make("h2", {}, "Nearest to the sentence"), list);
  panel.say(about(told), placed.results[0]?.text);
}

function frame(told, use) {
  const label = `Map of ${counted(told.sampled, "sentence")}. ${KEYS}`;
  const canvas = make("canvas", { tabindex: 0, role: "application", "aria-label": label });
  const map = new MapCanvas(canvas);
  map.fill(told.points, told.groups);
  const readout = make("output", { class: "readout", hidden: true, dir: "auto" });
  const onpoint = (pointed) => show(map, readout, pointed);
  const move = movable(map, { onpoint, onuse: (pointed) => use(pointed.text) });
  const button = (sign, title, onclick) =>
    make("button", { type: "button", "aria-label": title, title, onclick }, sign);
  const tools = make(
    "div",
    { class: "tools" },
    button("+", "Nearer", () => move.zoom(1.5)),
    button("−", "Further", () => move.zoom(1 / 1.5)),
    button("All", "The whole map", move.whole),
  );
  const nearest = make("div", { class: "nearest" });
  const drawing = make("div", { class: "drawing" }, canvas, tools, readout);
  const figure = make("div", { class: "map" }, make("div", {}, drawing, legend(map, told)), nearest);
  return { map, nearest, frame: make("div", {}, figure, asList(told)) };
}

function show(map, readout, pointed) {
  readout.hidden = !pointed;
  if (!pointed) return;
  readout.textContent = pointed.text;
  const { x, y } = map.at(pointed);
  const left = Math.max(0, Math.min(map.width - readout.offsetWidth, x - readout.offsetWidth / 2));
  const above = y - readout.offsetHeight - 12;
  readout.style.left = `${left}px`;
  readout.style.top = `${above < 0 ? y + 12 : above}px`;
}

/** Groups as buttons: one pressed shows itself alone. */
function legend(map, told) {
  const buttons = told.groups.map((group, n) => {
    const swatch = make("span", { class: `swatch series-${(n % COLOURS) + 1}`, "aria-hidden": "true" });
    const onclick = () => choose(map.only === n ? null : n);
    return make("button", { type: "button", "aria-pressed": "false", onclick }, swatch, group.label);
  });
  const choose = (only) => {
    map.only = only;
    map.redraw();
    buttons.forEach((button, n) => button.setAttribute("aria-pressed", String(n === only)));
  };
  return make("div", { class: "legend", role: "group", "aria-label": "Show one group alone" }, ...buttons);
}

/** What the picture shows, for those who do not see it. */
function asList(told) {
  const groups = told.groups.map((group, n) => {
    const own = told.points.filter((point) => point.group === n);
    const some = own.slice(0, EXAMPLES).map((point) => make("li", { dir: "auto" }, point.text));
    const count = own.length > some.length ? `${some.length} of ${own.length.toLocaleString("en")} sentences` : "";
    return [make("h3", {}, group.label), make("p", { class: "quiet" }, count), make("ul", {}, ...some)];
  });
  return make("details", {}, make("summary", {}, "The map as a list"), ...groups.flat());
}

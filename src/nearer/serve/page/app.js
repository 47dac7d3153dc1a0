// The page of the service: which view is open, and what the views share.

import { compareView } from "./compare.js";
import { counted, find, growing, make } from "./dom.js";
import { geometryView } from "./geometry.js";
import { mapView } from "./map.js";
import { EXAMPLE, rankView } from "./rank.js";
import { searchView } from "./search.js";
import { ask, faultWords } from "./service.js";
import { VIEWS, change, readAddress, sentences, state } from "./state.js";

const PAUSE = 220; // milliseconds without a key after which typing is answered
const [query, list, choice] = [find("#query"), find("#list"), find("#model")];
const [fitQuery, fitList] = [growing(query), growing(list)];
const tab = (view) => find(`#tab-${view}`);

async function start() {
  readAddress();
  find("#unreached").hidden = true;
  try {
    open(new Served((await ask("/v1/models")).data));
  } catch (error) {
    find("#unreached").replaceChildren(...faultWords(error, start));
    find("#unreached").hidden = false;
  }
}

/** The models of the service, as /v1/models tells them. */
class Served {
  constructor(models) {
    this.models = models;
    this.bothIndexed = models.length > 1 && models.every((model) => model.index);
  }

  /** The one that answers where a view has one. */
  current() {
    return this.models.find((model) => model.id === state.model) ?? this.models[0];
  }

  /** A model keeps its colour in all views. */
  series(model) {
    return this.models.indexOf(model) + 1;
  }

  /** What two models are compared on: "list" or "index". */
  over() {
    return this.bothIndexed ? state.over || (state.list.trim() ? "list" : "index") : "list";
  }
}

function open(served) {
  const views = {
    search: searchView(served),
    rank: rankView(served),
    compare: compareView(served),
    map: mapView(served, (text) => go({ query: text }, true)),
    geometry: geometryView(served),
  };
  const show = () => {
    const view = state.view || (served.current().index ? "search" : "rank");
    showFields(view, served);
    views[view].refresh();
  };
  /** Changes the state otherwise than by typing. `step`: Back undoes it, but never what was typed before it. */
  const go = (changes, step = false) => {
    change({ query: query.value, list: list.value }); // however soon after the last key
    change(changes, { step });
    fill(served);
    show();
  };

  find("#serving").replaceChildren(...served.models.map(described));
  choice.replaceChildren(...served.models.map(({ id }) => make("option", { value: id }, id)));
  find("#page").hidden = false;
  listenToTyping(show);
  listenToTabs((view) => go({ view }, true));
  choice.addEventListener("change", () => go({ model: choice.value === served.models[0].id ? "" : choice.value }));
  find("#over").addEventListener("change", (event) => go({ over: event.target.value }));
  find("#example").addEventListener("click", () => go(EXAMPLE, true));
  addEventListener("popstate", () => {
    readAddress();
    fill(served);
    show();
  });
  fill(served);
  show();
}

function described({ id, dimensions, index }) {
  const indexed = index ? ` · ${counted(index.texts, "sentence")} indexed` : "";
  return make("span", {}, `${id} · ${dimensions} dimensions${indexed}`);
}

/** What the state says, in the fields. */
function fill(served) {
  query.value = state.query;
  list.value = state.list;
  choice.value = served.current().id;
}

/** The open view's tab, panel and fields. */
function showFields(view, served) {
  for (const name of VIEWS) {
    tab(name).setAttribute("aria-selected", String(name === view));
    tab(name).tabIndex = name === view ? 0 : -1;
    find(`#panel-${name}`).hidden = name !== view;
  }
  const [comparing, several] = [view === "compare", served.models.length > 1];
  find("#asking").hidden = view === "geometry" || (comparing && !several);
  find("#model-field").hidden = !several || comparing;
  find("#over").hidden = !comparing || !served.bothIndexed;
  find("#list-field").hidden = view !== "rank" && !(comparing && several && served.over() === "list");
  for (const radio of document.querySelectorAll("[name=over]")) radio.checked = radio.value === served.over();
  find("#list-count").textContent = state.list.trim() ? counted(sentences().length, "sentence") : "";
  fitQuery();
  fitList();
  const said = state.query.trim();
  document.title = said ? `${said.slice(0, 60)} · nearer` : "nearer";
}

/** Typing is answered after a pause, Enter at once; in the query Enter makes no new line. `/` goes to the query. */
function listenToTyping(show) {
  let waiting = 0;
  const answer = () => {
    clearTimeout(waiting);
    change({ query: query.value, list: list.value });
    show();
  };
  for (const field of [query, list]) {
    field.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(answer, PAUSE);
    });
  }
  query.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.isComposing) return;
    event.preventDefault();
    answer();
  });
  find("#asking").addEventListener("submit", (event) => event.preventDefault());
  addEventListener("keydown", (event) => {
    const elsewhere = event.target.closest("input, textarea, select, dialog") || find("#asking").hidden;
    if (event.key !== "/" || elsewhere || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    query.focus();
    query.select();
  });
}

function listenToTabs(go) {
  for (const view of VIEWS) tab(view).addEventListener("click", () => go(view));
  find("#tabs").addEventListener("keydown", (event) => {
    const at = VIEWS.indexOf(event.target.id.replace("tab-", ""));
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: VIEWS.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    const view = VIEWS[(next + VIEWS.length) % VIEWS.length];
    tab(view).focus();
    go(view);
  });
}

start();

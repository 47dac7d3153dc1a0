// How a model's vectors lie: alignment, uniformity, mean cosine.

import { counted, make, score } from "./dom.js";
import { Panel } from "./panel.js";
import { plot } from "./plot.js";
import { withoutIndex } from "./search.js";
import { Refused, ask, inWords } from "./service.js";

const MEANINGS = {
  alignment: [
    "Alignment",
    "How far apart two sentences are that mean the same: the mean squared distance of positive pairs. Smaller is better.",
  ],
  uniformity: [
    "Uniformity",
    "How evenly sentences spread over all directions. More negative is better.",
  ],
  mean_cosine: [
    "Mean cosine",
    "How similar two random sentences are. Near 0 is good; near 1 means that all vectors point the same way.",
  ],
};

export function geometryView(served) {
  const panel = new Panel("geometry");
  const indexed = served.models.filter((model) => model.index);
  const bare = served.models.filter((model) => !model.index);

  const refresh = () => {
    if (!indexed.length) return panel.rest("", ...withoutIndex(served, served.models[0]));
    return panel.show("measured", async (signal) => {
      panel.say("Measuring …");
      const told = await Promise.all(indexed.map((model) => figuresOf(model, signal)));
      const measured = told.filter(({ refused }) => !refused);
      if (!measured.length) throw told[0].refused;
      const left = bare.map((model) => `${model.id} has no index and is left out.`);
      const refused = told.filter((figures) => figures.refused).map((figures) => inWords(figures.refused));
      panel.say([...left, ...refused].join(" "));
      const drawn = measured.map((figures) => ({ ...figures, series: served.series(figures.of) }));
      const comparable = drawn.length > 1 && drawn.every((figures) => figures.alignment !== null);
      panel.answer.replaceChildren(table(drawn), comparable ? plot(drawn) : "", basis(drawn));
    });
  };

  return { refresh };
}

/** Of some models there are none, since their scores are no cosines: that says nothing of the other model. */
async function figuresOf(model, signal) {
  try {
    return { of: model, ...(await ask(`/geometry?model=${encodeURIComponent(model.id)}`, { signal })) };
  } catch (error) {
    if (error instanceof Refused && (error.status === 404 || error.status === 422)) return { refused: error };
    throw error;
  }
}

function table(measured) {
  const head = ({ model, series }) => make("th", { scope: "col", class: `series-${series}` }, make("span", {}, model));
  const figure = (value) => make("td", {}, value === null ? "—" : score(value));
  const rows = Object.entries(MEANINGS).map(([field, [name, meaning]]) => {
    const title = make("th", { scope: "row" }, name, make("small", {}, meaning));
    return make("tr", {}, title, ...measured.map((figures) => figure(figures[field])));
  });
  const heads = make("thead", {}, make("tr", {}, make("td", {}), ...measured.map(head)));
  const drawn = make("table", {}, heads, make("tbody", {}, ...rows));
  return make("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Geometry" }, drawn);
}

/** On what the figures stand; what is the same for all models is said once. */
function basis(measured) {
  const count = ({ sentences, pairs }) => `${counted(sentences, "sentence")}, ${counted(pairs, "positive pair")}.`;
  const same = new Set(measured.map(count)).size === 1;
  const lines = same ? [count(measured[0])] : measured.map((figures) => `${figures.model}: ${count(figures)}`);
  const made = new Set(measured.map(({ positives }) => `Positive pairs: ${positives.replace(/\.$/, "")}.`));
  return make("div", { class: "quiet" }, ...[...lines, ...made].map((line) => make("p", {}, line)));
}

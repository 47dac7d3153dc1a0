// Two models on the same query: each one's order, and what moved between them.

import { command, counted, make } from "./dom.js";
import { Panel } from "./panel.js";
import { missing, ranking } from "./rank.js";
import { found } from "./search.js";
import { ask } from "./service.js";
import { sideBySide } from "./sides.js";
import { sentences, state } from "./state.js";

const K = 10;

export function compareView(served) {
  const panel = new Panel("compare");
  const [one, other] = served.models;

  const refresh = () => {
    if (!other) return panel.rest("", ...alone(one.id));
    const [query, overIndex] = [state.query.trim(), served.over() === "index"];
    if (overIndex && !query) return panel.rest("Type a sentence to see what each model finds nearest to it.");
    const hint = overIndex ? null : missing();
    if (hint) return panel.rest(hint);
    const list = overIndex ? null : sentences();
    return panel.show(JSON.stringify([query, list]), async (signal) => {
      const order = (model) => (list ? ranking(query, list, model.id, signal) : nearest(query, model, signal));
      const orders = await Promise.all([one, other].map(order));
      const [first, second] = orders.map(({ rows }) => rows);
      panel.say((list ? agreement(first, second) : shared(first, second)) + orders[0].cut + orders[1].cut);
      panel.answer.replaceChildren(sideBySide(served.models, [first, second]));
    });
  };

  return { refresh };
}

const alone = (model) => [
  make("p", {}, "One model is served. Start the service with a second to see both orders of the same sentences:"),
  command(`nearer serve ${model} --beside MODEL`),
];

async function nearest(query, model, signal) {
  const body = { query, k: Math.min(K, model.index.texts), model: model.id };
  const { results } = await ask("/v1/search", { body, signal });
  const times = new Map(); // a sentence may stand in an index twice
  const rows = results.map((hit) => {
    times.set(hit.text, (times.get(hit.text) ?? 0) + 1);
    return { ...found(hit), key: `${times.get(hit.text)} ${hit.text}` };
  });
  return { rows, cut: "" };
}

/** Of how many pairs of sentences two orders say the same: nearer, further, or equally near. */
function agreement(first, second) {
  const scores = new Map(second.map((row) => [row.key, row.score]));
  let [same, pairs] = [0, 0];
  for (const [place, row] of first.entries()) {
    for (const further of first.slice(place + 1)) {
      pairs += 1;
      const there = Math.sign(scores.get(row.key) - scores.get(further.key));
      same += Math.sign(row.score - further.score) === there;
    }
  }
  if (!pairs) return "One sentence alone has no order.";
  return `The two models agree on which is nearer in ${same.toLocaleString("en")} of ${counted(pairs, "pair")}.`;
}

function shared(first, second) {
  const keys = new Set(second.map((row) => row.key));
  const both = first.filter((row) => keys.has(row.key)).length;
  return `${both} of the first ${first.length} are the same sentences.`;
}

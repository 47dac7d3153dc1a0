// The sentences of an index nearest to the query.

import { command, counted, make } from "./dom.js";
import { Panel } from "./panel.js";
import { rankedList } from "./ranked.js";
import { ask } from "./service.js";
import { state } from "./state.js";

const AT_FIRST = 10;
const MOST = 640;

/** A hit as a row of a ranked list. */
export const found = ({ text, score, source, line, id = null, passage = 1, passages = 1 }) => ({
  text,
  score,
  note: [
    ...(id === null ? [] : [id]),
    ...(passages > 1 ? [`passage ${passage} of ${passages}`] : []),
    source,
    `line ${line.toLocaleString("en")}`,
  ].join(", "),
});

/** What to do where a view needs an index and the model has none. */
export function withoutIndex(served, { id }) {
  const first = served.models[0].id;
  const serve = id === first ? `${id} --index` : `${first} --beside ${id} --beside-index`;
  return [
    make(
      "p",
      {},
      `There are no sentences to look through: ${id} is served without an index. `,
      "Make one of a file with a sentence a line, and serve it:",
    ),
    command(`nearer search build ${id} sentences.txt --out sentences.index`, `nearer serve ${serve} sentences.index`),
  ];
}

export function searchView(served) {
  const panel = new Panel("search");
  let [asked, k] = ["", AT_FIRST];

  const refresh = () => {
    const model = served.current();
    if (!model.index) return panel.rest("", ...withoutIndex(served, model));
    const { texts } = model.index;
    const query = state.query.trim();
    if (!query) return panel.rest(`Type a sentence to see which of ${counted(texts, "sentence")} are nearest.`);
    const inputs = JSON.stringify([query, model.id]);
    if (inputs !== asked) [asked, k] = [inputs, AT_FIRST];
    return panel.show(`${inputs} ${k}`, async (signal) => {
      const body = { query, k: Math.min(k, texts), model: model.id };
      const { results } = await ask("/v1/search", { body, signal });
      const all = texts.toLocaleString("en");
      panel.say(`The nearest ${counted(results.length, "sentence")} of ${all}, by ${model.id}`, results[0]?.text);
      const list = rankedList(results.map(found), { series: served.series(model) });
      const more = results.length === k && k < Math.min(texts, MOST);
      const button = make("button", { type: "button", class: "more", onclick: goOn }, "More");
      panel.answer.replaceChildren(list, more ? button : "");
    });
  };

  const goOn = async () => {
    const before = k;
    k *= 4;
    await refresh();
    const next = panel.answer.querySelectorAll("li")[before]; // where the reader was
    next?.setAttribute("tabindex", "-1");
    next?.focus();
  };

  return { refresh };
}

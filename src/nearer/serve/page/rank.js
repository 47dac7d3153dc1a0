// A pasted list in the order of nearness to the query.

import { counted, score } from "./dom.js";
import { Panel } from "./panel.js";
import { rankedList } from "./ranked.js";
import { ask } from "./service.js";
import { sentences, state } from "./state.js";

// Written for this page, in falling nearness to their query.
export const EXAMPLE = {
  query: "An animal is biting a person's finger.",
  list: [
    "The stock market fell sharply on Tuesday.",
    "A man is holding a small dog in his arms.",
    "A hamster nips a girl's thumb.",
    "Someone has cut a finger with a knife.",
    "A creature sinks its teeth into somebody's finger.",
    "An animal is licking a person's hand.",
  ].join("\n"),
};

/** [{ text, score, key }] by falling nearness, and a note on texts that are longer than the model reads. */
export async function ranking(query, documents, model, signal) {
  const { results, usage } = await ask("/v1/rerank", { body: { query, documents, model }, signal });
  const rows = results.map(({ index, relevance_score: score }) => ({ text: documents[index], score, key: index }));
  const cut = usage.cut_texts
    ? ` ${counted(usage.cut_texts, "text is", "texts are")} longer than ${model} reads, and count by their beginning.`
    : "";
  return { rows, cut };
}

/** What is missing before a list can be ranked; null when nothing is. */
export function missing() {
  const [query, list] = [state.query.trim(), sentences()];
  if (!query && !list.length) return "Type a sentence, and paste a list of sentences to compare with it.";
  if (!query) return "Type the sentence to compare the list with.";
  return list.length ? null : "Paste the sentences to put in order, one a line.";
}

export function rankView(served) {
  const panel = new Panel("rank");

  const refresh = () => {
    const hint = missing();
    if (hint) return panel.rest(hint);
    const [query, list, model] = [state.query.trim(), sentences(), served.current()];
    return panel.show(JSON.stringify([query, list, model.id]), async (signal) => {
      const { rows, cut } = await ranking(query, list, model.id, signal);
      panel.say(verdict(rows, model.id) + cut, rows[0].text);
      panel.answer.replaceChildren(rankedList(rows, { series: served.series(model) }));
    });
  };

  return { refresh };
}

function verdict(rows, model) {
  if (rows.length !== 2) return `${counted(rows.length, "sentence")} in order of nearness, by ${model}.`;
  const [first, second] = rows;
  if (first.score === second.score) return `Both are equally near, by ${model}.`;
  return `The first is nearer, by ${score(first.score - second.score)} (${model}).`;
}

// Sentences in order, with their scores as numbers and bars.

import { make, score } from "./dom.js";

const AT_FIRST = 100;

/**
 * rows: [{ text, score, note?, mark?, key? }], nearest first. Long lists show their first part and a button.
 * Bars end at 1, or at the first score where scores are larger; those below 0 have none.
 */
export function rankedList(rows, { series = 1, label = "Sentences, nearest first", onmore = () => {} } = {}) {
  const full = Math.max(1, rows.length ? rows[0].score : 1);
  const list = make("ol", { class: `ranked series-${series}`, "aria-label": label });
  const add = (from, to) => list.append(...rows.slice(from, to).map((row, n) => rankedRow(row, from + n, full)));
  add(0, AT_FIRST);
  if (rows.length <= AT_FIRST) return make("div", {}, list);
  const more = make("button", { type: "button" }, `Show all ${rows.length.toLocaleString("en")}`);
  more.addEventListener("click", () => {
    add(AT_FIRST);
    more.remove();
    list.children[AT_FIRST].setAttribute("tabindex", "-1");
    list.children[AT_FIRST].focus();
    onmore();
  });
  return make("div", {}, list, more);
}

function rankedRow(row, place, full) {
  const fill = make("span", { class: "fill" });
  fill.style.width = `${(Math.max(0, row.score) / full) * 100}%`;
  return make(
    "li",
    { "data-key": row.key },
    make("span", { class: "place" }, `${place + 1}`),
    make("span", { class: "text", dir: "auto" }, row.text),
    make("span", { class: "score" }, score(row.score)),
    make("span", { class: "bar", "aria-hidden": "true" }, fill),
    row.mark ?? null,
    row.note ? make("small", { class: "quiet" }, row.note) : null,
  );
}

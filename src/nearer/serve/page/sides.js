// Two orders beside each other, with a line for every sentence from its place in the one to its place in the other.

import { counted, draw, make } from "./dom.js";
import { rankedList } from "./ranked.js";

const ROW_MIDDLE = 21; // pixels from a row's top to the middle of its first line

/** models: two; orders: of each the rows of a ranked list, in which `key` tells a sentence. */
export function sideBySide(models, orders) {
  const lines = draw("svg", { class: "lines", "aria-hidden": "true" });
  const sides = models.map((model, n) => {
    const other = { name: models[1 - n].id, places: new Map(orders[1 - n].map((row, place) => [row.key, place])) };
    const rows = orders[n].map((row, place) => ({ ...row, mark: n ? moved(row, place, other) : lacking(row, other) }));
    const label = `Nearest first, by ${model.id}`;
    const list = rankedList(rows, { series: n + 1, label, onmore: () => join(box, lines) });
    return make("div", { class: "side" }, make("h2", { class: `series-${n + 1}` }, make("span", {}, model.id)), list);
  });
  const box = make("div", { class: "sides" }, sides[0], lines, sides[1]);
  box.addEventListener("pointerover", (event) => light(box, event.target.closest("[data-key]")?.dataset.key));
  box.addEventListener("pointerleave", () => light(box));
  new ResizeObserver(() => join(box, lines)).observe(box);
  return box;
}

function lacking({ key }, { name, places }) {
  if (places.has(key)) return null;
  return make("span", { class: "moved away" }, `not in the first ${places.size} of ${name}`);
}

/** How far a sentence stands from its place with the first model. */
function moved(row, place, first) {
  if (!first.places.has(row.key)) return lacking(row, first);
  const by = first.places.get(row.key) - place;
  const words = by ? `${counted(Math.abs(by), "place")} ${by > 0 ? "higher" : "lower"} than` : "the same place as";
  const [kind, sign] = by ? (by > 0 ? ["up", `▲ ${by}`] : ["down", `▼ ${-by}`]) : ["same", "="];
  const heard = make("span", { class: "unseen" }, ` ${words} with ${first.name}`);
  return make("span", { class: `moved ${kind}` }, sign, heard);
}

function join(box, lines) {
  lines.replaceChildren();
  const frame = lines.getBoundingClientRect();
  if (!frame.width) return; // on a narrow screen the orders stand below each other
  lines.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  const rowsByKey = (list) => new Map([...list.children].map((row, place) => [row.dataset.key, { row, place }]));
  const [left, right] = [...box.querySelectorAll("ol")].map(rowsByKey);
  const height = ({ row }) => row.getBoundingClientRect().top - frame.top + ROW_MIDDLE;
  for (const [key, here] of left) {
    const there = right.get(key);
    if (!there) continue;
    const kind = there.place === here.place ? "same" : there.place < here.place ? "up" : "down";
    const [from, to, bend] = [height(here), height(there), frame.width / 2];
    const d = `M0 ${from} C ${bend} ${from} ${bend} ${to} ${frame.width} ${to}`;
    lines.append(draw("path", { class: `join ${kind}`, "data-key": key, d }));
  }
}

/** Marks a sentence in both orders, and its line. */
function light(box, key) {
  for (const part of box.querySelectorAll("[data-key]")) {
    part.classList.toggle("lit", key !== undefined && part.dataset.key === key);
  }
}

// Uniformity across, alignment up, as in Wang and Isola's plot: the better model is nearer to the lower left.

import { draw, make, score } from "./dom.js";

const SIZE = { width: 340, height: 220 };
const BOX = { left: 52, right: 324, top: 14, bottom: 176 };
const LONGEST_NAME = 22;

/** measured: [{ model, uniformity, alignment, series }] */
export function plot(measured) {
  const across = axis(measured.map(({ uniformity }) => uniformity), BOX.left, BOX.right);
  const up = axis(measured.map(({ alignment }) => alignment), BOX.bottom, BOX.top);
  const words = ({ model, uniformity, alignment }) =>
    `${model}: uniformity ${score(uniformity)}, alignment ${score(alignment)}`;
  const viewBox = `0 0 ${SIZE.width} ${SIZE.height}`;
  const chart = draw("svg", { viewBox, role: "img", "aria-label": measured.map(words).join("; ") });
  for (const value of across.marks) {
    const x = across.at(value);
    chart.append(draw("line", { class: "grid", x1: x, x2: x, y1: BOX.top, y2: BOX.bottom }));
    chart.append(draw("text", { x, y: BOX.bottom + 15, "text-anchor": "middle" }, across.show(value)));
  }
  for (const value of up.marks) {
    const y = up.at(value);
    chart.append(draw("line", { class: "grid", x1: BOX.left, x2: BOX.right, y1: y, y2: y }));
    chart.append(draw("text", { x: BOX.left - 6, y: y + 4, "text-anchor": "end" }, up.show(value)));
  }
  const [x, y] = [(BOX.left + BOX.right) / 2, (BOX.top + BOX.bottom) / 2];
  chart.append(draw("text", { x, y: SIZE.height - 6, "text-anchor": "middle" }, "uniformity"));
  chart.append(draw("text", { x: 11, y, "text-anchor": "middle", transform: `rotate(-90 11 ${y})` }, "alignment"));
  for (const figures of measured) {
    chart.append(...point(figures, across.at(figures.uniformity), up.at(figures.alignment)));
  }
  const caption = make("figcaption", {}, make("strong", {}, "Both together"), "Nearer to the lower left is better.");
  return make("figure", { class: "plot" }, caption, chart);
}

/** A dot and its model's name on the side where there is room. */
function point({ model, series }, x, y) {
  const late = x > (BOX.left + BOX.right) / 2;
  const name = model.length > LONGEST_NAME ? `${model.slice(0, LONGEST_NAME - 1)}…` : model;
  const label = { class: "label", x: x + (late ? -9 : 9), y: y + 4, "text-anchor": late ? "end" : "start" };
  return [draw("circle", { class: `dot series-${series}`, cx: x, cy: y, r: 5 }), draw("text", label, name)];
}

/** A range around the values, with room, between two pixels, and a few round marks in it. */
function axis(values, from, to) {
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const room = Math.max((most - least) * 0.25, Math.abs(most) * 0.05, 0.02);
  const [low, high] = [least - room, most + room];
  const rough = (high - low) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * 0.8);
  const marks = [];
  for (let n = Math.ceil(low / step); n * step <= high; n++) marks.push(n * step);
  const digits = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
  return {
    marks,
    at: (value) => from + ((value - low) / (high - low)) * (to - from),
    show: (value) => value.toFixed(digits).replace("-", "−"),
  };
}

// The map drawn: points in their groups' colours, and on top of them a query with its nearest sentences.

const EDGE = 18; // pixels around the points
export const COLOURS = 8; // --series-1 … of the style

/** Pixels of a place (x, y in [0, 1], y upwards) in a canvas of `width` × `height` under a view { scale, x, y }. */
export const toPixels = (view, width, height, place) => ({
  x: ((place.x - view.x) * view.scale + 0.5) * (width - 2 * EDGE) + EDGE,
  y: (0.5 - (place.y - view.y) * view.scale) * (height - 2 * EDGE) + EDGE,
});

/** The way from pixels to a distance on the map. */
export const toMap = (view, width, height, pixels) => ({
  x: pixels.x / ((width - 2 * EDGE) * view.scale),
  y: -pixels.y / ((height - 2 * EDGE) * view.scale),
});

/** A canvas drawn anew when its size, the colour scheme or what it shows changes. */
export class MapCanvas {
  constructor(canvas) {
    this.canvas = canvas;
    this.view = { scale: 1, x: 0.5, y: 0.5 };
    this.points = [];
    this.groups = [];
    this.centres = [];
    this.placed = null; // { x, y, results }
    this.only = null; // a group
    this.pointed = null; // a place with a text
    this.due = 0;
    new ResizeObserver(() => this.redraw()).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  fill(points, groups) {
    [this.points, this.groups, this.placed, this.only, this.pointed] = [points, groups, null, null, null];
    this.centres = groups.map((_, group) => middle(points.filter((point) => point.group === group)));
    this.view = { scale: 1, x: 0.5, y: 0.5 };
    this.redraw();
  }

  get width() { return this.canvas.clientWidth; }
  get height() { return this.canvas.clientHeight; }
  at(place) { return toPixels(this.view, this.width, this.height, place); }

  redraw() {
    if (!this.due) this.due = requestAnimationFrame(() => this.draw());
  }

  draw() {
    this.due = 0;
    const [width, height, dense] = [this.width, this.height, devicePixelRatio || 1];
    if (!width || !height) return;
    [this.canvas.width, this.canvas.height] = [width * dense, height * dense];
    const pen = this.canvas.getContext("2d");
    pen.scale(dense, dense);
    const style = getComputedStyle(this.canvas);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const ink = { paper: colour("paper"), ink: colour("ink"), quiet: colour("quiet"), mark: colour("link") };
    const series = Array.from({ length: COLOURS }, (_, n) => colour(`series-${n + 1}`));
    this.drawPoints(pen, series);
    this.drawLabels(pen, ink, style.fontFamily);
    if (this.placed) this.drawPlaced(pen, ink);
    if (this.pointed) this.drawRing(pen, ink.ink, this.pointed, 7);
  }

  drawPoints(pen, series) {
    const radius = (this.points.length > 600 ? 2.2 : 3.2) * Math.min(1.8, Math.sqrt(this.view.scale));
    for (const point of this.points) {
      const faint = this.only !== null ? point.group !== this.only : this.placed !== null;
      pen.globalAlpha = faint ? 0.3 : 0.8;
      pen.fillStyle = series[point.group % COLOURS];
      const { x, y } = this.at(point);
      pen.beginPath();
      pen.arc(x, y, radius, 0, 2 * Math.PI);
      pen.fill();
    }
    pen.globalAlpha = 1;
  }

  drawPlaced(pen, ink) {
    const query = this.at(this.placed);
    pen.lineWidth = 1;
    pen.strokeStyle = ink.quiet;
    pen.globalAlpha = 0.6;
    for (const result of this.placed.results) {
      const there = this.at(result);
      pen.beginPath();
      pen.moveTo(query.x, query.y);
      pen.lineTo(there.x, there.y);
      pen.stroke();
    }
    pen.globalAlpha = 1;
    for (const result of this.placed.results) this.drawRing(pen, ink.mark, result, 5, ink.paper);
    pen.fillStyle = ink.ink; // a diamond: no sentence of the corpus has one
    pen.strokeStyle = ink.paper;
    pen.lineWidth = 2;
    pen.beginPath();
    for (const [x, y] of [[0, -8], [8, 0], [0, 8], [-8, 0]]) pen.lineTo(query.x + x, query.y + y);
    pen.closePath();
    pen.stroke();
    pen.fill();
  }

  drawRing(pen, colour, place, radius, within = null) {
    const { x, y } = this.at(place);
    pen.beginPath();
    pen.arc(x, y, radius, 0, 2 * Math.PI);
    if (within) {
      pen.fillStyle = within;
      pen.fill();
    }
    pen.lineWidth = 2;
    pen.strokeStyle = colour;
    pen.stroke();
  }

  /** A group's words at its middle; those that would meet others, or a mark of the query's, are left to the legend. */
  drawLabels(pen, ink, family) {
    pen.font = `600 12px ${family}`;
    pen.textAlign = "center";
    pen.textBaseline = "middle";
    pen.lineJoin = "round";
    const marks = this.placed ? [this.placed, ...this.placed.results] : [];
    const taken = marks.map((mark) => ({ ...this.at(mark), half: 8 }));
    this.centres.forEach((centre, group) => {
      if (!centre || (this.only !== null && this.only !== group)) return;
      const { label } = this.groups[group];
      const at = this.at(centre);
      const half = pen.measureText(label).width / 2 + 4;
      if (at.x < 0 || at.x > this.width || at.y < 0 || at.y > this.height) return;
      const x = Math.min(Math.max(at.x, half), this.width - half);
      if (taken.some((other) => Math.abs(other.x - x) < other.half + half && Math.abs(other.y - at.y) < 18)) return;
      taken.push({ x, y: at.y, half });
      pen.strokeStyle = ink.paper;
      pen.lineWidth = 4;
      pen.globalAlpha = this.placed ? 0.75 : 1;
      pen.strokeText(label, x, at.y);
      pen.fillStyle = ink.ink;
      pen.fillText(label, x, at.y);
    });
    pen.globalAlpha = 1;
  }
}

function middle(points) {
  if (!points.length) return null;
  const half = (values) => values.sort((a, b) => a - b)[values.length >> 1];
  return { x: half(points.map((point) => point.x)), y: half(points.map((point) => point.y)) };
}

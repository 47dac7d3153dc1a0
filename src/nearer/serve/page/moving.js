// Moving over the map: pointer, touch, wheel and keys.

import { toMap } from "./canvas.js";

const NEAR = 22; // pixels from a point that still mean it
const FURTHEST = 24;
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/**
 * onpoint(place | null): a point is under the pointer or was reached by keys. onuse(place): it was chosen by Enter or
 * a double click. Returns { zoom(times), whole() } for buttons.
 */
export function movable(map, { onpoint, onuse }) {
  const { canvas } = map;
  const down = new Map(); // fingers and the mouse's button, by id

  const places = () => (map.placed ? [...map.placed.results, ...map.points] : map.points)
    .filter((place) => map.only === null || place.group === undefined || place.group === map.only);
  const pixels = (event) => {
    const frame = canvas.getBoundingClientRect();
    return { x: event.clientX - frame.left, y: event.clientY - frame.top };
  };
  const apart = (a, b) => Math.hypot(a.x - b.x, a.y - b.y);

  const point = (place) => {
    if (place === map.pointed) return;
    map.pointed = place;
    onpoint(place);
    map.redraw();
  };
  const under = (spot) => {
    let [best, least] = [null, NEAR];
    for (const place of places()) {
      const far = apart(map.at(place), spot);
      if (far < least) [best, least] = [place, far];
    }
    return best;
  };

  const move = (x, y) => {
    const by = toMap(map.view, map.width, map.height, { x, y });
    const room = 0.5 - 0.5 / map.view.scale; // the map's edge stays at the canvas's
    const within = (value) => Math.min(0.5 + room, Math.max(0.5 - room, value));
    map.view.x = within(map.view.x - by.x);
    map.view.y = within(map.view.y - by.y);
    map.redraw();
  };
  /** What lies under `spot` stays under it. */
  const zoom = (times, spot = { x: map.width / 2, y: map.height / 2 }) => {
    const from = { x: spot.x - map.width / 2, y: spot.y - map.height / 2 };
    const before = map.view.scale;
    map.view.scale = Math.min(FURTHEST, Math.max(1, before * times));
    const grown = map.view.scale / before;
    // a finger that drags moves the page while there is nothing to drag
    canvas.classList.toggle("zoomed", map.view.scale > 1);
    move(from.x * (1 - grown), from.y * (1 - grown));
    onpoint(map.pointed);
  };
  const whole = () => zoom(0);

  canvas.addEventListener("pointerdown", (event) => {
    down.set(event.pointerId, pixels(event));
    if (map.view.scale > 1 || down.size > 1) canvas.setPointerCapture(event.pointerId);
    point(under(pixels(event)));
  });
  canvas.addEventListener("pointermove", (event) => {
    const [now, before] = [pixels(event), down.get(event.pointerId)];
    if (!before) return point(under(now));
    const other = [...down].find(([id]) => id !== event.pointerId)?.[1];
    if (other) {
      const between = { x: (now.x + other.x) / 2, y: (now.y + other.y) / 2 };
      zoom(apart(now, other) / Math.max(1, apart(before, other)), between);
    } else if (map.view.scale > 1) {
      point(null);
      move(now.x - before.x, now.y - before.y);
    }
    down.set(event.pointerId, now);
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, (event) => down.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType === "mouse") point(null); // what a finger touched stays to be read
  });
  canvas.addEventListener("dblclick", (event) => {
    const place = under(pixels(event));
    if (place) onuse(place);
  });
  canvas.addEventListener("wheel", (event) => {
    // without a sign that the map is meant, the wheel moves the page
    if (!event.ctrlKey && (document.activeElement !== canvas || (event.deltaY > 0 && map.view.scale === 1))) return;
    event.preventDefault();
    zoom(Math.exp(-event.deltaY / 300), pixels(event));
  }, { passive: false });

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (ARROWS[event.key]) step(...ARROWS[event.key]);
    else if (event.key === "+" || event.key === "=") zoom(1.5);
    else if (event.key === "-") zoom(1 / 1.5);
    else if (event.key === "0") whole();
    else if (event.key === "Escape") point(null);
    else if (event.key === "Enter" && map.pointed) onuse(map.pointed);
    else return;
    event.preventDefault();
  });
  canvas.addEventListener("blur", () => point(null));

  /** To the next point in a direction: far ones and those to the side count as further. */
  const step = (dx, dy) => {
    const from = map.pointed ? map.at(map.pointed) : { x: map.width / 2, y: map.height / 2 };
    let [best, least] = [null, Infinity];
    for (const place of places()) {
      const at = map.at(place);
      const [right, down] = [at.x - from.x, at.y - from.y];
      const [ahead, aside] = [right * dx + down * dy, Math.abs(right * dy + down * dx)];
      if (map.pointed && ahead <= 0.5) continue;
      const cost = map.pointed ? ahead + 2 * aside : apart(at, from);
      if (cost < least) [best, least] = [place, cost];
    }
    if (!best) return;
    const { x, y } = map.at(best);
    if (x < 0 || x > map.width || y < 0 || y > map.height) move(map.width / 2 - x, map.height / 2 - y);
    point(best);
  };

  return { zoom, whole };
}

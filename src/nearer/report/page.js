"use strict";

// Values under the pointer, or under the arrow keys, of charts that have lines.
for (const svg of document.querySelectorAll("svg[data-readings]")) {
  const { across, box, x, y, log, lines } = JSON.parse(svg.dataset.readings);
  const [left, top, right, bottom] = box;
  const values = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  const width = svg.viewBox.baseVal.width;
  const shown = document.createElement("output");
  shown.className = "readout";
  shown.hidden = true;
  svg.after(shown);
  for (const line of lines) line.gap = Math.max(0, ...line.points.slice(1).map((point, n) => point[0] - line.points[n][0]));
  let marks = [];
  let at = -1;

  const toX = (value) => left + ((value - x[0]) / (x[1] - x[0])) * (right - left);
  const toY = (value) => {
    const [low, high, own] = log ? [y[0], y[1], value].map(Math.log10) : [y[0], y[1], value];
    return bottom - ((own - low) / (high - low)) * (bottom - top);
  };
  const draw = (name, attributes) => {
    const mark = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) mark.setAttribute(key, value);
    svg.append(mark);
    marks.push(mark);
  };
  const clear = () => {
    marks.forEach((mark) => mark.remove());
    marks = [];
    at = -1;
    shown.hidden = true;
  };
  const entry = (words, kind) => {
    const line = document.createElement("span");
    line.textContent = words;
    if (kind) line.className = kind;
    return line;
  };

  const show = (index) => {
    clear();
    at = index;
    const value = values[index];
    draw("line", { class: "pointer", x1: toX(value), x2: toX(value), y1: top, y2: bottom });
    const rows = [entry(`${across} ${value}`)];
    for (const line of lines) {
      const near = line.points.reduce((a, b) => (Math.abs(b[0] - value) < Math.abs(a[0] - value) ? b : a));
      if (Math.abs(near[0] - value) > line.gap / 2) continue; // it has nothing to say here
      const colour = `series-${(line.series % 6) + 1}`;
      draw("circle", { class: `dot ${colour}`, cx: toX(near[0]), cy: toY(near[1]), r: 4 });
      rows.push(entry(`${lines.length > 1 ? `${line.name} ` : ""}${near[1]}`, colour));
    }
    shown.replaceChildren(...rows);
    shown.hidden = false;
    const scale = svg.clientWidth / width;
    const middle = toX(value) * scale - shown.offsetWidth / 2;
    const most = svg.clientWidth - shown.offsetWidth;
    shown.style.left = `${Math.max(0, Math.min(most, middle))}px`;
    shown.style.top = `${Math.max(0, svg.offsetTop + top * scale - shown.offsetHeight)}px`;
  };

  const under = (event) => {
    const frame = svg.getBoundingClientRect();
    const value = x[0] + (((event.clientX - frame.left) / frame.width) * width - left) / (right - left) * (x[1] - x[0]);
    return values.reduce((a, b, n) => (Math.abs(b - value) < Math.abs(values[a] - value) ? n : a), 0);
  };

  svg.addEventListener("pointermove", (event) => show(under(event)));
  svg.addEventListener("pointerdown", (event) => show(under(event)));
  svg.addEventListener("pointerleave", clear);
  svg.addEventListener("blur", clear);
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") clear();
    if (!step) return;
    event.preventDefault();
    show(Math.max(0, Math.min(values.length - 1, at + step)));
  });
}

// Commands to the clipboard; where there is none, they are selected.
for (const block of document.querySelectorAll(".code")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    const code = block.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  });
  block.prepend(button);
}

// Elements made and filled. Text is only ever put in as text: a corpus may hold anything.

const SVG = "http://www.w3.org/2000/svg";

export const find = (selector, within = document) => within.querySelector(selector);

const given = (value) => value !== null && value !== undefined;

const filled = (element, attributes, children) => {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (given(value) && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter(given));
  return element;
};

/** `make("li", { class: "row", onclick: run }, "text", child)`; an attribute that is null or false is left out. */
export const make = (name, attributes = {}, ...children) => filled(document.createElement(name), attributes, children);

export const draw = (name, attributes = {}, ...children) =>
  filled(document.createElementNS(SVG, name), attributes, children);

/** A text area as tall as its text, to a bound that its style sets. */
export function growing(area) {
  const fit = () => {
    area.style.height = "auto";
    if (area.scrollHeight) area.style.height = `${area.scrollHeight + area.offsetHeight - area.clientHeight}px`;
  };
  area.addEventListener("input", fit);
  addEventListener("resize", fit);
  return fit;
}

export const counted = (count, one, several = `${one}s`) =>
  `${count.toLocaleString("en")} ${count === 1 ? one : several}`;

/** Commands to type, in a box. */
export const command = (...lines) => make("pre", {}, ...lines.map((line) => make("code", {}, line)));

export const score = (value) => value.toFixed(3).replace("-", "−");

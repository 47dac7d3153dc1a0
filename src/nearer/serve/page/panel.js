// A view's panel: the newest request alone is shown, and what goes wrong is said in place.

import { find, make } from "./dom.js";
import { Refused, faultWords } from "./service.js";

/**
 * `panel.show(key, work)` runs `work(signal)` unless `key` says that the same is shown already. `work` asks the service
 * and then draws; a newer call ends it, and an ended one may not draw: `signal` throws in `ask`.
 */
export class Panel {
  constructor(name) {
    this.element = find(`#panel-${name}`);
    this.answer = find(".answer", this.element);
    this.fault = find(".fault", this.element);
    this.said = find(".said", this.element);
    this.shown = null;
    this.running = null;
    this.empty = () => this.answer.replaceChildren(); // after a fault: an older answer would pass for this one
  }

  async show(key, work) {
    if (this.shown === key) return;
    this.running?.abort();
    const own = (this.running = new AbortController());
    this.shown = key;
    this.element.setAttribute("aria-busy", "true");
    try {
      await work(own.signal);
      if (own === this.running) this.fault.hidden = true;
    } catch (error) {
      if (own !== this.running) return;
      this.shown = null;
      this.tell(error, () => this.show(key, work));
      if (!(error instanceof Refused)) console.error(error);
    } finally {
      if (own === this.running) this.element.removeAttribute("aria-busy");
    }
  }

  /** Nothing asked: a hint stands where the answer would. */
  rest(hint, ...more) {
    this.running?.abort();
    this.running = null;
    this.shown = null;
    this.element.removeAttribute("aria-busy");
    this.fault.hidden = true;
    this.say(hint);
    this.answer.replaceChildren(...more);
  }

  /** first: what a screen reader hears besides, so that a new answer is told even where the words stay the same. */
  say(words, first = "") {
    if (this.said.textContent === words + first) return;
    this.said.replaceChildren(words, make("span", { class: "unseen" }, first));
  }

  tell(error, again) {
    this.say("");
    this.empty();
    this.fault.replaceChildren(...faultWords(error, again));
    this.fault.hidden = false;
  }
}

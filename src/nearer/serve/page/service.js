// Calls of the service: the key, and what goes wrong in words for people.

import { find, make } from "./dom.js";

const KEY = "nearer-key";
const FIELDS = { query: "The sentence", documents: "The list", model: "The model", body: "The request" };

/** An answer that is not what was asked for. status 0: there was none. */
export class Refused extends Error {
  constructor(status, { message, code = "", param = null }) {
    super(message);
    Object.assign(this, { status, code, param });
  }
}

/** The JSON at `path`; with a body it is posted. Asks the reader for the key when the service wants one. */
export async function ask(path, { body, signal } = {}) {
  for (;;) {
    const key = sessionStorage.getItem(KEY);
    const response = await reached(path, key, body, signal);
    if (response.ok) {
      return response.json().catch(() => {
        signal?.throwIfAborted();
        throw new Refused(response.status, { message: "The service's answer broke off. Try again." });
      });
    }
    const refusal = new Refused(response.status, await reason(response));
    signal?.throwIfAborted();
    if (response.status !== 401) throw refusal;
    // another call may have been given the right one meanwhile
    if (sessionStorage.getItem(KEY) === key && !(await askForKey(key !== null))) throw refusal;
    signal?.throwIfAborted();
  }
}

async function reached(path, key, body, signal) {
  const headers = key === null ? {} : { authorization: `Bearer ${key}` };
  if (body) headers["content-type"] = "application/json";
  try {
    return await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal });
  } catch {
    signal?.throwIfAborted();
    throw new Refused(0, { message: "The service does not answer." });
  }
}

async function reason(response) {
  const body = await response.json().catch(() => null);
  return body?.error?.message ? body.error : { message: `The service answered with status ${response.status}.` };
}

/** What went wrong, and what the reader can do about it. */
export function inWords(error) {
  if (!(error instanceof Refused)) return `This page failed: ${error.message}`;
  if (error.status === 0) return `${error.message} Is nearer serve still running?`;
  if (error.status === 401) return "The service asks for a key.";
  if (error.status === 413) return `This is too much text for one request. ${error.message}`;
  if (error.status === 503) return `The service is busy. ${error.message}`;
  return error.message
    .replace(/^(query|documents|model|body)(\.\d+)*: /, (_, field) => `${FIELDS[field]}: `)
    .replace(/\bitem (\d+)(?= has\b)/, (_, place) => (error.param === "query" ? "it" : `number ${Number(place) + 1}`));
}

/** The same with a button, where asking again can help. */
export function faultWords(error, again) {
  const words = inWords(error);
  if (error.status >= 402 && error.status < 500) return [words];
  const wording = error.status === 401 ? "Enter the key" : "Try again";
  return [words, " ", make("button", { type: "button", onclick: again }, wording)];
}

let asking = null;

/** Whether the reader gave a key. Calls that need one at the same time ask once. */
function askForKey(again) {
  asking ??= new Promise((resolve) => {
    const [dialog, form, field] = [find("#key-dialog"), find("#key-form"), find("#key")];
    find("#key-said").textContent = again
      ? "That key is wrong. Try another."
      : "The key stays in this tab only, until you close it.";
    let given = false;
    form.onsubmit = (event) => {
      event.preventDefault();
      const key = field.value.trim();
      // what no header can carry would fail as if the service were gone
      if (!/^[\x21-\x7e]+$/.test(key)) {
        find("#key-said").textContent = "A key has letters, digits and signs, and no spaces between them.";
        return;
      }
      sessionStorage.setItem(KEY, key);
      given = true;
      dialog.close();
    };
    find("#key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      field.value = "";
      asking = null;
      resolve(given);
    };
    dialog.showModal();
    field.focus();
  });
  return asking;
}

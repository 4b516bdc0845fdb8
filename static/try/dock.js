// The log at the bottom of a page with forms: what the calls of this page said (progress, log messages, standard output
// and standard error), and, while it is open, the calls of other clients of the same server. Text stays text.

import { hubPath } from "../paths.js";
import { button, el } from "./dom.js";

const MAX_LINES = 500;
const MAX_LINE_CHARACTERS = 2000;
const OWN_CLIENT = /^patchbay-page\b/;
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });

let dock = null;

class Dock {
  constructor(server) {
    this.events = server === null ? null : hubPath(`/activity/events?${new URLSearchParams({ server })}`);
    this.many = el("span", { class: "tag" }, "0");
    this.last = el("span", { class: "last" }, "The log of the calls appears here.");
    this.list = el("ol", { class: "stream", "aria-label": "Log of the calls", tabindex: "0" });
    const clear = button("Clear", () => { this.list.replaceChildren(); this.#count(); }, "quiet slim");
    const about = server === null ? "The calls of this page." : "The calls of this page and, while the log is open, of other clients.";
    this.element = el("details", { class: "dock" },
      el("summary", {}, el("span", { class: "label" }, "Log"), this.many, this.last),
      el("div", { class: "actions" }, el("span", { class: "small soft" }, about), clear), this.list);
    this.element.addEventListener("toggle", () => this.#follow());
    this.element.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.element.open) return;
      this.element.open = false;
      this.element.querySelector("summary").focus();
    });
    addEventListener("pagehide", () => this.source?.close());
    document.body.append(el("section", { class: "dock-place", "aria-label": "Log of this page" }, this.element));
  }

  add(name, level, text) {
    const cut = text.length > MAX_LINE_CHARACTERS ? `${text.slice(0, MAX_LINE_CHARACTERS)}…` : text;
    const isAtEnd = this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 40;
    this.list.append(el("li", {}, el("time", {}, CLOCK.format(new Date())), el("span", { class: "level" }, `${name} ${level}`), cut));
    while (this.list.childElementCount > MAX_LINES) this.list.firstChild.remove();
    this.last.textContent = `${name} ${level}: ${cut.slice(0, 200)}`;
    this.#count();
    // A reader who scrolled back keeps the place.
    if (isAtEnd) this.list.scrollTop = this.list.scrollHeight;
  }

  #count() {
    this.many.textContent = String(this.list.childElementCount);
  }

  /** Read the calls of other clients while the log is open. */
  #follow() {
    if (this.element.open) this.list.scrollTop = this.list.scrollHeight;
    if (!this.events || Boolean(this.source) === this.element.open) return;
    if (!this.element.open) {
      this.source.close();
      this.source = null;
      return;
    }
    this.source = new EventSource(this.events);
    this.source.addEventListener("calls", (event) => {
      for (const call of JSON.parse(event.data)) {
        if (OWN_CLIENT.test(call.client ?? "")) continue;
        this.add(call.name, "call", [call.outcome, `${call.ms} ms`, call.client && `from ${call.client}`].filter(Boolean).join(", "));
      }
    });
    this.source.addEventListener("error", () => {
      if (this.source?.readyState !== EventSource.CLOSED) return;
      this.add("hub", "error", "The calls of other clients are not shown: too many streams are open on the hub.");
    });
  }
}

/** Make the dock of a page with forms, once. */
export function addDock() {
  const place = document.querySelector("[data-try]");
  if (!place || dock) return;
  const name = /^\/mcp\/([^/@]+)/.exec(place.dataset.endpoint)?.[1];
  dock = new Dock(name ? decodeURIComponent(name) : null);
}

/** Open the log at the bottom of the window, or close it. */
export function toggleDock() {
  addDock();
  if (dock) dock.element.open = !dock.element.open;
}

/** Write one line about a tool, resource or prompt. */
export function writeLog(name, level, text) {
  addDock();
  dock?.add(name, level, text);
}

// One descriptor that can be tried: a form, a run of it, and what came of it.

import { Calling, Cancelled } from "./calling.js";
import { button, copyable, el, fresh, took } from "./dom.js";
import { argumentsForm } from "./form.js";
import { Misfit } from "./fields.js";
import { question } from "./questions.js";
import { requests } from "./requests.js";
import { MODERN, REVISIONS, RpcError } from "./wire.js";

const KEPT = "patchbay-revision";

/** What is tried: `schema` of the arguments, `request(arguments)` as `{method, params, headers}`, `show(result, read)`. */
export class Trial {
  constructor(place, { endpoint, schema, request, show, label }) {
    Object.assign(this, { place, endpoint, request, show });
    this.form = argumentsForm(schema);
    this.calling = null;
    this.send = el("button", {}, label);
    this.stop = button("Cancel", () => this.calling?.cancel());
    this.stop.hidden = true;
    this.revision = revisions();
    this.ran = el("div", { class: "ran" });
    this.copies = el("details", {}, el("summary", {}, "The same request for a terminal or a program"), el("div", { class: "ran" }));
    this.copies.addEventListener("toggle", () => this.#copies());
    const id = fresh("revision");
    this.revision.id = id;
    this.revision.addEventListener("change", () => this.#copies());
    const form = el("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); this.run(); } },
      this.form.element,
      el("div", { class: "actions" }, this.send, this.stop, this.form.toggle,
        el("span", { class: "right" }, el("label", { for: id }, "Protocol"), this.revision)));
    form.addEventListener("input", () => this.#copies());
    place.replaceChildren(el("p", { class: "label" }, "Try it"), form, this.copies, this.ran);
  }

  #asked() {
    return this.request(this.form.read());
  }

  #copies() {
    if (!this.copies.open) return;
    let made;
    try {
      const { address } = this.place.dataset;
      const url = address || new URL(this.endpoint, location.href).href;
      made = requests({ url, elsewhere: Boolean(address), revision: this.revision.value, ...this.#asked() });
    } catch (problem) {
      if (!(problem instanceof Misfit)) throw problem;
      return;
    }
    this.copies.lastChild.replaceChildren(...made.flatMap(([label, text]) => [el("p", { class: "label" }, label), copyable(text, label)]));
  }

  /** Sends what the form says and shows everything that happens. */
  async run() {
    let asked;
    try {
      asked = this.#asked();
    } catch (problem) {
      if (problem instanceof Misfit) return;
      throw problem;
    }
    const view = new View(this.ran);
    const calling = new Calling(this.endpoint, this.revision.value, {
      seen: (each) => view.wire(each),
      heard: (message) => view.heard(message),
      ask: (method, params, signal) => question(view.questions, method, params, signal),
    });
    this.calling = calling;
    this.#busy(true);
    try {
      const result = await calling.run(asked.method, asked.params, asked.headers);
      view.done(result, this.show(result, (uri) => this.#read(uri)));
    } catch (problem) {
      view.failed(problem);
    } finally {
      this.#busy(false);
    }
  }

  async #read(uri) {
    const nobody = () => Promise.reject(new Error("this read asks a question; use the resource's own form"));
    const calling = new Calling(this.endpoint, this.revision.value, { seen: () => {}, heard: () => {}, ask: nobody });
    return (await calling.run("resources/read", { uri })).contents || [];
  }

  #busy(busy) {
    this.send.disabled = busy;
    this.stop.hidden = !busy;
    this.place.toggleAttribute("aria-busy", busy);
  }
}

function revisions() {
  const select = el("select", {}, REVISIONS.map((name) =>
    el("option", { value: name }, name === MODERN ? `${name}, stateless` : `${name}, session`)));
  select.value = sessionStorage.getItem(KEPT) || MODERN;
  select.addEventListener("change", () => {
    sessionStorage.setItem(KEPT, select.value);
    document.querySelectorAll("[data-revision]").forEach((each) => { each.value = select.value; });
  });
  select.dataset.revision = "";
  return select;
}

/** What is shown of one run. */
class View {
  constructor(place) {
    this.begun = performance.now();
    this.state = el("span", { role: "status" }, "Running…");
    this.clock = el("span", { class: "soft" });
    this.bar = el("progress", { "aria-label": "Progress", hidden: true });
    this.stream = el("ol", { class: "stream", "aria-label": "What the call said while it ran", tabindex: "0", hidden: true });
    this.questions = el("div", { class: "ran", "aria-live": "polite" });
    this.answer = el("div", {});
    this.list = el("ol", { class: "wire" });
    this.messages = el("span", { class: "soft" });
    const wire = el("details", {}, el("summary", {}, "On the wire ", this.messages), this.list);
    this.ticking = setInterval(() => this.#tick(), 100);
    place.replaceChildren(el("p", { class: "status" }, this.state, this.clock), this.bar, this.stream, this.questions, this.answer, wire);
  }

  #tick() {
    this.clock.textContent = took(performance.now() - this.begun);
  }

  #end(state, className) {
    clearInterval(this.ticking);
    this.#tick();
    this.state.textContent = state;
    this.state.className = className;
    this.bar.hidden = true;
  }

  wire({ way, head, text }) {
    const at = took(performance.now() - this.begun);
    this.list.append(el("li", { class: way }, el("span", { class: "label" }, `${way === "out" ? "Sent" : "Received"} at ${at}`),
      el("pre", { tabindex: "0" }, text ? `${head}\n\n${text}` : head)));
    this.messages.textContent = `(${this.list.childElementCount})`;
  }

  heard({ method, params }) {
    if (method === "notifications/progress") this.#progress(params);
    else if (method === "notifications/message") this.#line(params.level, words(params.data), params.logger);
    else if (method === "tasks") this.#line("task", `${params.status}${params.statusMessage ? `: ${params.statusMessage}` : ""}`);
    else this.#line(method, words(params));
  }

  #progress({ progress, total, message }) {
    this.bar.hidden = false;
    if (typeof total === "number") this.bar.max = total;
    if (typeof total === "number") this.bar.value = progress;
    this.#line("progress", [`${progress}${total === undefined ? "" : ` of ${total}`}`, message].filter(Boolean).join(": "));
  }

  #line(level, text, logger) {
    this.stream.hidden = false;
    this.stream.append(el("li", {}, el("time", {}, took(performance.now() - this.begun)), el("span", { class: "level" }, logger ? `${level} ${logger}` : level), text));
    this.stream.scrollTop = this.stream.scrollHeight;
  }

  done(result, shown) {
    this.#end(result.isError ? "The tool says that it failed" : "Done", result.isError ? "bad" : "good");
    this.answer.className = result.isError ? "answer bad" : "answer";
    this.answer.append(...shown.filter(Boolean));
  }

  failed(problem) {
    if (problem instanceof Cancelled) {
      this.#end("Cancelled", "soft");
      return;
    }
    this.#end("Refused", "bad");
    this.answer.className = "answer bad";
    const code = problem instanceof RpcError && problem.code !== undefined ? ` (${problem.code})` : "";
    this.answer.append(el("p", {}, `${problem.message}${code}`));
    if (problem.data !== undefined) this.answer.append(el("pre", { tabindex: "0" }, JSON.stringify(problem.data, null, 2)));
  }
}

function words(value) {
  return typeof value === "string" ? value : JSON.stringify(value);
}


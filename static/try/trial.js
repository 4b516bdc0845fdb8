// Try one tool, resource or prompt: a form for the arguments, a button that runs the call, and its result.

import { Calling, Cancelled } from "./calling.js";
import { toggleDock, writeLog } from "./dock.js";
import { button, copyable, el, uniqueId, formatDuration } from "./dom.js";
import { argumentsForm } from "./form.js";
import { InvalidValue } from "./fields.js";
import { asText } from "./numbers.js";
import { askQuestion } from "./questions.js";
import { requestExamples } from "./requests.js";
import { MODERN, REVISIONS, RpcError } from "./wire.js";

const REVISION_KEY = "patchbay-revision";

/**
 * `schema` describes the arguments; `request(arguments)` makes `{method, params, headers}`; `show(result, read)` makes
 * elements; `app` is the URI of the app that shows the results of the tool.
 */
export class Trial {
  constructor(place, { endpoint, schema, request, show, label, app }) {
    Object.assign(this, { place, endpoint, schema, request, show, app });
    this.appView = null;
    this.form = argumentsForm(schema);
    this.calling = null;
    this.send = el("button", {}, label);
    this.stop = button("Cancel", () => this.calling?.cancel());
    this.stop.hidden = true;
    this.revision = revisionSelect();
    this.output = el("div", { class: "ran" });
    this.examples = el("details", {}, el("summary", {}, "The same request for a terminal or a program"), el("div", { class: "ran" }));
    this.examples.addEventListener("toggle", () => this.#showExamples());
    const id = uniqueId("revision");
    this.revision.id = id;
    this.revision.addEventListener("change", () => this.#showExamples());
    const form = el("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); this.run(); } },
      this.form.element,
      this.form.element.querySelector("[aria-keyshortcuts]") ? el("p", { class: "small soft keys" }, "Shift+Enter makes a field for several lines. Ctrl+Enter calls.") : null,
      el("div", { class: "actions run" }, this.send, this.stop, this.form.toggle, button("Log", toggleDock, "quiet slim"),
        el("span", { class: "right" }, el("label", { for: id }, "Protocol"), this.revision)));
    form.addEventListener("input", () => this.#showExamples());
    form.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || this.send.disabled) return;
      event.preventDefault();
      this.run();
    });
    this.send.title = "Ctrl+Enter";
    place.replaceChildren(el("p", { class: "label" }, "Try it"), form, this.examples, this.output);
  }

  #buildRequest() {
    return this.request(this.form.read());
  }

  #showExamples() {
    if (!this.examples.open) return;
    let made;
    try {
      const { address } = this.place.dataset;
      const url = address || new URL(this.endpoint, location.href).href;
      made = requestExamples({ url, elsewhere: Boolean(address), revision: this.revision.value, ...this.#buildRequest() });
    } catch (problem) {
      if (!(problem instanceof InvalidValue)) throw problem;
      return;
    }
    this.examples.lastChild.replaceChildren(...made.flatMap(([label, text]) => [el("p", { class: "label" }, label), copyable(text, label)]));
  }

  /** Send the request of the form and show its messages and its result. */
  async run() {
    let request;
    try {
      request = this.#buildRequest();
    } catch (problem) {
      if (problem instanceof InvalidValue) return;
      throw problem;
    }
    await this.appView?.close("the tool is called again");
    const view = new RunView(this.output, this.place.dataset.key);
    const calling = new Calling(this.endpoint, this.revision.value, {
      onTraffic: (each) => view.wire(each),
      onNotification: (message) => view.onNotification(message),
      onQuestion: (method, params, signal) => askQuestion(view.questions, method, params, signal),
    });
    this.calling = calling;
    this.#setBusy(true);
    try {
      if (this.app) await this.#openApp(request.params, view);
      const result = await calling.run(request.method, request.params, request.headers);
      this.appView?.giveResult(result);
      view.done(result, this.show(result, (uri) => this.#read(uri)));
    } catch (problem) {
      this.appView?.giveCancelled(problem.message);
      view.failed(problem);
    } finally {
      this.#setBusy(false);
    }
  }

  /** Show the app of the tool, which gets the arguments now and the result later. */
  async #openApp({ name, arguments: given }, view) {
    const { AppView } = await import("../apps/view.js");
    const tool = { name, inputSchema: { ...this.schema, type: "object" } };
    this.appView = new AppView({ endpoint: this.endpoint, revision: this.revision.value, uri: this.app, tool, given });
    view.showApp(this.appView.element);
  }

  async #read(uri) {
    const refuseQuestion = () => Promise.reject(new Error("reading this resource asks a question; use the form of the resource"));
    const calling = new Calling(this.endpoint, this.revision.value, { onTraffic: () => {}, onNotification: () => {}, onQuestion: refuseQuestion });
    return (await calling.run("resources/read", { uri })).contents || [];
  }

  #setBusy(busy) {
    this.send.disabled = busy;
    this.stop.hidden = !busy;
    this.place.toggleAttribute("aria-busy", busy);
  }
}

function revisionSelect() {
  const select = el("select", {}, REVISIONS.map((name) =>
    el("option", { value: name }, name === MODERN ? `${name}, stateless` : `${name}, session`)));
  select.value = sessionStorage.getItem(REVISION_KEY) || MODERN;
  select.addEventListener("change", () => {
    sessionStorage.setItem(REVISION_KEY, select.value);
    document.querySelectorAll("[data-revision]").forEach((each) => { each.value = select.value; });
  });
  select.dataset.revision = "";
  return select;
}

/** Show the messages and the result of one call. */
class RunView {
  /** `name` is the name of the tool, resource or prompt in the log. */
  constructor(place, name) {
    this.name = name;
    this.begun = performance.now();
    this.state = el("span", { role: "status" }, "Running…");
    this.clock = el("span", { class: "soft" });
    this.bar = el("progress", { "aria-label": "Progress", hidden: true });
    this.stream = el("ol", { class: "stream", "aria-label": "Messages during the call", tabindex: "0", hidden: true });
    this.questions = el("div", { class: "ran", "aria-live": "polite" });
    this.answer = el("div", {});
    this.list = el("ol", { class: "wire" });
    this.messages = el("span", { class: "soft" });
    const wire = el("details", {}, el("summary", {}, "Protocol messages ", this.messages), this.list);
    this.ticking = setInterval(() => this.#updateClock(), 100);
    place.replaceChildren(el("p", { class: "status" }, this.state, this.clock), this.bar, this.stream, this.questions, this.answer, wire);
    writeLog(name, "call", "started");
  }

  showApp(element) {
    this.answer.before(element);
  }

  #updateClock() {
    this.clock.textContent = formatDuration(performance.now() - this.begun);
  }

  #end(state, className, more = "") {
    clearInterval(this.ticking);
    this.#updateClock();
    this.state.textContent = state;
    this.state.className = className;
    this.bar.hidden = true;
    writeLog(this.name, "call", `${state}${more} after ${this.clock.textContent}`);
  }

  wire({ way, head, text }) {
    const at = formatDuration(performance.now() - this.begun);
    this.list.append(el("li", { class: way }, el("span", { class: "label" }, `${way === "out" ? "Sent" : "Received"} at ${at}`),
      el("pre", { tabindex: "0" }, text ? `${head}\n\n${text}` : head)));
    this.messages.textContent = `(${this.list.childElementCount})`;
  }

  onNotification({ method, params }) {
    if (method === "notifications/progress") this.#showProgress(params);
    else if (method === "notifications/message") this.#addLine(params.level, asText(params.data), params.logger);
    else if (method === "tasks") this.#addLine("task", `${params.status}${params.statusMessage ? `: ${params.statusMessage}` : ""}`);
    else this.#addLine(method, asText(params));
  }

  #showProgress({ progress, total, message }) {
    this.bar.hidden = false;
    if (typeof total === "number" && typeof progress === "number") Object.assign(this.bar, { max: total, value: progress });
    this.#addLine("progress", [`${asText(progress)}${total === undefined ? "" : ` of ${asText(total)}`}`, message].filter(Boolean).join(": "));
  }

  #addLine(level, text, logger) {
    this.stream.hidden = false;
    this.stream.append(el("li", {}, el("time", {}, formatDuration(performance.now() - this.begun)), el("span", { class: "level" }, logger ? `${level} ${logger}` : level), text));
    this.stream.scrollTop = this.stream.scrollHeight;
    writeLog(this.name, logger ? `${level} ${logger}` : level, text);
  }

  done(result, shown) {
    this.#end(result.isError ? "The tool reports an error" : "Done", result.isError ? "bad" : "good");
    this.answer.className = result.isError ? "answer bad" : "answer";
    this.answer.append(...shown.filter(Boolean), resultButtons(result));
  }

  failed(problem) {
    if (problem instanceof Cancelled) {
      this.#end("Cancelled", "soft");
      return;
    }
    this.#end("Failed", "bad", `: ${problem.message}`);
    this.answer.className = "answer bad";
    const code = problem instanceof RpcError && problem.code !== undefined ? ` (${asText(problem.code)})` : "";
    this.answer.append(el("p", {}, `${problem.message}${code}`));
    if (problem.data !== undefined) this.answer.append(el("pre", { tabindex: "0" }, JSON.stringify(problem.data, null, 2)));
  }
}

/** Buttons that copy and download a result: its text when it is one text, else its JSON. */
function resultButtons(result) {
  const [only, ...others] = result.content ?? result.contents ?? [];
  const isText = typeof only?.text === "string" && !others.length && result.structuredContent === undefined;
  const text = isText ? only.text : JSON.stringify(result, null, 2);
  const copy = button("Copy the result", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      copy.textContent = "The browser does not allow it";
    }
  }, "quiet slim");
  const download = button("Download the result", () => {
    const url = URL.createObjectURL(new Blob([text], { type: isText ? "text/plain" : "application/json" }));
    el("a", { href: url, download: isText ? "result.txt" : "result.json" }).click();
    setTimeout(() => URL.revokeObjectURL(url), 60000);
  }, "quiet slim");
  return el("div", { class: "actions" }, copy, download);
}

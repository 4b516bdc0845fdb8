// Show the app of a tool beside the tool's result, and do for it what a host of MCP Apps does.
// Source: SEP-1865 (MCP Apps), 2026-01-26, host behaviour.

import { Calling } from "../try/calling.js";
import { button, el, formatDuration } from "../try/dom.js";
import { writeLog } from "../try/dock.js";
import { asText } from "../try/numbers.js";
import { contentBlocks } from "../try/pieces.js";
import { askQuestion } from "../try/questions.js";
import { tree } from "../try/tree.js";
import { AppError, Bridge } from "./bridge.js";
import { Frame, MAX_HEIGHT } from "./frame.js";

const REVISIONS = ["2026-01-26"];
const HTML = /^text\/html\s*;\s*profile="?mcp-app"?$/i;
const APP = "io.patchbay/app";
const TEARDOWN_MS = 1000;
const MAX_SHOWN = 200;
const SHOWN_CONTENT = { text: {}, image: {}, audio: {}, resource: {}, resourceLink: {} };
const DARK = matchMedia("(prefers-color-scheme: dark)");

export class AppView {
  /** `uri` is the URI of the app, `tool` the tool that was called with the arguments `given`. `element` shows the app. */
  constructor({ endpoint, revision, uri, tool, given }) {
    Object.assign(this, { endpoint, revision, uri, tool });
    this.begun = performance.now();
    this.callings = new Map();
    this.isClosed = false;
    this.state = el("span", { class: "state soft", "aria-live": "polite" }, "Reading the app…");
    this.facts = el("p", { class: "facts" });
    this.place = el("div", { class: "app-frame" });
    this.questions = el("div", { class: "ran", "aria-live": "polite" });
    this.context = el("div", { class: "ran" });
    this.said = el("div", { class: "ran" });
    this.list = el("ol", { class: "wire" });
    this.many = el("span", { class: "soft" });
    this.count = 0;
    this.end = button("Close the app", () => this.close("closed on the page"), "quiet slim");
    this.element = el("section", { class: "app", "aria-label": `App of ${tool.name}` },
      el("header", {}, el("span", { class: "label" }, "App"), el("code", {}, uri), this.state, this.end),
      this.facts, this.place, this.questions, this.context, this.said,
      el("details", {}, el("summary", {}, "Messages of the app ", this.many), this.list));
    this.bridge = new Bridge({
      post: (message) => this.frame?.post(message),
      requests: this.#requests(), notifications: this.#notifications(), onMessage: (each) => this.#log(each),
    });
    this.bridge.notify("ui/notifications/tool-input", { arguments: given });
    this.onTheme = () => this.bridge.notify("ui/notifications/host-context-changed", { theme: theme() });
    DARK.addEventListener("change", this.onTheme);
    this.sizes = new ResizeObserver(() => this.#resized());
    this.#load();
  }

  async #load() {
    try {
      const { html, ui } = await this.#readApp();
      if (this.isClosed) return;
      this.frame = new Frame({
        html, ui, title: `App of ${this.tool.name}`,
        onReady: (csp) => this.#ready(csp, ui),
        onMessage: (data) => this.bridge.receive(data),
        onLeft: () => this.#fail("The app left its page, so it was closed."),
      });
      this.place.classList.toggle("bordered", ui.prefersBorder !== false);
      this.place.append(this.frame.element);
    } catch (problem) {
      this.#fail(`The app cannot be shown: ${problem.message}`);
    }
  }

  async #readApp() {
    const { contents } = await this.#request("resources/read", { uri: this.uri });
    const found = (contents ?? []).find(({ mimeType }) => HTML.test(mimeType ?? ""));
    if (!found) throw new Error(`${this.uri} has no content of the type text/html;profile=mcp-app`);
    const html = typeof found.text === "string" ? found.text : decode(String(found.blob ?? ""));
    return { html, ui: found._meta?.ui ?? (await this.#listedMeta()) ?? {} };
  }

  /** The `_meta.ui` of the app's entry in the list of resources, for a content that has none. */
  async #listedMeta() {
    for (let cursor; ;) {
      const page = await this.#request("resources/list", cursor === undefined ? {} : { cursor });
      const found = (page.resources ?? []).find(({ uri }) => uri === this.uri);
      if (found || page.nextCursor === undefined) return found?._meta?.ui;
      cursor = page.nextCursor;
    }
  }

  #ready(csp, ui) {
    this.csp = csp;
    this.state.textContent = "Shown";
    const reached = Object.values(csp).flat();
    const declared = Object.values(ui.csp ?? {}).flat().filter((each) => typeof each === "string");
    const refused = declared.filter((each) => !reached.includes(each));
    const asks = Object.keys(this.frame.permissions);
    this.facts.replaceChildren(
      el("span", {}, reached.length ? `May reach ${[...new Set(reached)].join(", ")}` : "May reach nothing but its server"),
      asks.length ? el("span", {}, `May ask you for ${asks.join(", ")}`) : "",
      refused.length ? el("span", {}, `Refused: ${[...new Set(refused)].join(", ")}`) : "");
  }

  #requests() {
    return new Map(Object.entries({
      "ping": () => ({}),
      "ui/initialize": (params) => this.#initialize(params),
      "tools/call": ({ name, arguments: given }, id) => this.#forward(id, "tools/call", { name, arguments: given ?? {} }),
      "resources/read": ({ uri }, id) => this.#forward(id, "resources/read", { uri }),
      "ui/open-link": ({ url }) => this.#openLink(url),
      "ui/message": ({ role, content }) => this.#say(role, content),
      "ui/update-model-context": (params) => this.#setContext(params),
      "ui/request-display-mode": () => ({ mode: "inline" }),
    }));
  }

  #notifications() {
    return new Map(Object.entries({
      "ui/notifications/initialized": () => { this.state.textContent = "Running"; this.sizes.observe(this.place); },
      "ui/notifications/size-changed": ({ height }) => this.frame?.resize(height),
      "ui/notifications/request-teardown": () => this.close("the app asked for it"),
      "notifications/message": ({ level, data }) => writeLog(this.tool.name, `app ${asText(level)}`, asText(data)),
      "notifications/cancelled": ({ requestId }) => this.callings.get(requestId)?.cancel(),
    }));
  }

  #initialize({ protocolVersion }) {
    return {
      protocolVersion: REVISIONS.includes(protocolVersion) ? protocolVersion : REVISIONS[0],
      hostInfo: { name: "patchbay-page", version: "1" },
      hostCapabilities: {
        openLinks: {}, serverTools: {}, serverResources: {}, logging: {},
        message: SHOWN_CONTENT, updateModelContext: { ...SHOWN_CONTENT, structuredContent: {} },
        sandbox: { permissions: this.frame.permissions, csp: this.csp },
      },
      hostContext: {
        toolInfo: { tool: this.tool }, theme: theme(), displayMode: "inline", availableDisplayModes: ["inline"],
        containerDimensions: this.#dimensions(), locale: navigator.language,
        timeZone: Intl.DateTimeFormat().resolvedOptions().timeZone, userAgent: "patchbay-page/1", platform: "web",
        deviceCapabilities: { touch: navigator.maxTouchPoints > 0, hover: matchMedia("(hover: hover)").matches },
      },
    };
  }

  #dimensions() {
    return { width: this.place.clientWidth, maxHeight: MAX_HEIGHT };
  }

  #resized() {
    const { width } = this.#dimensions();
    if (width && width !== this.width && this.width) {
      this.bridge.notify("ui/notifications/host-context-changed", { containerDimensions: this.#dimensions() });
    }
    this.width = width;
  }

  /** Send a request of the app to its server. The hub checks that the tool or resource is one of the app's. */
  async #forward(id, method, params) {
    if (this.isClosed) throw new AppError("the app is closed");
    try {
      return await this.#request(method, { ...params, _meta: { [APP]: this.uri } }, id);
    } catch (problem) {
      throw new AppError(problem.message, problem.code, problem.data);
    }
  }

  async #request(method, params, id = Symbol(method)) {
    const calling = new Calling(this.endpoint, this.revision, {
      onTraffic: () => {}, onNotification: () => {},
      onQuestion: (asked, wanted, signal) => askQuestion(this.questions, asked, wanted, signal),
    });
    this.callings.set(id, calling);
    try {
      return await calling.run(method, params);
    } finally {
      this.callings.delete(id);
    }
  }

  /** Ask the reader whether to open a link; a tool or an app cannot open one alone. */
  #openLink(url) {
    if (!/^https?:\/\//i.test(String(url))) throw new AppError("only http and https links can be opened");
    if (this.isAsking) throw new AppError("the reader decides about another link");
    this.isAsking = true;
    return new Promise((resolve) => {
      const box = el("div", { class: "question", role: "group", "aria-label": "A link of the app" });
      const settle = (answer) => {
        this.isAsking = false;
        box.remove();
        resolve(answer);
      };
      const link = el("a", { href: url, rel: "noreferrer noopener", target: "_blank", onclick: () => setTimeout(() => settle({}), 0) }, String(url));
      box.append(el("p", {}, "The app wants to open: ", link), el("div", { class: "actions" }, button("Refuse", () => settle({ isError: true }))));
      this.questions.append(box);
    });
  }

  #say(role, content) {
    if (role !== "user" || !Array.isArray(content)) throw new AppError("expected the role user and a list of content");
    this.#show(this.said, "The app writes to the conversation", contentBlocks(content.filter(Boolean), null));
    while (this.said.childElementCount > MAX_SHOWN) this.said.firstChild.remove();
    return {};
  }

  #setContext({ content = [], structuredContent }) {
    if (!Array.isArray(content)) throw new AppError("expected a list of content");
    const blocks = contentBlocks(content.filter(Boolean), null);
    this.context.replaceChildren();
    this.#show(this.context, "The app tells the model", structuredContent === undefined ? blocks : [...blocks, tree(structuredContent)]);
    return {};
  }

  #show(place, label, children) {
    place.append(el("div", { class: "piece" }, el("p", { class: "label" }, label), children));
  }

  /** Give the app the result of its tool. */
  giveResult(result) {
    this.bridge.notify("ui/notifications/tool-result", result);
  }

  /** Tell the app that its tool was cancelled or failed. */
  giveCancelled(reason) {
    this.bridge.notify("ui/notifications/tool-cancelled", { reason });
  }

  #log({ way, message }) {
    const at = formatDuration(performance.now() - this.begun);
    const name = message.method ?? (message.error ? "error" : "result");
    const label = `${way === "out" ? "To the app" : "From the app"} at ${at}: ${name}`;
    this.list.append(el("li", { class: way === "out" ? "to-app" : "from-app" }, el("span", { class: "label" }, label),
      el("pre", { tabindex: "0" }, JSON.stringify(message, null, 2).slice(0, 20_000))));
    while (this.list.childElementCount > MAX_SHOWN) this.list.firstChild.remove();
    this.count += 1;
    this.many.textContent = `(${this.count})`;
  }

  #fail(sentence) {
    this.state.textContent = sentence;
    this.state.className = "state problem";
    this.#remove();
  }

  /** Tell the app to end, wait a moment for it, and remove it. */
  async close(reason) {
    if (this.isClosed) return;
    this.isClosed = true;
    if (this.bridge.isInitialized && this.frame) await this.bridge.request("ui/resource-teardown", { reason }, TEARDOWN_MS);
    this.state.textContent = `Closed: ${reason}`;
    this.#remove();
  }

  #remove() {
    this.isClosed = true;
    this.end.hidden = true;
    this.sizes.disconnect();
    DARK.removeEventListener("change", this.onTheme);
    this.callings.forEach((calling) => calling.cancel());
    this.questions.replaceChildren();
    this.frame?.remove();
  }
}

function theme() {
  return DARK.matches ? "dark" : "light";
}

function decode(base64) {
  return new TextDecoder().decode(Uint8Array.from(atob(base64), (each) => each.charCodeAt(0)));
}

// A client of one endpoint, in either era, that shows what goes over the wire.
// Up to 2025-11-25: initialize, a session, questions on the open stream. 2026-07-28: every request says all there is.
// Source: https://modelcontextprotocol.io/specification, base protocol and transports.

import { miscounted } from "./dom.js";
import { events } from "./sse.js";

export const MODERN = "2026-07-28";
export const REVISIONS = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
export const TASKS = "io.modelcontextprotocol/tasks";
const PREFIX = "io.modelcontextprotocol/";
const INFO = { name: "patchbay-page", version: "1" };
const NAMED = {
  "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
  "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
};
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} };

/** The body and headers of one request, also for showing it to people. */
export function dressed(revision, message, { session = null, headers = {} } = {}) {
  const all = { "Content-Type": "application/json", "Accept": "application/json, text/event-stream", ...headers };
  if (session) all["Mcp-Session-Id"] = session;
  if (message.method !== "initialize") all["MCP-Protocol-Version"] = revision;
  if (revision !== MODERN || message.id === undefined) return { headers: all, body: message };
  all["Mcp-Method"] = message.method;
  const named = message.params?.[NAMED[message.method]];
  if (typeof named === "string") all["Mcp-Name"] = headerText(named);
  const meta = {
    [`${PREFIX}protocolVersion`]: MODERN,
    [`${PREFIX}clientInfo`]: INFO,
    [`${PREFIX}clientCapabilities`]: { ...CAPABILITIES, extensions: { [TASKS]: {} } },
    [`${PREFIX}logLevel`]: "debug",
    ...message.params?._meta,
  };
  return { headers: all, body: { ...message, params: { ...message.params, _meta: meta } } };
}

/** A value as it may stand in a header: as it is where that is plain ASCII, else in the base64 form. */
export function headerText(value) {
  if (/^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$/.test(value) && !value.startsWith("=?base64?")) return value;
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(value)))}?=`;
}

export class RpcError extends Error {
  constructor(error, status) {
    super(error.message || "an error without a message");
    this.code = error.code;
    this.data = error.data;
    this.status = status;
  }
}

export class Connection {
  /** `seen({way, head, text})` is told of everything that is sent and received; `ask(method, params)` answers questions. */
  constructor(endpoint, revision, { seen = () => {}, ask = null } = {}) {
    this.endpoint = endpoint;
    this.revision = revision;
    this.modern = revision === MODERN;
    this.seen = seen;
    this.ask = ask;
    this.session = null;
    this.lastId = 0;
  }

  /** The handshake; in the newest revision there is none. */
  async open(signal) {
    if (this.modern) return null;
    const params = { protocolVersion: this.revision, capabilities: CAPABILITIES, clientInfo: INFO };
    const result = await this.request("initialize", params, { signal });
    this.revision = result.protocolVersion;
    await this.notify("notifications/initialized", {});
    if (result.capabilities?.logging) await this.request("logging/setLevel", { level: "debug" }, { signal });
    return result;
  }

  /** Sends a request and answers its result. `heard(message)` gets what comes before. Raises RpcError. */
  async request(method, params, { signal, heard = () => {}, headers = {}, started = () => {} } = {}) {
    const id = ++this.lastId;
    started(id);
    const response = await this.#send({ jsonrpc: "2.0", id, method, params }, { signal, headers });
    const session = response.headers.get("Mcp-Session-Id");
    if (session) this.session = session;
    const answer = await this.#answer(response, id, heard, signal);
    if (!answer) throw new Error(`HTTP ${response.status}, and no answer in it`);
    if (answer.error) throw new RpcError(answer.error, response.status);
    return answer.result;
  }

  async notify(method, params) {
    await this.#send({ jsonrpc: "2.0", method, params }, {}).then((response) => this.#text(response));
  }

  /** Ends the session, if there is one. */
  async close() {
    if (!this.session) return;
    const headers = { "Mcp-Session-Id": this.session, "MCP-Protocol-Version": this.revision };
    this.session = null;
    this.#showSent("DELETE", headers, "");
    const response = await fetch(this.endpoint, { method: "DELETE", headers });
    await this.#text(response);
  }

  async #send(message, { signal, headers }) {
    const { headers: all, body } = dressed(this.revision, message, { session: this.session, headers });
    this.#showSent("POST", all, JSON.stringify(body, null, 2));
    return fetch(this.endpoint, { method: "POST", headers: all, body: JSON.stringify(body), cache: "no-store", signal });
  }

  #showSent(method, headers, text) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    this.seen({ way: "out", head: `${method} ${this.endpoint}\n${lines.join("\n")}`, text });
  }

  #showHead(response, text) {
    const kind = response.headers.get("Content-Type");
    const session = response.headers.get("Mcp-Session-Id");
    const lines = [`${response.status} ${response.statusText}`, kind && `Content-Type: ${kind}`,
      session && `Mcp-Session-Id: ${session}`];
    this.seen({ way: "in", head: lines.filter(Boolean).join("\n"), text });
  }

  async #text(response) {
    const text = await response.text();
    this.#showHead(response, shown(text));
    return text;
  }

  async #answer(response, id, heard, signal) {
    if (!(response.headers.get("Content-Type") || "").startsWith("text/event-stream")) {
      const text = await this.#text(response);
      return text.trim() ? JSON.parse(text) : null;
    }
    this.#showHead(response, "");
    let last = null;
    let wait = 1000;
    for (let body = response.body; ; ) {
      for await (const event of events(body)) {
        last = event.id ?? last;
        wait = event.retry ?? wait;
        if (!event.data) continue;
        this.seen({ way: "in", head: "event", text: shown(event.data) });
        const message = JSON.parse(event.data);
        if (message.id === id && !message.method) return message;
        if (message.method && message.id !== undefined) this.#asked(message);
        else heard(message);
      }
      if (this.modern || !last || signal?.aborted) return null;
      await new Promise((resolve) => { setTimeout(resolve, wait); });
      body = await this.#resumed(last, signal);
    }
  }

  /** The stream again from where it broke off. */
  async #resumed(last, signal) {
    const headers = { "Accept": "text/event-stream", "Mcp-Session-Id": this.session, "Last-Event-ID": last,
      "MCP-Protocol-Version": this.revision };
    this.#showSent("GET", headers, "");
    const response = await fetch(this.endpoint, { headers, signal, cache: "no-store" });
    if (!response.ok) throw new Error(`the stream broke off and cannot be resumed: HTTP ${response.status}`);
    this.#showHead(response, "");
    return response.body;
  }

  /** A question on the open stream: asked, and its answer sent as a message of its own. */
  async #asked({ id, method, params }) {
    let answer;
    try {
      answer = { result: method === "ping" ? {} : await this.ask(method, params) };
    } catch (problem) {
      answer = { error: { code: -1, message: problem.message } };
    }
    if (!this.session) return;
    await this.#send({ jsonrpc: "2.0", id, ...answer }, {}).then((response) => this.#text(response));
  }
}

function shown(text) {
  try {
    return miscounted(text) ? text : JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

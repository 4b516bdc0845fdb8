// A client of one MCP endpoint that reports every message it sends and receives.
// Up to 2025-11-25: initialize, a session, questions on the open stream. From 2026-07-28: stateless requests.
// Source: https://modelcontextprotocol.io/specification, base protocol and transports.

import { findInexactNumber, readJson } from "./numbers.js";
import { events } from "./sse.js";

export const MODERN = "2026-07-28";
export const REVISIONS = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
export const TASKS = "io.modelcontextprotocol/tasks";
const APPS = { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } };
const PREFIX = "io.modelcontextprotocol/";
const CLIENT_INFO = { name: "patchbay-page", version: "1" };
const NAME_PARAMETERS = {
  "tools/call": "name", "prompts/get": "name", "resources/read": "uri",
  "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId",
};
const CAPABILITIES = { elicitation: { form: {}, url: {} }, sampling: {}, roots: {}, extensions: APPS };

/** Make the body and the headers of one request. */
export function buildRequest(revision, message, { session = null, headers = {} } = {}) {
  const all = { "Content-Type": "application/json", "Accept": "application/json, text/event-stream", ...headers };
  if (session) all["Mcp-Session-Id"] = session;
  if (message.method !== "initialize") all["MCP-Protocol-Version"] = revision;
  if (revision !== MODERN || message.id === undefined) return { headers: all, body: message };
  all["Mcp-Method"] = message.method;
  const named = message.params?.[NAME_PARAMETERS[message.method]];
  if (typeof named === "string") all["Mcp-Name"] = headerText(named);
  const meta = {
    [`${PREFIX}protocolVersion`]: MODERN,
    [`${PREFIX}clientInfo`]: CLIENT_INFO,
    [`${PREFIX}clientCapabilities`]: { ...CAPABILITIES, extensions: { ...APPS, [TASKS]: {} } },
    [`${PREFIX}logLevel`]: "debug",
    ...message.params?._meta,
  };
  return { headers: all, body: { ...message, params: { ...message.params, _meta: meta } } };
}

/** Encode a value for a header: plain ASCII stays as it is, other text takes the base64 form. */
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
  /** `onTraffic({way, head, text})` gets each message sent or received; `onQuestion(method, params)` answers questions. */
  constructor(endpoint, revision, { onTraffic = () => {}, onQuestion = null } = {}) {
    this.endpoint = endpoint;
    this.revision = revision;
    this.modern = revision === MODERN;
    this.onTraffic = onTraffic;
    this.onQuestion = onQuestion;
    this.session = null;
    this.lastId = 0;
  }

  /** Do the handshake; revision 2026-07-28 has none. */
  async open(signal) {
    if (this.modern) return null;
    const params = { protocolVersion: this.revision, capabilities: CAPABILITIES, clientInfo: CLIENT_INFO };
    const result = await this.request("initialize", params, { signal });
    this.revision = result.protocolVersion;
    await this.notify("notifications/initialized", {});
    if (result.capabilities?.logging) await this.request("logging/setLevel", { level: "debug" }, { signal });
    return result;
  }

  /** Send a request; return its result. `onNotification(message)` gets earlier messages. Throws RpcError. */
  async request(method, params, { signal, onNotification = () => {}, headers = {}, onStart = () => {} } = {}) {
    const id = ++this.lastId;
    onStart(id);
    const response = await this.#send({ jsonrpc: "2.0", id, method, params }, { signal, headers });
    const session = response.headers.get("Mcp-Session-Id");
    if (session) this.session = session;
    const answer = await this.#readAnswer(response, id, onNotification, signal);
    if (!answer) throw new Error(`HTTP ${response.status}, and the body holds no answer`);
    if (answer.error) throw new RpcError(answer.error, response.status);
    return answer.result;
  }

  async notify(method, params) {
    await this.#send({ jsonrpc: "2.0", method, params }, {}).then((response) => this.#readText(response));
  }

  /** End the session, if there is one. */
  async close() {
    if (!this.session) return;
    const headers = { "Mcp-Session-Id": this.session, "MCP-Protocol-Version": this.revision };
    this.session = null;
    this.#showSent("DELETE", headers, "");
    const response = await fetch(this.endpoint, { method: "DELETE", headers });
    await this.#readText(response);
  }

  async #send(message, { signal, headers }) {
    const { headers: all, body } = buildRequest(this.revision, message, { session: this.session, headers });
    this.#showSent("POST", all, JSON.stringify(body, null, 2));
    return fetch(this.endpoint, { method: "POST", headers: all, body: JSON.stringify(body), cache: "no-store", signal });
  }

  #showSent(method, headers, text) {
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    this.onTraffic({ way: "out", head: `${method} ${this.endpoint}\n${lines.join("\n")}`, text });
  }

  #showReceived(response, text) {
    const kind = response.headers.get("Content-Type");
    const session = response.headers.get("Mcp-Session-Id");
    const lines = [`${response.status} ${response.statusText}`, kind && `Content-Type: ${kind}`,
      session && `Mcp-Session-Id: ${session}`];
    this.onTraffic({ way: "in", head: lines.filter(Boolean).join("\n"), text });
  }

  async #readText(response) {
    const text = await response.text();
    this.#showReceived(response, formatMessage(text));
    return text;
  }

  async #readAnswer(response, id, onNotification, signal) {
    if (!(response.headers.get("Content-Type") || "").startsWith("text/event-stream")) {
      const text = await this.#readText(response);
      return text.trim() ? readJson(text) : null;
    }
    this.#showReceived(response, "");
    let last = null;
    let wait = 1000;
    for (let body = response.body; ; ) {
      for await (const event of events(body)) {
        last = event.id ?? last;
        wait = event.retry ?? wait;
        if (!event.data) continue;
        this.onTraffic({ way: "in", head: "event", text: formatMessage(event.data) });
        const message = readJson(event.data);
        if (message.id === id && !message.method) return message;
        if (message.method && message.id !== undefined) this.#answerQuestion(message);
        else onNotification(message);
      }
      if (this.modern || !last || signal?.aborted) return null;
      await new Promise((resolve) => { setTimeout(resolve, wait); });
      body = await this.#resume(last, signal);
    }
  }

  /** Resume a broken stream after its last event. */
  async #resume(last, signal) {
    const headers = { "Accept": "text/event-stream", "Mcp-Session-Id": this.session, "Last-Event-ID": last,
      "MCP-Protocol-Version": this.revision };
    this.#showSent("GET", headers, "");
    const response = await fetch(this.endpoint, { headers, signal, cache: "no-store" });
    if (!response.ok) throw new Error(`the stream ended early and cannot be resumed: HTTP ${response.status}`);
    this.#showReceived(response, "");
    return response.body;
  }

  /** Answer a question that came on the open stream. */
  async #answerQuestion({ id, method, params }) {
    let answer;
    try {
      answer = { result: method === "ping" ? {} : await this.onQuestion(method, params) };
    } catch (problem) {
      answer = { error: { code: -1, message: problem.message } };
    }
    if (!this.session) return;
    await this.#send({ jsonrpc: "2.0", id, ...answer }, {}).then((response) => this.#readText(response));
  }
}

function formatMessage(text) {
  try {
    return findInexactNumber(text) ? text : JSON.stringify(readJson(text), null, 2);
  } catch {
    return text;
  }
}

// The bridge between a page and an app: JSON-RPC messages over postMessage, in both directions.
// Source: SEP-1865 (MCP Apps), 2026-01-26, communication protocol and lifecycle.

const UNKNOWN_METHOD = -32601;
const REFUSED = -32000;

/** The largest message of an app, in characters of its JSON. */
const MAX_MESSAGE_CHARACTERS = 8_000_000;

/** Requests of an app that run at the same time. */
const MAX_OPEN_REQUESTS = 16;

export class AppError extends Error {
  constructor(message, code = REFUSED, data = undefined) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export class Bridge {
  /**
   * `post(message)` sends a message to the app. `requests` and `notifications` are maps from a method to a function of
   * its params and id. `onMessage({way, message})` gets each message, `way` is "in" or "out".
   */
  constructor({ post, requests, notifications, onMessage }) {
    Object.assign(this, { post, requests, notifications, onMessage });
    this.isInitialized = false;
    this.waiting = [];
    this.pending = new Map();
    this.open = 0;
    this.lastId = 0;
  }

  /** Take a message of the app. */
  receive(data) {
    const message = readMessage(data);
    if (!message) return;
    this.onMessage({ way: "in", message });
    if (message.method === undefined) this.#settle(message);
    else if (message.id === undefined) this.#note(message);
    else this.#answer(message);
  }

  #note({ method, params }) {
    if (method === "ui/notifications/initialized" && !this.isInitialized) {
      this.isInitialized = true;
      this.waiting.splice(0).forEach((message) => this.#send(message));
    }
    this.notifications.get(method)?.(params ?? {});
  }

  async #answer({ id, method, params }) {
    const handler = this.requests.get(method);
    let answer;
    this.open += 1;
    try {
      if (!handler) throw new AppError(`this page does not answer ${method}`, UNKNOWN_METHOD);
      if (this.open > MAX_OPEN_REQUESTS) throw new AppError(`at most ${MAX_OPEN_REQUESTS} requests run at the same time`);
      answer = { result: await handler(params ?? {}, id) };
    } catch (problem) {
      answer = { error: { code: Number.isInteger(problem.code) ? problem.code : REFUSED, message: problem.message, data: problem.data } };
    } finally {
      this.open -= 1;
    }
    this.#send({ jsonrpc: "2.0", id, ...answer });
  }

  #settle({ id, result, error }) {
    const settle = this.pending.get(id);
    this.pending.delete(id);
    settle?.(error ? { error } : { result });
  }

  /** Send a notification, not before the app is initialized. */
  notify(method, params) {
    const message = { jsonrpc: "2.0", method, params };
    if (this.isInitialized) this.#send(message);
    else this.waiting.push(message);
  }

  /** Send a request; resolve with its answer, or with null after `ms` milliseconds. */
  request(method, params, ms) {
    this.lastId += 1;
    const id = `patchbay-${this.lastId}`;
    return new Promise((resolve) => {
      this.pending.set(id, resolve);
      setTimeout(() => resolve(null), ms);
      this.#send({ jsonrpc: "2.0", id, method, params });
    });
  }

  #send(message) {
    // Only plain JSON can be sent: a number that JSON cannot hold exactly is an object of this page.
    const plain = JSON.parse(JSON.stringify(message));
    this.onMessage({ way: "out", message: plain });
    this.post(plain);
  }
}

/** Return a message of an app as plain JSON; null for anything that is not a JSON-RPC message. */
function readMessage(data) {
  let message;
  try {
    const text = JSON.stringify(data);
    if (!text || text.length > MAX_MESSAGE_CHARACTERS) return null;
    message = JSON.parse(text);
  } catch {
    return null;
  }
  if (message?.jsonrpc !== "2.0") return null;
  const { id, method } = message;
  const hasId = typeof id === "string" || Number.isInteger(id);
  if (id !== undefined && !hasId) return null;
  return typeof method === "string" || (method === undefined && hasId) ? message : null;
}


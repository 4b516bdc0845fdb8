// One call from its first message to its result: questions asked again and again, tasks followed, cancelled when told so.
// Source: MCP 2026-07-28, multi-round-trip requests and the tasks extension; 2025-11-25, cancellation.

import { Connection, RpcError } from "./wire.js";

const POLL = 500;

/** A name for one call. `crypto.randomUUID` is not there on a page that came over plain HTTP from another machine. */
function token() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Cancelled extends Error {
  constructor() {
    super("cancelled");
  }
}

export class Calling {
  /** `seen`, `heard`: as in wire.js. `ask(method, params)` is a promise of an answer. */
  constructor(endpoint, revision, { seen, heard, ask }) {
    this.heard = heard;
    this.ask = ask;
    this.controller = new AbortController();
    this.connection = new Connection(endpoint, revision, { seen, ask: (...question) => this.#asked(...question) });
    this.id = null;
    this.task = null;
  }

  /** Opens, calls, follows, closes. Answers the result; raises RpcError, Cancelled. */
  async run(method, params, headers = {}) {
    const { signal } = this.controller;
    try {
      await this.connection.open(signal);
      return await this.#rounds(method, params, headers);
    } catch (problem) {
      throw signal.aborted ? new Cancelled() : problem;
    } finally {
      await this.connection.close().catch(() => {});
    }
  }

  /** Stops the call as its revision wants it: a notification, the end of the stream, or the task's own method. */
  async cancel() {
    if (this.task) {
      await this.connection.request("tasks/cancel", { taskId: this.task }).catch(() => {});
    } else if (!this.connection.modern && this.id !== null) {
      const params = { requestId: this.id, reason: "cancelled on the page" };
      await this.connection.notify("notifications/cancelled", params).catch(() => {});
    }
    this.controller.abort();
  }

  async #rounds(method, params, headers) {
    const { signal } = this.controller;
    const started = (id) => { this.id = id; };
    let extra = {};
    for (;;) {
      const meta = method === "tools/call" ? { _meta: { progressToken: token() } } : {};
      const asked = { ...params, ...extra, ...meta };
      const result = await this.connection.request(method, asked, { signal, heard: this.heard, headers, started });
      if (result.resultType === "task") return this.#followed(result);
      if (result.resultType !== "input_required") return result;
      const inputResponses = await this.#answers(result.inputRequests || {});
      extra = { inputResponses, ...(result.requestState ? { requestState: result.requestState } : {}) };
    }
  }

  async #answers(requests) {
    const answers = {};
    for (const [key, { method, params }] of Object.entries(requests)) answers[key] = await this.#asked(method, params);
    return answers;
  }

  async #asked(method, params) {
    const { signal } = this.controller;
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new Cancelled()));
      this.ask(method, params, signal).then(resolve, reject);
    });
  }

  /** A task, asked after until it has ended. */
  async #followed(created) {
    this.task = created.taskId;
    const { signal } = this.controller;
    const answered = new Set();
    for (let task = created; ; ) {
      this.heard({ method: "tasks", params: task });
      if (task.status === "completed" && task.result) return task.result;
      if (task.status === "failed") throw new RpcError(task.error || { message: "the task failed" });
      if (task.status === "cancelled") throw new Cancelled();
      const open = Object.entries(task.inputRequests || {}).filter(([key]) => !answered.has(key));
      if (task.status === "input_required" && open.length) {
        const inputResponses = await this.#answers(Object.fromEntries(open));
        open.forEach(([key]) => answered.add(key));
        await this.connection.request("tasks/update", { taskId: this.task, inputResponses }, { signal });
      } else if (task !== created) {
        await new Promise((resolve) => { setTimeout(resolve, task.pollIntervalMs || POLL); });
      }
      if (signal.aborted) throw new Cancelled();
      task = await this.connection.request("tasks/get", { taskId: this.task }, { signal });
    }
  }
}

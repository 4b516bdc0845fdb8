// Run one call from its first message to its result: answer the server's questions, poll tasks, cancel on request.
// Source: MCP 2026-07-28, multi-round-trip requests and the tasks extension; MCP 2025-11-25, cancellation.

import { Connection, RpcError } from "./wire.js";

const DEFAULT_POLL_MS = 500;

/** A random token. `crypto.randomUUID` is missing on pages that come over plain HTTP from another machine. */
function randomToken() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

export class Cancelled extends Error {
  constructor() {
    super("cancelled");
  }
}

export class Calling {
  /** `onTraffic`, `onNotification`: see wire.js. `onQuestion(method, params, signal)` returns a promise of the answer. */
  constructor(endpoint, revision, { onTraffic, onNotification, onQuestion }) {
    this.onNotification = onNotification;
    this.onQuestion = onQuestion;
    this.controller = new AbortController();
    this.connection = new Connection(endpoint, revision, { onTraffic, onQuestion: (...question) => this.#ask(...question) });
    this.id = null;
    this.task = null;
  }

  /** Open the connection, run the call, close the connection. Returns the result; throws RpcError or Cancelled. */
  async run(method, params, headers = {}) {
    const { signal } = this.controller;
    try {
      await this.connection.open(signal);
      return await this.#runRounds(method, params, headers);
    } catch (problem) {
      throw signal.aborted ? new Cancelled() : problem;
    } finally {
      await this.connection.close().catch(() => {});
    }
  }

  /** Cancel the call as its revision prescribes: with `tasks/cancel`, with a notification, or by closing the stream. */
  async cancel() {
    if (this.task) {
      await this.connection.request("tasks/cancel", { taskId: this.task }).catch(() => {});
    } else if (!this.connection.modern && this.id !== null) {
      const params = { requestId: this.id, reason: "cancelled on the page" };
      await this.connection.notify("notifications/cancelled", params).catch(() => {});
    }
    this.controller.abort();
  }

  async #runRounds(method, params, headers) {
    const { signal } = this.controller;
    const onStart = (id) => { this.id = id; };
    let extra = {};
    for (;;) {
      const meta = method === "tools/call" ? { _meta: { ...params._meta, progressToken: randomToken() } } : {};
      const request = { ...params, ...extra, ...meta };
      const result = await this.connection.request(method, request, { signal, onNotification: this.onNotification, headers, onStart });
      if (result.resultType === "task") return this.#followTask(result);
      if (result.resultType !== "input_required") return result;
      const inputResponses = await this.#collectAnswers(result.inputRequests || {});
      extra = { inputResponses, ...(result.requestState ? { requestState: result.requestState } : {}) };
    }
  }

  async #collectAnswers(requests) {
    const answers = {};
    for (const [key, { method, params }] of Object.entries(requests)) answers[key] = await this.#ask(method, params);
    return answers;
  }

  async #ask(method, params) {
    const { signal } = this.controller;
    return new Promise((resolve, reject) => {
      signal.addEventListener("abort", () => reject(new Cancelled()));
      this.onQuestion(method, params, signal).then(resolve, reject);
    });
  }

  /** Poll a task until it has ended; return its result. */
  async #followTask(created) {
    this.task = created.taskId;
    const { signal } = this.controller;
    const answered = new Set();
    for (let task = created; ; ) {
      this.onNotification({ method: "tasks", params: task });
      if (task.status === "completed" && task.result) return task.result;
      if (task.status === "failed") throw new RpcError(task.error || { message: "the task failed" });
      if (task.status === "cancelled") throw new Cancelled();
      const open = Object.entries(task.inputRequests || {}).filter(([key]) => !answered.has(key));
      if (task.status === "input_required" && open.length) {
        const inputResponses = await this.#collectAnswers(Object.fromEntries(open));
        open.forEach(([key]) => answered.add(key));
        await this.connection.request("tasks/update", { taskId: this.task, inputResponses }, { signal });
      } else if (task !== created) {
        await new Promise((resolve) => { setTimeout(resolve, task.pollIntervalMs || DEFAULT_POLL_MS); });
      }
      if (signal.aborted) throw new Cancelled();
      task = await this.connection.request("tasks/get", { taskId: this.task }, { signal });
    }
  }
}

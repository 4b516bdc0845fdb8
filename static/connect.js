// The connection test: speaks MCP to the real endpoint, as any client does, and shows each step.
// Answers are data from elsewhere: they are only ever put on the page as text.
"use strict";

const VERSION = "2025-11-25";

class Session {
  constructor(endpoint) {
    this.endpoint = endpoint;
    this.headers = { "Content-Type": "application/json", "Accept": "application/json, text/event-stream" };
    this.lastId = 0;
  }

  async send(method, params, wantsAnswer) {
    const message = { jsonrpc: "2.0", method, params };
    if (wantsAnswer) message.id = ++this.lastId;
    const response = await fetch(this.endpoint, {
      method: "POST", headers: this.headers, body: JSON.stringify(message), cache: "no-store",
    });
    const session = response.headers.get("Mcp-Session-Id");
    if (session) this.headers["Mcp-Session-Id"] = session;
    const answer = answerIn(response.headers.get("Content-Type") || "", await response.text(), message.id);
    if (answer && answer.error) throw new Error(`${response.status}: ${answer.error.message} (${answer.error.code})`);
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    if (wantsAnswer && !(answer && answer.result)) throw new Error(`${response.status}: no result in the answer`);
    return { status: response.status, result: answer && answer.result };
  }

  async end() {
    if (!this.headers["Mcp-Session-Id"]) return;
    await fetch(this.endpoint, { method: "DELETE", headers: this.headers });
  }
}

function answerIn(type, body, id) {
  if (!body.trim()) return null;
  if (!type.startsWith("text/event-stream")) return JSON.parse(body);
  const messages = body.split(/\r?\n\r?\n/).map((event) => event.split(/\r?\n/)
    .filter((line) => line.startsWith("data:")).map((line) => line.slice(5).trimStart()).join("\n"));
  return messages.filter(Boolean).map((text) => JSON.parse(text)).find((message) => message.id === id) || null;
}

async function handshake(session) {
  const params = { protocolVersion: VERSION, capabilities: {}, clientInfo: { name: "patchbay-page", version: "1" } };
  const { status, result } = await session.send("initialize", params, true);
  session.headers["MCP-Protocol-Version"] = result.protocolVersion;
  return `${status} · ${result.serverInfo.name} speaks ${result.protocolVersion}`;
}

async function confirm(session) {
  const { status } = await session.send("notifications/initialized", {}, false);
  return `${status} · accepted`;
}

async function listTools(session) {
  const { status, result } = await session.send("tools/list", {}, true);
  const names = result.tools.map((tool) => tool.name);
  const more = result.nextCursor ? " and more" : "";
  return `${status} · ${names.length} tool${names.length === 1 ? "" : "s"}${more}: ${names.slice(0, 12).join(", ")}`;
}

function showStep(list, name) {
  const row = document.createElement("li");
  const [jack, label, outcome] = ["span", "span", "span"].map((tag) => row.appendChild(document.createElement(tag)));
  jack.className = "jack";
  label.className = "mono";
  label.textContent = name;
  outcome.textContent = "…";
  list.append(row);
  return (good, text) => {
    jack.classList.add(good ? "on" : "broken");
    outcome.textContent = text;
  };
}

async function test(form) {
  const list = form.querySelector(".steps");
  list.replaceChildren();
  const session = new Session(form.dataset.connect);
  const steps = [["initialize", handshake], ["notifications/initialized", confirm], ["tools/list", listTools]];
  for (const [name, step] of steps) {
    const finish = showStep(list, name);
    const begun = performance.now();
    try {
      const text = await step(session);
      finish(true, `${text} · ${(performance.now() - begun).toFixed(0)} ms`);
    } catch (problem) {
      finish(false, `failed: ${problem.message}`);
      break;
    }
  }
  await session.end();
}

for (const form of document.querySelectorAll("form[data-connect]")) {
  const button = form.querySelector("button");
  button.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true;
    form.setAttribute("aria-busy", "true");
    try {
      await test(form);
    } finally {
      button.disabled = false;
      form.removeAttribute("aria-busy");
    }
  });
}

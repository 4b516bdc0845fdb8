// The connection test: the first requests of a client, in revision 2025-11-25 and in 2026-07-28.

import { el, formatDuration } from "./dom.js";
import { Connection, MODERN } from "./wire.js";

/** Let a form test its endpoint. Show each step with its outcome and duration. */
export function addConnectionTest(form) {
  const start = form.querySelector("button");
  const list = form.querySelector(".steps");
  start.hidden = false;
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    start.disabled = true;
    list.replaceChildren();
    try {
      for (const revision of ["2025-11-25", MODERN]) await test(list, form.dataset.connect, revision);
    } finally {
      start.disabled = false;
    }
  });
}

async function test(list, endpoint, revision) {
  const connection = new Connection(endpoint, revision);
  const firstStep = connection.modern ? ["server/discover", discover] : ["initialize", initialize];
  try {
    for (const [name, step] of [firstStep, ["tools/list", listTools]]) {
      const row = el("li", {}, el("span", { class: "jack" }), el("span", { class: "mono" }, `${revision} ${name}`), el("span", {}, "…"));
      list.append(row);
      const startedAt = performance.now();
      const [good, text] = await step(connection).then((text) => [true, text], (problem) => [false, `failed: ${problem.message}`]);
      row.firstChild.classList.add(good ? "on" : "broken");
      row.lastChild.textContent = `${text} · ${formatDuration(performance.now() - startedAt)}`;
      if (!good) return;
    }
  } finally {
    await connection.close().catch(() => {});
  }
}

async function initialize(connection) {
  const { serverInfo, protocolVersion } = await connection.open();
  return `${serverInfo.name} speaks ${protocolVersion}`;
}

async function discover(connection) {
  const { supportedVersions } = await connection.request("server/discover", {});
  return `serves ${supportedVersions.join(", ")}`;
}

async function listTools(connection) {
  const { tools: found, nextCursor } = await connection.request("tools/list", {});
  const named = found.slice(0, 12).map(({ name }) => name).join(", ");
  return `${found.length} tool${found.length === 1 ? "" : "s"}${nextCursor ? " and more" : ""}: ${named}`;
}

// The connection test: what a client does first, step by step, in the revision that is chosen for everything.

import { el, took } from "./dom.js";
import { Connection, MODERN } from "./wire.js";

/** Makes a form test its endpoint; each step is shown with its outcome and how long it took. */
export function connecting(form) {
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
  const begin = connection.modern ? ["server/discover", discover] : ["initialize", handshake];
  try {
    for (const [name, step] of [begin, ["tools/list", tools]]) {
      const row = el("li", {}, el("span", { class: "jack" }), el("span", { class: "mono" }, `${revision} ${name}`), el("span", {}, "…"));
      list.append(row);
      const begun = performance.now();
      const [good, text] = await step(connection).then((said) => [true, said], (problem) => [false, `failed: ${problem.message}`]);
      row.firstChild.classList.add(good ? "on" : "broken");
      row.lastChild.textContent = `${text} · ${took(performance.now() - begun)}`;
      if (!good) return;
    }
  } finally {
    await connection.close().catch(() => {});
  }
}

async function handshake(connection) {
  const { serverInfo, protocolVersion } = await connection.open();
  return `${serverInfo.name} speaks ${protocolVersion}`;
}

async function discover(connection) {
  const { supportedVersions } = await connection.request("server/discover", {});
  return `serves ${supportedVersions.join(", ")}`;
}

async function tools(connection) {
  const { tools: found, nextCursor } = await connection.request("tools/list", {});
  const named = found.slice(0, 12).map(({ name }) => name).join(", ");
  return `${found.length} tool${found.length === 1 ? "" : "s"}${nextCursor ? " and more" : ""}: ${named}`;
}

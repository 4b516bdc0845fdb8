// Keep the page of activity up to date. The hub sends an event for each new call; then this script fetches the page again
// and replaces its changing parts, at most once in MIN_UPDATE_MS milliseconds. It builds no markup from the events.
// The reader can pause it (WCAG 2.2.2). While the keyboard focus is in a changing part, the part is not replaced.

import { button, el } from "../try/dom.js";

const MIN_UPDATE_MS = 1000;
const LIVE_PARTS = ["running", "plots", "calls"];

const panel = document.querySelector("[data-live]");
const status = panel.querySelector("[role=status]");
const lamp = el("span", { class: "lamp", "aria-hidden": "true" });
const pause = button("Pause", () => (source ? stop("Paused.") : start()), "quiet slim");

let source = null;
let timer = null;
let updates = 0;
let newCalls = 0;

function start() {
  source = new EventSource(panel.dataset.live);
  pause.textContent = "Pause";
  source.addEventListener("open", () => showStatus("Live: new calls appear here as they end.", true));
  source.addEventListener("calls", (event) => { newCalls += JSON.parse(event.data).length; refresh(); });
  source.addEventListener("skipped", (event) => { newCalls += JSON.parse(event.data); refresh(); });
  source.addEventListener("running", refresh);
  source.addEventListener("error", () => {
    if (source?.readyState === EventSource.CLOSED) stop("Not live: too many streams are open on the hub. Reload the page later.");
    else showStatus("Waiting for the hub …", false);
  });
}

function stop(words) {
  source?.close();
  source = null;
  pause.textContent = "Resume";
  showStatus(words, false);
}

function showStatus(words, on) {
  status.textContent = words;
  lamp.classList.toggle("on", on);
}

function refresh() {
  timer ??= setTimeout(update, updates ? MIN_UPDATE_MS : 0);
}

async function update() {
  updates += 1;
  try {
    if (!source || LIVE_PARTS.some((id) => document.getElementById(id).contains(document.activeElement))) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of LIVE_PARTS) replacePart(document.getElementById(id), page.getElementById(id));
    if (newCalls) showStatus(`Live: ${newCalls} ${newCalls === 1 ? "call" : "calls"} since you opened this page.`, true);
  } catch {
    // The hub cannot be reached; the next event starts another update.
  } finally {
    timer = null;
  }
}

function replacePart(old, fresh) {
  if (!fresh || old.isEqualNode(fresh)) return;
  const open = new Set([...old.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
  for (const summary of fresh.querySelectorAll("details > summary")) summary.parentNode.open = open.has(summary.textContent);
  old.replaceWith(document.adoptNode(fresh));
}

if (!panel.hidden) {
  panel.prepend(lamp);
  panel.append(pause);
  start();
  addEventListener("pagehide", () => source?.close());
}

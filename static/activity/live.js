// Calls as they happen: hears of them from the hub and puts what the hub then shows in place of what the page shows.
// Nothing is made from what a stranger wrote: the hub's own markup is fetched again, at most once in PACE milliseconds.
// It can be paused (WCAG 2.2.2), and waits while the keyboard is in what would be replaced.

import { button, el } from "../try/dom.js";

const PACE = 1000;
const PARTS = ["running", "plots", "calls"];

const place = document.querySelector("[data-live]");
const status = place.querySelector("[role=status]");
const lamp = el("span", { class: "lamp", "aria-hidden": "true" });
const pause = button("Pause", () => (source ? stop("Paused.") : start()), "quiet slim");

let source = null;
let due = null;
let shown = 0;
let heard = 0;

function start() {
  source = new EventSource(place.dataset.live);
  pause.textContent = "Pause";
  source.addEventListener("open", () => say("Live: new calls appear here as they end.", true));
  source.addEventListener("calls", (event) => { heard += JSON.parse(event.data).length; refresh(); });
  source.addEventListener("skipped", (event) => { heard += JSON.parse(event.data); refresh(); });
  source.addEventListener("running", refresh);
  source.addEventListener("error", () => {
    if (source?.readyState === EventSource.CLOSED) stop("Not live: the hub has no place for another stream now.");
    else say("Waiting for the hub …", false);
  });
}

function stop(words) {
  source?.close();
  source = null;
  pause.textContent = "Go on";
  say(words, false);
}

function say(words, on) {
  status.textContent = words;
  lamp.classList.toggle("on", on);
}

function refresh() {
  due ??= setTimeout(update, shown ? PACE : 0);
}

async function update() {
  shown += 1;
  try {
    if (!source || PARTS.some((id) => document.getElementById(id).contains(document.activeElement))) return;
    const answer = await fetch(location.href, { headers: { Accept: "text/html" }, cache: "no-store" });
    if (!answer.ok) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const id of PARTS) swap(document.getElementById(id), page.getElementById(id));
    if (heard) say(`Live: ${heard} ${heard === 1 ? "call" : "calls"} since you opened this page.`, true);
  } catch {
    // The hub went away between its event and now; the next event tries again.
  } finally {
    due = null;
  }
}

function swap(old, fresh) {
  if (!fresh || old.isEqualNode(fresh)) return;
  const open = new Set([...old.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
  for (const summary of fresh.querySelectorAll("details > summary")) summary.parentNode.open = open.has(summary.textContent);
  old.replaceWith(document.adoptNode(fresh));
}

if (!place.hidden) {
  place.prepend(lamp);
  place.append(pause);
  start();
  addEventListener("pagehide", () => source?.close());
}

// Keep a page up to date. The hub sends events that say that something is new; then this module fetches the page again and
// replaces its changing parts, at most once in MIN_UPDATE_MS milliseconds. It builds no markup from the events.
// The reader can pause it (WCAG 2.2.2). A part stays as it is while a form to try a tool is open in it, or while the
// keyboard focus is on something there that the new part does not have.

import { button, el } from "./try/dom.js";

const MIN_UPDATE_MS = 1000;
const RETRY_MS = 5000;

/**
 * Follow the events of `panel.dataset.live`. `parts` are the ids of the changing parts; `events` has for each name of an
 * event a function of its data that returns how many things are new; `words` has the sentences `live`, `full` and
 * `news(count)`. `page` is the address of the page.
 */
export function follow(panel, parts, events, words, page = location.href) {
  const status = panel.querySelector("[role=status]");
  const lamp = el("span", { class: "lamp", "aria-hidden": "true" });
  const pause = button("Pause", () => (source ? stop("Paused.") : start()), "quiet slim");
  let source = null;
  let timer = null;
  let updates = 0;
  let isStale = false;
  let news = 0;

  function start() {
    source = new EventSource(panel.dataset.live);
    pause.textContent = "Pause";
    source.addEventListener("open", () => showStatus(words.live, true));
    for (const [name, count] of Object.entries(events)) {
      source.addEventListener(name, (event) => { news += count(JSON.parse(event.data)); refresh(); });
    }
    source.addEventListener("error", () => {
      if (source?.readyState === EventSource.CLOSED) stop(words.full);
      else showStatus("Waiting for the hub …", false);
    });
  }

  function stop(sentence) {
    source?.close();
    source = null;
    pause.textContent = "Resume";
    showStatus(sentence, false);
  }

  function showStatus(sentence, on) {
    status.textContent = sentence;
    lamp.classList.toggle("on", on);
  }

  function refresh() {
    isStale = true;
    timer ??= setTimeout(update, updates ? MIN_UPDATE_MS : 0);
  }

  async function update() {
    updates += 1;
    isStale = false;
    let isFailed = false;
    try {
      if (!source) return;
      const answer = await fetch(page, { headers: { Accept: "text/html" }, cache: "no-store" });
      isFailed = answer.status >= 500;
      if (!answer.ok) return;
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      for (const id of parts) replacePart(document.getElementById(id), fresh.getElementById(id));
      if (news) showStatus(words.news(news), true);
    } catch {
      isFailed = true; // the hub cannot be reached
    } finally {
      // The page can have been made before an event that came during the fetch.
      const pause = isFailed ? RETRY_MS : isStale ? MIN_UPDATE_MS : null;
      timer = pause === null ? null : setTimeout(update, pause);
    }
  }

  panel.prepend(lamp);
  panel.append(pause);
  start();
  addEventListener("pagehide", () => source?.close());
}

function replacePart(old, fresh) {
  if (!fresh || old.isEqualNode(fresh) || old.querySelector("details[open] [data-try]")) return;
  const focused = old.contains(document.activeElement) ? document.activeElement : null;
  const summaries = [...fresh.querySelectorAll("details > summary")];
  const next = focused && summaries.find((each) => focused.matches("summary") && each.textContent === focused.textContent);
  if (focused && !next) return;
  const open = new Set([...old.querySelectorAll("details[open] > summary")].map((each) => each.textContent));
  for (const summary of summaries) summary.parentNode.open = open.has(summary.textContent);
  old.replaceWith(document.adoptNode(fresh));
  next?.focus({ preventScroll: true });
}

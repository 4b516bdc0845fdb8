// One call again: with the arguments that were kept, through the endpoint like any client; then whether it answered the same.

import { Calling, Cancelled } from "../try/calling.js";
import { button, copyable, el, took } from "../try/dom.js";
import { MODERN } from "../try/wire.js";

const place = document.querySelector("[data-again]");
const replay = JSON.parse(place.dataset.again);
const buttons = el("div", { class: "buttons" });
const status = el("p", { role: "status" });
const events = el("ul", { class: "stream", hidden: true, "aria-label": "Events" });
const answer = el("div");

async function run(endpoint) {
  const begun = performance.now();
  const calling = new Calling(endpoint, MODERN, { seen: () => {}, heard: tell, ask });
  const cancel = button("Cancel", () => calling.cancel());
  const old = [...buttons.children];
  buttons.replaceChildren(cancel);
  events.replaceChildren();
  events.hidden = true;
  answer.replaceChildren();
  status.textContent = "Running …";
  try {
    const { _meta, resultType, ttlMs, cacheScope, ...result } = await calling.run(replay.method, replay.params);
    answer.replaceChildren(copyable(JSON.stringify(result, null, 2), "The new result"));
    status.textContent = `${result.isError ? "It ran, and the result is an error" : "It ran"}, in ${took(performance.now() - begun)}.`;
    await compare();
  } catch (problem) {
    status.textContent = problem instanceof Cancelled ? "Cancelled." : `It was refused: ${problem.message}`;
  } finally {
    buttons.replaceChildren(...old);
  }
}

function tell(message) {
  const { progress, total, message: words, level, data } = message.params ?? {};
  const text = level ? `${level}: ${typeof data === "string" ? data : JSON.stringify(data)}`
    : progress === undefined ? message.method : [total ? `${progress} of ${total}` : progress, words].filter(Boolean).join(": ");
  events.hidden = false;
  events.append(el("li", {}, text));
}

async function ask() {
  throw new Error("the tool asks a question; use the form on the page of its server");
}

/** The record of the new call, and whether its result is the same content as then. */
async function compare() {
  const wanted = new URLSearchParams({ server: place.dataset.server, tool: place.dataset.name, limit: "1" });
  const response = await fetch(`/activity.json?${wanted}`, { cache: "no-store" });
  const [record] = (await response.json()).records;
  if (!record) return;
  const same = record.answer_cid && record.answer_cid === place.dataset.answer;
  const verdict = !place.dataset.answer || !record.answer_cid ? "" : same ? " The result is the same as then." : " The result differs from then.";
  status.append(verdict, " ", el("a", { href: `/activity/${encodeURIComponent(record.id)}` }, "Its own page"));
}

buttons.append(button("Run again", () => run(replay.endpoint), ""));
if (place.dataset.changed) buttons.append(button("Run the version of then", () => run(replay.pinned)));
place.append(buttons, status, events, answer);

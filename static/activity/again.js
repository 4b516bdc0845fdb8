// Repeat one recorded call with the same arguments, through the endpoint, like any client. Then compare the results.

import { hubPath } from "../paths.js";
import { Calling, Cancelled } from "../try/calling.js";
import { button, copyable, el, formatDuration } from "../try/dom.js";
import { MODERN } from "../try/wire.js";

const RECORD_TRIES = 50;
const RECORD_PAUSE_MS = 200;

const place = document.querySelector("[data-again]");
const replay = JSON.parse(place.dataset.again);
const buttons = el("div", { class: "buttons" });
const status = el("p", { role: "status" });
const events = el("ul", { class: "stream", hidden: true, "aria-label": "Events" });
const answer = el("div");

async function run(endpoint) {
  const begun = performance.now();
  const call = new Calling(endpoint, MODERN, { onTraffic: () => {}, onNotification: showEvent, onQuestion: refuseQuestion });
  const cancel = button("Cancel", () => call.cancel());
  const old = [...buttons.children];
  buttons.replaceChildren(cancel);
  events.replaceChildren();
  events.hidden = true;
  answer.replaceChildren();
  status.textContent = "Running …";
  try {
    const last = await newestRecord().catch(() => undefined);
    const { _meta, resultType, ttlMs, cacheScope, ...result } = await call.run(replay.method, replay.params);
    answer.replaceChildren(copyable(JSON.stringify(result, null, 2), "The new result"));
    status.textContent = `${result.isError ? "The tool reports an error" : "The call succeeded"} after ${formatDuration(performance.now() - begun)}.`;
    await compareResults(last?.id);
  } catch (problem) {
    status.textContent = problem instanceof Cancelled ? "Cancelled." : `The call failed: ${problem.message}`;
  } finally {
    buttons.replaceChildren(...old);
  }
}

function showEvent(message) {
  const { progress, total, message: words, level, data } = message.params ?? {};
  const text = level ? `${level}: ${typeof data === "string" ? data : JSON.stringify(data)}`
    : progress === undefined ? message.method : [total ? `${progress} of ${total}` : progress, words].filter(Boolean).join(": ");
  events.hidden = false;
  events.append(el("li", {}, text));
}

async function refuseQuestion() {
  throw new Error("the tool asks a question; use the form on the page of its server");
}

/** The record of the newest call of this tool; undefined without one. */
async function newestRecord() {
  const wanted = new URLSearchParams({ server: place.dataset.server, tool: place.dataset.name, limit: "1" });
  const response = await fetch(hubPath(`/activity.json?${wanted}`), { cache: "no-store" });
  return (await response.json()).records[0];
}

/** Wait for a record that is newer than that of the id `last`: the hub writes it shortly after the answer. */
async function findRecord(last) {
  for (let tries = RECORD_TRIES; tries > 0; tries -= 1) {
    const record = await newestRecord();
    if (record && record.id !== last) return record;
    await new Promise((resolve) => setTimeout(resolve, RECORD_PAUSE_MS));
  }
  return undefined;
}

/** Find the record of the new call and compare the CID of its result with the CID of the recorded result. */
async function compareResults(last) {
  const record = await findRecord(last);
  if (!record) return;
  const same = record.answer_cid && record.answer_cid === place.dataset.answer;
  const verdict = !place.dataset.answer || !record.answer_cid ? "" : same ? " The result is the same as before." : " The result differs from the recorded one.";
  status.append(verdict, " ", el("a", { href: hubPath(`/activity/${encodeURIComponent(record.id)}`) }, "Open the new record"));
}

buttons.append(button("Run again", () => run(hubPath(replay.endpoint)), ""));
if (place.dataset.changed) buttons.append(button("Run the recorded version", () => run(hubPath(replay.pinned))));
place.append(buttons, status, events, answer);

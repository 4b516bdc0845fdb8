// Questions from a server, asked in the page: a form, an address to visit, a turn of a model, folders.
// Source: MCP specification, client/elicitation, client/sampling, client/roots.

import { button, el } from "./dom.js";
import { argumentsForm } from "./form.js";
import { pieces } from "./pieces.js";

/** Shows a question in `place` and answers what was said; `signal` takes the question away. */
export function question(place, method, params, signal) {
  return new Promise((resolve, reject) => {
    const box = el("div", { class: "question", role: "group", "aria-label": "A question from the tool" });
    const done = (settle, value) => { box.remove(); settle(value); };
    const make = ASKED[method];
    if (!make) {
      reject(new Error(`this page does not answer ${method}`));
      return;
    }
    box.append(...make(params || {}, (answer) => done(resolve, answer), (reason) => done(reject, new Error(reason))));
    signal.addEventListener("abort", () => box.remove());
    place.append(box);
    box.querySelector("input, select, textarea, a, button")?.focus();
  });
}

function form(children, onsubmit, label) {
  return el("form", { novalidate: true, onsubmit: (event) => { event.preventDefault(); onsubmit(); } }, children,
    el("div", { class: "actions" }, el("button", {}, label)));
}

function elicitation(params, answer) {
  const others = [
    button("Decline", () => answer({ action: "decline" })),
    button("Dismiss", () => answer({ action: "cancel" })),
  ];
  const said = el("p", {}, el("strong", {}, params.message || "The tool asks:"));
  if (params.mode === "url" || params.url) return [said, ...visit(params, answer, others)];
  const asked = argumentsForm(params.requestedSchema, { lines: false });
  const send = () => {
    let content;
    try {
      content = asked.read();
    } catch {
      return;
    }
    answer({ action: "accept", content });
  };
  const made = form([asked.element], send, "Send the answer");
  made.querySelector(".actions").append(...others);
  return [said, made];
}

function visit({ url }, answer, others) {
  const safe = /^https?:/i.test(url || "");
  const address = safe ? el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, url) : el("code", {}, String(url));
  return [el("p", {}, "It wants you to visit: ", address),
    el("div", { class: "actions" }, button("I have been there", () => answer({ action: "accept" }), null), others)];
}

function sampling(params, answer, refuse) {
  const reply = el("textarea", { rows: "3", "aria-label": "Your answer as the model" });
  const messages = (params.messages || []).map(({ role, content }) => el("div", { class: "piece" },
    el("header", {}, el("span", { class: "tag warm" }, role)), pieces(Array.isArray(content) ? content : [content], null)));
  const send = () => answer({ role: "assistant", model: "a person", stopReason: "endTurn",
    content: { type: "text", text: reply.value } });
  const made = form([reply], send, "Send as the model");
  made.querySelector(".actions").append(button("Refuse", () => refuse("the user refused")));
  return [el("p", {}, el("strong", {}, "The tool asks a language model. You are the model here.")),
    params.systemPrompt ? el("p", { class: "soft prose" }, params.systemPrompt) : "", ...messages, made];
}

function roots(_params, answer, refuse) {
  const list = el("textarea", { rows: "2", spellcheck: "false", "aria-label": "Folders, one address on each line" });
  list.value = "file:///tmp";
  const send = () => answer({ roots: list.value.split("\n").map((each) => each.trim()).filter(Boolean).map((uri) => ({ uri })) });
  const made = form([list], send, "Send the folders");
  made.querySelector(".actions").append(button("Refuse", () => refuse("the user refused")));
  return [el("p", {}, el("strong", {}, "The tool asks which folders it may work in. One address on each line.")), made];
}

const ASKED = { "elicitation/create": elicitation, "sampling/createMessage": sampling, "roots/list": roots };

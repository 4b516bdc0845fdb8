// Show the server's questions on the page: a form, a URL to visit, a request for a model, a list of folders.
// Source: MCP specification, client/elicitation, client/sampling, client/roots.

import { button, el } from "./dom.js";
import { argumentsForm } from "./form.js";
import { contentBlocks } from "./pieces.js";

/** Show a question in `place`; resolve with the answer. `signal` removes the question. */
export function askQuestion(place, method, params, signal) {
  return new Promise((resolve, reject) => {
    const box = el("div", { class: "question", role: "group", "aria-label": "A question from the tool" });
    const done = (settle, value) => { box.remove(); settle(value); };
    const make = QUESTION_FORMS[method];
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
    button("Cancel", () => answer({ action: "cancel" })),
  ];
  const messageElement = el("p", {}, el("strong", {}, params.message || "The tool asks:"));
  if (params.mode === "url" || params.url) return [messageElement, ...visit(params, answer, others)];
  const fields = argumentsForm(params.requestedSchema, { lines: false });
  const send = () => {
    let content;
    try {
      content = fields.read();
    } catch {
      return;
    }
    answer({ action: "accept", content });
  };
  const formElement = form([fields.element], send, "Send the answer");
  formElement.querySelector(".actions").append(...others);
  return [messageElement, formElement];
}

function visit({ url }, answer, others) {
  const safe = /^https?:/i.test(url || "");
  const address = safe ? el("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, url) : el("code", {}, String(url));
  return [el("p", {}, "The tool asks you to visit: ", address),
    el("div", { class: "actions" }, button("I have visited it", () => answer({ action: "accept" }), null), others)];
}

function sampling(params, answer, refuse) {
  const reply = el("textarea", { rows: "3", "aria-label": "Answer of the model" });
  const messages = (params.messages || []).map(({ role, content }) => el("div", { class: "piece" },
    el("header", {}, el("span", { class: "tag warm" }, role)), contentBlocks(Array.isArray(content) ? content : [content], null)));
  const send = () => answer({ role: "assistant", model: "a person", stopReason: "endTurn",
    content: { type: "text", text: reply.value } });
  const formElement = form([reply], send, "Send the model's answer");
  formElement.querySelector(".actions").append(button("Refuse", () => refuse("the user refused")));
  return [el("p", {}, el("strong", {}, "The tool asks for an answer of a language model. Write the answer yourself.")),
    params.systemPrompt ? el("p", { class: "soft prose" }, params.systemPrompt) : "", ...messages, formElement];
}

function roots(_params, answer, refuse) {
  const list = el("textarea", { rows: "2", spellcheck: "false", "aria-label": "Folders, one URI on each line" });
  list.value = "file:///tmp";
  const send = () => answer({ roots: list.value.split("\n").map((each) => each.trim()).filter(Boolean).map((uri) => ({ uri })) });
  const formElement = form([list], send, "Send the folders");
  formElement.querySelector(".actions").append(button("Refuse", () => refuse("the user refused")));
  return [el("p", {}, el("strong", {}, "The tool asks which folders it may use. Write one URI on each line.")), formElement];
}

const QUESTION_FORMS = { "elicitation/create": elicitation, "sampling/createMessage": sampling, "roots/list": roots };

// What a call gave, by content type. Foreign text is text; Markdown is cleaned by the hub and built from its nodes;
// images and sounds are data that the page cannot be run by; a link leads nowhere but to http and https.

import { button, el, parsed } from "./dom.js";
import { tree } from "./tree.js";

const IMAGE = /^image\/[\w.+-]+$/;
const AUDIO = /^audio\/[\w.+-]+$/;
const MARKDOWN_TAGS = new Set(["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em",
  "strong", "s", "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"]);

/** Characters of the longest Markdown that the hub renders. */
const MOST_RENDERED = 100_000;

/** Content blocks as elements. `read(uri)` is called when somebody wants to read what a link names. */
export function pieces(content, read) {
  return content.map((block) => piece(block, read));
}

function piece(block, read) {
  if (block.type === "text") return text(String(block.text ?? ""), null, ["Text"]);
  if (block.type === "image") return image(block.data, block.mimeType);
  if (block.type === "audio") return audio(block.data, block.mimeType);
  if (block.type === "resource") return resource(block.resource || {});
  if (block.type === "resource_link") return link(block, read);
  return framed(["Content of another type", String(block.type)], tree(block));
}

/** The contents of a resource. */
export function resource({ uri, mimeType, text: said, blob }) {
  const name = uri ? ["Resource ", String(uri)] : ["Resource"];
  if (said !== undefined) return text(String(said), mimeType, name);
  if (IMAGE.test(mimeType || "")) return image(blob, mimeType, name);
  if (AUDIO.test(mimeType || "")) return audio(blob, mimeType, name);
  return framed(name, mimeType, download(blob, mimeType));
}

function framed(label, ...children) {
  const [first, ...rest] = children;
  const kind = typeof first === "string" ? el("span", { class: "tag" }, first) : null;
  const header = el("header", {}, titled(label), kind);
  return el("div", { class: "piece" }, header, kind ? rest : children);
}

/** What a piece is called: our word, and the name that came with it. */
function titled([word, ...names]) {
  return [el("span", { class: "label" }, word), names.map((name) => el("code", {}, name))];
}

/** Text, with the other ways to look at it: JSON as a tree, Markdown as the hub renders it. */
function text(said, mimeType, label) {
  const value = /^\s*[[{]/.test(said) ? parsed(said) : undefined;
  const body = el("div", { class: "piece" }, el("pre", { tabindex: "0" }, said));
  const header = el("header", {}, titled(label), mimeType && el("span", { class: "tag" }, mimeType));
  const views = { Text: () => el("pre", { tabindex: "0" }, said) };
  if (value !== undefined) views.JSON = () => tree(value);
  const short = said.length <= MOST_RENDERED;
  if (value === undefined && short && (mimeType === "text/markdown" || /(^|\n)#{1,6} |\n\n|\*\*|\]\(|^[-*] |`/.test(said))) {
    views.Markdown = () => markdown(said);
  }
  const buttons = Object.entries(views).map(([name, view]) => button(name, () => show(name, view), "quiet slim"));
  function show(name, view) {
    body.replaceChildren(view());
    buttons.forEach((each) => each.setAttribute("aria-pressed", String(each.textContent === name)));
  }
  if (buttons.length > 1) {
    header.append(...buttons);
    const first = value !== undefined ? "JSON" : mimeType === "text/markdown" ? "Markdown" : "Text";
    show(first, views[first]);
  }
  return el("div", { class: "piece" }, header, body);
}

function markdown(said) {
  const place = el("div", { class: "markdown" }, el("p", { class: "soft" }, "…"));
  fetch("/render/markdown", { method: "POST", body: said, headers: { "Content-Type": "text/markdown" } })
    .then((response) => (response.ok ? response.json() : Promise.reject(new Error(`HTTP ${response.status}`))))
    .then(({ nodes }) => place.replaceChildren(...nodes.map(built)),
      (problem) => place.replaceChildren(el("p", { class: "problem" }, `The hub could not render this: ${problem.message}`)));
  return place;
}

function built(node) {
  if (typeof node === "string") return node;
  const [tag, attributes, children] = node;
  if (!MARKDOWN_TAGS.has(tag)) return el("span", {}, children.map(built));
  // A heading of a result is no heading of this page.
  const heading = /^h[1-6]$/.test(tag);
  const own = tag === "a" ? linked(attributes.href) : heading ? { class: "label" } : tag === "pre" ? { tabindex: "0" } : {};
  return el(heading ? "p" : tag, own, children.map(built));
}

function linked(href) {
  return /^(https?|mailto):/i.test(href || "") ? { href, rel: "noreferrer noopener", target: "_blank" } : {};
}

function image(data, mimeType, label = ["Image"]) {
  if (!IMAGE.test(mimeType || "")) return framed(label, String(mimeType), download(data, mimeType));
  const shown = el("img", { src: `data:${mimeType};base64,${data}`, alt: `An image of type ${mimeType}, from the tool` });
  const size = el("span", { class: "soft small" });
  shown.addEventListener("load", () => { size.textContent = `${shown.naturalWidth} × ${shown.naturalHeight}`; });
  shown.addEventListener("error", () => { size.textContent = "This is no image that the browser can show."; });
  return framed(label, mimeType, shown, size);
}

function audio(data, mimeType, label = ["Audio"]) {
  if (!AUDIO.test(mimeType || "")) return framed(label, String(mimeType), download(data, mimeType));
  return framed(label, mimeType, el("audio", { controls: true, src: `data:${mimeType};base64,${data}` }));
}

function download(base64, mimeType) {
  const save = () => {
    const bytes = Uint8Array.from(atob(base64), (each) => each.charCodeAt(0));
    const address = URL.createObjectURL(new Blob([bytes], { type: "application/octet-stream" }));
    el("a", { href: address, download: "content.bin" }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };
  const size = Math.floor(((base64 || "").length * 3) / 4);
  return el("p", {}, `${size} bytes${mimeType ? ` of ${mimeType}` : ""} `, button("Save", save, "quiet slim"));
}

function link(block, read) {
  const uri = String(block.uri ?? "");
  const named = /^https?:/i.test(uri) ? el("a", linked(uri), uri) : el("code", {}, uri);
  const place = el("div", {});
  const open = async () => {
    place.replaceChildren(el("p", { class: "soft" }, "Reading…"));
    try {
      place.replaceChildren(...(await read(uri)).map(resource));
    } catch (problem) {
      place.replaceChildren(el("p", { class: "problem" }, problem.message));
    }
  };
  return framed(["Link to a resource"], block.mimeType, el("p", {}, el("strong", {}, block.title || block.name || ""), " ", named),
    block.description && el("p", { class: "soft" }, block.description), read && el("div", {}, button("Read it", open, "quiet slim")), place);
}

/** The result of tools/call. */
export function toolResult(result, read) {
  const content = Array.isArray(result.content) ? result.content : [];
  const same = content.some((each) => each.type === "text" && sameValue(parsed(each.text), result.structuredContent));
  const structured = result.structuredContent === undefined || same ? null
    : framed(["Structured content"], tree(result.structuredContent));
  const nothing = !content.length && !structured && el("p", { class: "soft" }, "The tool gave nothing.");
  return [...pieces(content, read), structured, nothing];
}

function sameValue(one, other) {
  return one !== undefined && JSON.stringify(one) === JSON.stringify(other);
}

/** The messages of a prompt. */
export function promptResult(result, read) {
  return (result.messages || []).map(({ role, content }) => el("div", { class: "piece" },
    el("header", {}, el("span", { class: "tag warm" }, role)), pieces(Array.isArray(content) ? content : [content], read)));
}

/** The contents of what was read. */
export function readResult(result) {
  return (result.contents || []).map(resource);
}


// Show the results of calls by content type. Text from servers stays text. The hub cleans Markdown and returns nodes.
// Images and audio are `data:` URLs. Links lead to http, https and mailto only.

import { hubPath } from "../paths.js";
import { button, el } from "./dom.js";
import { parseJson } from "./numbers.js";
import { tree } from "./tree.js";

const IMAGE = /^image\/[\w.+-]+$/;
const AUDIO = /^audio\/[\w.+-]+$/;
const MARKDOWN_TAGS = new Set(["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "code", "em",
  "strong", "s", "ul", "ol", "li", "a", "table", "thead", "tbody", "tr", "th", "td"]);

/** The hub renders Markdown up to this number of characters. */
const MAX_RENDERED_CHARACTERS = 100_000;

/** Make elements of content blocks. `read(uri)` reads the resource that a link names. */
export function contentBlocks(content, read) {
  return content.map((block) => contentBlock(block, read));
}

function contentBlock(block, read) {
  if (block.type === "text") return text(String(block.text ?? ""), null, ["Text"]);
  if (block.type === "image") return image(block.data, block.mimeType);
  if (block.type === "audio") return audio(block.data, block.mimeType);
  if (block.type === "resource") return resource(block.resource || {});
  if (block.type === "resource_link") return link(block, read);
  return frame(["Content of another type", String(block.type)], tree(block));
}

/** Make an element of the contents of a resource. */
export function resource({ uri, mimeType, text: source, blob }) {
  const name = uri ? ["Resource ", String(uri)] : ["Resource"];
  if (source !== undefined) return text(String(source), mimeType, name);
  if (IMAGE.test(mimeType || "")) return image(blob, mimeType, name);
  if (AUDIO.test(mimeType || "")) return audio(blob, mimeType, name);
  return frame(name, mimeType, download(blob, mimeType));
}

function frame(label, ...children) {
  const [first, ...rest] = children;
  const kind = typeof first === "string" ? el("span", { class: "tag" }, first) : null;
  const header = el("header", {}, blockTitle(label), kind);
  return el("div", { class: "piece" }, header, kind ? rest : children);
}

/** Make the title of a block: a word of the page, and the names that the server sent. */
function blockTitle([word, ...names]) {
  return [el("span", { class: "label" }, word), names.map((name) => el("code", {}, name))];
}

/** Show text, with buttons for other views: JSON as a tree, Markdown as the hub renders it. */
function text(source, mimeType, label) {
  const value = /^\s*[[{]/.test(source) ? parseJson(source) : undefined;
  const body = el("div", { class: "piece" }, el("pre", { tabindex: "0" }, source));
  const header = el("header", {}, blockTitle(label), mimeType && el("span", { class: "tag" }, mimeType));
  const views = { Text: () => el("pre", { tabindex: "0" }, source) };
  if (value !== undefined) views.JSON = () => tree(value);
  const short = source.length <= MAX_RENDERED_CHARACTERS;
  if (value === undefined && short && (mimeType === "text/markdown" || /(^|\n)#{1,6} |\n\n|\*\*|\]\(|^[-*] |`/.test(source))) {
    views.Markdown = () => markdown(source);
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

function markdown(source) {
  const place = el("div", { class: "markdown" }, el("p", { class: "soft" }, "…"));
  fetch(hubPath("/render/markdown"), { method: "POST", body: source, headers: { "Content-Type": "text/markdown" } })
    .then((response) => (response.ok ? response.json() : Promise.reject(new Error(`HTTP ${response.status}`))))
    .then(({ nodes }) => place.replaceChildren(...nodes.map(buildNode)),
      (problem) => place.replaceChildren(el("p", { class: "problem" }, `The hub could not render this: ${problem.message}`)));
  return place;
}

function buildNode(node) {
  if (typeof node === "string") return node;
  const [tag, attributes, children] = node;
  if (!MARKDOWN_TAGS.has(tag)) return el("span", {}, children.map(buildNode));
  // Headings of a result must not be headings of this page.
  const heading = /^h[1-6]$/.test(tag);
  const own = tag === "a" ? linkAttributes(attributes.href) : heading ? { class: "label" } : tag === "pre" ? { tabindex: "0" } : {};
  return el(heading ? "p" : tag, own, children.map(buildNode));
}

function linkAttributes(href) {
  return /^(https?|mailto):/i.test(href || "") ? { href, rel: "noreferrer noopener", target: "_blank" } : {};
}

function image(data, mimeType, label = ["Image"]) {
  if (!IMAGE.test(mimeType || "")) return frame(label, String(mimeType), download(data, mimeType));
  const shown = el("img", { src: `data:${mimeType};base64,${data}`, alt: `An image of type ${mimeType}, from the tool` });
  const size = el("span", { class: "soft small" });
  shown.addEventListener("load", () => { size.textContent = `${shown.naturalWidth} × ${shown.naturalHeight}`; });
  shown.addEventListener("error", () => { size.textContent = "The browser cannot show this image."; });
  return frame(label, mimeType, shown, size);
}

function audio(data, mimeType, label = ["Audio"]) {
  if (!AUDIO.test(mimeType || "")) return frame(label, String(mimeType), download(data, mimeType));
  return frame(label, mimeType, el("audio", { controls: true, src: `data:${mimeType};base64,${data}` }));
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
  const named = /^https?:/i.test(uri) ? el("a", linkAttributes(uri), uri) : el("code", {}, uri);
  const place = el("div", {});
  const open = async () => {
    place.replaceChildren(el("p", { class: "soft" }, "Reading…"));
    try {
      place.replaceChildren(...(await read(uri)).map(resource));
    } catch (problem) {
      place.replaceChildren(el("p", { class: "problem" }, problem.message));
    }
  };
  return frame(["Link to a resource"], block.mimeType, el("p", {}, el("strong", {}, block.title || block.name || ""), " ", named),
    block.description && el("p", { class: "soft" }, block.description), read && el("div", {}, button("Read", open, "quiet slim")), place);
}

/** Make elements of a result of tools/call. */
export function toolResult(result, read) {
  const content = Array.isArray(result.content) ? result.content : [];
  const same = content.some((each) => each.type === "text" && isSameValue(parseJson(each.text), result.structuredContent));
  const structured = result.structuredContent === undefined || same ? null
    : frame(["Structured content"], tree(result.structuredContent));
  const shown = raised(result._meta);
  const nothing = !content.length && !structured && el("p", { class: "soft" }, "The result is empty.");
  return [...contentBlocks(content, read), shown, structured, nothing];
}

/** Show what the code of the tool raised. The hub tells it to its operator only. */
function raised(meta) {
  const found = meta?.["io.patchbay/raised"];
  if (!Array.isArray(found) || !found.length) return null;
  const lines = found.flatMap(({ error, relation, frames }) => [
    relation ? `${relation}: ${error}` : String(error),
    ...frames.flatMap(({ file, line, function: name, text: code }) =>
      [`  ${file}, line ${line}${name ? `, in ${name}` : ""}`, ...(code ? [`    ${code}`] : [])]),
  ]);
  return frame(["What the code raised"], el("pre", { tabindex: "0" }, lines.join("\n")));
}

function isSameValue(one, other) {
  return one !== undefined && JSON.stringify(one) === JSON.stringify(other);
}

/** Make elements of the messages of a prompt. */
export function promptResult(result, read) {
  return (result.messages || []).map(({ role, content }) => el("div", { class: "piece" },
    el("header", {}, el("span", { class: "tag warm" }, role)), contentBlocks(Array.isArray(content) ? content : [content], read)));
}

/** Make elements of a result of resources/read. */
export function readResult(result) {
  return (result.contents || []).map(resource);
}


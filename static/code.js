// Line numbers and syntax colours for each `textarea[data-language]`. The textarea stays the field that the reader types
// in, with its own undo, search and keys; Tab leaves it, as in every form. Without this script it is a plain textarea.
// The colours lie below its transparent text. The hub makes them (`POST /render/code`): a changed line keeps the colours
// of its unchanged parts until the answer comes. The address `#L4` leads to line 4.

import { hubPath } from "./paths.js";

const PAUSE_MS = 150;
const MAX_COLOURED_CHARACTERS = 60000;

const sources = new Map();

/** Count the equal items at the beginning (or from the end) of two lists or texts, at most `most`. */
function countEqual(one, other, most, fromEnd = false) {
  let many = 0;
  while (many < most && (fromEnd ? one.at(-1 - many) === other.at(-1 - many) : one[many] === other[many])) many += 1;
  return many;
}

function makeElement(tag, className, ...children) {
  const node = document.createElement(tag);
  node.className = className;
  node.append(...children);
  return node;
}

/**
 * Put a textarea into a new frame, behind other elements. The browser takes the focus away from an element that moves;
 * a reader who typed before this script was loaded goes on typing at the same place.
 */
function surround(area, ...others) {
  const hadFocus = document.activeElement === area;
  const { selectionStart, selectionEnd, selectionDirection, scrollTop, scrollLeft } = area;
  const frame = makeElement("div", "code-area");
  area.replaceWith(frame);
  frame.append(...others, area);
  if (hadFocus) area.focus({ preventScroll: true });
  if (hadFocus) area.setSelectionRange(selectionStart, selectionEnd, selectionDirection);
  Object.assign(area, { scrollTop, scrollLeft });
}

/** Write a line as text nodes and coloured elements. The end of the line keeps an empty line as high as the others. */
function paint(row, pieces) {
  row.replaceChildren(...pieces.map(([kind, text]) => (kind ? makeElement("span", kind, text) : text)), "\n");
}

function readPieces(row) {
  return [...row.childNodes].slice(0, -1).map((node) => [node.className ?? "", node.textContent]);
}

/** The pieces between two places of a line. */
function slicePieces(pieces, start, end) {
  let at = 0;
  return pieces.map(([kind, text]) => {
    const part = text.slice(Math.max(0, start - at), Math.max(0, end - at));
    at += text.length;
    return [kind, part];
  }).filter(([, text]) => text);
}

class Source {
  constructor(area) {
    this.area = area;
    this.lines = [];
    this.rows = makeElement("code", "");
    this.numbers = makeElement("pre", "numbers");
    this.back = makeElement("pre", "back", this.rows);
    for (const part of [this.numbers, this.back]) part.setAttribute("aria-hidden", "true");
    surround(area, this.numbers, this.back);
    area.addEventListener("input", () => this.update());
    area.addEventListener("scroll", () => this.follow());
    area.addEventListener("keydown", (event) => this.indent(event));
    area.form?.addEventListener("reset", () => setTimeout(() => this.update()));
    this.update();
  }

  /** Show the text as it is now, and ask for its colours when the reader pauses. */
  update() {
    const text = this.area.value;
    const fresh = text.split("\n");
    if (fresh.length !== this.lines.length) this.numbers.textContent = fresh.map((_, index) => index + 1).join("\n");
    const isColoured = text.length <= MAX_COLOURED_CHARACTERS;
    this.area.parentNode.classList.toggle("coloured", isColoured);
    this.replaceLines(isColoured ? fresh : []);
    this.follow();
    clearTimeout(this.timer);
    if (isColoured && text) this.timer = setTimeout(() => this.colour(text), this.hasColours ? PAUSE_MS : 0);
  }

  replaceLines(fresh) {
    const old = this.lines;
    const most = Math.min(old.length, fresh.length);
    const first = countEqual(old, fresh, most);
    const last = countEqual(old, fresh, most - first, true);
    const both = most - first - last;
    for (let at = first; at < first + both; at += 1) this.replaceText(this.rows.children[at], old[at], fresh[at]);
    for (let many = old.length - most; many > 0; many -= 1) this.rows.children[first + both].remove();
    const added = fresh.slice(first + both, fresh.length - last).map((line) => {
      const row = makeElement("span", "row");
      paint(row, [["", line]]);
      return row;
    });
    const next = this.rows.children[first + both];
    if (next) next.before(...added);
    else this.rows.append(...added);
    this.lines = fresh;
  }

  /** Replace the text of a line; its equal beginning and end keep their colours. */
  replaceText(row, old, fresh) {
    const most = Math.min(old.length, fresh.length);
    const start = countEqual(old, fresh, most);
    const end = countEqual(old, fresh, most - start, true);
    const pieces = readPieces(row);
    const before = slicePieces(pieces, 0, start);
    const middle = [before.at(-1)?.[0] ?? "", fresh.slice(start, fresh.length - end)];
    paint(row, [...before, middle, ...slicePieces(pieces, old.length - end, old.length)].filter(([, text]) => text));
  }

  async colour(text) {
    const { language } = this.area.dataset;
    let lines;
    try {
      const answer = await fetch(hubPath(`/render/code${language ? `?language=${encodeURIComponent(language)}` : ""}`),
        { method: "POST", body: text, headers: { "Content-Type": "text/plain", Accept: "application/json" } });
      if (!answer.ok) return;
      ({ lines } = await answer.json());
    } catch {
      // The hub cannot be reached: the lines keep their colours, and the next key press asks again.
      return;
    }
    this.hasColours = true;
    // The reader may have typed meanwhile: only the colours of lines that are still the same count.
    lines.forEach((pieces, at) => {
      if (pieces.map(([, part]) => part).join("") === this.lines[at]) paint(this.rows.children[at], pieces);
    });
  }

  /** Scroll the colours and the numbers with the text. */
  follow() {
    const { scrollLeft, scrollTop } = this.area;
    Object.assign(this.back, { scrollLeft, scrollTop });
    this.numbers.scrollTop = scrollTop;
  }

  /** Enter begins a line with the indentation of the line before. */
  indent(event) {
    if (event.key !== "Enter" || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey || event.isComposing) return;
    const { value, selectionStart } = this.area;
    const [spaces] = /^[ \t]*/.exec(value.slice(value.lastIndexOf("\n", selectionStart - 1) + 1, selectionStart));
    // The command keeps the undo of the browser. A browser without it begins the line without indentation.
    if (spaces && document.execCommand("insertText", false, `\n${spaces}`)) event.preventDefault();
  }

  /** Put the caret at the beginning of a line, mark the line and show it. */
  goTo(line) {
    const lines = this.area.value.split("\n");
    const number = Math.min(Math.max(1, line), lines.length);
    const start = lines.slice(0, number - 1).reduce((sum, each) => sum + each.length + 1, 0);
    this.rows.querySelector(".marked")?.classList.remove("marked");
    this.rows.children[number - 1]?.classList.add("marked");
    this.area.focus();
    this.area.setSelectionRange(start, start);
    const height = parseFloat(getComputedStyle(this.area).lineHeight);
    this.area.scrollTop = Math.max(0, (number - 1) * height - this.area.clientHeight / 3);
    this.area.scrollLeft = 0;
    this.follow();
  }
}

/** Put the caret of a textarea at the beginning of a line, from 1, and mark the line. */
export function goToLine(area, line) {
  sources.get(area)?.goTo(line);
}

function followAddress() {
  const line = /^#L(\d{1,7})$/.exec(location.hash)?.[1];
  const [first] = sources.keys();
  if (!line || !first) return;
  const folded = first.closest("details");
  if (folded) folded.open = true;
  goToLine(first, Number(line));
}

for (const area of document.querySelectorAll("textarea[data-language]")) sources.set(area, new Source(area));
addEventListener("hashchange", followAddress);
followAddress();

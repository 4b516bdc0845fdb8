// Show a JSON value as a tree with entries that open and close.

import { button, el } from "./dom.js";
import { asText, isRaw } from "./numbers.js";

const ENTRIES_PER_STEP = 100;

/** Make the tree of a value; objects and arrays with few entries are open. */
export function tree(value) {
  return el("ul", { class: "tree" }, entry(null, value, 0));
}

function entry(name, value, depth) {
  const key = name === null ? null : [el("span", { class: "key" }, name), ": "];
  if (typeof value !== "object" || value === null || isRaw(value)) return el("li", {}, key, leaf(value));
  const pairs = Array.isArray(value) ? value.map((each, index) => [String(index), each]) : Object.entries(value);
  const shape = Array.isArray(value) ? `[${pairs.length}]` : `{${pairs.length}}`;
  if (!pairs.length) return el("li", {}, key, Array.isArray(value) ? "[]" : "{}");
  const inside = el("ul", { class: "tree" });
  const open = depth < 3 && pairs.length <= 30;
  const details = el("details", { open }, el("summary", {}, key, el("span", { class: "soft" }, shape)), inside);
  const fill = () => inside.childElementCount || addEntries(inside, pairs, depth, 0);
  if (open) fill();
  details.addEventListener("toggle", fill);
  return el("li", {}, details);
}

function addEntries(list, pairs, depth, from) {
  list.append(...pairs.slice(from, from + ENTRIES_PER_STEP).map(([name, value]) => entry(name, value, depth + 1)));
  const left = pairs.length - from - ENTRIES_PER_STEP;
  if (left <= 0) return;
  const more = el("li", {}, button(`${left} more`, () => {
    more.remove();
    addEntries(list, pairs, depth, from + ENTRIES_PER_STEP);
  }, "quiet slim"));
  list.append(more);
}

function leaf(value) {
  return typeof value === "string" ? el("span", { class: "text" }, JSON.stringify(value)) : asText(value);
}

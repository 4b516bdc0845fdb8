// Elements from names, attributes and text. What is foreign gets onto a page through here: as text, never as markup.

/** An element. Attributes that are null, undefined or false are left out; `onclick` and the like are listeners. */
export function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function button(label, onclick, className = "quiet") {
  return el("button", { type: "button", class: className, onclick }, label);
}

/** Text in a frame with a button that copies it. */
export function copyable(text, label) {
  const pre = el("pre", { tabindex: "0", "aria-label": label }, el("code", {}, text));
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(pre.textContent);
      copy.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(pre);
      copy.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { copy.textContent = "Copy"; }, 2000);
  });
  return el("div", { class: "copy" }, pre, copy);
}

let last = 0;

/** A name for an element that nothing else on the page has. */
export function fresh(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/** Milliseconds as people read them. */
export function took(ms) {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

/** Whether a whole number, as it is written, is beyond what JavaScript counts exactly. */
function isMiscounted(source) {
  return /^-?\d+$/.test(source) && !Number.isSafeInteger(Number(source)) && String(Number(source)) !== source;
}

/** The first number of a JSON text that this page cannot keep as it is written, or undefined. */
export function miscounted(text) {
  let found;
  JSON.parse(text, (_, value, told) => {
    if (typeof value === "number" && told && isMiscounted(told.source)) found ??= told.source;
    return value;
  });
  return found;
}

export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

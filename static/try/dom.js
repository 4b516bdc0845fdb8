// Build elements from names, attributes and text. Text from servers becomes text nodes, never markup.

/** Make an element. Skip attributes that are null, undefined or false; attributes such as `onclick` become listeners. */
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

/** Make a block of text with a button that copies it. */
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

let lastId = 0;

/** Make an element id that is unique on this page. */
export function uniqueId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}

/** Format milliseconds for people. */
export function formatDuration(ms) {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(ms < 10000 ? 2 : 1)} s`;
}

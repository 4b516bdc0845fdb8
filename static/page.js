// What every page has: times in the time zone of the reader, and the key "/", which goes to the search of the page.
// Without this script times are in UTC.

const FORMAT = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

function localize(place) {
  for (const time of place.querySelectorAll("time[data-local]")) {
    const shown = FORMAT.format(new Date(time.dateTime));
    time.title = time.textContent;
    time.textContent = shown;
    time.removeAttribute("data-local");
  }
}

localize(document);
// Pages with live parts replace them.
new MutationObserver((changes) => changes.forEach((change) => change.addedNodes.forEach((node) => {
  if (node.nodeType === Node.ELEMENT_NODE) localize(node);
}))).observe(document.body, { childList: true, subtree: true });

document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, textarea, select, [contenteditable]")) return;
  const search = document.querySelector("[data-narrow] input") ?? document.querySelector(".find input");
  if (!search?.checkVisibility()) return;
  event.preventDefault();
  search.focus();
  search.select();
});

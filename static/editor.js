// Show a preview of a definition while the operator edits it. Without this script the button "Check" does the same.
// The script sends the form, and copies the preview from the page that the hub returns. The definition does not run.
import { goToLine } from "./code.js";

const form = document.querySelector("form[data-editor]");
const area = form.querySelector("textarea");
let lastCheck = 0;
let timer;

async function updatePreview() {
  const check = ++lastCheck;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("action", "check");
  const preview = document.getElementById("preview");
  preview.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: fields, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("preview");
    if (check === lastCheck && fresh) preview.replaceChildren(...fresh.children);
  } catch {
    // The hub cannot be reached: the old preview stays, and the next key press starts another check.
  }
  if (check === lastCheck) preview.removeAttribute("aria-busy");
}

function schedulePreview() {
  clearTimeout(timer);
  timer = setTimeout(updatePreview, 300);
}

if (form.querySelector("button")) {
  area.addEventListener("input", schedulePreview);
  form.elements.name?.addEventListener("input", schedulePreview);
  // The user, or the browser after a reload, was faster than this script.
  if (area.value !== area.defaultValue) schedulePreview();
}
document.getElementById("preview").addEventListener("click", (event) => {
  const link = event.target.closest("[data-line]");
  if (!link) return;
  event.preventDefault();
  goToLine(area, Number(link.dataset.line));
});

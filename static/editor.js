// Shows what a definition would list while it is written. Without this script the button "Check" does the same.
// The hub answers with the page it would show; the part about the preview is taken over, and nothing in it runs.
const form = document.querySelector("form[data-editor]");
const area = form.querySelector("textarea");
let asked = 0;
let timer;

async function look() {
  const mine = ++asked;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("action", "check");
  const place = document.getElementById("preview");
  place.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: fields, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const seen = page.getElementById("preview");
    if (mine === asked && seen) place.replaceChildren(...seen.children);
  } catch {
    // The hub cannot be reached: what is shown stays, and the next key tries again.
  }
  if (mine === asked) place.removeAttribute("aria-busy");
}

function later() {
  clearTimeout(timer);
  timer = setTimeout(look, 300);
}

function goTo(line) {
  const lines = area.value.split("\n");
  const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
  area.focus();
  area.setSelectionRange(start, start + (lines[line - 1] ?? "").length);
}

if (form.querySelector("button")) {
  area.addEventListener("input", later);
  form.elements.name?.addEventListener("input", later);
}
document.getElementById("preview").addEventListener("click", (event) => {
  const link = event.target.closest("[data-line]");
  if (!link) return;
  event.preventDefault();
  goTo(Number(link.dataset.line));
});

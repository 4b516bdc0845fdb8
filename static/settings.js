// Keep the form for the settings of a server and its text the same document while the operator changes one of them.
// Without this script the button "Check" does the same: the hub puts both together, and this script copies its page.

const form = document.querySelector("form[data-settings]");
let lastCheck = 0;
let timer;

async function update() {
  const check = ++lastCheck;
  const fields = new URLSearchParams(new FormData(form));
  fields.set("action", "check");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: fields, headers: { Accept: "text/html" } });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("form[data-settings]");
    if (check !== lastCheck || !fresh) return;
    for (const part of form.querySelectorAll("[data-part]")) {
      const next = fresh.querySelector(`[data-part="${CSS.escape(part.dataset.part)}"]`);
      if (!next || part.isEqualNode(next)) continue;
      // The place that is being typed in stays as it is.
      if (part.contains(document.activeElement)) keep(part, next);
      else part.replaceWith(document.adoptNode(next));
    }
  } catch {
    // The hub cannot be reached: both stay as they are, and the next change asks again.
  }
}

/** Take over from a part that has the focus only what the reader does not type in: the text that the fields were made of. */
function keep(part, next) {
  const shown = part.querySelector("[name=shown]");
  if (shown) shown.value = next.querySelector("[name=shown]").value;
}

function schedule(event) {
  clearTimeout(timer);
  timer = setTimeout(update, event.target.id === "text" ? 600 : 0);
}

form?.addEventListener("change", schedule);
form?.addEventListener("input", (event) => { if (event.target.id === "text") schedule(event); });

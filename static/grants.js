// The table of rights on /access changes without a new page. Each button is a submit button of the form, which the hub
// answers with a whole page; this module takes the changed parts out of it. Without it the browser loads that page.

const form = document.getElementById("grants");
const PARTS = ["answer", "table", "changes"];

/** Send the form with a button, and show the parts of the answer; false when the answer is another page. */
async function press(button) {
  const data = new URLSearchParams(new FormData(form, button));
  // A field named `action` hides the property of this name.
  const answer = await fetch(form.getAttribute("action"), { method: "POST", body: data, headers: { Accept: "text/html" } });
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  const isHere = Boolean(fresh.getElementById("grants"));
  if (isHere) show(fresh, button);
  return isHere;
}

function show(fresh, button) {
  fresh.querySelector("[autofocus]")?.removeAttribute("autofocus");
  for (const id of PARTS) document.getElementById(id).replaceChildren(...fresh.getElementById(id).childNodes);
  for (const hidden of form.querySelectorAll("input[type=hidden]")) {
    const next = fresh.querySelector(`#grants input[type=hidden][name="${hidden.name}"]`);
    if (next) hidden.value = next.value;
  }
  const area = document.getElementById("source");
  const text = fresh.getElementById("source").value;
  if (area.value !== text) {
    area.value = text;
    area.dispatchEvent(new Event("input"));
  }
  [...form.querySelectorAll("button[name=do]")].find((each) => each.value === button.value)?.focus({ preventScroll: true });
}

let isBusy = false;
let isNative = false;

form.addEventListener("submit", async (event) => {
  const button = event.submitter;
  if (isNative || button?.name !== "do") return;
  event.preventDefault();
  if (isBusy) return;
  isBusy = true;
  form.setAttribute("aria-busy", "true");
  const isShown = await press(button).catch(() => false);
  form.removeAttribute("aria-busy");
  isBusy = false;
  if (isShown) return;
  isNative = true; // the browser shows the answer, or says that the hub cannot be reached
  form.requestSubmit(button);
  isNative = false;
});

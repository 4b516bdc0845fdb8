// The price of a toolset, and the way that its list is offered, follow its form while a person ticks tools and shapes
// them. The hub computes both, or says that the form has a fault: without this script, the button *Check* shows the same.

const form = document.querySelector("form.toolset");
const price = document.getElementById("price");
let newest = 0;

/** Ask the hub what the list of the form would cost, and show the answer to the newest question only. */
async function update() {
  newest += 1;
  const mine = newest;
  const data = new FormData(form); // with the file of a script
  data.set("action", "check");
  // A field named `action` hides the property of this name.
  const answer = await fetch(form.getAttribute("action"), { method: "POST", body: data, headers: { Accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const fresh = page.getElementById("price");
  if (mine !== newest || !fresh) return;
  price.textContent = fresh.textContent;
  const ways = document.getElementById("scripts");
  if (!ways.contains(document.activeElement)) ways.replaceWith(page.getElementById("scripts"));
  const offered = "input[name=scripts-offered]";
  form.querySelector(offered).value = page.querySelector(offered).value;
}

form.addEventListener("change", (event) => {
  if (event.target.type === "search" || event.target.name.startsWith("arguments:")) return;
  update().catch(() => {}); // without an answer of the hub, the price of before stays
});

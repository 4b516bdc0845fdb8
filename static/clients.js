// The client that the reader chose before, by its button "Copy" or "Add to", comes first in each list of clients.

const CHOSEN = "patchbay.client";

function remember(row) {
  try {
    localStorage.setItem(CHOSEN, row.querySelector("h3").textContent);
  } catch {
    // The browser keeps nothing for this page.
  }
}

function putChosenFirst(clients) {
  let chosen = null;
  try {
    chosen = localStorage.getItem(CHOSEN);
  } catch {
    return;
  }
  const [first, others] = clients.querySelectorAll(".lines");
  const row = [...(others?.children ?? [])].find((each) => each.querySelector("h3").textContent === chosen);
  if (!row) return;
  others.prepend(first.firstElementChild);
  first.append(row);
}

for (const clients of document.querySelectorAll(".clients")) {
  putChosenFirst(clients);
  // The buttons that copy are added by another script.
  clients.addEventListener("click", (event) => {
    const row = event.target.closest("button, a.button")?.closest(".lines > li");
    if (row) remember(row);
  });
}

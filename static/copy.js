// Add a "Copy" button to every element with `data-copy`. Without this script the text can be selected.
// The client that the reader chose before, by its button "Copy" or "Add to", comes first in each list of clients.

const CHOSEN = "patchbay.client";

function findRow(element) {
  return element.closest(".clients .lines > li");
}

function remember(row) {
  try {
    if (row) localStorage.setItem(CHOSEN, row.querySelector("h3").textContent);
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
  for (const link of clients.querySelectorAll("a.button")) link.addEventListener("click", () => remember(findRow(link)));
}

for (const block of document.querySelectorAll("[data-copy]")) {
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Copy";
  button.addEventListener("click", async () => {
    remember(findRow(block));
    try {
      await navigator.clipboard.writeText(block.querySelector("pre").textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(block.querySelector("pre"));
      button.textContent = "Press Ctrl+C";
    }
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  });
  block.append(button);
}

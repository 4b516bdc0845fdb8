// The page of a server with many entries: the list on the left chooses the entry on the right, and a search narrows the
// list while the reader types. Without this script the list has links, and the form of the search asks the hub.

const page = document.querySelector(".master");
const list = page?.querySelector(".contents");
const isWide = matchMedia("(min-width: 64rem)");

let chosen = null;

/** Show one entry alone. */
function choose(item) {
  chosen = item;
  for (const other of page.querySelectorAll(".item")) other.open = other === item;
  for (const link of list.querySelectorAll("li a")) {
    link.toggleAttribute("aria-current", Boolean(item) && link.hash === `#${item.querySelector(".inside").id}`);
  }
}

/** Hide the links and entries whose names do not contain every word of the search, and the headings without links. */
function narrow(words) {
  for (const item of page.querySelectorAll(".item")) {
    const name = item.querySelector("h3").textContent.toLowerCase();
    item.hidden = item !== chosen && !words.every((word) => name.includes(word));
  }
  for (const group of list.querySelectorAll("ul")) {
    if (group.previousElementSibling?.className !== "label") continue;
    for (const row of group.children) row.hidden = !words.every((word) => row.textContent.toLowerCase().includes(word));
    const empty = [...group.children].every((row) => row.hidden);
    group.hidden = empty;
    group.previousElementSibling.hidden = empty;
  }
}

function setUp() {
  const search = list.querySelector("[data-narrow] input");
  search.addEventListener("input", () => narrow(search.value.toLowerCase().split(/\s+/).filter(Boolean)));
  list.addEventListener("click", (event) => {
    const item = event.target.closest("li a") && document.getElementById(event.target.hash.slice(1))?.closest(".item");
    if (item && isWide.matches) choose(item);
  });
  page.addEventListener("toggle", ({ target }) => {
    // The event comes later than the change, so an entry that was chosen since then stays.
    if (target.matches(".item") && target.open && target !== chosen && isWide.matches) choose(target);
  }, true);
  // The chosen entry stays open: closed, it would leave an empty page.
  page.addEventListener("click", (event) => {
    if (event.target.closest(".item[open] > summary") && page.classList.contains("picking")) event.preventDefault();
  });
  const update = () => {
    page.classList.toggle("picking", isWide.matches);
    const named = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest(".item");
    if (isWide.matches) choose(named ?? page.querySelector(".item[open]") ?? page.querySelector(".item"));
  };
  isWide.addEventListener("change", update);
  update();
}

if (page && list.querySelector("[data-narrow]")) setUp();

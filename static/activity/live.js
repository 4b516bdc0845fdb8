// The page of activity shows new calls as they end.

import { follow } from "../live.js";

const panel = document.querySelector("[data-live]");

if (!panel.hidden) {
  follow(
    panel,
    ["running", "plots", "calls", "tools"],
    { calls: (calls) => calls.length, skipped: (count) => count, running: () => 0 },
    {
      live: "Live: new calls appear here as they end.",
      full: "Not live: too many streams are open on the hub. Reload the page later.",
      news: (count) => `Live: ${count} ${count === 1 ? "call" : "calls"} since you opened this page.`,
    },
  );
}

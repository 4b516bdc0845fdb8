// The page of a room shows new entries of its log, and who and what is there, as they come.

import { follow } from "../live.js";

const panel = document.querySelector("[data-live]");

if (!panel.hidden) {
  let last = Number(panel.dataset.seq);
  follow(
    panel,
    ["now", "members", "tools", "lanes", "log"],
    { entries: (seq) => { const count = seq - last; last = seq; return count; } },
    {
      live: "Live: new entries appear here as they come.",
      full: "Not live: too many streams are open on the hub. Reload the page later.",
      news: (count) => `Live: ${count} new ${count === 1 ? "entry" : "entries"} since you opened this page.`,
    },
    location.pathname,
  );
}

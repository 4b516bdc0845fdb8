// The home page shows calls that wait for an approval as soon as they wait.

import { follow } from "./live.js";

const panel = document.querySelector("[data-live]");

if (panel) {
  follow(
    panel,
    ["now"],
    { approvals: (count) => count },
    {
      live: "Live: calls that wait for your approval appear here.",
      full: "Not live: too many streams are open on the hub. Reload the page later.",
      news: () => "Live: calls that wait for your approval appear here.",
    },
  );
}

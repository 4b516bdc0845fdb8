// The home page shows what needs attention as soon as it does. The browser notifies of calls that wait for an approval, if the
// operator has asked for it with the button: browsers refuse a question that no press of a button has caused.

import { follow } from "./live.js";
import { button } from "./try/dom.js";

const LIVE = "Live: what needs your attention appears here.";
const panel = document.querySelector("[data-live]");

function offerNotifications() {
  if (!("Notification" in globalThis) || Notification.permission !== "default") return;
  const offer = button("Notify me of approvals", async () => {
    const answer = await Notification.requestPermission();
    offer.remove();
    if (answer === "denied") panel.querySelector("[role=status]").textContent = `${LIVE} This browser does not notify.`;
  }, "quiet slim");
  panel.append(offer);
}

function notify(known) {
  const calls = [...document.querySelectorAll("#now [data-call]")];
  for (const call of calls.filter((each) => !known.has(each.dataset.call))) {
    known.add(call.dataset.call);
    if (globalThis.Notification?.permission !== "granted" || document.hasFocus()) continue;
    const note = new Notification("A call waits for your approval", { body: call.querySelector(".ask").textContent.trim(), tag: call.dataset.call });
    note.addEventListener("click", () => { focus(); note.close(); });
  }
}

if (panel) {
  const known = new Set([...document.querySelectorAll("#now [data-call]")].map((each) => each.dataset.call));
  follow(
    panel,
    ["now"],
    { approvals: (count) => count, attention: (count) => count },
    {
      live: LIVE,
      full: "Not live: too many streams are open on the hub. Reload the page later.",
      news: () => { notify(known); return LIVE; },
    },
  );
  offerNotifications();
}

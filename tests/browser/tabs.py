"""A tab of a real browser on a page of the hub, and what a person does there: open, fill in, call, read what came."""

from __future__ import annotations

import json
import os
import shutil
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Locator, Page, Playwright, expect

from tests.serving.running import Hub

BOUND = 60_000
"""Milliseconds that any wait of these tests may take."""

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""The first is the same without windows, and takes half the time."""

REPORT = """addEventListener("securitypolicyviolation", (event) => {
  console.error(`the policy forbade ${event.violatedDirective}: ${event.blockedURI} ${event.sample}`);
});"""

PASTE = """(field, text) => {
  const data = new DataTransfer();
  data.setData("text/plain", text);
  field.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true }));
}"""
"""Paste a text of several lines into a field of one line, which then has several."""

REVISIONS = ("2025-11-25", "2026-07-28")


def launched(playwright: Playwright, *arguments: str) -> Browser:
    """Chromium, as scripts/peers installs it, with more arguments of its own."""
    program = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert program, "Chromium is missing; scripts/peers installs it"
    own = ["--no-sandbox"] if os.geteuid() == 0 else []
    return playwright.chromium.launch(executable_path=program, args=[*own, *arguments])


JSON_TYPES = {dict: "object", list: "array", str: "string", int: "integer", float: "number"}
"""The names of the alternatives of a field that takes several types."""


class Tab:
    """One tab. `faults` are errors on its console, errors of its scripts, violations of its policy, and dialogs.

    They are those of the hub's pages: what the page of another program says, such as the address to which an OAuth
    client has the browser sent back, is not the hub's.
    """

    def __init__(self, browser: Browser, base: str, **options: Any) -> None:
        self.base = base
        self.faults: list[str] = []
        self.context = browser.new_context(**options)
        self.context.set_default_timeout(BOUND)
        self.context.add_init_script(REPORT)
        self.page: Page = self.context.new_page()
        self.page.on("console", self._record_console)
        self.page.on("pageerror", self._record_error)
        self.page.on("dialog", self._dismiss)

    def _record_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and self._shows_hub():
            self.faults.append(f"console: {message.text} at {message.location.get('url')}")

    def _record_error(self, problem: Error) -> None:
        if self._shows_hub():
            self.faults.append(f"error: {problem}")

    def _shows_hub(self) -> bool:
        """Return False while the tab shows a page of another program, that is, of another port."""
        shown = urlsplit(self.page.url)
        return shown.scheme not in ("http", "https") or shown.port == urlsplit(self.base).port

    def _dismiss(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def refused(self, status: int) -> None:
        """Take note that the endpoint refused something, which Chromium writes to its console; it has to be there."""
        found = [fault for fault in self.faults if f"status of {status}" in fault and "/mcp/" in fault]
        assert found, f"nothing was refused with {status}: {self.faults}"
        self.faults = [fault for fault in self.faults if fault not in found]

    def close(self) -> None:
        self.context.close()
        assert self.faults == []

    def log_in(self, hub: Hub) -> Tab:
        """Open a link that makes this browser the operator's."""
        self.open(hub.login_path())
        return self

    def open(self, path: str) -> Page:
        """Load a page."""
        answer = self.page.goto(self.base + path)
        assert answer is not None and answer.status == 200, path
        return self.page

    def item(self, server: str, name: str) -> Trial:
        """The opened descriptor of a server's page; loads the page when it is another one."""
        if self.page.url.partition("#")[0] != f"{self.base}/servers/{server}":
            self.open(f"/servers/{server}")
        self.page.wait_for_load_state("load")  # the script may open an entry
        heading = self.page.locator("summary h3").get_by_text(name, exact=True)
        item = self.page.locator("details.item").filter(has=heading)
        if item.get_attribute("open") is None:
            listed = self.page.locator(".master.picking .contents li a").get_by_text(name, exact=True)
            (listed if listed.count() else item.locator("summary")).first.click()
        expect(item.locator("[data-entry]")).to_have_count(0, timeout=BOUND)
        return Trial(item)


class Trial:
    """What can be tried in one descriptor."""

    def __init__(self, item: Locator) -> None:
        self.item = item
        self.ran = item.locator(".try > .ran")
        self.state = self.ran.get_by_role("status")

    def choose(self, revision: str) -> None:
        self.item.get_by_label("Protocol", exact=True).select_option(revision)

    def fill(self, **values: Any) -> None:
        """Fill in fields by the names of the arguments; write values other than text as JSON."""
        fill(self.item.locator(".try form").first, values)

    def start(self) -> None:
        """Press the button; waits until the run is shown."""
        self.item.locator(".try form").first.locator(".actions > button").first.click()
        expect(self.state).to_be_visible(timeout=BOUND)

    def ended(self, state: str = "Done") -> Any:
        """Wait for the end; answers the result that went over the wire."""
        expect(self.state).to_have_text(state, timeout=BOUND)
        return self.result()

    def call(self, state: str = "Done", **values: Any) -> Any:
        """Fill in, press, wait; answers the result."""
        self.fill(**values)
        self.start()
        return self.ended(state)

    def messages(self) -> list[dict[str, Any]]:
        """The JSON messages that came in, as the page shows them."""
        shown = self.ran.locator(".wire .in pre").all_text_contents()
        return [json.loads(each.partition("\n\n")[2]) for each in shown if each.partition("\n\n")[2]]

    def result(self) -> Any:
        """The last message with a result of substance, or the last error."""
        found = [
            each.get("result", each.get("error")) for each in self.messages() if "result" in each or "error" in each
        ]
        return found[-1] if found else None

    def shown(self) -> str:
        """What the page shows as the answer."""
        return self.ran.locator(".answer").inner_text()

    def question(self) -> Locator:
        """The question that the tool asks; waits for it."""
        found = self.ran.locator(".question").first
        expect(found).to_be_visible(timeout=BOUND)
        return found

    def reply(self, button: str, **values: Any) -> None:
        """Answer the question that is asked, which then goes away."""
        asked = self.question()
        handle = asked.element_handle()
        fill(asked, values)
        asked.get_by_role("button", name=button).click()
        handle.wait_for_element_state("hidden")


def fill(form: Locator, values: dict[str, Any]) -> None:
    """Fill in fields by their names."""
    for name, value in values.items():
        place = form.locator(f'[data-name="{name}"]').first
        control = place.locator("input, select, textarea").first
        if (control.get_attribute("aria-label") or "").endswith(": type of value"):
            control.select_option(label=JSON_TYPES[type(value)])
            control = place.locator(f'[data-name="{name}"]').locator("input, select, textarea").first
        if control.evaluate("each => each.localName") == "select":
            control.select_option(label=value)
        elif control.get_attribute("type") == "checkbox":
            control.set_checked(value)
        else:
            text = control.evaluate("each => each.placeholder === 'JSON'")
            typed = json.dumps(value) if text or not isinstance(value, str) else value
            is_line = control.evaluate("each => each.localName === 'input'")
            if is_line and "\n" in typed:
                control.fill("")
                control.evaluate(PASTE, typed)
            else:
                control.fill(typed)

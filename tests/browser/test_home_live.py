"""The home page in a real browser: what needs attention appears by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, expect

from tests.browser.tabs import BOUND, Tab
from tests.hubs import modern_request
from tests.serving.running import Hub, running
from tests.waiting import until

pytestmark = pytest.mark.browser

SAFE = 'def open_safe(reason: str) -> str:\n    """Open it."""\n    return "opened: " + reason\n'

DESKTOP = """
globalThis.shown = [];
globalThis.isAway = true;
Document.prototype.hasFocus = () => !globalThis.isAway;
globalThis.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() { return (this.permission = globalThis.answer ?? "granted"); }
  constructor(title, options) { super(); globalThis.shown.push([title, options.body, options.tag]); }
  close() {}
};
"""
"""The desktop of the reader, whom a browser without windows neither asks nor notifies: it always denies.

The reader looks elsewhere (`isAway`), allows notifications, and gets those in `shown`.
"""


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Path]]:
    folder = tmp_path_factory.mktemp("guarded")
    servers = folder / "servers"
    servers.mkdir()
    (servers / "safe.py").write_text(SAFE)
    (servers / "safe.mcp.json").write_text(json.dumps({"tools": {"open_safe": {"approve": True}}}))
    with running(folder) as hub:
        yield hub, servers
        assert hub.end() == 0


def test_a_server_that_breaks_appears_and_goes_without_a_reload(browser: Browser, guarded: tuple[Hub, Path]) -> None:
    hub, servers = guarded
    tab = Tab(browser, f"http://127.0.0.1:{hub.port}")
    tab.log_in(hub)
    page = tab.open("/")
    expect(page.locator(".watching [role=status]")).to_contain_text("Live", timeout=BOUND)
    (servers / "tides.py").write_text("def x(:\n")
    expect(page.locator("#now").get_by_role("link", name="tides")).to_be_visible(timeout=BOUND)
    (servers / "tides.py").unlink()
    expect(page.locator("#now").get_by_role("link", name="tides")).to_have_count(0, timeout=BOUND)
    tab.close()


def ask_for_the_safe(hub: Hub, reason: str) -> None:
    """A program calls a tool that needs an approval, and waits for it."""
    params = {"name": "open_safe", "arguments": {"reason": reason}}
    message, headers = modern_request("tools/call", params, {"elicitation": {"form": {}}})
    headers = {**headers, "Accept": "application/json, text/event-stream"}
    url = f"http://127.0.0.1:{hub.port}/mcp/safe"
    answer = httpx2.post(url, json=message, headers=headers, timeout=BOUND / 1000)
    assert "inputRequests" in answer.raise_for_status().json()["result"]


def opened_home(browser: Browser, hub: Hub) -> Tab:
    tab = Tab(browser, f"http://127.0.0.1:{hub.port}")
    tab.context.add_init_script(DESKTOP)
    tab.log_in(hub).open("/")
    expect(tab.page.locator(".watching [role=status]")).to_contain_text("Live", timeout=BOUND)
    return tab


def waiting(tab: Tab, reason: str) -> Locator:
    """The call with this argument on the page."""
    return tab.page.locator("#now [data-call]").filter(has_text=reason)


def test_the_browser_notifies_once_of_each_call_that_waits_when_the_reader_looks_elsewhere(
    browser: Browser, guarded: tuple[Hub, Path]
) -> None:
    """Issue 53, item 4: asked for once, with a button."""
    tab = opened_home(browser, guarded[0])
    page = tab.page
    ask_for_the_safe(guarded[0], "before the reader allows it")
    expect(waiting(tab, "before the reader allows it")).to_be_visible(timeout=BOUND)
    assert page.evaluate("shown") == []
    page.get_by_role("button", name="Notify me of approvals").click()
    expect(page.get_by_role("button", name="Notify me of approvals")).to_have_count(0)
    ask_for_the_safe(guarded[0], "the key is lost")
    until(lambda: len(page.evaluate("shown")) == 1)
    ask_for_the_safe(guarded[0], "the key is found")
    until(lambda: len(page.evaluate("shown")) == 2)
    sentence = "This machine wants to run open_safe of safe with:"
    told = page.evaluate("shown")
    assert [each[:2] for each in told] == [["A call waits for your approval", sentence]] * 2
    assert [each[2] for each in told] == [
        waiting(tab, reason).get_attribute("data-call") for reason in ("the key is lost", "the key is found")
    ]
    page.evaluate("isAway = false")
    ask_for_the_safe(guarded[0], "the reader looks at the page")
    expect(waiting(tab, "the reader looks at the page")).to_be_visible(timeout=BOUND)
    assert len(page.evaluate("shown")) == 2
    tab.close()


def test_a_reader_who_allows_no_notifications_is_not_asked_again(browser: Browser, guarded: tuple[Hub, Path]) -> None:
    """Issue 53, item 4."""
    tab = opened_home(browser, guarded[0])
    tab.page.evaluate("answer = 'denied'")
    tab.page.get_by_role("button", name="Notify me of approvals").click()
    expect(tab.page.get_by_role("button", name="Notify me of approvals")).to_have_count(0)
    expect(tab.page.locator(".watching [role=status]")).to_contain_text("This browser does not notify.")
    ask_for_the_safe(guarded[0], "nothing is shown")
    expect(waiting(tab, "nothing is shown")).to_be_visible(timeout=BOUND)
    assert tab.page.evaluate("shown") == []
    tab.close()

"""The pages of servers in each state, the pages of errors, and the main work on them with the keyboard alone."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.keyboard import press, step_to
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import SIZES, violations
from tests.checkout import ROOT
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

FILES = {
    "hello.py": (ROOT / "servers/hello.py").read_text(),
    "broken.py": '"""Broken."""\n\n\ndef x(:\n    pass\n',
    "empty.py": '"""A server without tools."""\n',
    "idle.py": 'def ring() -> str:\n    """Ring."""\n    return "ding"\n',
    "idle.mcp.json": json.dumps({"enabled": False, "auto_discover": True}),
    "gone.json": json.dumps({"kind": "documents", "root": "/absent/folder"}),
    "far.json": json.dumps({"kind": "upstream", "address": "http://127.0.0.1:1/mcp"}),
    "words.json": "{",
}
PART = '\n\ndef part() -> str:\n    """Say goodbye."""\n    return "bye"\n'
STATES = ("hello", "broken", "empty", "idle", "gone", "far", "words")
TABS = ("", "/source", "/settings")
MORE = ("/servers/new?kind=shell", "/servers/new?kind=static", "/servers/gone/documents")
ERRORS = (
    *("/absent", "/servers/absent", "/rooms/absent", "/variables/absent", "/activity/absent", "/cid/absent"),
    *("/pins/absent", "/history/compare?old=a&new=b", "/upstreams/hello", "/mcp/meta/absent"),
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("states")
    (folder / "servers").mkdir()
    for name, text in FILES.items():
        (folder / "servers" / name).write_text(text)
    with running(folder) as hub:
        yield hub
        assert hub.end() == 0


@pytest.fixture
def base(hub: Hub) -> str:
    return f"http://127.0.0.1:{hub.port}"


@pytest.mark.parametrize("size", SIZES)
def test_no_state_of_a_server_and_no_error_has_a_violation(browser: Browser, hub: Hub, base: str, size: str) -> None:
    """Issue 17: WCAG 2.2 AA; nothing is wider than a phone; each page of an error leads on."""
    tab = Tab(browser, base, viewport=SIZES[size], bypass_csp=True).log_in(hub)
    page = tab.page
    states = [f"/servers/{name}{part}" for name in STATES for part in TABS]
    for path in ("/", "/servers", *states, *MORE, *ERRORS):
        answer = page.goto(base + path)
        assert answer is not None and (answer.status >= 400) == (path in ERRORS), (path, answer and answer.status)
        assert violations(tab) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert path not in ERRORS or page.locator("main a").count() > 0, path
    tab.faults = [fault for fault in tab.faults if "status of 4" not in fault]
    tab.close()


def test_a_tool_is_called_and_a_definition_edited_with_the_keyboard_alone(
    browser: Browser, hub: Hub, base: str
) -> None:
    """Issue 17: the main work needs no mouse, and the focus is always visible."""
    tab = Tab(browser, base, viewport=SIZES["desk"]).log_in(hub)
    page = tab.open("/servers/hello")
    item = page.locator("details.item").filter(has_text="Greet")
    field = item.locator("form input").first
    expect(item.locator("form")).to_have_count(1)
    if item.get_attribute("open") is None:
        step_to(page, item.locator("summary").first)
        page.keyboard.press("Enter")
    step_to(page, field)
    page.keyboard.press("Control+A")
    page.keyboard.type("Ada")
    page.keyboard.press("Control+Enter")
    expect(item.locator(".ran .answer")).to_contain_text("Hello, Ada!")
    tab.open("/servers/hello/edit")
    step_to(page, page.locator("textarea").first)
    page.keyboard.press("Control+End")
    page.keyboard.insert_text(PART)
    press(page, "Save")
    expect(page.locator("main")).to_contain_text("part")
    expect(page).not_to_have_url(f"{base}/servers/hello/edit")
    tab.close()

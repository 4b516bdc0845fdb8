"""The pages of toolsets in a real browser: made by mouse and by keyboard alone, accessible, on a phone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.keyboard import press, step_to, write
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import violations
from tests.catalogue.operating.test_toolset_changes import GIT
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
LONG = "x" * 60
MANY = "".join(f'def tool_{n}_{LONG}() -> str:\n    """{LONG * 3}"""\n    return ""\n\n\n' for n in range(3))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("toolsets")
    (made / "servers").mkdir()
    (made / "servers" / "git.py").write_text(GIT)
    (made / "servers" / "many.py").write_text(MANY)
    fixed = {"from": "git.log", "arguments": {"repo": {"value": LONG}}, "description": LONG}
    shaped = {"kind": "toolset", "include": ["many.*", "nothing.*"], "tools": {"history": fixed}}
    (made / "servers" / "shaped.json").write_text(json.dumps(shaped))
    return made


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    with running(folder) as found:
        yield found
        assert found.end() == 0


def opened(browser: Browser, hub: Hub, size: str = "desk", **options: object) -> Tab:
    return Tab(browser, f"http://127.0.0.1:{hub.port}", viewport=SIZES[size], **options).log_in(hub)


@pytest.mark.parametrize("size", SIZES)
def test_the_pages_of_toolsets_are_accessible_and_fit_the_screen(browser: Browser, hub: Hub, size: str) -> None:
    """WCAG 2.2 AA, with every part of the form open."""
    tab = opened(browser, hub, size, bypass_csp=True)
    for path in ("/toolsets", "/toolsets/new", "/toolsets/new?find=log", "/toolsets/mcp", "/toolsets/shaped"):
        page = tab.open(path)
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert violations(tab) == [], path
    tab.close()


def test_a_toolset_is_made_by_mouse(browser: Browser, hub: Hub, folder: Path) -> None:
    """Issue 54: ticks, a new name, a try before saving; without a script of the page."""
    tab = opened(browser, hub, java_script_enabled=False)
    page = tab.open("/toolsets/new")
    page.get_by_label("Name below /mcp/").fill("mouse")
    page.get_by_text("git (3)").click()
    page.get_by_label("log", exact=False).first.check()
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_text("Rename, describe, fix arguments, shape the result of log").click()
    page.get_by_label("Name", exact=True).fill("history")
    page.get_by_label("Fixed arguments").fill("repo=/srv")
    page.get_by_role("button", name="Check", exact=True).click()
    page.get_by_text("Try it before you save history").click()
    page.get_by_role("button", name="Call history").click()
    expect(page.get_by_role("status")).to_contain_text("/srv 1")
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("The toolset is saved.")
    fixed = {"from": "git.log", "arguments": {"repo": {"value": "/srv"}}}
    assert json.loads((folder / "servers" / "mouse.json").read_text())["tools"] == {"history": fixed}
    tab.close()


def test_a_toolset_is_made_by_keyboard_alone(browser: Browser, hub: Hub, folder: Path) -> None:
    tab = opened(browser, hub, "phone")
    page = tab.open("/toolsets")
    press(page, "New toolset", "link")
    write(page, "Name below /mcp/", "keys")
    step_to(page, page.locator("summary").filter(has_text="git (3)"))
    page.keyboard.press("Enter")
    step_to(page, page.locator("input[name='choose:git.diff']"))
    page.keyboard.press("Space")
    press(page, "Save")
    expect(page.get_by_role("status")).to_contain_text("The toolset is saved.")
    assert json.loads((folder / "servers" / "keys.json").read_text())["include"] == ["git.diff"]
    tab.close()


def test_the_enter_key_in_a_field_checks_the_form_and_calls_no_tool(browser: Browser, hub: Hub) -> None:
    tab = opened(browser, hub)
    page = tab.open("/toolsets/new?add=git.push")
    posted: list[str] = []
    page.on("request", lambda request: posted.append(request.post_data or "") if request.method == "POST" else None)
    page.get_by_role("searchbox", name="Search", exact=True).fill("diff")
    page.get_by_label("Name below /mcp/").fill("entered")
    page.keyboard.press("Enter")
    expect(page.locator("input[name='choose:git.log']")).to_have_count(0)
    expect(page.locator("input[name='choose:git.diff']")).to_have_count(1)
    # The script may have asked for the price too, because the field changed: that is a check as well.
    actions = [re.findall(r'name="action"\r\n\r\n(.*?)\r\n', each) for each in posted]
    assert actions and all(each == ["check"] for each in actions), posted
    assert page.get_by_role("status").count() == 0, "a tool was called, or the toolset was saved"
    tab.close()


def test_the_price_follows_the_ticks_and_the_shapes(browser: Browser, hub: Hub) -> None:
    """Issue 54, item 4: with a script at once, without one by a press of the button Check (the test by mouse)."""
    tab = opened(browser, hub)
    page = tab.open("/toolsets/new")
    page.get_by_label("Name below /mcp/").fill("priced")
    price = page.locator("#price")
    expect(price).to_have_text("0 tools, 0 bytes, about 0 tokens")
    page.get_by_text("git (3)").click()
    page.locator("input[name='choose:git.log']").check()
    expect(price).to_contain_text("1 tool, ")
    page.locator("input[name='choose:git.diff']").check()
    expect(price).to_contain_text("2 tools, ")
    page.locator("input[name='choose:git.diff']").uncheck()
    expect(price).to_contain_text("1 tool, ")
    page.get_by_role("button", name="Check", exact=True).click()
    before = price.text_content()
    page.get_by_text("Rename, describe, fix arguments, shape the result of log").click()
    page.get_by_label("Description in place").fill(LONG)
    page.get_by_label("Description in place").blur()
    expect(price).not_to_have_text(before or "")
    tab.close()

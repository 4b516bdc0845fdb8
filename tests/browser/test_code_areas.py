"""The editor in a real browser: line numbers, colours, the line of the address, keys, and hostile text."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import BOUND, Tab
from tests.serving.running import Hub, running
from tests.wire.hostile import HOSTILE

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

BROKEN = '"""Broken."""\n\n\ndef greet(:\n    return 1\n'

STRANGERS = "document.querySelectorAll('.code-area :not(pre, code, span.row, span[class^=t-], textarea)').length"


SCROLL = """(place) => new Promise((resolve) => {
  const [numbers, back, area] = document.querySelector(".code-area").children;
  area.scrollTo(place, place);
  requestAnimationFrame(() => requestAnimationFrame(() => resolve({
    area: [area.scrollTop, area.scrollLeft], back: [back.scrollTop, back.scrollLeft], numbers: [numbers.scrollTop],
  })));
})"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("areas")
    (folder / "servers").mkdir()
    (folder / "servers/broken.py").write_text(BROKEN)
    with running(folder) as hub:
        yield hub
        assert hub.end() == 0


@pytest.fixture
def base(hub: Hub) -> str:
    return f"http://127.0.0.1:{hub.port}"


@pytest.fixture
def tab(browser: Browser, hub: Hub, base: str) -> Iterator[Tab]:
    """A tab of the operator."""
    tab = Tab(browser, base, viewport={"width": 1280, "height": 900}).log_in(hub)
    yield tab
    tab.close()


def test_the_button_of_a_broken_server_leads_to_its_coloured_line(tab: Tab) -> None:
    """Issue 17, item 5: an editor with highlighting and line numbers; a broken server shows its line."""
    page = tab.open("/servers/broken")
    page.get_by_role("link", name="Edit line 4").click()
    expect(page.locator(".code-area .marked")).to_have_text("def greet(:")
    expect(page.locator(".code-area .numbers")).to_have_text("1\n2\n3\n4\n5\n6")
    expect(page.locator(".code-area .t-keyword").first).to_have_text("def")
    expect(page.locator("#source")).to_be_focused()
    page.keyboard.type("# ")
    expect(page.locator("#source")).to_have_value(BROKEN.replace("def greet", "# def greet"))
    expect(page.locator(".code-area .t-comment").filter(has_text="# def greet(:")).to_be_visible()
    expect(page.locator(".code-area .marked")).to_have_text("# def greet(:")


def test_the_keyboard_leaves_the_editor_and_keeps_the_indentation(tab: Tab) -> None:
    """WCAG 2.1.2, no keyboard trap: Tab goes to the next field."""
    page = tab.open("/servers/new")
    area = page.locator("#source")
    area.fill("def f():\n    x = 1")
    area.press("Control+End")
    area.press("Enter")
    page.keyboard.type("return x")
    expect(area).to_have_value("def f():\n    x = 1\n    return x")
    expect(page.locator(".code-area .row")).to_have_text(["def f():", "    x = 1", "    return x"])
    area.press("Control+z")
    expect(area).not_to_have_value(re.compile("return x"))
    area.press("Tab")
    expect(page.get_by_label("Reason")).to_be_focused()


def test_the_colours_and_the_numbers_scroll_with_the_text(tab: Tab) -> None:
    """At both ends, where a scroll bar of the field takes room. No element gets a style attribute."""
    page = tab.open("/servers/new")
    page.locator("#source").fill("\n".join("x" * 200 for _ in range(200)))
    for place in (0, 999_999, 1234):
        moved = page.evaluate(SCROLL, place)
        assert moved["back"] == moved["area"] and moved["numbers"] == moved["area"][:1]
    assert page.locator("[style]").count() == 0


def test_a_hostile_text_in_the_editor_is_only_text(tab: Tab) -> None:
    """T14.2, S24: all strings in one text, then after a change in its middle."""
    page = tab.open("/servers/new?kind=static")
    area = page.locator("#source")
    text = "\n".join(each.replace("\0", "") for each in HOSTILE)
    area.fill(text)
    area.press("Control+Home")
    page.keyboard.type("# ")
    shown = area.evaluate("each => each.value")
    rows = page.locator(".code-area .row")
    expect(page.locator(".code-area [class^=t-]").first).to_be_visible()
    assert rows.evaluate_all("all => all.map((each) => each.textContent.slice(0, -1)).join('\\n')") == shown
    assert page.evaluate(STRANGERS) == 0


def test_without_scripts_the_editor_is_a_plain_field(browser: Browser, hub: Hub, base: str) -> None:
    tab = Tab(browser, base, java_script_enabled=False).log_in(hub)
    page = tab.open("/servers/broken/edit")
    expect(page.locator(".code-area")).to_have_count(0)
    page.get_by_label("Python").fill(BROKEN.replace("(:", "():"))
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("broken")
    expect(page.locator("summary h3")).to_have_text("greet")
    tab.close()

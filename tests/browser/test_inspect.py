"""Inspecting and mounting a second hub over HTTP in a real browser (issue 7 part 5; THREATS 1.7, T14.2, VWR-6).

Both hubs are programs of their own: the one of the other tests here is looked at by another, which is empty.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.tabs import BOUND, Tab, Trial
from tests.browser.test_accessible import SIZES, violations
from tests.browser.test_hostile_pages import STRANGERS, words
from tests.serving.running import Hub, running
from tests.web.pages.test_safety import hostile_files
from tests.wire.hostile import HOSTILE

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def looker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that inspects, whose profiles are in a folder of its own."""
    folder = tmp_path_factory.mktemp("looker")
    home = os.environ.get("HOME", "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(folder))
        with running(folder) as hub:
            patch.setenv("HOME", home)
            yield hub
            assert hub.end() == 0


@pytest.fixture(scope="module")
def strange(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a hub with hostile words in every field of every server."""
    folder: Path = tmp_path_factory.mktemp("strange")
    (folder / "servers").mkdir()
    for name, text in hostile_files().items():
        (folder / "servers" / name).write_text(text)
    with running(folder) as hub:
        yield f"http://127.0.0.1:{hub.port}"
        assert hub.end() == 0


@pytest.fixture
def tab(browser: Browser, looker: Hub) -> Iterator[Tab]:
    """A tab of its operator."""
    tab = Tab(browser, address(looker), viewport={"width": 1280, "height": 900}).log_in(looker)
    yield tab
    tab.close()


def address(hub: Hub) -> str:
    return f"http://127.0.0.1:{hub.port}"


def inspect(tab: Tab, address: str) -> Page:
    """Follow a link to an address, and press the button."""
    page = tab.open(f"/inspect?address={quote(address, safe='')}")
    page.get_by_role("button", name="Inspect").click()
    return page


def item(page: Page, name: str) -> Trial:
    found = page.locator("details.item").filter(has=page.locator("summary h3").get_by_text(name, exact=True))
    found.locator("summary").first.click()
    return Trial(found)


def test_a_pasted_address_shows_the_other_server_and_calls_it_in_both_eras(tab: Tab, base: str) -> None:
    page = tab.open("/inspect")
    page.get_by_role("textbox", name="Address").fill(f"{base}/mcp/everything")
    page.get_by_role("button", name="Inspect").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("everything", timeout=BOUND)
    simple = item(page, "test_simple_text")
    for revision in ("2026-07-28", "2025-11-25"):
        simple.choose(revision)
        assert "simple text response" in simple.call()["content"][0]["text"]
    simple.item.get_by_text("The same request").click()
    expect(simple.item.locator("pre").filter(has_text="patchbay call")).to_contain_text(f"'{base}/mcp/everything'")
    item(page, "test_tool_with_progress").call()
    item(page, "test://static-text").call()
    assert item(page, "test_simple_prompt").call()["messages"]
    template = item(page, "test://template/{id}/data")
    assert "7" in json.dumps(template.call(id="7")["contents"])


def test_a_question_of_the_other_server_is_asked_in_the_page_and_a_call_cancelled(tab: Tab, base: str) -> None:
    page = inspect(tab, f"{base}/mcp/everything")
    asking = item(page, "test_elicitation")
    for revision in ("2026-07-28", "2025-11-25"):
        asking.choose(revision)
        asking.fill(message="Who is there?")
        asking.start()
        expect(asking.question()).to_contain_text("Who is there?")
        asking.reply("Send the answer", username="Ada", email="ada@example.org")
        assert "Ada" in asking.ended()["content"][0]["text"]
    slow = item(inspect(tab, f"{base}/mcp/atelier"), "steps")
    slow.fill(many=400)
    slow.start()
    expect(slow.ran.locator(".stream li").first).to_be_visible(timeout=BOUND)
    slow.item.get_by_role("button", name="Cancel").click()
    expect(slow.state).to_have_text("Cancelled", timeout=BOUND)


def test_the_second_hub_is_mounted_and_called_through_the_mount(tab: Tab, base: str) -> None:
    page = inspect(tab, f"{base}/mcp/atelier")
    page.get_by_label("Name below /mcp/").fill("atelier")
    page.get_by_role("button", name="Mount", exact=True).click()
    expect(page).to_have_url(f"{tab.base}/servers/atelier", timeout=BOUND)
    expect(page.get_by_text("Connected (MCP")).to_be_visible()
    assert tab.item("atelier", "say").call(text="through the mount")["content"][0]["text"] == "through the mount"


def test_it_is_kept_as_a_profile(tab: Tab, base: str) -> None:
    page = inspect(tab, f"{base}/mcp/atelier")
    page.get_by_label("Name after @").fill("atelier")
    page.get_by_role("button", name="Save profile").click()
    expect(page.get_by_text("Saved as @atelier")).to_be_visible(timeout=BOUND)
    expect(inspect(tab, "@atelier").get_by_role("heading", level=1)).to_contain_text("atelier", ignore_case=True)


def test_the_page_says_why_an_address_cannot_be_inspected(tab: Tab) -> None:
    page = inspect(tab, "http://127.0.0.1:1/mcp")
    expect(page.get_by_role("alert")).to_contain_text("http://127.0.0.1:1/mcp cannot be reached", timeout=BOUND)
    page = tab.open("/inspect?address=mcp%2Bstdio%3Atouch%20x")
    expect(page.get_by_role("alert")).to_contain_text("starts a program on the hub's machine")
    expect(page.get_by_role("textbox", name="Address")).to_have_value("mcp+stdio:touch x")


def test_hostile_names_of_the_other_server_are_text(tab: Tab, strange: str) -> None:
    """T14.2, S24: sixty names of arguments, titles, descriptions, defaults, choices; no dialog, the layout intact."""
    page = inspect(tab, f"{strange}/mcp/tools")
    expect(page.locator("details.item")).to_have_count(len(HOSTILE), timeout=BOUND)
    page.evaluate("document.querySelectorAll('details.item').forEach((each) => { each.open = true; })")
    expect(page.locator(".try form")).to_have_count(len(HOSTILE), timeout=BOUND)
    shown = words(page.locator("main").text_content())
    for text in HOSTILE:
        assert words(text) in shown, text
    assert page.evaluate(STRANGERS) == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("size", SIZES)
def test_no_state_of_the_page_has_a_violation(browser: Browser, looker: Hub, base: str, size: str) -> None:
    """WCAG 2.2 AA: empty, from a link, in vain, and with a server, one of its tools called."""
    seen = Tab(browser, address(looker), viewport=SIZES[size], bypass_csp=True).log_in(looker)
    seen.open("/inspect")
    assert violations(seen) == []
    seen.open(f"/inspect?address={quote(base, safe='')}")
    assert violations(seen) == []
    expect(inspect(seen, "http://127.0.0.1:1/mcp").get_by_role("alert")).to_be_visible(timeout=BOUND)
    assert violations(seen) == []
    page = inspect(seen, f"{base}/mcp/everything")
    expect(page.get_by_role("heading", level=1)).to_have_text("everything", timeout=BOUND)
    item(page, "test_simple_text").call()
    assert violations(seen) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    seen.close()

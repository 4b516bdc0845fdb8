"""The page of a room in a real browser: it is live, its tools can be tried, and axe-core finds no violation."""

from __future__ import annotations

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from tests.browser.lively_room import RoomMember, enliven
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import SIZES, violations
from tests.wire.hostile import HOSTILE

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def members(base: str) -> Iterator[tuple[RoomMember, RoomMember]]:
    """The members of the room `harbour`. Its server has no tools afterwards: other tests list the tools of the hub."""
    with httpx2.Client(base_url=base, timeout=60) as client:
        laptop, planner = enliven(client, "harbour")
        yield laptop, planner
        laptop.says("mcp.announce", serverId="notes", tools=[], resources=[])


def test_new_entries_appear_while_the_page_is_read(tab: Tab, members: tuple[RoomMember, RoomMember]) -> None:
    """ROOMS 3: no reload, no member for the reader; what is open stays open, what is hostile stays text."""
    page = tab.open("/rooms/harbour")
    expect(page.get_by_role("status").first).to_contain_text("Live", timeout=BOUND)
    page.locator("#entry-1 summary").click()
    members[1].says("chat.msg", text="the tide turns")
    expect(page.locator("#log")).to_contain_text("the tide turns", timeout=BOUND)
    assert page.locator("#entry-1 details").get_attribute("open") is not None
    page.locator("h1").click()
    for text in (*HOSTILE, "high water"):
        members[1].says("chat.msg", text=text)
    expect(page.locator("#log")).to_contain_text("high water", timeout=BOUND)
    assert page.locator("#log script, #log img, #log iframe, #log svg").count() == 0
    expect(page.locator("#members li")).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_role("status").first).to_have_text("Paused.")


def test_a_tool_that_is_announced_while_the_page_is_open_can_be_tried(
    tab: Tab, members: tuple[RoomMember, RoomMember]
) -> None:
    """ROOMS 3, ENS-6: the form calls the MCP server of the room; a call that the owner fails says its sentence."""
    page = tab.open("/rooms/harbour")
    expect(page.get_by_role("status").first).to_contain_text("Live", timeout=BOUND)
    members[0].says("mcp.announce", serverId="notes", tools=[], resources=[])
    expect(page.locator("#tools")).to_contain_text("No member shares", timeout=BOUND)
    tool = {"name": "ring", "description": "Ring a bell.", "inputSchema": {"type": "object"}}
    members[0].says("mcp.announce", serverId="notes", tools=[tool], resources=[])
    item = page.locator("details.item").filter(has_text="notes__ring")
    item.locator("summary").first.click(timeout=BOUND)
    item.locator(".try form .actions > button").first.click()
    opened = page.locator(".lanes tbody tr").filter(has_text="ring")
    expect(opened).to_contain_text("open", timeout=BOUND)
    members[0].answers("ring", "ding")
    expect(item.locator(".try > .ran .answer")).to_contain_text("ding", timeout=BOUND)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.usefixtures("members")
def test_no_page_of_a_room_has_a_violation(browser: Browser, base: str, size: str) -> None:
    """WCAG 2.2 AA: the list and a room with everything open, at the size of a desk and of a phone."""
    tab = Tab(browser, base, viewport=SIZES[size], bypass_csp=True)
    for path in ("/rooms", "/rooms/harbour?verify=yes"):
        tab.open(path)
        tab.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        assert violations(tab) == [], path
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    tab.close()

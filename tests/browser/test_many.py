"""A hub with 300 servers and 5,000 tools: its pages stay usable, for reading, searching, filtering and calling."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

import pytest
from playwright.sync_api import Browser, expect

from patchbay.web.site.data import ITEMS_PER_PAGE
from tests.browser.tabs import BOUND, Tab
from tests.many_servers import LARGEST, SERVERS, TOOLS, name_of, tools_of, write_servers
from tests.serving.running import running

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A hub for this file only, so that other tests do not wait for it."""
    folder = tmp_path_factory.mktemp("many")
    write_servers(folder / "servers")
    with running(folder) as hub:
        yield f"http://127.0.0.1:{hub.port}"
        assert hub.end() == 0
        # A hub that ends while it is still reading its servers says nothing of it.
        assert not [line for line in hub.lines if "Traceback" in line or "closed database" in line]


def test_a_tool_among_thousands_is_found_opened_and_called(tab: Tab) -> None:
    """VWR-5: from the first page, by its words, to a result; on a page of a server that has several."""
    page = tab.open("/")
    expect(page.locator(".totals")).to_contain_text(f"{TOOLS + shipped(tab)} tools")
    assert page.locator(".card").count() >= SERVERS
    page.get_by_role("searchbox").fill("weigh wagon 509")
    page.get_by_role("searchbox").press("Enter")
    wanted = list(tools_of(0))[509]
    assert wanted == "weigh_wagon_509"
    found = page.locator(".found li")
    expect(found.first).to_contain_text(wanted)
    found.first.get_by_role("link").click()
    expect(page.locator("details.item[open] h3")).to_have_text(wanted)
    assert page.url.endswith(f"/servers/{name_of(0)}?tool={wanted}#tool-510")
    form = page.locator("details.item[open] .try form").first
    form.locator('[data-name="text"] textarea, [data-name="text"] input').fill("hello")
    form.get_by_role("button", name="Call").click()
    expect(page.locator("details.item[open] .answer")).to_contain_text("hello", timeout=BOUND)


def test_a_search_is_narrowed_by_its_kind(tab: Tab) -> None:
    page = tab.open("/search?q=town+23+observatory")
    page.get_by_label("Kind").select_option("server")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".found li").first).to_contain_text(name_of(23))
    assert set(page.locator(".found .tag").all_text_contents()) == {"server"}


def test_a_server_with_hundreds_of_tools_shows_them_in_pages(tab: Tab) -> None:
    page = tab.open(f"/servers/{name_of(0)}")
    assert page.locator("#tools ~ details.item").count() == ITEMS_PER_PAGE
    last = ceil(LARGEST / ITEMS_PER_PAGE)
    page.get_by_role("navigation", name="Pages").get_by_role("link", name=str(last)).click()
    expect(page.locator("#tools ~ details.item")).to_have_count(LARGEST - (last - 1) * ITEMS_PER_PAGE)
    page = tab.open(f"/servers/{name_of(0)}/edit")
    expect(page.locator("#preview")).to_contain_text(f"{LARGEST - 50} more tools")


def test_calls_are_filtered_among_hundreds_of_servers(tab: Tab) -> None:
    tool = next(iter(tools_of(7)))
    tab.item(name_of(7), tool).call(text="hello")
    page = tab.open("/activity")
    page.locator("select[name=server]").select_option(name_of(7))
    page.get_by_role("button", name="Show").click()
    expect(page.locator("#calls")).to_contain_text(tool)


@pytest.mark.parametrize("path", ["/", "/mcp", "/servers", f"/servers/{name_of(0)}", "/search?q=apple", "/history"])
def test_nothing_sticks_out_on_a_phone(browser: Browser, base: str, path: str) -> None:
    tab = Tab(browser, base, viewport={"width": 360, "height": 740})
    assert tab.open(path).evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()


def shipped(tab: Tab) -> int:
    """Tools of the servers that every hub has."""
    rows = tab.context.request.get(f"{tab.base}/servers.json").json()
    return sum(row["tools"] for row in rows if row["origin"] == "boot image")

"""Source and past in a real browser: write a server, break it, see the message, mend it, compare, roll back."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, Route, expect

from patchbay.cid import cid_of
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import SIZES, violations
from tests.serving.running import Hub, running
from tests.wire.hostile import HOSTILE

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

GREET = '''"""Greets."""


def greet(name: str) -> str:
    """Say hello."""
    return f"hello {name}"
'''
PIXEL = "R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
MARKDOWN = "# A page\n\nWith *words* and a [link](https://example.org).\n\n- one\n- two\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub of this file's own, because its past is what is looked at."""
    folder = tmp_path_factory.mktemp("past")
    (folder / "servers").mkdir()
    (folder / "servers/filed.py").write_text(GREET)
    (folder / "servers/broken.py").write_text('"""Broken."""\n\n\ndef x(:\n    pass\n')
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


def answered(base: str, path: str) -> Any:
    return httpx2.get(base + path, headers={"Accept": "application/json"}).json()


def store_bytes(hub: Hub, data: bytes) -> str:
    address = f"http://127.0.0.1:{hub.port}/cid"
    return str(httpx2.post(address, content=data, headers=hub.as_operator()).json()["cid"])


def write(page: Page, text: str) -> None:
    page.locator("#source").fill(text)


def made(tab: Tab, name: str, text: str = GREET) -> Page:
    """A new server, saved on its page."""
    page = tab.open("/servers/new")
    page.get_by_label("Name").fill(name)
    write(page, text)
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text(name)
    return page


def edited(tab: Tab, name: str, text: str, anyway: bool = False) -> Page:
    page = tab.open(f"/servers/{name}/edit")
    write(page, text)
    if anyway:
        page.get_by_label("Save even if the definition is broken").check()
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("navigation", name="This server")).to_be_visible()
    return page


def go_to_tab(page: Page, label: str) -> None:
    """Open a tab of the page of a server."""
    page.get_by_role("navigation", name="This server").get_by_role("link", name=label).click()
    expect(page.get_by_role("navigation", name="This server").get_by_role("link", name=label)).to_have_attribute(
        "aria-current", "page"
    )


def test_the_editor_previews_the_listing_while_the_source_is_written(tab: Tab) -> None:
    """VWR-22: with the line that is wrong, and the caret put there."""
    page = tab.open("/servers/new")
    page.get_by_label("Name").fill("live")
    write(page, GREET)
    preview = page.locator("#preview")
    expect(preview.get_by_role("heading", name="greet")).to_be_visible()
    write(page, GREET.replace("(name: str)", "(name: str"))
    expect(preview).to_contain_text("Broken at line 4")
    expect(preview).to_contain_text("invalid syntax")
    preview.get_by_role("link", name="line 4").click()
    expect(page.locator(".code-area .marked")).to_have_text("def greet(name: str -> str:")
    assert page.evaluate("document.activeElement.value.slice(document.activeElement.selectionStart)").startswith("def ")
    write(page, GREET + "\n\ndef part(*all): ...\n")
    expect(preview).to_contain_text("it takes *all")
    page.get_by_label("Name").fill("servers")
    expect(preview).to_contain_text("the hub has a page of its own")


def test_a_reader_who_types_before_the_script_of_the_editor_is_loaded_goes_on_typing_there(tab: Tab) -> None:
    page = tab.page
    held: list[Route] = []
    page.route("**/code.js*", lambda route: held.append(route))
    page.goto(f"{tab.base}/servers/new", wait_until="commit")
    page.get_by_label("Name").fill("early")
    area = page.locator("#source")
    area.fill("alpha gamma")
    for _ in "gamma":
        area.press("ArrowLeft")
    assert len(held) == 1
    held[0].continue_()
    expect(page.locator(".code-area")).to_be_visible()
    page.keyboard.insert_text("beta ")
    expect(area).to_have_value("alpha beta gamma")


def test_a_definition_is_broken_seen_mended_and_rolled_back(tab: Tab) -> None:
    """Must show: break a definition and see the message, roll back."""
    page = made(tab, "vase")
    page = edited(tab, "vase", GREET.replace("(name: str)", "(name: str"), anyway=True)
    expect(page.locator(".note.fault")).to_contain_text("This server is broken and is not served")
    expect(page.locator(".row.wrong")).to_contain_text("def greet(name: str -> str:")
    expect(page.get_by_role("link", name="Edit line 4")).to_be_visible()
    go_to_tab(page, "Source")
    expect(page.locator(".row.wrong")).to_contain_text("invalid syntax")
    assert httpx2.get(f"{tab.base}/servers/vase").status_code == 200
    page = edited(tab, "vase", GREET.replace("hello", "welcome"))
    expect(page.locator(".note.fault")).to_have_count(0)
    go_to_tab(page, "Versions")
    page.get_by_role("row").filter(has_text="made vase").get_by_role("link", name="Roll back").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Roll back to the server vase as it was at")
    expect(page.locator(".diff")).to_contain_text("welcome")
    page.get_by_label("Reason").fill("the first one was better")
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("row").nth(1)).to_contain_text("the first one was better")
    assert answered(tab.base, "/servers/vase")["source"] == GREET


def test_a_root_is_rolled_back_to_with_the_file_in_the_folder(tab: Tab) -> None:
    before = answered(tab.base, "/history")["changes"][0]["cid"]
    edited(tab, "filed", GREET.replace("hello", "good morning"))
    page = tab.open(f"/history/rollback?root={before}")
    expect(page.get_by_text("server filed", exact=True)).to_be_visible()
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("History")
    assert answered(tab.base, "/servers/filed")["source"] == GREET
    assert answered(tab.base, "/history")["changes"][0]["cid"] == before


def test_two_versions_are_chosen_and_compared(tab: Tab) -> None:
    """JN-45: what the change means for callers stands above the lines."""
    made(tab, "pair")
    page = edited(tab, "pair", GREET.replace("name: str", "name: str, times: int"))
    go_to_tab(page, "Versions")
    page.get_by_role("button", name="Compare old and new").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare two versions of pair")
    expect(page.locator(".changes")).to_contain_text("times")
    expect(page.locator(".changes .tag.fault").first).to_have_text("breaking")
    expect(page.locator(".diff .new .hit").first).to_contain_text("times")


def test_two_roots_are_chosen_and_compared(tab: Tab) -> None:
    made(tab, "rooted")
    page = tab.open("/history")
    page.get_by_role("button", name="Compare old and new").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare two states of the hub")
    expect(page.locator(".item")).to_contain_text("server rooted")


def test_contents_are_shown_by_their_kind_with_links_in_and_out(tab: Tab, hub: Hub) -> None:
    page = tab.open(f"/cid/{store_bytes(hub, MARKDOWN.encode())}")
    expect(page.locator(".markdown").get_by_role("listitem")).to_have_count(2)
    page = tab.open(f"/cid/{cid_of(GREET.encode())}")
    expect(page.locator(".t-keyword").first).to_have_text("def")
    expect(page.get_by_role("link", name="server filed", exact=True)).to_be_visible()
    root = answered(tab.base, "/history")["changes"][0]["cid"]
    page = tab.open(f"/cid/{root}")
    page.locator("#out ~ .scroll").get_by_role("link").first.click()
    expect(page.get_by_role("row").filter(has_text="definition_cid").first).to_be_visible()
    with page.expect_download() as download:
        page = tab.open(f"/cid/{store_bytes(hub, bytes(range(256)))}")
        page.get_by_role("link", name="Download").click()
    assert Path(download.value.path()).read_bytes() == bytes(range(256))


def test_an_image_is_drawn(tab: Tab, hub: Hub) -> None:
    page = tab.open(f"/cid/{store_bytes(hub, b64decode(PIXEL))}")
    assert page.locator("main img").evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 1


def test_hostile_sources_run_nowhere(tab: Tab, hub: Hub) -> None:
    """T14.2: all sixty in one definition, live, saved and compared; the tab hears of a dialog or a forbidden script."""
    body = "\n".join(f"# {text}" for text in HOSTILE if "\n" not in text)
    page = made(tab, "hostile", f"{GREET}{body}\n")
    go_to_tab(page, "Source")
    expect(page.locator(".code").first).to_contain_text("<script>alert(1)</script>")
    page = tab.open("/servers/hostile/edit")
    for text in HOSTILE[:8]:
        write(page, f"{text}\n{GREET}")
        expect(page.locator("#preview .note.fault")).to_be_visible()
    edited(tab, "hostile", GREET)
    page = tab.open("/servers/hostile/past")
    page.get_by_role("button", name="Compare old and new").click()
    expect(page.locator(".diff")).to_contain_text("<script>alert(1)</script>")
    httpx2.put(
        f"{tab.base}/variables/hostile",
        content="\n\n".join(HOSTILE).encode(),
        headers={"X-Why": HOSTILE[14], **hub.as_operator()},
    )
    for path in ("/variables/hostile", "/history", "/history/names"):
        tab.open(path)


@pytest.mark.parametrize("size", SIZES)
def test_no_page_of_the_past_has_a_violation(browser: Browser, hub: Hub, base: str, size: str) -> None:
    """WCAG 2.2 AA; and nothing is wider than the screen."""
    tab = Tab(browser, base, viewport=SIZES[size], bypass_csp=True).log_in(hub)
    roots = [each["cid"] for each in answered(base, "/history")["changes"]]
    version = answered(base, "/servers/filed")["versions"][-1]["cid"]
    root = f"old={roots[-1]}&new={roots[0]}"
    for path in (
        *(
            "/servers",
            "/servers/filed",
            "/servers/filed/source",
            "/servers/filed/past",
            "/servers/filed/settings",
            "/servers/broken",
            "/servers/new",
            "/servers/filed/edit",
            "/servers/broken/edit",
        ),
        *("/variables", "/variables/mcps", "/history", "/history/names", f"/history/compare?{root}"),
        *(f"/servers/filed/compare?old={version}&new={version}", f"/history/rollback?root={roots[-1]}"),
        *(
            f"/cid/{roots[0]}",
            f"/cid/{store_bytes(hub, MARKDOWN.encode())}",
            f"/cid/{store_bytes(hub, bytes(range(256)))}",
        ),
    ):
        tab.open(path)
        assert violations(tab) == [], path
        assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    tab.close()


def test_everything_is_readable_and_can_be_done_without_scripts(browser: Browser, hub: Hub, base: str) -> None:
    tab = Tab(browser, base, java_script_enabled=False).log_in(hub)
    page = tab.open("/servers/new")
    page.get_by_label("Name").fill("plain")
    write(page, GREET.replace("(name: str)", "(name: str"))
    page.get_by_role("button", name="Check").click()
    expect(page.locator("#preview")).to_contain_text("Broken at line 4")
    write(page, GREET)
    page.get_by_role("button", name="Save").click()
    go_to_tab(page, "Source")
    expect(page.locator(".code").first).to_contain_text("def greet(name: str)")
    tab.close()

"""Pages that a reader sees after a while: refusals, versions of documents, revocations, a server with 520 tools.

axe-core finds no violation on them, at two widths and in both colour schemes; the main work needs no mouse.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.keyboard import step_to
from tests.browser.screenshots import call
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import ON_A_PHONE, SIZES, violations_in_sizes
from tests.many_servers import name_of, tools_of, write_servers
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

PATH = "stdlib/python/bread.md"
DOCUMENT = f"/servers/jane/documents?path={PATH}"
EDITOR = f"/servers/jane/documents/edit?path={PATH}"
MANY = f"/servers/{name_of(0)}"
MAX_TRIES = 100
"""Wrong logins after which the hub refuses more, at most."""

SUBMIT = """([path, fields]) => {
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: path });
  for (const [name, value] of Object.entries(fields)) {
    form.append(Object.assign(document.createElement("input"), { name, value }));
  }
  document.body.append(form);
  form.submit();
}"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with a server of 520 tools, and a document of Jane in two versions."""
    folder = tmp_path_factory.mktemp("more")
    write_servers(folder / "servers", servers=1)
    with running(folder) as hub:
        with httpx2.Client(base_url=f"http://127.0.0.1:{hub.port}", timeout=60) as client:
            given = {"type": "stdlib", "language": "python", "path": "bread.md", "title": "Bread"}
            call(client, "jane", "create_document", **given, content="# Bread\n\n## Flour\n\nWheat.\n")
            fields = {
                "action": "save",
                "path": PATH,
                "text": "# Bread\n\n## Flour\n\nRye.\n",
                "base": versions(client)[0],
            }
            headers = {"Origin": str(client.base_url).rstrip("/"), **hub.as_operator()}
            assert client.post(EDITOR.partition("?")[0], data=fields, headers=headers).status_code == 303
        yield hub
        assert hub.end() == 0


@pytest.fixture
def base(hub: Hub) -> str:
    return f"http://127.0.0.1:{hub.port}"


def versions(client: httpx2.Client) -> list[str]:
    """The CIDs of the versions of the document, newest first."""
    found = client.get(DOCUMENT.replace("?", ".json?")).raise_for_status().json()["versions"]
    return [each["cid"] for each in found]


def check(tab: Tab, where: str) -> None:
    assert violations_in_sizes(tab) == [], where


def leads(page: Page, status: int, action: Any) -> None:
    """Do something that loads a page with this status."""
    with page.expect_navigation() as answer:
        action()
    assert answer.value.status == status


def test_no_later_page_has_a_violation(browser: Browser, hub: Hub, base: str) -> None:
    """Issue 17: WCAG 2.2 AA; nothing is wider than a phone."""
    tab = Tab(browser, base, **ON_A_PHONE).log_in(hub)
    page = tab.page
    with httpx2.Client(base_url=base, timeout=60) as client:
        new, old = versions(client)[:2]
    compared = f"/servers/jane/documents/compare?path={PATH}&old={old}&new={new}"
    selected = f"{MANY}?tool={list(tools_of(0))[400]}#tool-401"
    for path in (DOCUMENT, EDITOR, compared, "/history/revoke", MANY, selected):
        tab.open(path)
        check(tab, path)
    page.goto(f"{base}/servers/jane/documents?path=absent")
    check(tab, "404")
    leads(page, 403, lambda: page.evaluate(SUBMIT, ["/history/revoke", {"csrf": "x", "do": "revoke", "target": "a"}]))
    check(tab, "403")
    tab.open(EDITOR)
    page.locator("input[name=base]").evaluate("(field, cid) => { field.value = cid; }", old)
    leads(page, 409, lambda: page.get_by_role("button", name="Save").click())
    check(tab, "409")
    tab.faults = [fault for fault in tab.faults if "status of 4" not in fault]
    tab.close()


def test_a_tool_of_many_is_found_and_called_with_the_keyboard_alone(browser: Browser, hub: Hub, base: str) -> None:
    """Issue 17: the form is loaded when its tool is chosen; a second look at the tool loads nothing."""
    tab = Tab(browser, base, viewport=SIZES["desk"])
    page = tab.open(MANY)
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    wanted, first = list(tools_of(0))[30], next(tools_of(0))
    page.keyboard.press("/")
    page.keyboard.type(wanted)
    listed = page.locator(".contents li:visible a[href^='#tool']")
    expect(listed).to_have_text([wanted])
    step_to(page, listed)
    page.keyboard.press("Enter")
    item = page.locator("details.item[open]")
    expect(item.locator("h3")).to_have_text(wanted)
    field = item.locator('[data-name="text"] input')
    step_to(page, field)
    page.keyboard.type("hello")
    page.keyboard.press("Control+Enter")
    expect(item.locator(".answer")).to_contain_text("hello")
    for name in (first, wanted):
        page.get_by_label("Find in this server").fill(name)
        page.locator(".contents li:visible a[href^='#tool']").get_by_text(name, exact=True).click()
        expect(item.locator("h3")).to_have_text(name)
    expect(field).to_have_value("hello")
    assert len([url for url in requests if "part=entry" in url]) == 1
    tab.close()


def test_a_tool_of_many_is_opened_on_a_phone_and_without_scripts(browser: Browser, hub: Hub, base: str) -> None:
    """Issue 17: the search stands above the tools and narrows them; without scripts a link opens a tool."""
    wanted = list(tools_of(0))[30]
    tab = Tab(browser, base, viewport=SIZES["phone"])
    page = tab.open(MANY)
    search = page.get_by_label("Find in this server")
    above, below = search.bounding_box(), page.locator("#tools").bounding_box()
    assert above and below and above["y"] < below["y"]
    search.fill(wanted)
    expect(page.locator(".item:visible h3")).to_have_text([wanted])
    page.locator(".item:visible summary").first.click()
    expect(page.locator("details.item[open] .try form")).to_have_count(1)
    tab.close()
    plain = Tab(browser, base, java_script_enabled=False)
    page = plain.open(MANY)
    item = page.locator("details.item").filter(has=page.get_by_role("heading", name=wanted, exact=True))
    item.locator("summary").click()
    item.get_by_role("link", name="Show this tool").click()
    expect(page.locator("details.item[open] h3")).to_have_text(wanted)
    expect(page.locator("details.item[open]")).to_contain_text("How often, from 1 to 9.")
    plain.close()


def test_the_page_of_too_many_tries_has_no_violation(browser: Browser, base: str) -> None:
    """The last of this file: for a minute, the hub refuses more wrong logins from this address."""
    tab = Tab(browser, base, **ON_A_PHONE)
    statuses = (tab.page.goto(f"{base}/login?once=wrong") for _ in range(MAX_TRIES))
    assert any(answer is not None and answer.status == 429 for answer in statuses)
    check(tab, "429")
    tab.faults = [fault for fault in tab.faults if "status of 4" not in fault]
    tab.close()

"""Open, read, search: in a real browser, with and without scripts, on a desk and on a phone."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import Tab

pytestmark = pytest.mark.browser

PAGES = (
    "/",
    "/mcp",
    "/servers/everything",
    "/servers/atelier",
    "/servers/broken",
    "/search?q=time",
    "/search?q=zzzz",
)


def test_home_names_the_servers(tab: Tab) -> None:
    """VWR-5: cards with kind, tools, version and health; a line for each client with the right address."""
    page = tab.open("/")
    page.get_by_text("Ships with the hub").click()
    card = page.locator(".card").filter(has=page.get_by_role("heading", name="Echo"))
    expect(card).to_contain_text("shell")
    expect(card).to_contain_text("1 tool")
    expect(page.locator(".card.broken")).to_contain_text("Broken:")
    lines = page.locator(".lines > li")
    clients = ["Claude Code", "Claude Desktop", "Gemini CLI", "Codex", "LM Studio", "Goose", "Copilot CLI", "opencode"]
    clients += ["Cursor", "VS Code", "VS Code Insiders", "Windsurf", "Zed", "Cline", "Kiro", "Continue"]
    clients += ["MCP Inspector", "Python", "TypeScript", "curl"]
    assert lines.locator("h3").all_text_contents() == clients
    for line in lines.all():
        texts = line.locator("pre").all_text_contents()
        assert any(f"{tab.base}/mcp" in text or '"stdio"' in text for text in texts)
    schemes = [(link.get_attribute("href") or "").partition(":")[0] for link in lines.locator("a.button").all()]
    assert schemes == ["lmstudio", "goose", "cursor", "vscode", "vscode-insiders"]
    card.get_by_role("link", name="Echo").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Echo")


def test_a_card_shows_the_last_call(tab: Tab) -> None:
    tab.item("hello", "hello").call()
    page = tab.open("/")
    card = page.locator(".card").filter(has=page.get_by_role("heading", name="hello"))
    for _ in range(100):
        if "last call ok" in (card.text_content() or ""):
            break
        page.reload()
    expect(card).to_contain_text("last call ok, just now")


def test_a_line_is_copied_by_its_button(tab: Tab) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.open("/")
    line = page.locator(".lines > li").first
    line.get_by_role("button", name="Copy").click()
    expect(line.get_by_role("button")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == f"claude mcp add --transport http patchbay {tab.base}/mcp"


def test_the_client_that_was_chosen_before_comes_first(tab: Tab) -> None:
    """Issue 53, item 2: one line to connect, not one for each client."""
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = tab.open("/")
    shown = page.locator(".lines > li h3:visible")
    expect(shown).to_have_text(["Claude Code"])
    page.get_by_text("other clients").click()
    page.locator(".lines > li").filter(has_text="Zed").get_by_role("button", name="Copy").first.click()
    for path in ("/", "/mcp", "/servers/hello"):
        page = tab.open(path)
        expect(page.locator(".lines > li h3").first).to_have_text("Zed")
    expect(page.locator(".lines > li h3:visible")).to_have_text(["Zed"])


def test_a_phone_has_a_line_for_each_server(browser: Browser, base: str) -> None:
    tab = Tab(browser, base, viewport={"width": 390, "height": 844})
    page = tab.open("/")
    for card in page.locator(".card:visible").all():
        box = card.bounding_box()
        assert box is not None and box["height"] < 64, card.text_content()
    assert page.evaluate("document.documentElement.scrollHeight") < 4000
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()


def test_a_search_leads_to_the_opened_tool(tab: Tab) -> None:
    """A search covers all servers and tools, from any page; the link of a result opens the tool."""
    page = tab.open("/")
    page.get_by_role("searchbox").fill("greet a person")
    page.get_by_role("searchbox").press("Enter")
    found = page.locator(".found li")
    expect(found.first).to_contain_text("on hello")
    assert found.first.locator("mark").count()
    found.first.get_by_role("link").click()
    expect(page.locator("details.item[open] h3")).to_have_text("hello")
    expect(page.get_by_role("button", name="Call")).to_be_visible()


def test_a_search_can_be_narrowed_and_finds_nothing_politely(tab: Tab) -> None:
    page = tab.open("/search?q=template")
    page.get_by_label("Kind").select_option("resource")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".found .tag").first).to_have_text("resource")
    assert set(page.locator(".found .tag").all_text_contents()) == {"resource"}
    expect(tab.open("/search?q=zzzz").get_by_role("status")).to_contain_text("No results")


def test_the_page_of_a_server_says_everything_about_it(tab: Tab) -> None:
    """VWR-6: description, instructions, schemas as table and JSON, annotations, digest."""
    item = tab.item("everything", "json_schema_2020_12_tool").item
    # In the order of the function; what stands within an argument is sorted.
    names = ["name", "address", "address.city", "address.street", "contactMethod", "phone", "email"]
    assert item.locator("tbody tr th").all_text_contents() == names
    item.get_by_text("Input schema").click()
    expect(item.locator("[data-schema]")).to_contain_text('"$anchor": "addressDef"')
    expect(item).to_contain_text("digest bafkrei")
    simple = tab.item("everything", "test_simple_text").item
    expect(simple.locator("summary .tag").first).to_have_text("reads only")
    simple.get_by_text("Annotations").click()
    expect(simple).to_contain_text('"readOnlyHint": true')


@pytest.mark.parametrize("path", PAGES)
def test_reading_needs_no_script(browser: Browser, base: str, path: str) -> None:
    tab = Tab(browser, base, java_script_enabled=False)
    page = tab.page
    answer = page.goto(base + path)
    assert answer is not None and answer.ok
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    if path == "/servers/atelier":
        page.locator("details.item summary").first.click()
        expect(page.locator("details.item[open]")).to_contain_text("Take an order.")
        assert "needs JavaScript" in page.locator("details.item[open] .try").inner_text()
    tab.close()


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize(("width", "zoom"), [(320, 1), (360, 1), (768, 1), (640, 2)])
def test_nothing_sticks_out_of_a_narrow_page(browser: Browser, base: str, path: str, width: int, zoom: int) -> None:
    """WCAG 2.2, 1.4.10 and 1.4.4: down to 320 CSS pixels, and with text of 200 %."""
    tab = Tab(browser, base, viewport={"width": width, "height": 800})
    page = tab.open(path)
    page.evaluate("(zoom) => { document.documentElement.style.fontSize = `${zoom * 100}%`; }", zoom)
    for item in page.locator("details.item > summary").all()[:3]:
        item.click()
    wide = page.evaluate(
        """() => [...document.querySelectorAll("body *")].filter((each) =>
        each.getBoundingClientRect().right > innerWidth + 1 && !each.closest("pre, .scroll, .skip, thead, .unseen"))
        .map((each) => each.outerHTML.slice(0, 120))"""
    )
    assert wide == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.close()


def test_the_content_security_policy_stops_inline_code_and_the_tab_reports_it(tab: Tab) -> None:
    """S24, THREATS 1.4: an inline script and an inline style do nothing; these tests would notice either."""
    page = tab.open("/")
    page.evaluate(
        """() => {
        document.body.append(Object.assign(document.createElement("script"), { textContent: "window.ran = true" }));
        document.body.append(Object.assign(document.createElement("style"), { textContent: "body { display: none }" }));
        }"""
    )
    assert page.evaluate("window.ran") is None
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    assert [word for word in ("script-src", "style-src") if any(word in fault for fault in tab.faults)] == [
        "script-src",
        "style-src",
    ]
    tab.faults.clear()

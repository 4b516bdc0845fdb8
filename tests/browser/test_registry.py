"""The pages of the registry in a real browser: accessible, used with the keyboard, with texts of strangers as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, expect

from patchbay.views.hidden_characters import find_hidden_character
from tests.browser.keyboard import press, write
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import ON_A_PHONE, violations_in_sizes
from tests.browser.test_hostile_hub import ALL, DESK, PHONE, check_page
from tests.cli.registries import VERSIONS, package, registries, server
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

MARKUP = '"><img src=x onerror=alert(1)></td></table>\u202e'
WANTED = [
    {"name": "API_KEY", "isRequired": True, "isSecret": True, "description": MARKUP + ALL},
    {"name": "LEVEL", "choices": [MARKUP, "low"], "description": "w" * 300},
    {"name": "MODE", "value": MARKUP},
]
HOSTILE = server(
    "com.evil/hostile",
    MARKUP + ALL,
    "1.0.0",
    title=MARKUP,
    packages=[package("npm", "hostile", "1.0.0", environmentVariables=WANTED), package("oci", MARKUP, MARKUP)],
) | {"_meta": {"io.modelcontextprotocol.registry/official": {"status": "deprecated", "statusMessage": MARKUP}}}
PATHS = (
    *("/registry", "/registry?q=e", f"/registry?q={quote(MARKUP)}", f"/registry?name={quote(MARKUP)}"),
    *("/registry?name=com.evil%2Fhostile", "/registry?name=com.example%2Fweather", "/registry/updates"),
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("registry")
    (folder / "servers").mkdir()
    old = {"kind": "upstream", "address": "mcp+npx://@modelcontextprotocol/server-memory@2025.1.1", "enabled": False}
    (folder / "servers" / "memory.json").write_text(json.dumps(old))
    with (
        registries(HOSTILE) as url,
        running(folder, "--registry", url, "--pypi", url, "--npm", url) as found,
    ):
        yield found
        assert found.end() == 0


def opened(browser: Browser, hub: Hub, **options: object) -> Tab:
    return Tab(browser, f"http://127.0.0.1:{hub.port}", **options).log_in(hub)


def test_no_page_of_the_registry_has_a_violation(browser: Browser, hub: Hub) -> None:
    """37.4: WCAG 2.2 AA in both colour schemes; no page is wider than a phone."""
    tab = opened(browser, hub, **ON_A_PHONE)
    for path in PATHS:
        tab.open(path)
        assert violations_in_sizes(tab) == [], path
    tab.close()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_the_texts_of_a_registry_are_shown_as_text(browser: Browser, hub: Hub, size: dict[str, int]) -> None:
    """37.4"""
    tab = opened(browser, hub, viewport=size)
    for path in PATHS:
        check_page(tab, path)
        assert find_hidden_character(tab.page.locator("body").inner_text()) is None, path
    tab.close()


def test_a_server_is_found_and_mounted_with_the_keyboard_alone(browser: Browser, hub: Hub) -> None:
    """37.4"""
    tab = opened(browser, hub, viewport=DESK)
    page = tab.open("/registry")
    write(page, "Words of the name or a question", "weather")
    press(page, "Search")
    press(page, "com.example/weather", "link")
    expect(page.get_by_text("reaches https://weather.example/mcp")).to_be_visible()
    write(page, "X-Region required", "eu")
    press(page, "Mount")
    expect(page).to_have_url(f"{tab.base}/servers/weather")
    page = tab.open("/registry/updates")
    expect(page.get_by_role("button", name="Update memory")).to_be_visible()
    expect(page.get_by_text(VERSIONS["npm", "@modelcontextprotocol/server-memory"])).to_be_visible()
    tab.close()

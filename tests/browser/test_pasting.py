"""A pasted configuration in a real browser: mounted without scripts, accessible, hostile texts as text. 47.11."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import SIZES, violations
from tests.client.reaching import SCRIPTED
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

MARKUP = '"><img src=x onerror=alert(1)></td></table>'
LONG = {"command": "npx", "args": ["-y", "p" * 200, MARKUP], "env": {"API_KEY": "k", "A": MARKUP}, MARKUP: 1}
PASTE = json.dumps({"mcpServers": {"long": LONG, "odd": {"command": "x", "envFile": MARKUP}}})


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("pasting")
    (folder / "servers").mkdir()
    with running(folder) as found:
        yield found
        assert found.end() == 0


def opened(browser: Browser, hub: Hub, **options: object) -> Tab:
    return Tab(browser, f"http://127.0.0.1:{hub.port}", **options).log_in(hub)


def test_a_configuration_is_pasted_and_mounted_without_scripts(browser: Browser, hub: Hub) -> None:
    tab = opened(browser, hub, java_script_enabled=False)
    page = tab.open("/servers/new")
    entry = {"command": sys.executable, "args": ["-S", str(SCRIPTED)]}
    page.get_by_role("textbox", name="What the documentation").fill(
        json.dumps({"mcpServers": {"piped": entry}}, indent=2)
    )
    page.get_by_role("button", name="Show what it would run").click()
    expect(page.get_by_text("runs on this machine")).to_be_visible()
    page.get_by_role("button", name="Mount").click()
    expect(page).to_have_url(f"{tab.base}/servers/piped")
    tab.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_answer_to_a_paste_has_no_violation_and_shows_texts_as_text(browser: Browser, hub: Hub, size: str) -> None:
    tab = opened(browser, hub, viewport=SIZES[size], bypass_csp=True)
    page = tab.open("/servers/new")
    assert violations(tab) == []
    page.get_by_role("textbox", name="What the documentation").fill(PASTE)
    page.get_by_role("button", name="Show what it would run").click()
    expect(page.get_by_role("heading", name="long")).to_be_visible()
    assert violations(tab) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("img[src=x]").count() == 0
    tab.close()

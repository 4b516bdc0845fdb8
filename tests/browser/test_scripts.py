"""The pages of scripts in a real browser: a script is tried without a script of the page, and its run is read."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import violations
from tests.browser.test_toolsets import SIZES, opened
from tests.catalogue.operating.test_toolset_changes import GIT
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

LONG = "x" * 300
CODE = f"import release\nfound = await release.log(repo='/a', count=3)\nprint('{LONG}')\nfound  # {LONG}\n"
SAVED = "import release\n\n\nasync def logs(count: int) -> str:\n    return await release.log(repo='/b', count=count)\n"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder: Path = tmp_path_factory.mktemp("scripts")
    (folder / "servers").mkdir()
    (folder / "servers" / "git.py").write_text(GIT)
    tools = {"logs": {"script": SAVED}, "wrong": {"script": "def wrong(x) -> int:\n    return 1\n"}}
    scripted = {"kind": "toolset", "include": ["git.*"], "listing": {"scripts": "also"}, "tools": tools}
    (folder / "servers" / "release.json").write_text(json.dumps(scripted))
    with running(folder, "--activity-contents", "keep") as found:
        yield found
        assert found.end() == 0


def run_script(tab: Tab, code: str) -> None:
    """Try a script on the page of the toolset."""
    page = tab.open("/servers/release/script")
    page.get_by_label("Script", exact=True).fill(code)
    page.get_by_role("button", name="Run", exact=True).click()


def test_a_script_is_tried_and_its_run_is_read_and_repeated(browser: Browser, hub: Hub) -> None:
    """Issue 55, item 6: also without JavaScript."""
    tab = opened(browser, hub, java_script_enabled=False)
    page = tab.open("/servers/release")
    page.get_by_role("link", name="Script", exact=True).click()
    page.get_by_label("Script", exact=True).fill(CODE)
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("status")).to_contain_text("/a 3")
    page.get_by_role("link", name="The run, with its calls beside their lines").click()
    line = page.locator(".script-lines > li", has_text="await release.log")
    expect(line.locator("summary", has_text="release.log(count=3")).to_be_visible()
    page.get_by_role("button", name="Repeat against the record").click()
    expect(page.get_by_role("status")).to_contain_text("made the same calls and has the same value")
    page.locator(".script-lines summary", has_text="release.log(").click()
    page.locator(".script-lines").get_by_role("link", name="Record of this call").click()
    expect(page).to_have_url(re.compile(r"/activity/\d+-\d+$"))
    page.get_by_role("link", name="line 2 of the run of a script").click()
    expect(page.get_by_role("heading", name="Run of a script")).to_be_visible()
    tab.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_pages_of_scripts_are_accessible_and_fit_the_screen(browser: Browser, hub: Hub, size: str) -> None:
    """WCAG 2.2 AA, with long lines, a result, a failure and every part open."""
    tab = opened(browser, hub, size, bypass_csp=True)
    run_script(tab, CODE)
    places = [None, tab.page.get_by_role("link", name="The run, with its calls").get_attribute("href")]
    for path in (*places, "/toolsets/release"):
        page = tab.page if path is None else tab.open(path)
        page.evaluate("document.querySelectorAll('main details').forEach((each) => { each.open = true; })")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        assert violations(tab) == [], path
    run_script(tab, "import release\nawait release.log(count='x')")
    assert violations(tab) == []
    tab.close()

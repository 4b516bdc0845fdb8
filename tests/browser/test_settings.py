"""The settings of a server in a real browser: form and text follow each other; without a script, and by keyboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.keyboard import focus, press, write
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import SIZES, violations
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser

CALM = 'def wait(n: int = 1) -> str:\n    """Wait."""\n    return "done"\n'
NAMES = ("live", "plain", "keys", "seen")


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Path]]:
    folder = tmp_path_factory.mktemp("calm")
    (folder / "servers").mkdir()
    for name in NAMES:
        (folder / "servers" / f"{name}.py").write_text(CALM)
    with running(folder) as hub:
        yield hub, folder / "servers"
        assert hub.end() == 0


def opened(browser: Browser, hub: Hub, path: str, **options: Any) -> Tab:
    tab = Tab(browser, f"http://127.0.0.1:{hub.port}", **options)
    tab.log_in(hub)
    tab.open(path)
    return tab


def test_the_text_follows_the_form_and_the_form_the_text(browser: Browser, calm: tuple[Hub, Path]) -> None:
    hub, servers = calm
    tab = opened(browser, hub, "/servers/live/settings")
    page = tab.page
    text = page.get_by_label("The same as text")
    page.get_by_label("Title", exact=True).fill("Live words")
    page.get_by_label("Time limit of a call (seconds)").fill("9")
    page.get_by_label("Memory (MiB)").focus()
    expect(text).to_have_value(
        '{\n  "auto_discover": true,\n  "title": "Live words",\n  "timeout": 9\n}\n', timeout=BOUND
    )
    text.fill('{"auto_discover": true, "description": "By hand.", "memory": 64}')
    expect(page.get_by_label("Description", exact=True)).to_have_value("By hand.", timeout=BOUND)
    expect(page.get_by_label("Title", exact=True)).to_have_value("")
    expect(page.get_by_label("Memory (MiB)")).to_have_value("64")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("The settings are saved.", timeout=BOUND)
    saved = json.loads((servers / "live.mcp.json").read_text())
    assert saved == {"auto_discover": True, "description": "By hand.", "memory": 64}
    tab.close()


def test_without_a_script_the_form_checks_and_saves(browser: Browser, calm: tuple[Hub, Path]) -> None:
    hub, servers = calm
    tab = opened(
        browser, hub, "/servers/plain/settings", java_script_enabled=False, viewport={"width": 390, "height": 844}
    )
    page = tab.page
    page.get_by_label("Variables").fill("NOSIGN")
    page.get_by_label("Title", exact=True).fill("Kept")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved.")
    expect(page.get_by_label("Variables")).to_have_accessible_description(
        "expected NAME=value in each line; this line has no = sign: 'NOSIGN'"
    )
    expect(page.get_by_label("Title", exact=True)).to_have_value("Kept")
    page.get_by_label("Variables").fill("A=1")
    page.get_by_label("Each call needs an approval, wait").select_option("Yes")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_role("status").first).to_contain_text("The settings are saved.")
    saved = json.loads((servers / "plain.mcp.json").read_text())
    assert saved["environment"] == {"A": "1"} and saved["tools"] == {"wait": {"approve": True}}
    assert saved["title"] == "Kept"
    tab.close()


def test_the_keyboard_alone_changes_a_setting_and_answers_the_question_before_a_removal(
    browser: Browser, calm: tuple[Hub, Path]
) -> None:
    hub, servers = calm
    tab = opened(browser, hub, "/servers/keys/settings")
    page = tab.page
    write(page, "Title", "By keyboard")
    press(page, "Save")
    expect(page.get_by_role("status").first).to_contain_text("The settings are saved.", timeout=BOUND)
    assert json.loads((servers / "keys.mcp.json").read_text())["title"] == "By keyboard"
    press(page, "Remove")
    expect(page.get_by_role("dialog", name="Remove keys?")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    assert (servers / "keys.py").exists()
    press(page, "Remove")
    focus(page, page.get_by_role("button", name="Remove keys"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{tab.base}/servers?removed=keys", timeout=BOUND)
    tab.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_form_its_errors_the_question_and_the_parts_have_no_violation(
    browser: Browser, calm: tuple[Hub, Path], size: str
) -> None:
    """WCAG 2.2 AA."""
    hub, _ = calm
    tab = opened(browser, hub, "/servers/seen/settings", viewport=SIZES[size], bypass_csp=True)
    page = tab.page
    assert violations(tab) == []
    page.get_by_label("Variables").fill("NOSIGN")
    page.get_by_role("button", name="Check").click()
    expect(page.get_by_role("alert")).to_contain_text("Nothing was saved.", timeout=BOUND)
    page.get_by_text("More settings").click()
    assert violations(tab) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Remove").click()
    assert violations(tab) == []
    for path in (
        "/static/parts.html",
        "/history",
        "/history/names",
        "/servers/seen/past",
        "/schedules",
        "/variables/mcps",
    ):
        tab.open(path)
        assert violations(tab) == [], path
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    tab.close()

"""The table of rights in a real browser: by mouse, by the keyboard alone, and without script; the text is the same
document.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.keyboard import press, step_to, write
from tests.browser.tabs import BOUND, Tab
from tests.browser.team import Team, team
from tests.browser.test_accessible import violations

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    """The hub of a team."""
    with team(tmp_path_factory.mktemp("team")) as found:
        yield found


def right(page: Page, who: str, right: str, on: str) -> Locator:
    """The button of a right."""
    return page.get_by_role("button", name=f"{who}: {right} {on}", exact=True)


def saved(team: Team) -> Any:
    """The document of the hub."""
    answer = httpx2.get(f"{team.base}/access.json", headers=team.hub.as_operator(), timeout=60)
    return json.loads(answer.json()["source"])


def typed(page: Page) -> Any:
    """The document in the text beside the table."""
    return json.loads(page.get_by_label("Grants (JSON)").input_value())


def gives(document: Any, who: str, on: str) -> list[list[str]]:
    """The actions of the rows about a name and a pattern."""
    return [row["may"] for row in document["grants"] if who in row["to"] and on in row["on"]]


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
@pytest.mark.parametrize("size", SIZES)
def test_a_colleague_gets_two_tools_by_mouse(browser: Browser, shared: Team, has_script: bool, size: str) -> None:
    who = f"cat{has_script}{size}@example.org"
    tab = Tab(browser, shared.base, viewport=SIZES[size], java_script_enabled=has_script).log_in(shared.hub)
    page = tab.open("/access")
    page.get_by_label("Person, key or group").fill(who)
    page.get_by_role("button", name="Show", exact=True).click()
    page.get_by_role("button", name="notes", exact=True).click()
    right(page, who, "call", "search").click()
    expect(right(page, who, "call", "search")).to_have_attribute("aria-pressed", "true")
    right(page, who, "ask", "delete_note").click()
    expect(right(page, who, "call", "delete_note")).to_have_attribute("aria-pressed", "true")
    expect(right(page, who, "ask", "delete_note")).to_have_attribute("aria-pressed", "true")
    changes = page.get_by_role("heading", name="What saving changes").locator("xpath=following-sibling::ul[1]")
    expect(changes.get_by_role("listitem")).to_have_text(
        [
            f"{who} may call notes.search.",
            f"{who} may call notes.delete_note, with an approval if the tool may destroy something.",
        ]
    )
    assert gives(typed(page), who, "notes.search") == [["call"]]
    assert gives(saved(shared), who, "notes.search") == []
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.get_by_text("Nothing changed yet.")).to_be_visible()
    assert gives(saved(shared), who, "notes.search") == [["call"]]
    expect(page.get_by_label("Person, key or group")).to_have_value(who)
    expect(right(page, who, "call", "search")).to_have_attribute("aria-pressed", "true")
    tab.close()


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
def test_rights_are_changed_and_saved_by_the_keyboard_alone(browser: Browser, shared: Team, has_script: bool) -> None:
    who = f"key:k{has_script}"
    tab = Tab(browser, shared.base, viewport=SIZES["desk"], java_script_enabled=has_script).log_in(shared.hub)
    page = tab.open("/access")
    write(page, "Person, key or group", who)
    press(page, "Show")
    expect(page.get_by_label("Person, key or group")).to_have_value(who)
    press(page, "notes")
    expect(page.get_by_role("button", name="notes", exact=True)).to_be_focused()
    step_to(page, right(page, who, "call", "search"))
    page.keyboard.press("Space")
    expect(right(page, who, "call", "search")).to_have_attribute("aria-pressed", "true")
    expect(right(page, who, "call", "search")).to_be_focused()
    press(page, "Save")
    expect(page.get_by_text("Nothing changed yet.")).to_be_visible()
    assert gives(saved(shared), who, "notes.search") == [["call"]]
    tab.close()


def test_a_typed_text_is_shown_in_the_table_and_a_button_keeps_what_is_typed(browser: Browser, shared: Team) -> None:
    tab = Tab(browser, shared.base, viewport=SIZES["desk"]).log_in(shared.hub)
    page = tab.open("/access?who=dora")
    document = typed(page)
    document["grants"].append({"to": ["dora"], "may": ["see"], "on": ["notes"]})
    page.get_by_label("Grants (JSON)").fill(json.dumps(document))
    right(page, "dora", "read", "notes").click()
    expect(right(page, "dora", "see", "notes")).to_have_attribute("aria-pressed", "true")
    expect(right(page, "dora", "read", "notes")).to_have_attribute("aria-pressed", "true")
    assert gives(typed(page), "dora", "notes") == [["see", "read"]]
    page.get_by_label("Grants (JSON)").fill('{"grants": [')
    right(page, "dora", "call", "notes").click()
    expect(page.get_by_role("alert")).to_contain_text("which is kept")
    expect(page.get_by_text("The table cannot show this text")).to_be_visible()
    assert page.get_by_label("Grants (JSON)").input_value() == '{"grants": ['
    assert gives(saved(shared), "dora", "notes") == []
    tab.faults = [fault for fault in tab.faults if "status of 422" not in fault]
    tab.close()


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
def test_two_administrators_at_once_lose_nothing(browser: Browser, shared: Team, has_script: bool) -> None:
    first, second = f"first{has_script}", f"second{has_script}"
    tabs = [
        Tab(browser, shared.base, viewport=SIZES["desk"], java_script_enabled=has_script).log_in(shared.hub)
        for _ in range(2)
    ]
    pages = [tab.open(f"/access?who={who}") for tab, who in zip(tabs, (first, second), strict=True)]
    for page, who in zip(pages, (first, second), strict=True):
        right(page, who, "see", "notes").click()
        expect(right(page, who, "see", "notes")).to_have_attribute("aria-pressed", "true")
    pages[0].get_by_role("button", name="Save", exact=True).click()
    expect(pages[0].get_by_text("Nothing changed yet.")).to_be_visible()
    pages[1].get_by_role("button", name="Save", exact=True).click()
    expect(pages[1].get_by_role("heading", name="Somebody else saved other grants meanwhile")).to_be_visible()
    expect(pages[1].get_by_text(f"{first} may no longer see notes.")).to_be_visible()
    assert gives(saved(shared), first, "notes") == [["see"]] and gives(saved(shared), second, "notes") == []
    assert gives(typed(pages[1]), second, "notes") == [["see"]]
    pages[1].get_by_role("button", name="Save yours in its place").click()
    expect(pages[1].get_by_text("Nothing changed yet.")).to_be_visible()
    assert gives(saved(shared), first, "notes") == [] and gives(saved(shared), second, "notes") == [["see"]]
    tabs[1].faults = [fault for fault in tabs[1].faults if "status of 409" not in fault]
    for tab in tabs:
        tab.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_table_has_no_violation_and_is_as_wide_as_the_screen(browser: Browser, shared: Team, size: str) -> None:
    """WCAG 2.2 AA, in both colour schemes."""
    tab = Tab(browser, shared.base, viewport=SIZES[size], bypass_csp=True).log_in(shared.hub)
    for path in ("/access", "/access?open=notes", "/access?who=key:ci&open=notes&as=key:ci"):
        page = tab.open(path)
        assert "\n".join(violations(tab)) == "", path
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
    right(page, "key:ci", "see", "Every server").click()
    expect(page.get_by_text(re.compile("key:ci may see everything"))).to_be_visible()
    assert "\n".join(violations(tab)) == ""
    tab.close()

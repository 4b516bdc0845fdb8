"""The navigation: a row on a wide screen, a menu on a narrow one, which needs neither a script nor a mouse."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import violations
from tests.serving.running import Hub

pytestmark = pytest.mark.browser

PHONE = {"width": 390, "height": 844}


def test_the_menu_of_a_narrow_screen_works_without_script_by_keyboard_alone(
    browser: Browser, base: str, served: Hub
) -> None:
    tab = Tab(browser, base, viewport=PHONE, java_script_enabled=False)
    page = tab.log_in(served).page
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    expect(links).to_have_count(0)
    for _ in range(20):
        page.keyboard.press("Tab")
        if page.get_by_role("button", name="Menu").and_(page.locator(":focus")).count():
            break
    page.keyboard.press("Enter")
    expect(links).to_have_count(6, timeout=BOUND)
    page.keyboard.press("Escape")
    expect(links).to_have_count(0)
    page.keyboard.press("Enter")
    for _ in range(20):
        page.keyboard.press("Tab")
        if links.filter(has_text="Hub").and_(page.locator(":focus")).count():
            break
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Hub", timeout=BOUND)
    page.get_by_role("navigation", name="Hub").get_by_role("link", name="Nodes").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Nodes", timeout=BOUND)
    tab.close()


def test_the_open_menu_has_no_violation_and_no_page_of_a_section_is_too_wide(
    browser: Browser, base: str, served: Hub
) -> None:
    """WCAG 2.2 AA."""
    tab = Tab(browser, base, viewport=PHONE, bypass_csp=True)
    page = tab.log_in(served).page
    page.get_by_role("button", name="Menu").click()
    assert "\n".join(violations(tab)) == ""
    for path in ("/", "/access", "/approvals", "/settings", "/variables", "/schedules", "/servers/everything"):
        tab.open(path)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, path
    tab.close()


def test_a_wide_screen_has_the_sections_in_a_row_and_no_button_for_them(tab: Tab, served: Hub) -> None:
    page = tab.log_in(served).page
    links = page.get_by_role("navigation", name="Main").get_by_role("link")
    expect(links).to_have_count(6)
    expect(page.get_by_role("button", name="Menu")).to_have_count(0)
    tops = {round(box["y"]) for each in links.all() if (box := each.bounding_box())}
    assert len(tops) == 1

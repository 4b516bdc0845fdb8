"""The page of the hub in a real browser: reached and read by keyboard alone, without script, on both sizes."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.keyboard import press, step_to
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import violations
from tests.serving.running import Hub

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

SIZES = {"desk": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}


def test_settings_and_the_pages_of_the_hub_are_reached_by_keyboard_without_script(
    browser: Browser, base: str, served: Hub
) -> None:
    tab = Tab(browser, base, viewport=SIZES["desk"], java_script_enabled=False).log_in(served)
    page = tab.open("/")
    press(page, "Hub", "link")
    expect(page.get_by_role("heading", level=1)).to_have_text("Hub")
    expect(page.get_by_role("row", name="--port")).to_contain_text(str(served.port))
    expect(page.get_by_role("row", name="--enable")).to_contain_text("everything")
    summary = page.locator("summary").filter(has_text="settings with their default")
    step_to(page, summary)
    page.keyboard.press("Enter")
    expect(page.get_by_role("row", name="--task-minutes")).to_be_visible()
    page.get_by_role("heading", level=2, name="Schedules").get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Schedules")
    tab.close()


@pytest.mark.parametrize("size", SIZES)
def test_the_page_has_no_violation_and_fits(browser: Browser, base: str, served: Hub, size: str) -> None:
    """WCAG 2.2 AA, in both colour schemes, with all settings open."""
    tab = Tab(browser, base, viewport=SIZES[size], bypass_csp=True).log_in(served)
    page = tab.open("/settings")
    page.locator("summary").filter(has_text="settings with their default").click()
    assert "\n".join(violations(tab)) == ""
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    tab.close()

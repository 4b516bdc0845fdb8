"""A person's first half hour, in one go: from the first page to a server that was broken and brought back."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.tabs import BOUND, Tab
from tests.serving.running import Hub

pytestmark = pytest.mark.browser

BELL = '"""Rings."""\n\n\ndef ring(times: int = 1) -> str:\n    """Ring a bell."""\n    return "ding " * times\n'


def test_a_person_reads_searches_tries_watches_cancels_answers_breaks_and_goes_back(tab: Tab, served: Hub) -> None:
    """VWR-5, VWR-6, VWR-22: every step begins where the one before it ended; the console stays empty throughout."""
    page = tab.log_in(served).page
    expect(page.get_by_role("heading", level=1)).to_have_text("Needs attention")
    page.get_by_role("searchbox").fill("count slowly")
    page.get_by_role("searchbox").press("Enter")
    page.locator(".found li").first.get_by_role("link").click()
    steps = tab.item("atelier", "steps")
    steps.call(many=3)
    assert "counted" in steps.shown()
    steps.fill(many=1000)
    steps.start()
    expect(steps.ran.locator(".stream")).to_contain_text("step 3", timeout=BOUND)
    steps.item.get_by_role("button", name="Cancel").click()
    expect(steps.state).to_have_text("Cancelled", timeout=BOUND)
    asking = tab.item("everything", "test_elicitation_sep1034_defaults")
    asking.start()
    asking.reply("Send the answer")
    asking.ended()
    assert "action=accept" in asking.shown()

    page.get_by_role("navigation", name="Main").get_by_role("link", name="Servers").click()
    page.get_by_role("link", name="New server").click()
    page.get_by_label("Name").fill("bell")
    page.locator("#source").fill(BELL)
    page.get_by_role("button", name="Save").click()
    tabs = page.get_by_role("navigation", name="This server")
    tabs.get_by_role("link", name="Source").click()
    page.get_by_role("link", name="Edit the definition").click()
    page.locator("#source").fill(BELL.replace("(times: int = 1)", "(times: int = 1"))
    expect(page.locator("#preview")).to_contain_text("Broken at line 4", timeout=BOUND)
    page.get_by_label("Save even if the definition is broken").check()
    page.get_by_role("button", name="Save").click()
    expect(page.locator(".note.fault")).to_contain_text("This server is broken and is not served", timeout=BOUND)
    tabs.get_by_role("link", name="Versions").click()
    page.get_by_role("link", name="Roll back").click()
    page.get_by_role("button", name="Roll back").click()
    expect(page.get_by_role("status").filter(has_text="Rolled back.")).to_be_visible(timeout=BOUND)
    expect(page.locator(".note.fault")).to_have_count(0)
    rung = tab.item("bell", "ring")
    rung.call(times=2)
    assert "ding ding" in rung.shown()

"""What happened, in a real browser: calls as they happen, plots, one call's story, and the same call again (VWR-6)."""

from __future__ import annotations

import json
import re
import time
import urllib.request
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.keyboard import step_to
from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import ON_A_PHONE, violations_in_sizes
from tests.serving.running import Hub
from tests.waiting import until

pytestmark = pytest.mark.browser

EVENTS_AND_FETCHES = """
window.answers = [];
window.fetch = () => new Promise((answer) => { answers.push(answer); });
window.EventSource = class extends EventTarget {
  constructor() {
    super();
    window.announce = () => this.dispatchEvent(new MessageEvent("calls", { data: "[]" }));
  }
  close() {}
};
"""


def call(base: str, server: str, tool: str, arguments: dict[str, Any], progress: bool = False) -> bytes:
    """A call of another client, to its end."""
    meta = {"_meta": {"progressToken": 1}} if progress else {}
    params = {"name": tool, "arguments": arguments, **meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with urllib.request.urlopen(urllib.request.Request(f"{base}/mcp/{server}", body, headers), timeout=30) as answer:
        return bytes(answer.read())


def recorded_call(base: str, server: str, tool: str, arguments: dict[str, Any], progress: bool = False) -> str:
    """Make a call of another client, to its end; return the id of its record, which is written shortly after it."""
    begun = time.time() - 0.01
    call(base, server, tool, arguments, progress)

    def find() -> str | None:
        with urllib.request.urlopen(f"{base}/activity.json?limit=1&tool={tool}", timeout=30) as answer:
            records = json.load(answer)["records"]
        return str(records[0]["id"]) if records and records[0]["at"] >= begun else None

    return str(until(find, "the record of the call"))


def is_recorded(base: str, tool: str) -> bool:
    """Whether a call of a tool has a record, which is written shortly after its answer."""
    with urllib.request.urlopen(f"{base}/activity.json?limit=1&tool={tool}", timeout=30) as answer:
        return bool(json.load(answer)["records"])


def test_a_call_appears_on_the_page_while_it_is_open(tab: Tab, base: str) -> None:
    page = tab.open("/activity?server=atelier&tool=say")
    status = page.locator(".watching [role=status]")
    expect(status).to_have_text(re.compile("^Live"), timeout=BOUND)
    before = page.locator("#calls tbody tr").count()
    call(base, "atelier", "say", {"text": "now"})
    expect(status).to_have_text("Live: 1 call since you opened this page.", timeout=BOUND)
    expect(page.locator("#calls tbody tr")).to_have_count(before + 1, timeout=BOUND)
    expect(page.locator("#calls tbody tr").first).to_contain_text("say")
    expect(page.get_by_role("group", name=re.compile("calls?, 0 of them failed"))).to_be_visible()


@pytest.fixture
def followed(tab: Tab) -> Page:
    """A live page whose events the test makes, and whose fetches the test answers."""
    tab.page.add_init_script(EVENTS_AND_FETCHES)
    return tab.open("/activity?server=atelier&tool=say")


def test_a_live_page_fetches_again_for_an_event_that_came_during_a_fetch(followed: Page) -> None:
    followed.evaluate("announce()")
    until(lambda: followed.evaluate("answers.length") == 1)
    followed.evaluate("announce(); answers[0](new Response('<p>'))")
    until(lambda: followed.evaluate("answers.length") == 2)


@pytest.mark.parametrize("failure", ["new Response('', { status: 503 })", "Promise.reject(new TypeError())"])
def test_a_live_page_fetches_again_after_a_fetch_that_failed(followed: Page, failure: str) -> None:
    followed.evaluate("announce()")
    until(lambda: followed.evaluate("answers.length") == 1)
    followed.evaluate(f"answers[0]({failure})")
    until(lambda: followed.evaluate("answers.length") == 2)


def test_the_page_can_be_paused_and_goes_on(tab: Tab, base: str) -> None:
    page = tab.open("/activity?server=atelier")
    status = page.locator(".watching [role=status]")
    expect(status).to_have_text(re.compile("^Live"), timeout=BOUND)
    page.get_by_role("button", name="Pause").click()
    expect(status).to_have_text("Paused.")
    before = page.locator("#calls").inner_html()
    recorded_call(base, "atelier", "say", {"text": "unseen"})
    assert page.locator("#calls").inner_html() == before
    page.get_by_role("button", name="Resume").click()
    expect(status).to_have_text(re.compile("^Live"), timeout=BOUND)
    call(base, "atelier", "say", {"text": "seen"})
    expect(page.locator("#calls tbody tr").first).to_contain_text("say", timeout=BOUND)


def test_filters_and_plots_lead_to_the_calls_they_speak_of(tab: Tab, base: str) -> None:
    call(base, "atelier", "say", {"text": "x"})
    call(base, "hostile", "fail", {"number": 0})
    until(lambda: is_recorded(base, "fail"), "the record of the failed call")
    page = tab.open("/activity")
    page.get_by_label("Outcome").select_option("tool_error")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page).to_have_url(re.compile("outcome=tool_error"), timeout=BOUND)
    expect(page.locator("#calls tbody tr td:nth-child(4)").first).to_have_text("the tool failed", timeout=BOUND)
    outcomes = page.locator("#calls tbody tr td:nth-child(4)").all_inner_texts()
    assert outcomes and set(outcomes) == {"the tool failed"}
    page.goto(f"{base}/activity")
    page.get_by_text("Data of “Calls and errors over time”").click()
    page.locator("#plots figure").first.locator("tbody a").first.click()
    expect(page).to_have_url(re.compile("since=.*until="))
    expect(page.locator("#calls tbody tr").first).to_be_visible(timeout=BOUND)
    page.goto(f"{base}/activity")
    page.locator("#tools .measures").first.get_by_role("link", name="say").first.click()
    expect(page.get_by_label("Tool, prompt or resource")).to_have_value("say")


@pytest.mark.parametrize("has_script", [True, False], ids=["script", "no-script"])
@pytest.mark.parametrize("size", [{"width": 1280, "height": 900}, {"width": 390, "height": 844}], ids=["desk", "phone"])
def test_the_reason_of_a_failure_is_three_steps_away_by_keyboard_alone(
    browser: Browser, base: str, served: Hub, size: dict[str, int], has_script: bool
) -> None:
    recorded_call(base, "hostile", "fail", {"number": 0})
    tab = Tab(browser, base, viewport=size, java_script_enabled=has_script).log_in(served)
    page = tab.open("/activity")
    tops = page.evaluate("['#plots', '#calls'].map((each) => document.querySelector(each).getBoundingClientRect().top)")
    assert tops[0] < tops[1]
    step_to(page, page.get_by_role("link", name="last day"))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since=1d"))
    step_to(page, page.locator("#plots").get_by_role("link", name=re.compile(r"^\d+ failed$")))
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("since=1d&outcome=failed"))
    step_to(page, page.locator("#calls tbody a").first)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="fail", level=1)).to_be_visible()
    tab.close()


def test_the_page_with_filters_has_no_violation_and_fits(browser: Browser, base: str, served: Hub) -> None:
    """WCAG 2.2 AA."""
    recorded_call(base, "hostile", "fail", {"number": 0})
    tab = Tab(browser, base, **ON_A_PHONE).log_in(served)
    page = tab.open("/activity?since=1d&outcome=failed&caller=local")
    assert violations_in_sizes(tab) == []
    expect(page.get_by_label("Person or key")).to_have_value("local")
    tab.close()


def test_the_page_of_a_call_shows_each_event_and_repeats_the_call_with_the_same_result(
    tab: Tab, base: str, served: Hub
) -> None:
    tab.log_in(served)
    record = recorded_call(base, "atelier", "steps", {"many": 3}, progress=True)
    page = tab.open(f"/activity/{record}")
    told = [row.inner_text().split("\t")[1:] for row in page.locator("section").first.locator("tbody tr").all()]
    assert told[1][0] == "progress" and told[1][1] == "1 of 3: step 1"
    assert told[2] == ["log", "info: at 1"]
    assert told[-1] == ["end", "result"]
    expect(page.locator("svg.timeline line.event")).to_have_count(8)
    page.get_by_role("button", name="Run again").click()
    expect(page.locator(".again [role=status]")).to_contain_text("The result is the same as before.", timeout=BOUND)
    assert "3 of 3: step 3" in page.locator(".again .stream").inner_text()
    assert '"counted"' in page.locator(".again pre").inner_text()
    page.get_by_role("link", name="Open the new record").click()
    expect(page.get_by_role("heading", name="steps", level=1)).to_be_visible()


def test_a_call_that_runs_again_is_compared_by_its_own_record_which_may_come_late(
    tab: Tab, base: str, served: Hub
) -> None:
    tab.log_in(served)
    record = recorded_call(base, "atelier", "say", {"text": "twice"})
    page = tab.open(f"/activity/{record}")
    records = [{"records": [{"id": each, "answer_cid": each}]} for each in (record, record, "another")]

    def answer(route: Route) -> None:
        route.fulfill(json=records.pop(0))

    page.route("**/activity.json?*", answer)
    page.get_by_role("button", name="Run again").click()
    expect(page.locator(".again [role=status]")).to_contain_text("The result differs", timeout=BOUND)
    expect(page.get_by_role("link", name="Open the new record")).to_have_attribute("href", "/activity/another")
    assert records == []


def test_a_call_that_runs_again_can_be_cancelled(tab: Tab, base: str, served: Hub) -> None:
    tab.log_in(served)
    record = recorded_call(base, "atelier", "steps", {"many": 2})
    page = tab.open(f"/activity/{record}")
    page.evaluate(
        "() => { window.real = window.fetch; window.fetch = (...all) => new Promise((_, no) => "
        "all[1].signal.addEventListener('abort', () => no(all[1].signal.reason))); }"
    )
    page.get_by_role("button", name="Run again").click()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".again [role=status]")).to_have_text("Cancelled.", timeout=BOUND)
    expect(page.get_by_role("button", name="Run again")).to_be_visible()


def test_without_scripts_everything_can_be_read(browser: Browser, base: str, served: Hub) -> None:
    record = recorded_call(base, "atelier", "say", {"text": "plain"})
    tab = Tab(browser, base, java_script_enabled=False)
    page = tab.open(f"/activity/{record}")
    assert "Only the operator of this hub can see this." in page.inner_text(
        "main"
    ) and '"plain"' not in page.inner_text("main")
    tab.log_in(served)
    page = tab.open(f"/activity/{record}")
    assert '"plain"' in page.get_by_label("Result", exact=True).inner_text()
    assert tab.open("/activity").locator("#plots svg rect").count() > 0
    tab.close()


def test_the_pages_about_calls_and_the_login_page_have_no_violation(browser: Browser, base: str) -> None:
    """WCAG 2.2 AA."""
    record = recorded_call(base, "atelier", "steps", {"many": 2}, progress=True)
    tab = Tab(browser, base, **ON_A_PHONE)
    for path in ("/activity", f"/activity/{record}", "/login", "/activity?tool=none-of-that-name"):
        page = tab.open(path)
        for summary in page.locator("main details > summary").all():
            summary.click()
        assert violations_in_sizes(tab) == [], path
    tab.close()


def test_a_bar_of_a_chart_leads_to_its_calls_by_the_keyboard_alone(tab: Tab, base: str) -> None:
    """Issue 53: the bar has a name for those who do not see it, and keeps the other filters."""
    recorded_call(base, "atelier", "say", {"text": "bar"})
    page = tab.open("/activity?server=atelier&tool=say")
    bars = page.get_by_role("group", name="calls, 0 of them failed").get_by_role("link", name="1 succeeded")
    step_to(page, bars.last)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(r"server=atelier&tool=say&since=[\d.]+&until=[\d.]+"), timeout=BOUND)
    expect(page.locator("#calls tbody tr")).to_have_count(1)


def test_a_reader_without_a_mouse_passes_the_charts_at_once(tab: Tab, base: str) -> None:
    recorded_call(base, "atelier", "say", {"text": "skip"})
    page = tab.open("/activity")
    step_to(page, page.get_by_role("link", name="Skip the charts"))
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(page.get_by_label("Server", exact=True)).to_be_focused(timeout=BOUND)

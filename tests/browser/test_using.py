"""Keys and buttons of the page of a server: search, call, copy and download, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.tabs import Tab
from tests.waiting import until
from tests.wire.hostile import HOSTILE

pytestmark = pytest.mark.browser

WRITE_LINES = """async (hostile) => {
  const { writeLog } = await import("/static/try/dock.js");
  writeLog("long", "info", "x".repeat(5000));
  for (let line = 0; line < 499 - hostile.length; line += 1) writeLog("many", "info", "x");
  for (const each of hostile) writeLog(each, each, each);
  const list = document.querySelector(".dock .stream");
  const lines = [...list.children];
  const longest = Math.max(...lines.map((each) => each.lastChild.textContent.length));
  const texts = lines.slice(-hostile.length).map((each) => each.lastChild.textContent);
  for (let line = 0; line < 600; line += 1) writeLog("many", "info", "x");
  const elements = list.querySelectorAll(":not(li, time, span)").length;
  return { lines: list.childElementCount, longest, texts, elements };
}"""


def test_a_key_leads_to_the_search_and_the_search_narrows_the_list(tab: Tab) -> None:
    """Issue 17, item 5: `/` searches; the list leads to one entry at a time, with the keyboard alone."""
    page = tab.open("/servers/everything")
    page.keyboard.press("/")
    search = page.get_by_label("Find in this server")
    expect(search).to_be_focused()
    page.keyboard.type("audio content")
    links = page.locator(".contents li:visible a[href^='#tool']")
    expect(links).to_have_text(["test_audio_content"])
    links.first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("details.item[open] h3")).to_have_text("test_audio_content")
    search.fill("image")
    search.press("Enter")
    expect(page).to_have_url(re.compile("find=image"))
    expect(page.locator("#main")).not_to_contain_text("test_audio_content")
    page = tab.open("/servers")
    page.keyboard.press("/")
    expect(page.get_by_label("Find a server or tool")).to_be_focused()


def test_text_is_one_line_and_enter_calls(tab: Tab) -> None:
    """Strings are one-line fields; Ctrl+Enter calls from every field; the result is copied and downloaded."""
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    trial = tab.item("hello", "hello")
    field = trial.item.locator('[data-name="name"] input')
    field.fill("Ada")
    field.press("Control+Enter")
    trial.ended()
    trial.item.get_by_role("button", name="Copy the result").click()
    expect(trial.item.get_by_role("button", name="Copied")).to_be_visible()
    copied = tab.page.evaluate("navigator.clipboard.readText()")
    assert "Ada" in copied
    with tab.page.expect_download() as download:
        trial.item.get_by_role("button", name="Download the result").click()
    assert Path(download.value.path()).read_text() == copied


def test_a_pasted_text_of_several_lines_keeps_its_lines(tab: Tab) -> None:
    tab.context.grant_permissions(["clipboard-read", "clipboard-write"])
    trial = tab.item("hello", "hello")
    tab.page.evaluate("navigator.clipboard.writeText('one\\ntwo')")
    trial.item.locator('[data-name="name"] input').fill("")
    tab.page.keyboard.press("Control+V")
    expect(trial.item.locator('[data-name="name"] textarea')).to_have_value("one\ntwo")
    trial.start()
    assert "two" in str(trial.ended())


def test_the_icon_of_a_server_is_a_picture_without_scripts(tab: Tab) -> None:
    """Issue 17, item 5: the tab fails when a script of the picture runs, or when the page calls another host."""
    page = tab.open("/servers/atelier")
    assert page.locator("h1 img.face").evaluate("(each) => each.decode().then(() => each.naturalWidth)") == 40
    page = tab.open("/servers/hello")
    expect(page.locator("h1 .face")).to_have_text("H")


def test_shift_and_enter_make_a_field_for_several_lines(tab: Tab) -> None:
    """Issue 17, item 5: the text stays, the caret is on the new line, and Ctrl+Enter still calls."""
    trial = tab.item("hello", "hello")
    expect(trial.item.get_by_text("Shift+Enter")).to_be_visible()
    field = trial.item.locator('[data-name="name"] input')
    field.fill("onetwo")
    field.press("Home")
    for _ in "one":
        field.press("ArrowRight")
    field.press("Shift+Enter")
    tab.page.keyboard.type("and ")
    area = trial.item.locator('[data-name="name"] textarea')
    expect(area).to_have_value("one\nand two")
    area.press("Control+Enter")
    assert "and two" in str(trial.ended())


def test_the_log_has_the_lines_of_all_calls_and_of_other_clients(tab: Tab, base: str) -> None:
    """Issue 17, item 5: a log dock, with the keyboard alone."""
    trial = tab.item("atelier", "steps")
    trial.call(many=2)
    log = tab.page.locator(".dock")
    expect(log.locator(".last")).to_contain_text("steps call: Done")
    trial.item.get_by_role("button", name="Log", exact=True).press("Enter")
    lines = log.get_by_label("Log of the calls")
    expect(lines).to_be_in_viewport()
    for words in ("steps progress", "2 of 2: step 2", "at 2", "steps call", "started"):
        expect(lines).to_contain_text(words)
    tab.item("atelier", "say").call(text="hello")
    expect(lines).to_contain_text("say call")
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "say", "arguments": {"text": "far"}}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}

    def is_shown() -> bool:
        tab.context.request.post(f"{base}/mcp/atelier", data=body, headers=headers)
        return "ok, " in lines.inner_text()

    until(is_shown, "the call of another client")
    lines.press("Escape")
    expect(lines).to_be_hidden()
    expect(log.locator("summary")).to_be_focused()


def test_the_log_is_bounded_and_holds_text_only(tab: Tab) -> None:
    """T14.2, S24: hostile names and texts; at most 500 lines of 2,000 characters."""
    tab.open("/servers/atelier")
    found = tab.page.evaluate(WRITE_LINES, HOSTILE)
    assert (found["lines"], found["longest"], found["elements"]) == (500, 2001, 0)
    assert found["texts"] == list(HOSTILE)

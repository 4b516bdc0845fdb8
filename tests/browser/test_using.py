"""Keys and buttons of the page of a server: search, call, copy and download, in a real browser."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.tabs import Tab

pytestmark = pytest.mark.browser


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

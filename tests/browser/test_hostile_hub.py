"""Sixty hostile strings in every field that a hub's own pages show, in Chromium: nothing runs, the layout stays.

Names, titles, descriptions, instructions, resources, prompts, schemas, definitions, variables, contents, records of
calls, errors, who and why in the history, what is searched for, compared and edited. What is on a page is looked at
element by element: only those that the hub's templates and scripts make may be there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2
import pytest
from playwright.sync_api import Browser, expect

from patchbay.boot import change_names
from patchbay.stores.sqlite import SqliteStore
from tests.browser.tabs import Tab
from tests.serving.running import Hub, running
from tests.web.pages.test_safety import hostile_files
from tests.wire.hostile import ELEMENTS, HOSTILE

pytestmark = pytest.mark.browser

MADE = ELEMENTS | {"fieldset", "legend", "time", "progress", "datalist", "header", "br", "hr", "blockquote", "em", "q"}
"""What templates and scripts may put on a page."""

APPS = (
    r"cursor:\/\/anysphere\.cursor-deeplink\/mcp\/install|lmstudio:\/\/add_mcp|goose:\/\/extension"
    r"|vscode(-insiders)?:mcp\/install"
)
"""The links by which clients add a server."""

STRANGE = r"""(known) => [...document.querySelectorAll("*")].flatMap((each) => [
  ...(known.includes(each.localName) ? [] : [`the element ${each.localName}`]),
  ...(each.localName === "script" && !each.src.startsWith(location.origin + "/static/") ? ["a script"] : []),
  ...[...each.attributes].flatMap(({ name, value }) =>
    name.startsWith("on") || name === "style" || name === "srcdoc" || name === "formaction"
    || (["href", "src", "action", "xlink:href"].includes(name) && !/^([/#?]|https?:|(APPS)\?|data:image\/)/.test(value))
    ? [`${each.localName} ${name}=${value}`] : []),
])""".replace("APPS", APPS)

WIDE = """() => document.documentElement.scrollWidth <= innerWidth ? [] : [...document.querySelectorAll("main *")]
  .filter((each) => each.getBoundingClientRect().right > innerWidth && !each.closest("pre, .scroll, svg"))
  .map((each) => each.outerHTML.slice(0, 200))"""
"""What is wider than the screen, where the page can be moved sideways."""

ALL = "\n\n".join(HOSTILE)
PHONE, DESK = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


class HostilePages(NamedTuple):
    """A hub, its address, and addresses of pages that have a CID or an ID in them."""

    hub: Hub
    base: str
    pages: tuple[str, ...]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostilePages]:
    """A hub of this file's own, full of them."""
    folder = tmp_path_factory.mktemp("hostile")
    (folder / "servers").mkdir()
    for name, text in hostile_files().items():
        (folder / "servers" / name).write_text(text)
    for index, text in enumerate(HOSTILE):
        (folder / "servers" / f"broken{index:02}.py").write_text(f"def {text}\n" if "\x0c" not in text else "def\n")
    with running(folder) as found:
        base = f"http://127.0.0.1:{found.port}"
        first = moved(folder)
        called(base)
        root = str(httpx2.get(f"{base}/history.json").json()["changes"][0]["cid"])
        records = httpx2.get(f"{base}/activity.json?limit=200").json()["records"]
        stories = {f"/activity/{record['id']}": "" for record in records if record["server"] == "h00"}
        kept = {
            f"/cid/{store_text(found, data)}": ""
            for data in (ALL, f"# Title\n\n* {ALL}\n", json.dumps(dict.fromkeys(HOSTILE, HOSTILE)), f"#!/bin/sh\n{ALL}")
        }
        pages = [*list(stories)[:3], *kept, f"/history/compare?old={first}&new={root}", f"/cid/{root}"]
        yield HostilePages(found, base, (*pages, f"/history/rollback?root={first}"))
        assert found.end() == 0


def store_text(hub: Hub, text: str) -> str:
    """Let a hub keep a text; its CID."""
    address = f"http://127.0.0.1:{hub.port}/cid"
    return str(httpx2.post(address, content=text.encode(), headers=hub.as_operator()).json()["cid"])


def moved(folder: Any) -> str:
    """Move names for hostile reasons; the first root."""
    store = SqliteStore(folder / "data")
    try:
        first = str(store.names.get("root"))
        for index, text in enumerate(HOSTILE):
            change_names(store, {f"variables/v{index:02}": store.blobs.put(text.encode())}, text, text)
        change_names(store, {"variables/v00": store.blobs.put(ALL.encode())}, ALL, ALL)
        return first
    finally:
        store.close()


def called(base: str) -> None:
    """Leave records: tools that are not there, names of clients, arguments and results."""
    with httpx2.Client(base_url=base, timeout=60) as client:
        for index, text in enumerate(HOSTILE):
            for server, name, arguments in (("h00", text, {text: text}), ("tools", f"t{index:02}", {text: text})):
                params = {"name": name, "arguments": arguments, "_meta": {"progressToken": text}}
                body = {"jsonrpc": "2.0", "id": index, "method": "tools/call", "params": params}
                client.post(f"/mcp/{server}", json=body, headers={"Accept": "application/json, text/event-stream"})
        every = dict.fromkeys(HOSTILE, HOSTILE)
        body = {"jsonrpc": "2.0", "id": 1, "method": "prompts/get", "params": {"name": ALL, "arguments": every}}
        client.post("/mcp/h00", json=body, headers={"Accept": "application/json, text/event-stream"})


@pytest.fixture
def base(hub: HostilePages) -> str:
    return hub.base


def check_page(tab: Tab, path: str, status: int = 0) -> None:
    """Open a page and look at all of it. A page with a status from 500 is expected only as `status`."""
    answer = tab.page.goto(tab.base + path)
    assert answer is not None and (answer.status == status if status else answer.status < 500), path
    tab.page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    assert tab.page.evaluate(STRANGE, sorted(MADE)) == [], path
    assert tab.page.evaluate(WIDE) == [], path
    assert tab.page.locator("footer").count() == 1, path
    # The console lists refused requests; it must list nothing else.
    tab.faults = [fault for fault in tab.faults if "Failed to load resource" not in fault]
    assert tab.faults == [], path


GROUPS = 12
"""How many tests share the strings: one that opens all pages takes minutes on a busy machine."""


@pytest.mark.parametrize("group", range(GROUPS))
def test_a_server_whose_words_are_hostile_is_only_shown(browser: Browser, base: str, group: int) -> None:
    """T14.2, S24: title, description, instructions, resources, prompts; broken definitions; addresses; searches."""
    tab = Tab(browser, base, viewport=PHONE)
    for index in range(group, len(HOSTILE), GROUPS):
        text = quote(HOSTILE[index], safe="")
        for path in (f"/servers/h{index:02}", f"/servers/broken{index:02}", f"/servers/{text}"):
            check_page(tab, path)
        # Nearly all searches find the same hundred things, which take long to draw: one of four looks for all kinds,
        # one or two in each group.
        whole = (index + index // GROUPS) % 4 == 0
        check_page(tab, f"/search?q={text}" + ("" if whole else "&kind=prompt"))
    tab.close()


@pytest.mark.parametrize("size", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_full_of_hostile_words_only_show_them(browser: Browser, hub: HostilePages, size: Any) -> None:
    """T14.2, S24: lists, records, history, contents, comparisons, and the page on which a server is edited."""
    tab = Tab(browser, hub.base, viewport=size).log_in(hub.hub)
    lists = ("/", "/mcp", "/servers", "/variables", "/variables/v00", "/history", "/history/names", "/activity")
    more = ("/search?q=alert", "/search?q=script&kind=server", "/servers/tools/edit", "/servers/broken01/edit")
    for path in (*lists, *more, *hub.pages):
        check_page(tab, path)
    tab.close()


def test_every_hostile_tool_gets_a_form_that_only_shows(browser: Browser, base: str) -> None:
    """T14.2, S24: names of arguments, titles, defaults, choices; the call is made and its error is text as well."""
    tab = Tab(browser, base, viewport=PHONE)
    check_page(tab, "/servers/tools")
    forms = tab.page.locator("details.item .try form")
    expect(forms).to_have_count(len(HOSTILE))
    assert tab.page.evaluate(STRANGE, sorted(MADE)) == []
    trial = tab.item("tools", "t00")
    trial.start()
    trial.ended("The tool reports an error")
    assert tab.page.evaluate(STRANGE, sorted(MADE)) == []
    tab.close()

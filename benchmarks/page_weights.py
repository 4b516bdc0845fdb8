"""Bytes that a browser receives for each kind of page: HTML, style sheets, scripts and pictures, with an empty cache.

    .venv/bin/python -m benchmarks.page_weights

Opens each page with Chromium on two running hubs: a personal one with the everything server, and a shared one of a
team.
Prints a Markdown table: requests; KB (1,000 bytes) of the bodies as the hub sends them; KB when each body is plain;
KB when a proxy before the hub compresses each body with gzip. The last line names the heaviest page. The exit code is 1
when a page transfers more than `BOUND_KB`.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from playwright.sync_api import Browser, Response, sync_playwright

from tests.browser import screenshots
from tests.browser.tabs import Tab, launched
from tests.browser.team import team
from tests.checkout import ROOT
from tests.many_servers import LARGEST, name_of, tools_of, write_servers
from tests.serving.running import Hub
from tests.waiting import until

BOUND_KB = 84
"""KB that a page may transfer."""

COUNTED = ("document", "stylesheet", "script", "image")

PERSONAL = {
    "Home": "/",
    "Connect": "/mcp",
    "Servers": "/servers",
    "Server, tab Use": "/servers/everything",
    f"Server with {LARGEST} tools": f"/servers/{name_of(0)}",
    f"One tool of {LARGEST}": f"/servers/{name_of(0)}?tool={list(tools_of(0))[400]}",
    "Server, tab Source": "/servers/everything/source",
    "Server, tab Versions": "/servers/weather/past",
    "Server, tab Settings": "/servers/everything/settings",
    "Documents": "/servers/manual/documents",
    "Document": "/servers/manual/documents?path=rooms.md",
    "Editor of a document": "/servers/jane/documents/edit",
    "Editor of a server": "/servers/everything/edit",
    "New server": "/servers/new",
    "Activity": "/activity",
    "Variables": "/variables",
    "Variable": "/variables/mcps",
    "Rooms": "/rooms",
    "Room": "/rooms/harbour",
    "Search": "/search?q=list",
    "History": "/history",
    "Inspect": "/inspect",
    "Error": "/servers/absent",
}
OPERATOR = {
    "Access": "/access?as=key:ci",
    "Hub": "/settings",
    "Keys": "/access/keys",
    "People": "/people",
    "Pins": "/pins",
    "Pins of a server": "/pins/far",
    "Approvals": "/approvals",
    "Audit": "/audit",
    "Upstreams": "/upstreams",
}


@dataclass(frozen=True)
class Weight:
    """One page: the number of requests, and the bytes of all bodies as sent, uncompressed and with gzip."""

    requests: int
    sent: int
    plain: int
    compressed: int


def weigh_page(browser: Browser, base: str, path: str, **options: Any) -> Weight:
    """Open one page with an empty cache, and add up what the browser receives until its `load` event."""
    tab = Tab(browser, base, viewport={"width": 1280, "height": 900}, **options)
    answers: list[Response] = []
    tab.page.on("response", lambda answer: answers.append(answer))
    tab.page.goto(base + path, wait_until="load")
    counted = [answer for answer in answers if answer.request.resource_type in COUNTED]
    bodies = [answer.body() for answer in counted]
    sent = sum(answer.request.sizes()["responseBodySize"] for answer in counted)
    plain, compressed = sum(map(len, bodies)), sum(len(gzip.compress(body)) for body in bodies)
    tab.context.close()
    return Weight(len(counted), sent, plain, compressed)


@contextmanager
def operator_state(browser: Browser, base: str, hub: Hub) -> Iterator[Any]:
    """Log in as the operator; give the state of the browser."""
    tab = Tab(browser, base).log_in(hub)
    yield tab.context.storage_state()
    tab.context.close()


def weigh_personal(browser: Browser) -> Iterator[tuple[str, Weight]]:
    """Weigh the pages of a personal hub with data."""
    with screenshots.hub() as hub:
        base = f"http://127.0.0.1:{hub.port}"
        config = {"kind": "documents", "root": str(ROOT / "docs")}
        (hub.folder / "servers/manual.json").write_text(json.dumps(config))
        write_servers(hub.folder / "servers", servers=1)
        wanted = ("/servers/manual/documents", f"/servers/{name_of(0)}")
        until(lambda: all(httpx2.get(base + path).status_code == 200 for path in wanted))
        with operator_state(browser, base, hub) as state:
            for name, path in {**PERSONAL, **dict(screenshots.found_by_content(base))}.items():
                yield name, weigh_page(browser, base, path, storage_state=state)


def weigh_shared(browser: Browser) -> Iterator[tuple[str, Weight]]:
    """Weigh the pages of a shared hub with the data of a team."""
    with tempfile.TemporaryDirectory() as folder, team(Path(folder)) as found:
        yield "Sign-in", weigh_page(browser, found.base, "/login")
        cookies = [{"name": name, "value": value, "url": found.base} for name, value in found.ann.cookies()]
        person = Tab(browser, found.base)
        person.context.add_cookies(cookies)  # type: ignore[arg-type]
        state = person.context.storage_state()
        for name, path in {"Account": "/account", "Consent": found.authorize_path()}.items():
            yield name, weigh_page(browser, found.base, path, storage_state=state)
        person.context.close()
        with operator_state(browser, found.base, found.hub) as state:
            for name, path in OPERATOR.items():
                yield name, weigh_page(browser, found.base, path, storage_state=state)


def print_table(found: dict[str, Weight]) -> None:
    """Print the Markdown table, the heaviest page last."""
    lines = [
        "| Page | Requests | KB sent by the hub | KB plain | KB with gzip |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for name, weight in found.items():
        sizes = " | ".join(f"{size / 1000:.1f}" for size in (weight.sent, weight.plain, weight.compressed))
        lines.append(f"| {name} | {weight.requests} | {sizes} |")
    name, weight = max(found.items(), key=lambda pair: pair[1].sent)
    lines += ["", f"Heaviest: {name}, {weight.sent / 1000:.1f} KB"]
    sys.stdout.write("\n".join(lines) + "\n")


def main() -> int:
    """Weigh all pages; return the exit code."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        found = dict(weigh_personal(browser)) | dict(weigh_shared(browser))
        browser.close()
    print_table(found)
    return int(any(weight.sent > BOUND_KB * 1000 for weight in found.values()))


if __name__ == "__main__":
    sys.exit(main())

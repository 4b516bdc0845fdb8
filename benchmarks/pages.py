"""Time to load the pages of a large hub: 300 servers, 5,000 tools, 5,000 records of calls.

    python -m benchmarks.pages

Rules: the hub as `patchbay serve --access shared` starts it, one kept-alive connection over loopback, as the operator;
the time until the last byte. Cold is the first time that a page is opened in a hub that has just started, beginning
with `/`; warm is the median of the next.
"""

from __future__ import annotations

import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.table import Table

from benchmarks.load import MODERN, prepare_request
from tests.many_servers import SERVERS, TOOLS, name_of, tools_of, write_servers
from tests.serving.running import running

GOAL = 300.0
"""Milliseconds that a page may take."""

CALLS = 5_000
CALLED_SERVERS = 40
WARM = 5
BROWSER = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}

LARGE, SMALL = name_of(0), name_of(1)
TABS = ("", "/source", "/past", "/settings", "/edit")
FIRST = ("/", "/mcp", "/servers", "/activity", *(f"/servers/{LARGE}{tab}" for tab in TABS), f"/servers/{SMALL}")
LISTS = ("/search", "/search?q=find+apple", "/variables", "/variables/mcps", "/history", "/history/names", "/rooms")
ACCESS = ("/pins", "/approvals", "/audit", "/access", "/access/keys", "/people")
REST = ("/servers/new", "/inspect", "/login", "/openapi.json")


@dataclass(frozen=True)
class PageTime:
    """One page: milliseconds of the first load (cold), the median of later loads (warm), and its size in bytes."""

    cold: float
    warm: float
    size: int


class Browser:
    """Opens pages of one hub on one connection, as the operator."""

    def __init__(self, port: int, proof: Mapping[str, str]) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._proof = dict(proof)

    def open(self, path: str) -> PageTime:
        cold, size = self._get(path)
        return PageTime(cold, statistics.median(self._get(path)[0] for _ in range(WARM)), size)

    def get_json(self, path: str) -> object:
        """Return the data of a page."""
        self._connection.request("GET", path, headers={"Accept": "application/json"} | self._proof)
        return json.loads(self._connection.getresponse().read())

    def close(self) -> None:
        self._connection.close()

    def _get(self, path: str) -> tuple[float, int]:
        begun = time.perf_counter()
        self._connection.request("GET", path, headers=BROWSER | self._proof)
        answer = self._connection.getresponse()
        size = len(answer.read())
        if answer.status != 200:
            raise RuntimeError(f"{path}: status {answer.status}")
        return (time.perf_counter() - begun) * 1000, size


def measure_pages(folder: Path, servers: int, calls: int) -> dict[str, PageTime]:
    """Load every page of a hub with a number of servers and of records of calls."""
    write_servers(folder / "servers", servers)
    with running(folder) as hub:
        _make_calls(hub.port, servers, calls)
        hub.end()
    # The records stay; the hub that is measured has just started. A shared one has the pages of people and keys too.
    with running(folder, "--access", "shared") as hub:
        browser = Browser(hub.port, hub.as_operator())
        found = {path: browser.open(path) for path in (*FIRST, *LISTS, *ACCESS, *REST)}
        found |= {label: browser.open(path) for label, path in _by_content(browser)}
        browser.close()
        hub.end()
        return found


def _by_content(browser: Browser) -> Iterator[tuple[str, str]]:
    """Pages whose addresses have a CID in them."""
    roots = [each["cid"] for each in browser.get_json("/history")["changes"]]  # type: ignore[index]
    definition = browser.get_json(f"/servers/{LARGE}/source")["server"]["definition"]  # type: ignore[index]
    yield "/cid/<root>", f"/cid/{roots[0]}"
    yield "/cid/<definition>", f"/cid/{definition}"
    yield "/history/compare", f"/history/compare?old={roots[-1]}&new={roots[0]}"
    yield "/history/rollback", f"/history/rollback?root={roots[-1]}"


def _make_calls(port: int, servers: int, calls: int) -> None:
    """Call many tools, so that the hub has records of calls."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for number in range(calls):
        server = number % min(servers, CALLED_SERVERS)
        tool = list(tools_of(server))[number % 7]
        url = f"http://127.0.0.1:{port}/mcp/{name_of(server)}"
        request = prepare_request(url, MODERN, {"name": tool, "arguments": {"text": "hello"}})
        connection.request(
            "POST", urlsplit(url).path, f"{request.body[0]}{number}{request.body[1]}", dict(request.headers)
        )
        answer = connection.getresponse()
        if b"hello" not in (body := answer.read()):
            raise RuntimeError(f"{tool}: {body[:200]!r}")
    connection.close()


def make_table(found: Mapping[str, PageTime]) -> Table:
    """Make the table of all pages, with the goal."""
    shown = Table(title=f"pages of a hub with {SERVERS} servers, {TOOLS:,} tools, {CALLS:,} records of calls")
    shown.add_column("page")
    for heading in ("cold ms", "warm ms", "KiB", f"below {GOAL:.0f} ms"):
        shown.add_column(heading, justify="right")
    for name, page in found.items():
        reached = "yes" if max(page.cold, page.warm) < GOAL else "NO"
        shown.add_row(name, f"{page.cold:.0f}", f"{page.warm:.0f}", f"{page.size / 1024:.0f}", reached)
    return shown


def measure_in_new_folder(servers: int = SERVERS, calls: int = CALLS) -> dict[str, PageTime]:
    """Measure all pages in a temporary folder."""
    with tempfile.TemporaryDirectory() as name:
        return measure_pages(Path(name), servers, calls)


if __name__ == "__main__":
    Console(width=None if sys.stdout.isatty() else 110).print(make_table(measure_in_new_folder()))

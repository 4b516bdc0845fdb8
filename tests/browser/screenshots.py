"""Pictures of every page, at two widths and in both colour schemes, of a hub with some life in it.

    scripts/screenshots                 those of the README into docs/images
    scripts/screenshots --sharing           those of docs/sharing.md, of a shared hub at port 8000
    scripts/screenshots --all FOLDER    every page into a folder; docs/images/all is one that git does not see
    --png                               as PNG instead of WebP, for programs that read no WebP

Same servers, same calls, same address on every machine; what tells the time differs.
"""

from __future__ import annotations

import argparse
import base64
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.lively_room import enliven
from tests.browser.tabs import BOUND, Tab, launched
from tests.browser.team import team
from tests.checkout import ROOT
from tests.serving.running import Hub, running

IMAGES = ROOT / "docs/images"
ADDRESS = "127.0.0.1:8000"
"""What the pictures say; the hub that is seen has a port of its own."""

WIDTHS = {1280: 800, 390: 844}
TALLEST = 6000
QUALITY = 72

WEATHER = '''"""The weather of three cities, from a table."""

import time

_CITIES = {"Bern": 11.5, "Lima": 19.0, "Oslo": 4.5}


def forecast(city: str, days: int = 3, context=None) -> list:
    """Say how warm it will be, day by day.

    Args:
        city: Bern, Lima or Oslo.
        days: How many days, from 1 to 14.
    """
    if city not in _CITIES:
        raise ValueError(f"expected one of {', '.join(_CITIES)}; not {city}")
    found = []
    for day in range(1, days + 1):
        context.progress(day, total=days, message=f"day {day}")
        context.log(f"looked at day {day} of {city}")
        time.sleep(0.02)
        found.append({"day": day, "city": city, "celsius": _CITIES[city] + day % 3})
    return found


def cities() -> list:
    """List the cities there are."""
    return sorted(_CITIES)
'''
NEWER = WEATHER.replace("How many days, from 1 to 14.", "How many days.").replace("days: int = 3", "days: int = 5")
TOOLSET = """{
  "kind": "toolset",
  "include": ["weather.cities", "hello.hello"],
  "tools": {"bern": {"from": "weather.forecast", "arguments": {"city": {"value": "Bern"}}}}
}"""
BROKEN = '"""Tides."""\n\n\ndef high_tide(harbour: str -> str:\n    return harbour\n'

PAGES = {
    "home": "/",
    "connect": "/mcp",
    "server": "/servers/weather",
    "reference": "/servers/everything",
    "broken": "/servers/tides",
    "search": "/search?q=list",
    "nothing-found": "/search?q=zzzz",
    "servers": "/servers",
    "source": "/servers/weather/source",
    "past": "/servers/weather/past",
    "settings": "/servers/weather/settings",
    "parts": "/static/parts.html",
    "toolset": "/toolsets/work",
    "source-broken": "/servers/tides/source",
    "new": "/servers/new",
    "edit": "/servers/tides/edit",
    "variables": "/variables",
    "variable": "/variables/mcps",
    "history": "/history",
    "moves": "/history/names",
    "inspect": "/inspect",
    "rooms": "/rooms",
    "room": "/rooms/harbour",
    "room-verified": "/rooms/harbour?verify=yes",
    "activity": "/activity",
    "no-activity": "/activity?tool=none",
    "operator": "/login",
    "hub": "/settings",
    "error": "/servers/absent",
    "grants": "/access",
    "usage": "/access/usage",
    "keys": "/access/keys",
    "people": "/people",
    "approvals": "/approvals",
    "audit": "/audit",
    "pins": "/pins",
    "toolsets": "/toolsets",
    "new-toolset": "/toolsets/new?add=weather.forecast",
    "schedules": "/schedules",
    "webhooks": "/webhooks",
    "nodes": "/nodes",
    "registry": "/registry",
    "updates": "/registry/updates",
    "revocations": "/history/revoke",
}

SHARING_PORT = 8000
SHARING = {
    "sign-in": ("", "/login"),
    "consent": ("ann", ""),
    "account": ("ann", "/account"),
    "people": ("operator", "/people"),
    "grants": ("operator", "/access?as=key:ci&who=key:ci&open=notes"),
    "approvals": ("operator", "/approvals"),
    "audit": ("operator", "/audit"),
}
"""The pictures of docs/sharing.md: who looks at which page. The page of consent has no fixed path."""

README = (
    *("home-light-1280", "try-light-1280", "activity-dark-1280", "room-light-1280", "settings-light-1280"),
    *("parts-light-1280", "parts-dark-1280", "toolset-light-1280"),
)


class Camera:
    """Takes pictures of one hub, as its operator."""

    def __init__(self, browser: Browser, hub: Hub, folder: Path, png: bool, only: tuple[str, ...]) -> None:
        self._hub = hub
        self._browser = browser
        self._folder = folder
        self._png = png
        self._only = only

    def take(self, name: str, path: str, scheme: str, width: int) -> None:
        """One page, as long as it is, unless it is one of a few that have to fit."""
        full = f"{name}-{scheme}-{width}"
        if self._only and full not in self._only:
            return
        size = {"width": width, "height": WIDTHS[width]}
        tab = Tab(self._browser, f"http://{ADDRESS}", viewport=size, color_scheme=scheme, reduced_motion="reduce")
        tab.log_in(self._hub)
        page = tab.page
        page.goto(tab.base + path, wait_until="load")
        if name == "try":
            _try(tab)
        self.write(page, full, whole=not self._only or name == "parts")
        tab.context.close()

    def write(self, page: Page, name: str, whole: bool) -> None:
        """Write a picture of a page: of all of it, or of what a window shows."""
        size = page.viewport_size
        assert size is not None
        length = page.evaluate("document.documentElement.scrollHeight")
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(length, TALLEST), "scale": 1}
        if not whole:
            clip |= {"y": page.evaluate("scrollY"), "height": size["height"]}
        kind = {"format": "png"} if self._png else {"format": "webp", "quality": QUALITY}
        devtools = page.context.new_cdp_session(page)
        taken = devtools.send("Page.captureScreenshot", {**kind, "clip": clip, "captureBeyondViewport": True})
        data = base64.b64decode(taken["data"])
        path = self._folder / f"{name}.{kind['format']}"
        path.write_bytes(data)
        sys.stderr.write(f"{path.name}: {len(data) / 1024:.0f} KiB\n")


def _try(tab: Tab) -> None:
    """A streamed call on the page of a server, seen from its form to its result."""
    trial = tab.item("weather", "forecast")
    trial.choose("2026-07-28")
    trial.call(city="Bern", days=3)
    expect(trial.ran.locator(".answer")).to_be_visible(timeout=BOUND)
    trial.item.locator(".try").evaluate("each => scrollTo(0, each.getBoundingClientRect().top + scrollY - 24)")


@contextmanager
def hub() -> Iterator[Hub]:
    """A hub that has been used."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        servers = folder / "servers"
        servers.mkdir()
        (servers / "hello.py").write_text((ROOT / "servers/hello.py").read_text())
        (servers / "weather.py").write_text(WEATHER)
        (servers / "tides.py").write_text(BROKEN)
        (servers / "work.json").write_text(TOOLSET)
        with running(folder, "--enable", "everything", "--room-idle", "3600") as found:
            _live(found)
            yield found
            found.end()


def _live(hub: Hub) -> None:
    """Calls that worked and that did not, and a change, so that the pages have something to tell."""
    url = f"http://127.0.0.1:{hub.port}"
    with httpx2.Client(base_url=url, timeout=60, follow_redirects=True) as client:
        for number in range(24):
            call(client, "weather", "forecast", city=("Bern", "Lima", "Oslo")[number % 3], days=1 + number % 5)
            call(client, "hello", "hello", name=("Ada", "Grace", "Alan")[number % 3])
            call(client, "hello", "add", a=number, b=2)
            call(client, "echo", "echo", message=f"message {number}")
        for _ in range(3):
            call(client, "weather", "forecast", city="Paris")
        call(client, "weather", "cities")
        call(client, "date", "date")
        fields = {"action": "save", "source": NEWER, "why": "five days are what people ask for"}
        headers = {"Origin": url, "Accept": "text/html", **hub.as_operator()}
        client.post("/servers/weather/edit", data=fields, headers=headers).raise_for_status()
        client.put("/rooms/kitchen", json={}).raise_for_status()
        enliven(client, "harbour", pause=0.25)


def call(client: httpx2.Client, server: str, tool: str, **arguments: object) -> None:
    """One call, as a client of the last revision makes it."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "progressToken": 1}
    meta |= {"io.modelcontextprotocol/clientInfo": {"name": "notebook", "version": "1.0"}}
    meta |= {"io.modelcontextprotocol/clientCapabilities": {}}
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
    headers |= {"Accept": "application/json, text/event-stream"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    client.post(f"/mcp/{server}", json=message, headers=headers).raise_for_status()


def found_by_content(url: str) -> Iterator[tuple[str, str]]:
    """Pages whose addresses are known only now: roots, versions, one call."""
    roots = [each["cid"] for each in httpx2.get(f"{url}/history.json").json()["changes"]]
    weather = httpx2.get(f"{url}/servers/weather.json").json()
    versions = [each["cid"] for each in weather["versions"]]
    record = httpx2.get(f"{url}/activity.json?tool=forecast&outcome=ok").json()["records"][0]["id"]
    yield "call", f"/activity/{record}"
    yield "compare", f"/history/compare?old={roots[-1]}&new={roots[0]}"
    yield "roll-back", f"/history/rollback?root={roots[-1]}"
    yield "versions", f"/servers/weather/compare?old={versions[-1]}&new={versions[0]}"
    yield "content", f"/cid/{weather['server']['definition']}"
    yield "root", f"/cid/{roots[0]}"


def take_sharing(folder: Path, png: bool) -> None:
    """Take the pictures of docs/sharing.md: what a person, a client and an administrator see at each step."""
    with (
        tempfile.TemporaryDirectory() as place,
        team(Path(place), None, "--port", str(SHARING_PORT)) as found,
        sync_playwright() as playwright,
    ):
        browser = launched(playwright)
        camera = Camera(browser, found.hub, folder, png, ())
        for name, (who, path) in SHARING.items():
            tab = Tab(browser, found.base, viewport={"width": 1280, "height": 760}, reduced_motion="reduce")
            if who:
                found.sign_in(tab) if who == "ann" else tab.log_in(found.hub)
            page = tab.open(path or found.authorize_path())
            camera.write(page, f"sharing-{name}", whole=name == "grants")
            tab.context.close()
        browser.close()


def main() -> int:
    """Run from the command line; answers the exit code."""
    parser = argparse.ArgumentParser(prog="scripts/screenshots", description="Take pictures of the pages.")
    parser.add_argument(
        "--all", type=Path, metavar="FOLDER", help="every page into this folder (default: only README's)"
    )
    parser.add_argument("--sharing", action="store_true", help="only the pictures of docs/sharing.md")
    parser.add_argument("--png", action="store_true", help="PNG instead of WebP")
    given = parser.parse_args()
    folder: Path = given.all or IMAGES
    folder.mkdir(parents=True, exist_ok=True)
    if given.sharing:
        take_sharing(folder, given.png)
        return 0
    with hub() as found, sync_playwright() as playwright:
        pages = {**PAGES, "try": "/servers/weather", **dict(found_by_content(f"http://127.0.0.1:{found.port}"))}
        browser = launched(playwright, f"--host-resolver-rules=MAP {ADDRESS} 127.0.0.1:{found.port}")
        camera = Camera(browser, found, folder, given.png, () if given.all else README)
        for name, path in pages.items():
            for scheme in ("light", "dark"):
                for width in WIDTHS:
                    camera.take(name, path, scheme, width)
        browser.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())

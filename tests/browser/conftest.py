"""One hub as a program of its own, one Chromium, and a tab for each test that fails when the page complains."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.browser.stage import Stage
from tests.browser.tabs import Tab, launched
from tests.serving.running import Hub, running


@pytest.fixture(scope="package")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """The servers folder of the hub, with every reference server switched on and what those need to answer."""
    stage = Stage(tmp_path_factory.mktemp("stage"))
    yield stage
    stage.close()


@pytest.fixture(scope="package")
def served(stage: Stage) -> Iterator[Hub]:
    """A running hub with these servers."""
    with running(stage.folder, "--enable", "everything", "--room-idle", "3600") as hub:
        yield hub
        assert hub.end() == 0


@pytest.fixture(scope="package")
def base(served: Hub) -> str:
    """The address of a running hub."""
    return f"http://127.0.0.1:{served.port}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, for one file: while it is there its event loop runs in this thread, and other tests want their own."""
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


@pytest.fixture
def tab(browser: Browser, base: str) -> Iterator[Tab]:
    """A tab on the hub; the test fails when the console, a script, the policy or a dialog says something."""
    tab = Tab(browser, base, viewport={"width": 1280, "height": 900})
    yield tab
    tab.close()


@pytest.fixture
def workplace(stage: Stage) -> Path:
    """A folder that tools may work in."""
    return stage.work


class _Callback(BaseHTTPRequestHandler):
    """The address at which a client waits for its answer."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<link rel=icon href=data:,>the client has its answer")

    def log_message(self, format: str, *args: object) -> None:
        """Write no log."""


@pytest.fixture
def callback() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Callback)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/callback"
    server.shutdown()
    thread.join()
    server.server_close()

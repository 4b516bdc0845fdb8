"""The home page in a real browser: what needs attention appears by itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.tabs import BOUND, Tab
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser

SAFE = 'def open_safe(reason: str) -> str:\n    """Open it."""\n    return "opened: " + reason\n'


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Path]]:
    folder = tmp_path_factory.mktemp("guarded")
    servers = folder / "servers"
    servers.mkdir()
    (servers / "safe.py").write_text(SAFE)
    (servers / "safe.mcp.json").write_text(json.dumps({"tools": {"open_safe": {"approve": True}}}))
    with running(folder) as hub:
        yield hub, servers
        assert hub.end() == 0


def test_a_server_that_breaks_appears_and_goes_without_a_reload(browser: Browser, guarded: tuple[Hub, Path]) -> None:
    hub, servers = guarded
    tab = Tab(browser, f"http://127.0.0.1:{hub.port}")
    tab.log_in(hub)
    page = tab.open("/")
    expect(page.locator(".watching [role=status]")).to_contain_text("Live", timeout=BOUND)
    (servers / "tides.py").write_text("def x(:\n")
    expect(page.locator("#now").get_by_role("link", name="tides")).to_be_visible(timeout=BOUND)
    (servers / "tides.py").unlink()
    expect(page.locator("#now").get_by_role("link", name="tides")).to_have_count(0, timeout=BOUND)
    tab.close()

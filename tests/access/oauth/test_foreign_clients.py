"""Clients that were written elsewhere sign a person in from an empty home, at a hub that runs as a program."""

from __future__ import annotations

import asyncio
import re
import socket
import threading
import webbrowser
from pathlib import Path
from subprocess import PIPE, Popen
from urllib.parse import parse_qs, urlsplit

import fastmcp
import httpx2
import pytest
from fastmcp.client.auth import OAuth

from tests.access.empty_home import EmptyHome
from tests.access.oauth.document_server import DocumentServer
from tests.access.oauth.sdk_client import connected
from tests.checkout import ROOT
from tests.interaction.peers import INSPECTOR, NODE, PACKAGES, texts
from tests.interaction.programs import plain_environment
from tests.person_at_browser import PersonAtBrowser
from tests.serving.running import Hub
from tests.waiting import until

pytestmark = [pytest.mark.process]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("by_document", [False, True], ids=["registration", "document"])
def test_the_python_sdk_signs_in_and_calls(
    hub: Hub, person: PersonAtBrowser, documents: DocumentServer, mode: str, by_document: bool
) -> None:
    home, document = EmptyHome(), documents.url("/good/client.json")

    async def call() -> str:
        endpoint = f"{person.base}/mcp/echo"
        async with connected(endpoint, home, person, mode, document if by_document else None) as (client, _):
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(call()) == "hello"
    [page] = person.pages
    query = {name: values[0] for name, values in parse_qs(urlsplit(page).query).items()}
    assert query["resource"] == f"{person.base}/mcp/echo"
    assert (query["client_id"] == document) == by_document
    [row] = person.account()["clients"]
    assert row["name"] == ("A client with a document" if by_document else "a client of tests")


async def ignore_progress(progress: float, total: float | None, message: str | None) -> None:
    """Take what a call reports of its progress."""


def test_tokens_are_refreshed_while_a_stream_is_open_and_the_session_goes_on(hub: Hub, person: PersonAtBrowser) -> None:
    """An access token of this hub is valid for three seconds; the call takes longer."""
    home = EmptyHome()

    async def use() -> set[str]:
        seen = set()
        async with connected(f"{person.base}/mcp/echo", home, person) as (client, _):
            # With a progress token the answer is a stream at once: the SDK holds a lock until it has the head.
            slow = asyncio.create_task(client.call_tool("count", {"to": 40}, progress_callback=ignore_progress))
            while not slow.done():
                assert texts((await client.call_tool("echo", {"text": "hello"})).content) == "hello"
                assert home.tokens is not None
                seen.add(home.tokens.access_token)
                await asyncio.sleep(0.1)
            assert texts((await slow).content) == "counted to 40"
        return seen

    tokens = asyncio.run(use())
    assert len(tokens) >= 3
    # On a busy machine a token may end on its way to the hub; then the SDK does not refresh it, but signs in again.
    assert len(person.pages) < len(tokens)


@pytest.mark.node
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28", "sdk-1"])
def test_the_typescript_sdks_sign_in_and_call(hub: Hub, person: PersonAtBrowser, mode: str, tmp_path: Path) -> None:
    program = str(ROOT / "tests/access/tokens/sign_in.mjs")
    command = [str(NODE), program, str(PACKAGES), mode, f"{person.base}/mcp/echo"]
    with Popen(command, env=plain_environment(tmp_path), text=True, stdin=PIPE, stdout=PIPE) as client:
        assert client.stdin is not None and client.stdout is not None
        try:
            client.stdin.write(person.approve(client.stdout.readline().strip()) + "\n")
            client.stdin.flush()
            assert client.stdout.readline() == "hello\n"
        finally:
            client.kill()


@pytest.mark.filterwarnings("ignore:Using in-memory token storage:UserWarning")
def test_fastmcps_client_signs_in_and_calls(hub: Hub, person: PersonAtBrowser, monkeypatch: pytest.MonkeyPatch) -> None:
    """It opens the browser of the machine, and waits for its answer on a port of its own."""

    def open_browser(url: str) -> bool:
        def visit() -> None:
            answer = httpx2.get(person.approve(url), timeout=60)
            assert answer.status_code == 200, answer.text

        threading.Thread(target=visit).start()
        return True

    monkeypatch.setattr(webbrowser, "open", open_browser)

    async def call() -> str:
        async with fastmcp.Client(f"{person.base}/mcp/echo", auth=OAuth()) as client:
            return texts((await client.call_tool("echo", {"text": "hello"})).content)

    assert asyncio.run(call()) == "hello"
    assert len(person.pages) == 1


@pytest.mark.node
def test_the_inspector_signs_in_and_calls(hub: Hub, person: PersonAtBrowser, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        callback = f"http://127.0.0.1:{free.getsockname()[1]}/oauth/callback"
    command = [str(NODE), str(INSPECTOR), "--cli", f"{person.base}/mcp/echo", "--transport", "http"]
    command += ["--callback-url", callback, "--method", "tools/call", "--tool-name", "echo", "--tool-arg", "text=hello"]
    log, environment = tmp_path / "log", plain_environment(tmp_path) | {"MCP_AUTO_OPEN_ENABLED": "true"}
    with (
        log.open("wb") as errors,
        Popen(command, env=environment, text=True, stdout=PIPE, stderr=errors) as client,
    ):
        try:
            page = until(lambda: re.search(r"http\S+/oauth/authorize\?\S+", log.read_text()), log.read_text)[0]
            assert httpx2.get(person.approve(page), timeout=60).status_code == 200
            output, _ = client.communicate(timeout=60)
        finally:
            client.kill()
    assert "hello" in output and client.returncode == 0, log.read_text()

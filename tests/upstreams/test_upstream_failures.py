"""Failures of a mounted server in one sentence, the same for calls, pages and commands. Issue 32, items 4 and 5."""

from __future__ import annotations

import json
import shlex
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.visible_catalogue import VisibleToAll
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.liveness import Patience
from tests.client.bad import INFO, Bad, Handler, Json, echo, serving
from tests.hubs import MODERN, Hub
from tests.waiting import BOUND, until

ODD = Path(__file__).with_name("odd_server.py")
TOOLS = {"tools": [{"name": "x", "inputSchema": {"type": "object"}}]}
CALLERS = 6
ERAS = ("2025-11-25", MODERN)


@pytest.fixture
def serve() -> Iterator[Callable[..., Bad]]:
    """Starts a bad server."""
    with serving() as start:
        yield start


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """A hub without mounts in this process."""
    hub = Hub(tmp_path / "hub")
    yield hub
    hub.close()


def mount(hub: Hub, address: str) -> Any:
    """Mount a server as `far` and wait until its tools are listed; return its standing connection."""
    fields = {"kind": "upstream", "address": address, "era": "legacy"}
    (hub.servers / "far.json").write_text(json.dumps(fields), "utf-8")
    until(lambda: any(server.name == "far" and server.tools for server in hub.catalogue.all()), "its tools")
    return hub.catalogue.find("far").upstream


def answer_lists(handler: Handler, body: Json) -> bool:
    """Answer the requests of the hub itself."""
    result = {"tools/list": TOOLS, "ping": {}}.get(body["method"])
    if result is not None:
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})
    return result is not None


@pytest.mark.parametrize("version", ERAS)
def test_a_refused_call_passes_on_the_status_and_the_seconds_to_wait(
    hub: Hub, serve: Callable[..., Bad], version: str
) -> None:
    """RFC 9110 section 10.2.3: in the error's data for programs, in its message for people, and as a header."""

    def limited(handler: Handler, body: Json) -> None:
        handler.send_bytes(b"later", 429, Content_Type="text/plain", Retry_After="17")

    server = serve(limited, answer_lists)
    mount(hub, server.url)
    answer = hub.call("far", "x", {}, version)
    words = f"{server.url} answers HTTP 429 Too Many Requests and asks to wait 17 s (Retry-After)"
    assert answer.error["message"] == f"the server behind far refused the call: {words}"
    assert answer.error["data"].items() >= {"httpStatus": 429, "retryAfter": 17}.items()
    assert answer.headers["Retry-After"] == "17"


@pytest.mark.parametrize("status", [500, 503])
def test_a_refused_call_names_the_status(hub: Hub, serve: Callable[..., Bad], status: int) -> None:
    mount(hub, serve(lambda handler, body: handler.send_json(None, status), answer_lists).url)
    answer = hub.call("far", "x")
    assert f"answers HTTP {status} " in answer.error["message"]
    assert answer.error["data"]["httpStatus"] == status
    assert "Retry-After" not in answer.headers


def test_a_cut_stream_and_a_large_answer_are_called_so(
    hub: Hub, serve: Callable[..., Bad], monkeypatch: pytest.MonkeyPatch
) -> None:
    cut = threading.Event()

    def tool(handler: Handler, body: Json) -> None:
        if cut.is_set():
            handler.begin_stream()
            handler.event({"method": "notifications/message", "params": {"level": "info", "data": 1}})
        else:
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.send_header("Content-Length", str(99_000_000))
            handler.end_headers()
            handler.wfile.write(b"[")
            handler.wfile.flush()
            handler.close_connection = True

    mount(hub, serve(tool, answer_lists).url)
    assert "its answer is too large: 99000000 bytes; the limit is 33554432 bytes" in hub.call("far", "x").text
    cut.set()
    assert hub.call("far", "x").text == "the server behind far gave no answer: the stream ended without a response"


@pytest.mark.process
def test_a_crash_says_the_exit_code_and_the_last_line_of_standard_error_wherever_it_is_shown(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchbay.upstreams.connections.standing_connection.FIRST_RETRY_SECONDS", BOUND)
    options = json.dumps({"log": str(tmp_path / "log"), "capabilities": {"tools": {}}})
    standing = mount(hub, f"mcp+stdio:{shlex.join([sys.executable, '-S', str(ODD), options])}")
    words = (
        "the connection ended; it ended with exit code 3; its last line on standard error: no database at /var/lib/odd"
    )
    assert hub.call("far", "crash").text == f"the server behind far gave no answer: {words}"
    until(lambda: standing.health.state == "down", "the crash to be recorded")
    assert standing.health.reason == words
    page = hub.client.get("/servers/far", headers={"Host": "localhost", "Accept": "application/json"})
    assert json.loads(page.text)["server"]["upstream"]["reason"] == words
    assert words in hub.call("far", "work").text
    assert json.loads(page.text)["server"]["upstream"]["output"][-1] == "no database at /var/lib/odd"
    shown = hub.client.get("/servers/far", headers={"Host": "localhost", "Accept": "text/html"}).text
    assert "The last lines that it wrote to standard error" in shown


@pytest.mark.process
def test_the_output_of_a_program_that_cannot_start_is_on_the_page_of_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """33.10: as `npx` says that a package does not exist: the cause is above the last line. Secrets are masked."""
    lines = ["npm error code E404", "npm error 404 Not Found - <b>&amp;s3cret-token</b>", "npm error A complete log"]
    program = tmp_path / "npx"
    program.write_text("#!/bin/sh\n" + "".join(f"echo {shlex.quote(line)} >&2\n" for line in lines) + "exit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("FAR_TOKEN", "s3cret-token")
    with closing(Hub(tmp_path / "hub")) as hub:
        fields = {"kind": "upstream", "address": f"mcp+stdio:{program} ${{FAR_TOKEN}}"}
        (hub.servers / "far.json").write_text(json.dumps(fields), "utf-8")
        until(lambda: any(server.name == "far" for server in hub.catalogue.all()), "the mount")
        standing: Any = hub.catalogue.find("far").upstream
        until(lambda: standing.health.state == "down", "the failure to be recorded")
        browser = {"Host": "localhost", "Accept": "text/html"}
        shown = hub.client.get("/servers/far", headers=browser).text
        monkeypatch.setattr(VisibleToAll, "shows_source", lambda self, name: False)
        hidden = hub.client.get("/servers/far", headers=browser).text
    assert "npm error 404" in hidden and "npm error code E404" not in hidden, "a reader without its configuration"
    assert standing.health.reason.endswith("; on standard error: npm error 404 Not Found - <b>&amp;***</b>")
    assert (
        "npm error code E404\nnpm error 404 Not Found - &lt;b&gt;&amp;amp;***&lt;/b&gt;\nnpm error A complete" in shown
    )
    assert "s3cret-token" not in shown


def test_the_next_attempt_waits_as_long_as_the_server_asks(hub: Hub, serve: Callable[..., Bad]) -> None:
    def closed(handler: Handler, body: Json) -> bool:
        handler.send_bytes(b"maintenance", 503, Content_Type="text/plain", Retry_After="120")
        return True

    server = serve(first=closed)
    fields = {"kind": "upstream", "address": server.url, "era": "legacy"}
    (hub.servers / "far.json").write_text(json.dumps(fields), "utf-8")
    found = until(lambda: next((one for one in hub.catalogue.all() if one.name == "far"), None), "the mount").upstream
    until(lambda: found.health.state == "down", "the refusal")
    assert found.health.reason.endswith("answers HTTP 503 Service Unavailable and asks to wait 120 s (Retry-After)")
    assert found.health.retry == 120


@pytest.mark.parametrize("can_answer", [False, True])
def test_no_call_fails_when_the_server_forgets_its_sessions(
    hub: Hub, serve: Callable[..., Bad], can_answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All callers at once, with and without a connection of their own."""
    begun: list[str] = []
    known: set[str] = set()
    lock = threading.Lock()

    def first(handler: Handler, body: Json) -> bool:
        if body["method"] == "initialize":
            with lock:
                begun.append(f"s{len(begun)}")
                known.add(begun[-1])
                id = begun[-1]
            handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": INFO}, Mcp_Session_Id=id)
        elif handler.headers.get("Mcp-Session-Id") not in known:
            handler.send_json(None, 404)
        else:
            return answer_lists(handler, body)
        return True

    mount(hub, serve(echo, first).url)
    session = hub.open("far", capabilities={"elicitation": {}} if can_answer else {})

    def call(_: int) -> str:
        answer = hub.legacy("far", "tools/call", {"name": "x", "arguments": {}}, session)
        return str(answer.result["content"][0]["text"])

    with ThreadPoolExecutor(CALLERS) as threads:
        for _ in range(3):
            assert list(threads.map(call, range(CALLERS))) == ["hello"] * CALLERS
            known.clear()
        assert list(threads.map(call, range(CALLERS))) == ["hello"] * CALLERS


def test_the_lists_are_read_again_in_a_new_session(
    hub: Hub, serve: Callable[..., Bad], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server may have started anew with other tools; an idle mount finds out with its probe."""
    monkeypatch.setattr(StandingConnection, "patience", Patience(probe=0.05))
    names = ["x"]

    def first(handler: Handler, body: Json) -> bool:
        session = f"s{len(names) - 1}"
        if body["method"] == "initialize":
            handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": INFO}, Mcp_Session_Id=session)
        elif handler.headers.get("Mcp-Session-Id") != session:
            handler.send_json(None, 404)
        elif body["method"] == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": {"tools": tools}})
        else:
            return answer_lists(handler, body)
        return True

    standing = mount(hub, serve(echo, first).url)
    connection = standing.connection
    names.append("y")
    until(lambda: set(hub.catalogue.find("far").tools) == {"x", "y"}, "the new list")
    assert standing.connection is connection, "the mount was never away"


@pytest.mark.parametrize(
    ("file", "fields", "place"),
    [
        ("far", {"kind": "upstream", "address": "mcp+stdio:true", "environment": {"KEY": "${NO_SUCH_KEY}"}}, "KEY"),
        (
            "far",
            {"kind": "upstream", "address": "https://far.example/mcp", "headers": {"X-Key": "${NO_SUCH_KEY}"}},
            "X-Key",
        ),
        ("api", {"kind": "openapi", "document": "https://api.example/${NO_SUCH_KEY}.json"}, "document"),
    ],
)
def test_a_variable_that_is_not_set_is_named_with_what_to_do(hub: Hub, file: str, fields: Json, place: str) -> None:
    """The hub cannot ask for it again and again: it needs a start with the variable (issue 47, words)."""
    (hub.servers / f"{file}.json").write_text(json.dumps(fields), "utf-8")
    until(lambda: any(one.name == file for one in hub.catalogue.all()), "the mount")
    standing: Any = next(one for one in hub.catalogue.all() if one.name == file).standing
    until(lambda: standing.health.state == "down", lambda: standing.health)
    sentence = standing.health.sentence
    assert sentence.startswith(
        "it is not started: store NO_SUCH_KEY with `patchbay secret set NO_SUCH_KEY`, or set it in"
    )
    assert place in sentence and "does not answer" not in sentence and "tries again" not in sentence

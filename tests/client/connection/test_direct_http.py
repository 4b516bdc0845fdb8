"""Direct HTTP calls: the requests, the handover to the official client, and that no request is sent twice.

The peers are this hub, FastMCP and the official Python SDK's server, in both eras, and one that misbehaves.
Issue 5 part 7 (mount overhead); REQUIREMENTS JN-1.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.async_connection import AsyncConnection
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.direct_http import MAX_KEPT_HEADS, DirectHttp, HttpTarget
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.connection.requests import RequestRun
from patchbay.client.errors import McpFailure, ServerTimeout, Unreachable
from patchbay.client.http_messages import Answer, BadMessage, add_body, write_head
from patchbay.events import Progress
from tests.checkout import ROOT
from tests.client.bad import Bad, Handler, Json, echo, never
from tests.client.reaching import text
from tests.interaction.programs import free_port, running, running_hub
from tests.waiting import until

ERAS = ("legacy", "modern")
DEFINITION = ROOT / "tests/upstreams/connections/upstream_definition.py"


@pytest.fixture(scope="module")
def peer_urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, str]]:
    """The addresses of the peers, by name."""
    folder = tmp_path_factory.mktemp("peers")
    (folder / "work.py").write_text(DEFINITION.read_text("utf-8"), "utf-8")
    (folder / "work.mcp.json").write_text('{"isolation": "inline", "timeout": 600}', "utf-8")
    programs = {"fastmcp": "benchmarks/peers/fastmcp_server.py", "sdk": "tests/interaction/sdk_server.py"}
    with ExitStack() as stack:
        hub = stack.enter_context(running_hub(folder / "hub", [folder / "work.py", folder / "work.mcp.json"]))
        found = {"hub": hub.endpoint("work")}
        for name, program in programs.items():
            (folder / name).mkdir()
            port = free_port()
            found[name] = f"http://127.0.0.1:{port}/mcp"
            command = [sys.executable, str(ROOT / program), str(port)]
            stack.enter_context(running(command, found[name], folder / name, range(200, 500), (0, -15)))
        yield found


@contextmanager
def bad(tool: Callable[[Handler, Json], None], first: Callable[[Handler, Json], bool] = never) -> Iterator[Bad]:
    """A server that misbehaves while the block runs."""
    server = Bad(tool, first)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()


def opened(url: str, era: Any = "legacy", **options: Any) -> Connection:
    return Connection.open(Http(url, {"Authorization": "Bearer mine"}), era=era, **options)


def short_way(connection: Connection) -> DirectHttp:
    """The short way of a connection; closed, it is not taken any more."""
    assert connection._async_connection.direct is not None
    return connection._async_connection.direct


CALLS = {
    "hub": ("greet", {"name": "Ada"}, "Hello, Ada!"),
    "fastmcp": ("echo", {"message": "Ada"}, "Ada"),
    "sdk": ("greet", {"name": "Ada"}, "Hello, Ada!"),
}


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("peer", CALLS)
def test_calls_accept_every_form_of_answer(peer_urls: Mapping[str, str], peer: str, era: str) -> None:
    name, arguments, expected = CALLS[peer]
    with opened(peer_urls[peer], era) as connection, ThreadPoolExecutor(8) as crowd:
        assert text(connection.call_tool(name, arguments)) == expected
        key = next(iter(arguments))
        words = [f"caller {number}" for number in range(40)]
        answers = list(crowd.map(lambda word: text(connection.call_tool(name, {key: word})), words))
    assert answers == [expected.replace("Ada", word) for word in words]


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
def test_a_plain_call_needs_no_other_thread(
    peer_urls: Mapping[str, str], era: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def forbidden(*_: Any) -> None:
        raise AssertionError("the loop was asked")

    with opened(peer_urls["hub"], era) as connection, monkeypatch.context() as patch:
        connection.call_tool("greet")
        patch.setattr(AsyncConnection, "perform", forbidden)
        assert text(connection.call_tool("greet", {"name": "Ada"})) == "Hello, Ada!"


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("peer", "tool", "arguments"), [("hub", "steps", {}), ("fastmcp", "moment", {"pause": 0.1})])
def test_progress_arrives_on_the_way(
    peer_urls: Mapping[str, str], peer: str, tool: str, arguments: Json, era: str
) -> None:
    heard: list[Any] = []
    with opened(peer_urls[peer], era) as connection:
        assert text(connection.call_tool(tool, arguments, on_event=heard.append)) == "done"
    assert [item for item in heard if isinstance(item, Progress)]


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
def test_questions_are_asked_and_answered(peer_urls: Mapping[str, str], era: str) -> None:
    def ask(method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"action": "accept", "content": {"value": f"{params['message']} Ada"}}

    with opened(peer_urls["hub"], era, ask=ask) as connection:
        assert text(connection.call_tool("ask", {"first": "town"})) == "Your town? Ada, Your name? Ada"


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("silent", [False, True])
def test_leaving_a_call_cancels_it(peer_urls: Mapping[str, str], tmp_path: Path, silent: bool, era: str) -> None:
    mark = tmp_path / "mark"
    arguments = {"path": str(mark), "silent": silent}
    with opened(peer_urls["hub"], era) as connection:
        call = {"name": "wait", "arguments": arguments}
        running = connection.request("tools/call", call, pauses=iter([0.01] * 9999))
        until(lambda: next(running) is not None and mark.exists() and mark.read_text() == "begun", "the call to begin")
        running.close()
        until(lambda: mark.read_text() == "cancelled", "the server to hear of it")
        with pytest.raises(ServerTimeout, match=r"did not answer tools/call within 0\.2 s"):
            connection.call_tool("wait", arguments, timeout=0.2)
        until(lambda: mark.read_text() == "cancelled", "the server to hear of it again")
        assert text(connection.call_tool("greet")) == "Hello, you!"


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("peer", CALLS)
def test_errors_are_those_that_the_server_gave(peer_urls: Mapping[str, str], peer: str, era: str) -> None:
    with opened(peer_urls[peer], era) as connection:
        told = [_error(connection), _error(connection)]
        short_way(connection).close()
        assert told == [_error(connection)] * 2


@pytest.mark.process
@pytest.mark.parametrize("era", ERAS)
def test_a_direct_call_that_is_abandoned_early_is_cancelled(
    peer_urls: Mapping[str, str], tmp_path: Path, era: str
) -> None:
    mark, gate = tmp_path / "mark", threading.Event()
    with opened(peer_urls["hub"], era) as connection:
        connection._loop.call_soon(gate.wait, 30)
        try:
            call = {"name": "wait", "arguments": {"path": str(mark), "silent": True}}
            running = connection.request("tools/call", call, pauses=iter([0.01] * 9999))
            until(lambda: next(running) is not None and mark.exists() and mark.read_text() == "begun", "it to begin")
            running.close()
        finally:
            gate.set()
        until(lambda: mark.read_text() == "cancelled", "the server to hear of it")
        until(lambda: not connection._async_connection.router.runs, "the request to be forgotten")
        assert text(connection.call_tool("greet")) == "Hello, you!"


def _error(connection: Connection) -> Any:
    try:
        result = connection.call_tool("missing")
    except McpFailure as failure:
        return failure.code, failure.message, failure.data
    return result["isError"], result["content"]


@pytest.mark.parametrize("era", ERAS)
def test_a_request_equals_that_of_the_official_client(era: str) -> None:
    """JN-1, JN-70: headers, `_meta` and body; only the id is another."""
    said: list[tuple[dict[str, str], Json]] = []

    def first(handler: Handler, body: Json) -> bool:
        if body["method"] == "tools/call":
            said.append(({name.lower(): value for name, value in handler.headers.items()}, body))
        if body["method"] == "initialize":
            result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "b", "version": "1"}}
            handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result}, Mcp_Session_Id="s1")
        elif body["method"] == "server/discover" and era == "modern":
            result = {"supportedVersions": ["2026-07-28"], "capabilities": {}, "resultType": "complete"}
            handler.send_json(
                {"jsonrpc": "2.0", "id": body["id"], "result": result | {"ttlMs": 0, "cacheScope": "private"}}
            )
        else:
            return False
        return True

    with bad(echo, first) as server, opened(server.url, era) as connection:
        for _ in range(2):
            meta = {"traceparent": "00-1-2-03"}
            connection.call_tool("x", {"größe": [1, None]}, meta=meta, on_event=lambda item: None)
            short_way(connection).close()
    for headers, body in said:
        body["params"]["_meta"]["progressToken"] = body["id"] = "any"
        headers["content-length"] = "any"
    assert said[0] == said[1]
    assert said[0][0].get("mcp-session-id") == ("s1" if era == "legacy" else None)


@pytest.mark.parametrize("way", ["error", "away", "login", "slow", "stream", "odd", "big"])
def test_only_refused_requests_are_sent_twice(way: str) -> None:
    calls: list[str] = []

    def tool(handler: Handler, body: Json) -> None:
        calls.append(way)
        result = {"jsonrpc": "2.0", "id": body["id"], "result": {"content": [{"type": "text", "text": "hello"}]}}
        if way == "error":
            handler.send_json(None, 500)
        elif way == "login":
            handler.send_json(None, 401)
        elif way == "away":
            handler.close_connection = True
        elif way == "odd":
            handler.send_bytes(b"hello", Content_Type="text/plain")
        elif way == "stream":
            handler.begin_stream()
            handler.event(result)
        else:
            if way == "slow":
                handler.server.over.wait(0.2)
            result["result"]["content"][0]["text"] = "hello" * (200_000 if way == "big" else 1)
            handler.send_json(result)

    with bad(tool) as server, opened(server.url) as connection:
        if way in ("slow", "stream", "big"):
            assert text(connection.call_tool("x")).startswith("hello")
        else:
            with pytest.raises((McpFailure, Unreachable)) as failure:
                connection.call_tool("x")
            assert {"error": "500", "login": "401", "odd": "text/plain", "away": ""}[way] in str(failure.value)
    assert len(calls) == 1


def test_any_json_that_the_official_client_sends_can_be_sent_directly() -> None:
    said: list[Any] = []

    def tool(handler: Handler, body: Json) -> None:
        said.append(body["params"]["arguments"])
        echo(handler, body)

    with bad(tool) as server, opened(server.url) as connection:
        connection.call_tool("x", {"large": 2**70, "by_number": {1: 2}})
        short_way(connection).close()
        connection.call_tool("x", {"large": 2**70, "by_number": {1: 2}})
    assert said == [{"large": 2**70, "by_number": {"1": 2}}] * 2


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    """RFC 9112 section 9.5."""

    def tool(handler: Handler, body: Json) -> None:
        handler.close_connection = True
        echo(handler, body)

    with bad(tool) as server, opened(server.url) as connection:
        for _ in range(5):
            assert text(connection.call_tool("x")) == "hello"
            until(lambda: short_way(connection)._idle[0].is_readable(0), "the end of the connection to arrive")


def test_a_server_that_sets_cookies_gets_them_back() -> None:
    cookies: list[str | None] = []

    def first(handler: BaseHTTPRequestHandler, body: Json) -> bool:
        assert isinstance(handler, Handler)
        if body["method"] == "tools/call":
            cookies.append(handler.headers["Cookie"])
        if body["method"] != "initialize":
            return False
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "b", "version": "1"}}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result}, Set_Cookie="node=3")
        return True

    with bad(echo, first) as server, opened(server.url) as connection:
        connection.call_tool("x")
    assert cookies == ["node=3"]


def test_the_head_of_a_request_is_made_once_and_never_kept_with_arguments_of_a_call() -> None:
    """Issue 14, item 4: a mounted call costs less."""

    def stamp(data: Json, options: Any) -> None:
        options["headers"] = {"Mcp-Name": data["params"]["name"], **data["params"].get("headers", {})}

    direct = DirectHttp(HttpTarget("127.0.0.1", 1, "127.0.0.1:1", b"/mcp"), {"authorization": "mine"}, stamp, None, 9)
    run = RequestRun(get_shared_loop(), "tools/call", 1.0)
    first, same, other, secret = (
        direct._build_request("id", run, "tools/call", params)
        for params in ({"name": "a"}, {"name": "a"}, {"name": "b"}, {"name": "a", "headers": {"Mcp-Param-Key": "mine"}})
    )
    assert first == same and b"\r\nmcp-name: a\r\n" in first and b"\r\nmcp-name: b\r\n" in other
    assert b"\r\nmcp-param-key: mine\r\n" in secret
    assert list(direct._heads) == [(("Mcp-Name", "a"),), (("Mcp-Name", "b"),)]
    assert direct._get_head((("Mcp-Name", "a"),)) is direct._get_head((("Mcp-Name", "a"),))
    for number in range(3 * MAX_KEPT_HEADS):
        direct._build_request("id", run, "tools/call", {"name": f"t{number}"})
    assert len(direct._heads) <= MAX_KEPT_HEADS


@pytest.mark.parametrize(
    ("name", "value"),
    [("x y", "a"), ("x\r\ny", "a"), ("", "a"), ("x:", "a"), ("größe", "a"), ("x", "a\r\nhost: b"), ("x", "a\nb")]
    + [("x", value) for value in (" a", "a ", "a\0", "Köln", "\x7f")],
)
def test_a_header_that_would_change_the_request_is_not_sent(name: str, value: str) -> None:
    """RFC 9110 section 5.5; RFC 9112 section 5."""
    assert write_head("POST", b"/mcp", [("host", "a")]) == b"POST /mcp HTTP/1.1\r\nhost: a\r\n"
    with pytest.raises(BadMessage):
        write_head("POST", b"/mcp", [("host", "a"), (name, value)])
    with pytest.raises(BadMessage):
        write_head("POST", b"/mcp HTTP/1.1\r\nx: y\r\n", [])


def test_only_the_client_says_where_the_body_of_a_request_ends() -> None:
    """RFC 9112 section 6: a configured header cannot change it."""
    head = write_head("POST", b"/", [("content-length", "9"), ("transfer-encoding", "chunked"), ("x", "y")])
    assert add_body(head, b"{}") == b"POST / HTTP/1.1\r\nx: y\r\ncontent-length: 2\r\n\r\n{}"


def test_the_spaces_around_a_header_are_not_part_of_its_value() -> None:
    """RFC 9110 section 5.5."""
    answer = Answer()
    answer.receive(b"HTTP/1.1 202 Accepted\r\nMcp-Session-Id: \t a b \t \r\nContent-Length: 0\r\n\r\n")
    assert answer.head is not None and answer.head.headers[b"mcp-session-id"] == b"a b"
    assert answer.head.raw == [(b"Mcp-Session-Id", b"a b"), (b"Content-Length", b"0")]

"""A plain session says what the official client says, and hands over what is not plain: nothing is sent twice.

Issue 12 part 18.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION, LATEST_MODERN_VERSION

from patchbay.client.addresses.targets import Http
from patchbay.client.connection import plain_session
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure, ServerTimeout
from patchbay.events import Progress
from tests.client.bad import Bad, Handler, Json, echo, serving
from tests.client.reaching import text
from tests.waiting import until

ERAS = ("legacy", "modern")
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}},
    "ttlMs": 1000,
    "cacheScope": "private",
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "bad", "version": "1"}},
}
TOOLS = [{"name": "work", "inputSchema": {"type": "object", "properties": {"n": {"type": "integer"}}}}]
OWN_HEADERS = {"content-length", "user-agent", "connection", "host", "accept", "accept-encoding"}
Start = Callable[..., Bad]


@pytest.fixture
def start() -> Iterator[Start]:
    with serving() as begin:
        yield begin


class Recorder:
    """Answers what comes before a call, in both eras, and keeps every message with its headers."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, dict[str, str], Json]] = []

    def __call__(self, handler: Handler, body: Json) -> bool:
        method = body.get("method", "")
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.messages.append((method, headers, body))
        modern = headers.get("mcp-protocol-version") == "2026-07-28"
        results = {"tools/list": {"tools": TOOLS} | ({"ttlMs": 0, "cacheScope": "private"} if modern else {})}
        results |= {"server/discover": DISCOVERED} if modern else {}
        if method not in results:
            return False
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": results[method]})
        return True

    def named(self, method: str) -> list[Json]:
        return [body for name, _, body in self.messages if name == method]


def reached(server: Bad, era: Any, quick: bool = True, **options: Any) -> Connection:
    return Connection.open(Http(server.url, {"X-Mine": "yes"}), era=era, quick=quick, **options)


def is_plain(connection: Connection) -> bool:
    return connection._link._async_connection is None


@pytest.mark.parametrize("era", ERAS)
def test_a_plain_session_says_what_the_official_client_says(start: Start, era: str) -> None:
    said = []
    for quick in (True, False):
        recorder = Recorder()
        options = {"questions": {"elicitation", "sampling", "list_roots"}, "name": "jn", "version": "7"}
        with reached(start(echo, recorder), era, quick, **options) as connection:
            assert connection.list_tools() == TOOLS
            assert text(connection.call_tool("work", {"n": 3})) == "hello"
            assert is_plain(connection) is quick
            server = connection.info["name"], connection.revision, connection.modern, connection.capabilities
        rows = []
        for method, headers, body in recorder.messages:
            own = {name: value for name, value in headers.items() if name not in OWN_HEADERS}
            rows.append((method, own, {key: value for key, value in body.items() if key != "id"}))
        said.append((server, rows))
    assert said[0] == said[1]


def test_the_revisions_are_those_of_the_official_client() -> None:
    assert plain_session.MODERN_REVISION == LATEST_MODERN_VERSION
    assert plain_session.HANDSHAKE_REVISIONS[-1] == LATEST_HANDSHAKE_VERSION
    assert set(plain_session.HANDSHAKE_REVISIONS) == set(HANDSHAKE_PROTOCOL_VERSIONS)


@pytest.mark.parametrize("era", ERAS)
def test_progress_in_a_stream_arrives_before_the_answer(start: Start, era: str) -> None:
    received, gate = [], threading.Event()

    def tool(handler: Handler, body: Json) -> None:
        token = body["params"]["_meta"]["progressToken"]
        handler.begin_stream()
        handler.event({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
        assert gate.wait(60)
        handler.event({"id": body["id"], "result": {"content": [{"type": "text", "text": "done"}]}})

    def receive(item: object) -> None:
        received.append(item)
        gate.set()

    with reached(start(tool, Recorder()), era) as connection:
        assert text(connection.call_tool("work", on_event=receive)) == "done"
        assert is_plain(connection)
    assert received == [Progress(1, None, None)]


def asking(handler: Handler, body: Json) -> None:
    """A tool of the older revisions that reports progress, asks a question, and returns the answer to it."""
    server: Any = handler.server
    token = body["params"]["_meta"]["progressToken"]
    handler.begin_stream()
    handler.event({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    handler.event({"id": 7, "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}})
    until(lambda: server.answers, "the question to be answered")
    handler.event({"id": body["id"], "result": {"content": [{"type": "text", "text": json.dumps(server.answers[0])}]}})


def modern_asking(handler: Handler, body: Json) -> None:
    """The same in the newest revision: a first answer that asks, and a second."""
    answers = body["params"].get("inputResponses")
    asked = {"q": {"method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": {}}}}
    result: Json = {"resultType": "input_required", "inputRequests": asked, "requestState": "s"}
    if answers is not None:
        result = {"resultType": "complete", "content": [{"type": "text", "text": json.dumps(answers["q"])}]}
    handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})


@pytest.mark.parametrize(("era", "tool", "calls"), [("legacy", asking, 1), ("modern", modern_asking, 2)])
def test_a_question_is_handed_over_and_the_call_is_not_sent_again(
    start: Start, era: str, tool: Callable[[Handler, Json], None], calls: int
) -> None:
    recorder = Recorder()

    def first(handler: Handler, body: Json) -> bool:
        server: Any = handler.server
        if "method" not in body:
            server.answers.append(body["result"])
            handler.send_json(None, 202)
            return True
        return recorder(handler, body)

    server: Any = start(tool, first)
    server.answers = []
    received: list[object] = []

    def answer(method: str, params: Mapping[str, Any]) -> Json:
        return {"action": "accept", "content": {"name": "Ada"}}

    with reached(server, era, ask=answer) as connection:
        found = json.loads(text(connection.call_tool("work", on_event=received.append)))
        assert not is_plain(connection)
    assert found["content"] == {"name": "Ada"}
    assert len(recorder.named("tools/call")) == calls
    assert received == ([Progress(1, None, None)] if era == "legacy" else [])


@pytest.mark.parametrize("era", ERAS)
def test_an_error_keeps_the_words_of_the_server(start: Start, era: str) -> None:
    def tool(handler: Handler, body: Json) -> None:
        error = {"code": -32602, "message": "no such tool", "data": [1]}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "error": error})

    recorder = Recorder()
    with reached(start(tool, recorder), era) as connection, pytest.raises(McpFailure, match="no such tool") as told:
        connection.call_tool("work")
    assert (told.value.code, told.value.data, len(recorder.named("tools/call"))) == (-32602, [1], 1)


@pytest.mark.parametrize("era", ERAS)
def test_a_silent_call_times_out_and_is_cancelled(start: Start, era: str) -> None:
    def tool(handler: Handler, body: Json) -> None:
        assert handler.server.over.wait(60)

    recorder = Recorder()
    with (
        reached(start(tool, recorder), era, timeout=0.3) as connection,
        pytest.raises(ServerTimeout, match=r"did not answer tools/call within 0\.3 s"),
    ):
        connection.call_tool("work")
    assert len(recorder.named("tools/call")) == 1
    if era == "legacy":
        until(lambda: recorder.named("notifications/cancelled"), "the call to be cancelled")


def test_a_tool_with_arguments_in_headers_is_called_by_the_official_client(start: Start) -> None:
    recorder = Recorder()
    schema = {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}}

    def first(handler: Handler, body: Json) -> bool:
        if body.get("method") != "tools/list":
            return recorder(handler, body)
        tools = [{"name": "work", "inputSchema": schema}]
        result = {"tools": tools, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})
        return True

    with reached(start(echo, first), "modern") as connection:
        connection.list_tools()
        assert text(connection.call_tool("work", {"city": "Zug"})) == "hello"
    headers = [headers for method, headers, _ in recorder.messages if method == "tools/call"]
    assert [row.get("mcp-param-city") for row in headers] == ["Zug"]


def test_a_list_of_tools_with_an_integer_beyond_64_bits_is_read(start: Start) -> None:
    """Issue 50, item 11."""
    recorder = Recorder()
    schema = {"type": "object", "properties": {"count": {"type": "integer", "maximum": 2**70}}}

    def first(handler: Handler, body: Json) -> bool:
        if body.get("method") != "tools/list":
            return recorder(handler, body)
        result = {"tools": [{"name": "work", "inputSchema": schema}], "ttlMs": 0, "cacheScope": "private"}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": {**result, "resultType": "complete"}})
        return True

    with reached(start(echo, first), "modern") as connection:
        assert connection.list_tools()[0]["inputSchema"] == schema
        assert is_plain(connection)


def test_a_session_is_ended_when_the_connection_is_closed(start: Start) -> None:
    def first(handler: Handler, body: Json) -> bool:
        if body.get("method") != "initialize":
            return False
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result}, 200, **{"Mcp-Session-Id": "abc"})
        return True

    ended: list[str | None] = []
    server = start(echo, first)
    with reached(server, "auto") as connection:
        assert text(connection.call_tool("work")) == "hello"
        assert (is_plain(connection), connection.revision) == (True, "2025-06-18")
    calls = [headers for verb, _, headers in server.got if verb == "POST" and "mcp-session-id" in headers]
    ended = [headers.get("mcp-session-id") for verb, _, headers in server.got if verb == "GET"]
    assert ended == ["abc"]
    assert {row["mcp-protocol-version"] for row in calls} == {"2025-06-18"}

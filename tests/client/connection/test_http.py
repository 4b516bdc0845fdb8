"""Misbehaving servers at URLs: their answers are bounded, their redirects checked, and their connections closed."""

from __future__ import annotations

import gzip
import socket
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, Literal

import anyio
import httpx2
import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.connection.failure_messages import FailureContext, make_client_error
from patchbay.client.connection.http import HttpConnection
from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.connection.requests import CURRENT_RUN, RequestRun
from patchbay.client.errors import McpFailure, NoMcpServer, ServerTimeout, SignInNeeded, Unreachable
from patchbay.client.openapi.http_client import ApiClient
from patchbay.client.sources.mcp import McpSource
from patchbay.errors import InvalidParams
from patchbay.events import Log
from tests.client.bad import INFO, Bad, Handler, Json, echo, serving
from tests.client.peers import open_context
from tests.client.reaching import held, text
from tests.waiting import BOUND, until


@pytest.fixture
def serve() -> Iterator[Callable[..., Bad]]:
    """Starts a bad server."""
    with serving() as start:
        yield start


def opened(server: Bad, **options: Any) -> Connection:
    known: dict[str, Any] = {"era": "legacy"}
    return Connection.open(Http(server.url, {"Authorization": "Bearer mine"}), **known | options)


def test_headers_go_with_every_request(serve: Callable[..., Bad]) -> None:
    """JN-70: streamable HTTP with the headers that were configured."""
    server = serve()
    with opened(server, era="auto") as connection:
        assert text(connection.call_tool("x")) == "hello"
        until(lambda: len(server.got) >= 4, "the requests of an opened connection and a call")
    assert {headers.get("authorization", headers.get("Authorization")) for _, _, headers in server.got} == {
        "Bearer mine"
    }


@pytest.mark.parametrize("value", ["Bearer hidden\n", "Bearer hidd\u00e9n", " hidden", "hidden\r\nX: y"])
def test_a_header_that_cannot_be_sent_is_named_and_its_value_is_not_shown(value: str) -> None:
    """RFC 9110 section 5.5; THREATS X20: a secret with a line break at its end is a secret."""
    with pytest.raises(InvalidParams, match="the header X-Token: expected printable ASCII") as failure:
        Connection.open(Http("http://127.0.0.1:1/mcp", {"X-Token": value}))
    with pytest.raises(InvalidParams, match="the header X-Token: expected printable ASCII") as other:
        ApiClient(("http://127.0.0.1:1/",), {"X-Token": value}, 5, 1000)
    assert "hidd" not in f"{failure.value} {other.value}"


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_errors_do_not_show_secrets_of_the_url(
    serve: Callable[..., Bad], transport: Literal["streamable-http", "sse"]
) -> None:
    """THREATS X20."""
    server = serve(first=lambda handler, body: bool(handler.send_json({}, Content_Encoding="gzip") or True))
    url = server.url.replace("//", "//ada:hidden@") + "?api_key=hidden"
    with pytest.raises(Unreachable, match=r"//ada:\*\*\*@127.0.0.1:.*api_key=\*\*\*") as failure:
        Connection.open(Http(url, transport=transport), era="legacy")
    assert "hidden" not in str(failure.value)


@pytest.mark.parametrize("body", [None, {"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "no"}}])
def test_a_session_that_the_server_has_ended_is_begun_anew_and_the_refused_request_sent_again(
    serve: Callable[..., Bad], body: Any
) -> None:
    """MCP specification, basic/transports, session management: after a 404 a client begins a new session.

    Issue 32, item 4: the refused request was not carried out, so it is sent again.
    """
    begun: list[str] = []

    def first(handler: Handler, message: Json) -> bool:
        if message["method"] == "initialize":
            begun.append(f"s{len(begun)}")
            handler.send_json({"jsonrpc": "2.0", "id": message["id"], "result": INFO}, Mcp_Session_Id=begun[-1])
        elif message["method"] == "tools/call" and handler.headers["Mcp-Session-Id"] == "s0":
            handler.send_json(body, 404)
        else:
            return False
        return True

    target = Http(serve(first=first).url)
    with ConnectionPool(era="legacy") as connections:
        assert text(connections.get(target).call_tool("x")) == "hello"
        assert text(connections.get(target).call_tool("x")) == "hello"
    assert begun == ["s0", "s1"]


def test_a_404_for_a_missing_resource_does_not_end_the_session(serve: Callable[..., Bad]) -> None:
    """Where the answer says that it is the resource which is not there, the session is."""

    def first(handler: Handler, message: Json) -> bool:
        if message["method"] == "initialize":
            handler.send_json({"jsonrpc": "2.0", "id": message["id"], "result": INFO}, Mcp_Session_Id="s0")
        elif message["method"] == "resources/read":
            error = {"code": -32002, "message": "no such resource"}
            handler.send_json({"jsonrpc": "2.0", "id": message["id"], "error": error}, 404)
        else:
            return False
        return True

    with opened(serve(first=first)) as connection:
        with pytest.raises(McpFailure, match="no such resource"):
            connection.read_resource("x:y")
        assert text(connection.call_tool("x")) == "hello"


def test_a_refusal_during_a_sign_in_is_not_a_refusal_of_the_request(serve: Callable[..., Bad]) -> None:
    """It looks for metadata at places that need not be there; a 404 of those says nothing of the session."""

    class Looking(httpx2.Auth):
        def auth_flow(self, request: httpx2.Request) -> Generator[httpx2.Request, httpx2.Response, None]:
            yield httpx2.Request("GET", request.url)
            yield request

    async def refused(url: str) -> str | None:
        run = RequestRun(get_shared_loop(), "tools/call", 30)
        CURRENT_RUN.set(run)
        async with HttpConnection(Http(url), Looking(), 1000).make_client() as client:
            answer = await client.post(url, json={"method": "notifications/initialized"})
            assert answer.status_code == 202
        return run.http_refusal

    server = serve()
    assert anyio.run(refused, server.url) is None
    assert [method for method, _, _ in server.got] == ["GET", "POST"]


def test_a_server_with_resources_may_lack_templates(serve: Callable[..., Bad]) -> None:
    """JN-33: many servers lack this method; their other lists are shown."""

    def first(handler: Handler, message: Json) -> bool:
        if message["method"] == "initialize":
            result: Json = INFO | {"capabilities": {"resources": {}}}
        elif message["method"] == "resources/list":
            result = {"resources": [{"uri": "x:y", "name": "y"}]}
        else:
            return False
        handler.send_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
        return True

    with opened(serve(first=first)) as connection:
        assert (len(connection.list_resources()), connection.list_resource_templates()) == (1, [])
        with pytest.raises(McpFailure):
            connection.get_result("resources/templates/list")


def answering(results: dict[str, Json]) -> Callable[[Handler, Json], bool]:
    """Answers these methods, and `null` with the error that the method is not known; others as usual."""

    def first(handler: Handler, message: Json) -> bool:
        if message["method"] not in results:
            return False
        result = results[message["method"]]
        error = {"error": {"code": -32601, "message": "Method not found"}}
        handler.send_json({"jsonrpc": "2.0", "id": message["id"], **({"result": result} if result else error)})
        return True

    return first


ODD: dict[str, Json] = {
    "initialize": INFO | {"capabilities": {"tools": {}, "prompts": {}, "resources": {}}},
    "tools/list": {"tools": [{"inputSchema": {"type": "object"}}, {"name": "x", "inputSchema": {"type": "object"}}]},
    "resources/list": {"resources": ["x", {"uri": "x:y"}]},
    "prompts/list": {},
}


def test_a_server_with_odd_lists_is_inspected_and_its_problems_are_named(
    serve: Callable[..., Bad], tmp_path: Path
) -> None:
    """33.10: a tool without a name, an item that is no object, and prompts without a list end no command."""
    address = f"mcp+{serve(first=answering(ODD)).url}"
    with open_context(tmp_path) as context:
        found = McpSource().inspects(address, context)
    assert ([one["name"] for one in found["tools"]], found["prompts"]) == (["x"], [])
    assert found["problems"] == {
        "tools": "1 of its tools left out: expected objects with a name that is a string",
        "resources": "1 of its resources left out: expected objects with a uri that is a string",
        "prompts": "not read: Method not found",
    }


def test_a_tool_of_a_server_with_odd_lists_is_called_with_a_warning(serve: Callable[..., Bad], tmp_path: Path) -> None:
    """33.10: `jn call` ended in a traceback; 33.6: what is wrong with a list is a warning of the command."""
    heard: list[Any] = []
    address = f"mcp+{serve(first=answering(ODD)).url}"
    with open_context(tmp_path, on_event=heard.append) as context:
        (called,) = McpSource().reads(f"{address}?tool=x", context)
        assert called["text"] == "hello"
        assert len(list(McpSource().reads(f"{address}?list=all", context))) == 2
    warnings = {str(one.data) for one in heard if isinstance(one, Log) and one.level == "warning"}
    assert warnings == {
        "tools/list: 1 of its tools left out: expected objects with a name that is a string",
        "resources/list: 1 of its resources left out: expected objects with a uri that is a string",
        "prompts/list: not read: Method not found",
    }


def test_an_address_without_a_server_is_an_error() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/mcp"
        with pytest.raises(Unreachable, match=f"{url} cannot be reached: "):
            Connection.open(Http(url))


def test_a_web_page_is_not_an_mcp_server(serve: Callable[..., Bad]) -> None:
    def page(handler: Handler, body: Json) -> bool:
        handler.send_bytes(b"<h1>Hello</h1>", Content_Type="text/html")
        return True

    with pytest.raises(McpFailure, match="Unexpected content type: text/html"):
        opened(serve(first=page))


def test_an_event_above_the_limit_does_not_mean_that_no_mcp_server_is_there() -> None:
    """Two failures of an event stream have one class in the HTTP client."""
    context = FailureContext(Http("https://a.example/mcp"), None, None, None, False, None)
    large = make_client_error(context, httpx2.SSEError("Server-sent event exceeded the 9 byte limit."))
    page = make_client_error(context, httpx2.SSEError("Expected response with content type 'text/event-stream'."))
    assert (type(large), type(page)) == (Unreachable, NoMcpServer)
    assert large.message == "https://a.example/mcp cannot be reached: Server-sent event exceeded the 9 byte limit"


def test_a_missing_page_is_an_error_with_its_status(serve: Callable[..., Bad]) -> None:
    def missing(handler: Handler, body: Json) -> bool:
        handler.send_json(None, 404)
        return True

    server = serve(first=missing)
    with pytest.raises(Unreachable, match="405"):
        opened(server, era="auto")
    assert "GET" in {method for method, _, _ in server.got}


def test_a_server_that_requires_a_sign_in_is_an_error(serve: Callable[..., Bad]) -> None:
    def closed(handler: Handler, body: Json) -> bool:
        handler.send_json(None, 401)
        return True

    with pytest.raises(SignInNeeded, match="HTTP 401"):
        opened(serve(first=closed), era="auto")


def test_a_stream_that_breaks_off_ends_the_request_and_not_the_connection(serve: Callable[..., Bad]) -> None:
    def breaks(handler: Handler, body: Json) -> None:
        if body["params"]["name"] == "whole":
            return echo(handler, body)
        handler.begin_stream()
        handler.event({"method": "notifications/message", "params": {"level": "info", "data": 1}})
        return None

    with opened(serve(breaks)) as connection:
        with pytest.raises(Unreachable, match="stream ended without a response"):
            connection.call_tool("x")
        assert text(connection.call_tool("whole")) == "hello"


@pytest.mark.parametrize("kind", ["json", "stream"])
def test_an_endless_body_is_refused_at_the_limit(serve: Callable[..., Bad], kind: str) -> None:
    """X-15: bodies and events are bounded."""

    def endless(handler: Handler, body: Json) -> None:
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Content-Type", {"json": "application/json", "stream": "text/event-stream"}[kind])
        handler.end_headers()
        handler.wfile.write(b"data: ")
        while not handler.server.over.is_set():
            handler.wfile.write(b"x" * 65536)

    with opened(serve(endless), limit=1_000_000) as connection, pytest.raises((Unreachable, McpFailure)) as failure:
        connection.call_tool("x", timeout=BOUND)
    assert not isinstance(failure.value, ServerTimeout)


def test_a_compressed_body_is_refused(serve: Callable[..., Bad]) -> None:
    """X-15: what is small on the wire and large in memory is not taken."""

    def bomb(handler: Handler, body: Json) -> None:
        data = gzip.compress(b"[" + b" " * 10_000_000 + b"]")
        handler.send_bytes(data, Content_Type="application/json", Content_Encoding="gzip")

    with opened(serve(bomb)) as connection, pytest.raises(Unreachable, match="compressed"):
        connection.call_tool("x")


def test_no_header_follows_a_redirect_to_another_host(serve: Callable[..., Bad]) -> None:
    """X-15: credentials stay with the server they were given for."""
    other = serve()

    def away(handler: Handler, body: Json) -> None:
        handler.send_json(None, 307, Location=other.url)

    with opened(serve(away)) as connection, pytest.raises(McpFailure, match=r"Redirect to .* not followed"):
        connection.call_tool("x")
    assert other.got == []


def test_a_silent_server_times_out(serve: Callable[..., Bad]) -> None:
    def silent(handler: Handler, body: Json) -> bool:
        handler.server.over.wait(30)
        return True

    server = serve(first=silent)
    with pytest.raises(ServerTimeout, match=r"did not answer initialize within 0\.3 s"):
        opened(server, start_timeout=0.3)
    server.over.set()


def test_dropped_connections_to_urls_leave_nothing_behind(serve: Callable[..., Bad]) -> None:
    """JN-1: no descriptor or thread is left; here some hundred, the drill runs more."""
    drop(serve(some), 30)


def some(handler: Handler, body: Json) -> None:
    """A tool for each way to be dropped."""
    name = body["params"]["name"]
    if name == "hang":
        handler.server.over.wait(1)
    if name in ("cut", "hang"):
        handler.begin_stream()
        handler.event({"method": "notifications/message", "params": {"level": "info", "data": 1}})
    else:
        echo(handler, body)


def drop(server: Bad, rounds: int) -> None:
    """Open and drop connections to a server in every way that there is, `rounds` times."""
    with opened(server):
        pass
    before = held()
    for _ in range(rounds):
        for way in (closed, cut, overdue, abandoned):
            way(server)
    until(lambda: held()[1] <= before[1] and held()[2] <= before[2] + 2, "everything is as before")


def closed(server: Bad) -> None:
    with opened(server) as connection:
        connection.call_tool("x")


def cut(server: Bad) -> None:
    with opened(server) as connection, pytest.raises(Unreachable):
        connection.call_tool("cut")


def overdue(server: Bad) -> None:
    with opened(server) as connection, pytest.raises(ServerTimeout):
        connection.call_tool("hang", timeout=0.01)


def abandoned(server: Bad) -> None:
    with opened(server) as connection:
        running = connection.request("tools/call", {"name": "cut"})
        next(running)
        running.close()

"""What a failed request says: the HTTP status, what Retry-After asks for, the size and the limit. Issue 32, item 5."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.http import parse_retry_after
from patchbay.client.errors import STDERR_LINES, HttpRefused, McpFailure, Unreachable, describe_briefly
from tests.client.bad import INFO, Bad, Handler, Json, echo, serving
from tests.client.reaching import text
from tests.waiting import BOUND


@pytest.fixture
def serve() -> Iterator[Callable[..., Bad]]:
    """Starts a bad server."""
    with serving() as start:
        yield start


@pytest.mark.parametrize(
    ("status", "headers", "words", "data"),
    [
        (500, {}, "answers HTTP 500 Internal Server Error", {"httpStatus": 500}),
        (503, {}, "answers HTTP 503 Service Unavailable", {"httpStatus": 503}),
        (
            429,
            {"Retry_After": "7"},
            "answers HTTP 429 Too Many Requests and asks to wait 7 s (Retry-After)",
            {"httpStatus": 429, "retryAfter": 7},
        ),
    ],
)
@pytest.mark.parametrize("when", ["call", "opening"])
def test_a_refusal_says_its_status_and_what_it_asks_for(
    serve: Callable[..., Bad], when: str, status: int, headers: dict[str, str], words: str, data: Json
) -> None:
    def refuse(handler: Handler, body: Json) -> bool:
        refused: bool = body["method"] == ("tools/call" if when == "call" else "initialize")
        if refused:
            handler.send_bytes(b"<h1>no</h1>", status, Content_Type="text/html", **headers)
        return refused

    server = serve(first=refuse)
    with pytest.raises(HttpRefused) as failure, Connection.open(Http(server.url), era="legacy") as connection:
        connection.call_tool("x")
    assert failure.value.message == f"{server.url} {words}"
    assert failure.value.data == data


def test_an_error_of_the_server_itself_keeps_its_words_and_gets_the_seconds_to_wait(serve: Callable[..., Bad]) -> None:
    def limited(handler: Handler, body: Json) -> None:
        error = {"code": -32000, "message": "slow down", "data": {"why": "quota"}}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "error": error}, 429, Retry_After="9")

    with Connection.open(Http(serve(limited).url), era="legacy") as connection:
        with pytest.raises(McpFailure, match="slow down") as failure:
            connection.call_tool("x")
        assert (failure.value.code, failure.value.data) == (-32000, {"why": "quota", "retryAfter": 9})
        assert not connection.closed


def test_each_refusal_of_a_connection_has_its_own_words(serve: Callable[..., Bad]) -> None:
    """The words of the second one may say that the session has ended."""
    first = b'{"jsonrpc": "2.0", "id": null, "error": {"code": -32000, "message": "the first reason"}}'
    refusals = iter([(first, "application/json"), (b"the second reason", "text/plain")])

    def refuse(handler: Handler, body: Json) -> bool:
        refused: bool = body["method"] == "tools/call"
        if refused:
            words, kind = next(refusals)
            handler.send_bytes(words, 400, Content_Type=kind)
        return refused

    with Connection.open(Http(serve(first=refuse).url), era="legacy") as connection:
        for reason in ("the first reason", "the second reason"):
            with pytest.raises(McpFailure, match=reason):
                connection.call_tool("x")


def test_an_error_with_the_code_of_a_closed_connection_is_an_answer(serve: Callable[..., Bad]) -> None:
    """Many servers use -32000 for their own errors; the official client uses it for the end of the connection."""

    def fails(handler: Handler, body: Json) -> None:
        error = {"code": -32000, "message": "the database is away"}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "error": error})

    with Connection.open(Http(serve(fails).url), era="legacy") as connection:
        with pytest.raises(McpFailure, match="the database is away") as failure:
            connection.call_tool("x")
        assert failure.value.code == -32000


@pytest.mark.parametrize("form", ["announced", "chunked", "event"])
def test_an_answer_that_is_too_large_says_its_size_and_the_limit_and_ends_only_its_request(
    serve: Callable[..., Bad], form: str
) -> None:
    def large(handler: Handler, body: Json) -> None:
        data = b'{"jsonrpc": "2.0", "x": "' + b"x" * 200_000 + b'"}'
        if body["params"]["name"] == "small":
            echo(handler, body)
        elif form == "announced":
            handler.send_bytes(data, Content_Type="application/json")
        elif form == "event":
            handler.begin_stream()
            handler.wfile.write(b"data: " + data + b"\n\n")
        else:
            handler.close_connection = True
            handler.send_response(200)
            handler.send_header("Content-Type", "application/json")
            handler.end_headers()
            handler.wfile.write(data)

    shown = {"announced": "200027 bytes", "chunked": "more than 100000 bytes", "event": "more than 100000 bytes"}[form]
    with Connection.open(Http(serve(large).url), era="legacy", limit=100_000) as connection:
        with pytest.raises(Unreachable, match=f"its answer is too large: .*{shown}; the limit is 100000 bytes"):
            connection.call_tool("large")
        assert text(connection.call_tool("small")) == "hello", "the connection goes on"


def test_a_stream_that_is_cut_is_called_so(serve: Callable[..., Bad]) -> None:
    def cut(handler: Handler, body: Json) -> None:
        handler.begin_stream()
        handler.event({"method": "notifications/message", "params": {"level": "info", "data": 1}})

    server = serve(cut)
    with Connection.open(Http(server.url), era="legacy") as connection, pytest.raises(Unreachable) as failure:
        connection.call_tool("x")
    assert failure.value.message == f"{server.url}: the stream ended without a response"


@pytest.mark.parametrize(
    "missing",
    [{"capabilities"}, {"serverInfo"}, {"capabilities", "serverInfo"}],
)
@pytest.mark.parametrize("quick", [False, True])
def test_a_server_that_leaves_out_what_the_handshake_requires_is_reached(
    serve: Callable[..., Bad], missing: set[str], quick: bool
) -> None:
    """Issue 32, item 3: such servers exist. One that declares nothing is asked for its tools."""
    tool = {"name": "x", "inputSchema": {"type": "object"}}

    def first(handler: Handler, body: Json) -> bool:
        results = {
            "initialize": {key: value for key, value in INFO.items() if key not in missing},
            "tools/list": {"tools": [tool]},
        }
        result = results.get(body["method"])
        if result is not None:
            handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})
        return result is not None

    with Connection.open(Http(serve(first=first).url), era="legacy", quick=quick) as connection:
        assert connection.list_tools() == [tool]
        assert connection.list_prompts() == []
        assert text(connection.call_tool("x")) == "hello"


def test_only_lists_that_the_server_declares_are_asked_for(serve: Callable[..., Bad]) -> None:
    """Issue 32, item 3: some servers leave a method that they do not know without an answer."""
    asked: list[str] = []

    def first(handler: Handler, body: Json) -> bool:
        asked.append(body["method"])
        return False

    with Connection.open(Http(serve(first=first).url), era="legacy") as connection:
        assert connection.list_resources() == connection.list_resource_templates() == connection.list_prompts() == []
        with pytest.raises(McpFailure):
            connection.get_result("prompts/list")
    assert sorted(asked) == ["initialize", "notifications/initialized", "prompts/list"]


def test_the_header_retry_after_is_a_number_or_a_date() -> None:
    """RFC 9110 section 10.2.3."""
    assert [parse_retry_after(value) for value in ("0", " 12 ", "", "soon", "-1", "1.5")] == [
        0,
        12,
        None,
        None,
        None,
        None,
    ]
    assert parse_retry_after(formatdate(0, usegmt=True)) == 0
    assert parse_retry_after("Thu, 01 Jan 2122 00:00:00 GMT")


def test_a_failure_in_one_line_ends_with_the_last_line_of_standard_error() -> None:
    message = f"the connection ended; it ended with exit code 3{STDERR_LINES}first\n  no configuration\n  "
    expected = "the connection ended; it ended with exit code 3; its last line on standard error: no configuration"
    assert describe_briefly(message) == expected
    assert len(describe_briefly("x" * 999 + STDERR_LINES + "y" * 999)) == 300


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            "npm error code E404|npm error 404 Not Found - GET https://r.example/x|npm error 404  'x' is not there"
            "|npm error A complete log of this run can be found in: /root/.npm/_logs/1.log",
            "on standard error: npm error 404 Not Found - GET https://r.example/x",
        ),
        ("npm error code E404", "its last line on standard error: npm error code E404"),
        (
            "throw err;|^|Error: Cannot find module '/srv/gone.js'|    at node:internal/modules:1|}||Node.js v20.20.2",
            "on standard error: Error: Cannot find module '/srv/gone.js'",
        ),
        ("Traceback|  File|ModuleNotFoundError: x", "its last line on standard error: ModuleNotFoundError: x"),
    ],
)
def test_the_line_of_standard_error_with_the_cause_is_chosen(lines: str, expected: str) -> None:
    """33.10: npm and Node.js do not end with the cause."""
    message = f"connection closed{STDERR_LINES}" + lines.replace("|", "\n  ")
    assert describe_briefly(message) == f"connection closed; {expected}"


def test_a_connection_that_is_closed_without_an_answer_ends_only_its_request(serve: Callable[..., Bad]) -> None:
    """Other calls of the same session have connections of their own, and go on."""
    go, running = threading.Event(), threading.Event()

    def tool(handler: Handler, body: Json) -> None:
        if body["params"]["name"] == "closed":
            handler.close_connection = True
            return
        if body["params"]["name"] == "slow":
            running.set()
            go.wait(BOUND)
        echo(handler, body)

    server = serve(tool)
    with Connection.open(Http(server.url), era="legacy") as connection, ThreadPoolExecutor(1) as threads:
        slow = threads.submit(connection.call_tool, "slow")
        assert running.wait(BOUND)
        with pytest.raises(Unreachable) as failure:
            connection.call_tool("closed")
        assert failure.value.message == f"{server.url}: it closed the connection without an answer"
        go.set()
        assert text(slow.result(BOUND)) == "hello"
        assert not connection.closed

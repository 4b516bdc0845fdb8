"""Servers that forget their sessions: a new one begins, and what was refused is sent again. Issue 32, item 4."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import MAX_SESSIONS_PER_REQUEST, Connection
from patchbay.client.errors import McpFailure, SessionLost
from tests.client.bad import INFO, Bad, Handler, Json, serving
from tests.client.reaching import text
from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import free_port, running
from tests.waiting import BOUND, until

CALLS = 8
EVERYTHING = PACKAGES / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
OFFERS = {"tools": {}, "logging": {}, "resources": {"subscribe": True}}
Refuse = Callable[[Handler, Json], None]


class Forgetful:
    """A server with sessions that `forget` ends. It records what it carried out, by session and method."""

    def __init__(
        self,
        serve: Callable[..., Bad],
        status: int = 404,
        message: str = "Session not found",
        refusal: bytes | None = None,
    ) -> None:
        self.begun: list[str] = []
        self.known: set[str] = set()
        self.carried_out: Counter[tuple[str, str]] = Counter()
        self.together = threading.Barrier(1)
        self.remembers = True
        error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": message}}
        self._refusal = (json.dumps(error).encode() if refusal is None else refusal), status
        self._lock = threading.Lock()
        self.target = Http(serve(first=self._answer).url)

    def forget(self, calls_together: int = 1) -> None:
        """End all sessions. The next so many refusals are given at the same time."""
        self.together = threading.Barrier(calls_together)
        self.known.clear()

    def _answer(self, handler: Handler, body: Json) -> bool:
        method, session = body["method"], handler.headers.get("Mcp-Session-Id", "")
        if method == "initialize":
            with self._lock:
                self.begun.append(f"s{len(self.begun)}")
                self.known |= {self.begun[-1]} if self.remembers else set()
            result = INFO | {"capabilities": OFFERS}
            handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result}, Mcp_Session_Id=self.begun[-1])
            return True
        if session not in self.known:
            if method == "tools/call":
                self.together.wait(BOUND)
            kind = "application/json" if self._refusal[0][:1] == b"{" else "text/plain; charset=utf-8"
            handler.send_bytes(*self._refusal, Content_Type=kind)
            return True
        with self._lock:
            self.carried_out[session, method] += 1
        if method in ("logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
            handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": {}})
            return True
        return False


@pytest.fixture
def serve() -> Iterator[Callable[..., Bad]]:
    """Starts a bad server."""
    with serving() as start:
        yield start


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    ("status", "message"),
    [
        (404, "Session not found"),
        (400, "Bad Request: No valid session ID provided"),
        (400, "Bad Request: Server not initialized"),
    ],
)
def test_a_call_of_a_forgotten_session_is_carried_out_once_in_a_new_one(
    serve: Callable[..., Bad], status: int, message: str, quick: bool
) -> None:
    """Older official examples answer 400 in place of 404; a connection without the official client renews too."""
    server = Forgetful(serve, status, message)
    with Connection.open(server.target, era="legacy", quick=quick) as connection:
        assert text(connection.call_tool("x")) == "hello"
        server.forget()
        assert text(connection.call_tool("x")) == "hello"
        assert text(connection.call_tool("x")) == "hello"
    assert server.begun == ["s0", "s1"]
    assert [server.carried_out[session, "tools/call"] for session in server.begun] == [1, 2]


NO_SESSION = "Bad Request: No valid session ID provided"


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    "refusal",
    [
        json.dumps({"jsonrpc": "2.0", "error": {"code": -32000, "message": NO_SESSION}}),
        json.dumps({"error": {"code": -32000, "message": NO_SESSION}}),
        json.dumps({"error": NO_SESSION}),
        json.dumps({"detail": NO_SESSION}),
        NO_SESSION,
    ],
    ids=["no id", "an error object", "an error text", "a detail", "plain text"],
)
def test_a_forgotten_session_is_recognised_in_a_400_of_any_form(
    serve: Callable[..., Bad], refusal: str, quick: bool
) -> None:
    """Issue 50, item 1: `server-everything` leaves the id out."""
    server = Forgetful(serve, 400, refusal=refusal.encode())
    with Connection.open(server.target, era="legacy", quick=quick) as connection:
        assert text(connection.call_tool("x")) == "hello"
        server.forget()
        assert text(connection.call_tool("x")) == "hello"
    assert server.begun == ["s0", "s1"]


@pytest.mark.process
@pytest.mark.node
def test_the_official_server_everything_is_called_again_after_its_restart(tmp_path: Path) -> None:
    """Issue 50, item 1: each call failed for good."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    command = ["env", f"PORT={port}", str(NODE), str(EVERYTHING), "streamableHttp"]
    with ExitStack() as closing:
        with running(command, url, tmp_path, range(200, 500), (0, -15)):
            connection = closing.enter_context(Connection.open(Http(url), era="legacy"))
            assert text(connection.call_tool("echo", {"message": "before"})) == "Echo: before"
        with running(command, url, tmp_path, range(200, 500), (0, -15)):
            assert text(connection.call_tool("echo", {"message": "after"})) == "Echo: after"
            closing.close()


def test_a_400_that_names_no_session_is_an_error_with_the_words_of_the_server(serve: Callable[..., Bad]) -> None:
    server = Forgetful(serve, 400, refusal=b'{"error": {"code": -32602, "message": "x has no such argument"}}')
    with Connection.open(server.target, era="legacy") as connection:
        server.forget()
        with pytest.raises(McpFailure, match="x has no such argument") as raised:
            connection.call_tool("x")
    assert raised.value.code == -32602 and server.begun == ["s0"]


def test_calls_at_once_share_one_new_session_and_none_fails(serve: Callable[..., Bad]) -> None:
    server = Forgetful(serve)
    with Connection.open(server.target, era="legacy") as connection, ThreadPoolExecutor(CALLS) as threads:
        server.forget(CALLS)
        answers = threads.map(lambda _: text(connection.call_tool("x")), range(CALLS))
        assert list(answers) == ["hello"] * CALLS
    assert server.begun == ["s0", "s1"]
    assert server.carried_out["s1", "tools/call"] == CALLS


def test_a_new_session_gets_the_log_level_and_the_subscriptions_of_the_old_one(serve: Callable[..., Bad]) -> None:
    server, renewed = Forgetful(serve), threading.Event()
    with Connection.open(server.target, era="legacy", log_level="info", on_renewed=renewed.set) as connection:
        connection.get_result("logging/setLevel", {"level": "debug"})
        with connection.listen(uris=["x://a", "x://b"]) as ended:
            server.forget()
            assert text(connection.call_tool("x")) == "hello"
            assert renewed.is_set()
            until(lambda: server.carried_out["s1", "resources/subscribe"] == 2, "the subscriptions")
            assert server.carried_out["s1", "logging/setLevel"] >= 1
            assert not ended.done(), "a new session is not the end of a subscription"
            assert not connection.closed


def test_a_call_that_each_new_session_refuses_fails(serve: Callable[..., Bad]) -> None:
    """A server that forgets every session is not asked without end."""
    server = Forgetful(serve)
    with Connection.open(server.target, era="legacy") as connection:
        server.remembers = False
        server.forget()
        with pytest.raises(SessionLost, match="the server has ended the session"):
            connection.call_tool("x")
    assert len(server.begun) == MAX_SESSIONS_PER_REQUEST


def test_a_request_that_runs_in_the_old_session_gets_its_answer(serve: Callable[..., Bad]) -> None:
    """Only refused requests move to the new session; another one may have begun before the server forgot."""
    go = threading.Event()

    def tool(handler: Handler, body: Json) -> None:
        if body["params"]["name"] == "slow":
            begun.set()
            go.wait(BOUND)
        result = {"content": [{"type": "text", "text": body["params"]["name"]}]}
        handler.send_json({"jsonrpc": "2.0", "id": body["id"], "result": result})

    begun = threading.Event()
    server = Forgetful(lambda first: serve(tool, first))
    with Connection.open(server.target, era="legacy") as connection, ThreadPoolExecutor(1) as threads:
        slow = threads.submit(connection.call_tool, "slow")
        assert begun.wait(BOUND)
        server.forget()
        assert text(connection.call_tool("quick")) == "quick"
        go.set()
        assert text(slow.result(BOUND)) == "slow"
    assert server.begun == ["s0", "s1"]

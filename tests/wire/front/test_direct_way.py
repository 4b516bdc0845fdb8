"""Plain MCP requests take the direct way; it gives the same answers as the WSGI application, and refuses nothing.

Requirements: issue 38 item 2; MCP specification, basic/transports (Streamable HTTP).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.events import Wait
from patchbay.jsonrpc import Result
from patchbay.wire.front.answers import StartedAnswer
from patchbay.wire.front.direct_way import PLAIN, DirectWay
from patchbay.wire.front.held_refusals import HeldRefusals
from patchbay.wire.front.work_limits import WorkLimits, WorkPlace
from patchbay.wire.replies.reply import ListeningBody, Reply, json_reply
from patchbay.wire.requests.at_work import AtWork
from patchbay.wire.requests.authentication import PROXY_HEADERS
from patchbay.wire.requests.rsgi import environ_of, variable
from tests.hubs import BOTH, Hub, modern_request
from tests.waiting import BOUND, until
from tests.wire.front.sent_headers import Pairs, SentScope

ECHO = '"""Gives back what it gets."""\n\n\ndef echo(message: str = "") -> str:\n    """Give the message."""\n'
ECHO += '    return message\n\n\ndef fail() -> str:\n    """Fail."""\n    raise SystemExit\n'

COUNT = '''"""Counts."""

from collections.abc import Iterator


def count() -> Iterator[str]:
    """Count."""
    yield from ("1", "2")
'''


class Ways:
    """Both ways of one hub."""

    def __init__(self, hub: Hub, threads: int = 8) -> None:
        self.hub = hub
        self.at_work = AtWork(hub.app.wsgi_app, 60.0)
        self.limits = WorkLimits(self.at_work, threads)
        self.direct: DirectWay = hub.app.parts.make_direct_way(self.limits, self.at_work)

    def directly(self, scope: SentScope, body: bytes) -> Reply | None:
        return self.direct.reply(scope, scope.headers, body)

    def by_wsgi(self, scope: SentScope, body: bytes) -> tuple[int, Pairs, bytes]:
        start = StartedAnswer()
        sent = self.limits(environ_of(scope, scope.headers, io.BytesIO(body)), start)
        return start.status, start.headers, b"".join(sent)


@pytest.fixture(scope="module")
def ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    hub = Hub(tmp_path_factory.mktemp("direct"), {"echo.py": ECHO})
    yield Ways(hub)
    hub.close()


def request_of(method: str, params: dict[str, Any] | None = None) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}})


CALL = request_of("tools/call", {"name": "echo", "arguments": {"message": "hello"}})
REQUIRED = {"host": "127.0.0.1:8000", "content-type": "application/json", "accept": BOTH}


def head(body: bytes, **further: str) -> Pairs:
    """A plain head; the names of further headers have underscores in place of hyphens."""
    given = {name.replace("_", "-"): value for name, value in further.items()}
    return list((REQUIRED | {"content-length": str(len(body))} | given).items())


CLIENTS = {
    "Python SDK": {
        **{"accept_encoding": "gzip, deflate", "connection": "keep-alive", "user_agent": "python-httpx/0.28.1"},
        **{"mcp_protocol_version": "2025-11-25"},
    },
    "TypeScript SDK": {
        **{"accept_language": "*", "sec_fetch_mode": "cors", "user_agent": "node", "accept_encoding": "gzip, deflate"},
        **{"connection": "keep-alive", "mcp_protocol_version": "2025-11-25"},
    },
    "with a trace": {"traceparent": f"00-{'a' * 32}-{'b' * 16}-01", "tracestate": "a=b", "baggage": "a=b"},
}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_of_a_usual_client_takes_the_direct_way(ways: Ways, client: str) -> None:
    reply = ways.directly(SentScope(head(CALL, **CLIENTS[client]), "/mcp/echo"), CALL)
    assert reply is not None and reply.status == 200 and isinstance(reply.body, bytes)
    assert orjson.loads(reply.body)["result"]["content"] == [{"type": "text", "text": "hello"}]


SENT = head(CALL)
NOT_PLAIN: dict[str, tuple[SentScope, bytes]] = {
    "another method": (SentScope(SENT, "/mcp/echo", "GET"), CALL),
    "another path": (SentScope(SENT, "/rpc"), CALL),
    "a path that only begins so": (SentScope(SENT, "/mcpecho"), CALL),
    "a deeper path": (SentScope(SENT, "/mcp/echo/more"), CALL),
    "the card of all servers": (SentScope(SENT, "/mcp/server-card"), CALL),
    "a path that is not ASCII": (SentScope(SENT, "/mcp/écho"), CALL),
    "a pinned address": (SentScope(SENT, "/mcp/echo@bafk"), CALL),
    "a host in the target": (SentScope(SENT, "/mcp/echo", authority="127.0.0.1:8000"), CALL),
    "another machine": (SentScope(SENT, "/mcp/echo", client="192.0.2.1:4711"), CALL),
    "no host": (SentScope([pair for pair in SENT if pair[0] != "host"], "/mcp/echo"), CALL),
    "a host that is not the hub's": (SentScope(head(CALL, host="evil.example"), "/mcp/echo"), CALL),
    "a header that is sent twice": (SentScope([*SENT, ("mcp-name", "a"), ("mcp-name", "a")], "/mcp/echo"), CALL),
    "a value that is not ASCII": (SentScope([*SENT, ("mcp-name", "é")], "/mcp/echo"), CALL),
    "an underscore in a name": (SentScope([*SENT, ("mcp-param-a_b", "c")], "/mcp/echo"), CALL),
    "a header of a browser": (SentScope(head(CALL, sec_fetch_site="same-origin"), "/mcp/echo"), CALL),
    "an origin": (SentScope(head(CALL, origin="http://127.0.0.1:8000"), "/mcp/echo"), CALL),
    "a cookie": (SentScope(head(CALL, cookie="a=b"), "/mcp/echo"), CALL),
    "a proxy": (SentScope(head(CALL, x_forwarded_for="192.0.2.1"), "/mcp/echo"), CALL),
    "an unknown header": (SentScope(head(CALL, x_unknown="1"), "/mcp/echo"), CALL),
    "a packed body": (SentScope(head(CALL, content_encoding="gzip"), "/mcp/echo"), CALL),
    "a body in chunks": (SentScope(head(CALL, transfer_encoding="chunked"), "/mcp/echo"), CALL),
    "a body that ends early": (SentScope(head(CALL + b" "), "/mcp/echo"), CALL),
    "a body that is not JSON": (SentScope(head(CALL, content_type="text/plain"), "/mcp/echo"), CALL),
    "no accepted form": (SentScope(head(CALL, accept="text/html"), "/mcp/echo"), CALL),
}


@pytest.mark.parametrize("reason", NOT_PLAIN)
def test_a_request_that_is_not_plain_is_left_to_the_wsgi_application(ways: Ways, reason: str) -> None:
    scope, body = NOT_PLAIN[reason]
    assert ways.directly(scope, body) is None


def test_no_header_of_a_proxy_is_plain() -> None:
    assert PROXY_HEADERS.isdisjoint(map(variable, PLAIN))
    assert not any(name.startswith("x-") for name in PLAIN)


def test_a_body_over_the_limit_is_left_to_the_wsgi_application(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"echo.py": ECHO}, body_limit=len(CALL) - 1)
    assert Ways(hub).directly(SentScope(SENT, "/mcp/echo"), CALL) is None
    hub.close()


META = modern_request("ping")[0]["params"]["_meta"]
BODIES = [
    CALL,
    request_of("tools/call", {"name": "echo", "arguments": {"message": "é" * 20}}),
    request_of("tools/call", {"name": "echo", "arguments": {"message": 1}}),
    request_of("tools/call", {"name": "echo", "_meta": {"progressToken": "t"}}),
    request_of("tools/call", {"name": "fail"}),
    request_of("tools/call", {"name": "none"}),
    request_of("tools/call", {"name": "echo", "arguments": {}, "_meta": META}),
    request_of("tools/list"),
    request_of("tools/list", {"_meta": META}),
    request_of("server/discover", {"_meta": META}),
    request_of("resources/read", {"uri": "file:///none"}),
    request_of("ping"),
    request_of("none"),
    orjson.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    orjson.dumps([{"jsonrpc": "2.0", "id": 1, "method": "ping"}]),
    orjson.dumps({"jsonrpc": "1.0", "id": 1, "method": "ping"}),
    b'{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}',
    b"[" * 200,
    b"{",
    b"",
    b"null",
    b"\xff",
]

VALUES: dict[str, list[str]] = {
    "host": ["127.0.0.1:8000", "localhost", "evil.example", "127.0.0.1:8000,localhost", ""],
    "content-type": ["application/json", "application/json; charset=utf-8", "APPLICATION/JSON", "text/plain", ""],
    "accept": [BOTH, "application/json", "*/*", "text/event-stream", "text/html", ""],
    "mcp-protocol-version": ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01", "é"],
    "mcp-method": ["tools/call", "tools/list", ""],
    "mcp-name": ["echo", " echo\t", "none"],
    "mcp-session-id": ["none", ""],
    "mcp-param-a": ["b"],
    "mcp_name": ["echo"],
    "authorization": ["Bearer none", "Basic YTpi"],
    "sec-fetch-mode": ["cors", "navigate"],
    "sec-fetch-site": ["cross-site", "same-origin"],
    "origin": ["http://127.0.0.1:8000", "https://evil.example"],
    "x-forwarded-for": ["192.0.2.1"],
    "via": ["1.1 proxy"],
    "transfer-encoding": ["chunked"],
    "content-encoding": ["gzip"],
    "cookie": ["a=b"],
    "user-agent": ["x"],
}
PATHS = ["/mcp/echo", "/mcp/echo/", "/mcp", "/mcp/", "/mcp/none", "/mcp/echo@none", "/mcp//echo", "/mcp/server-card"]


@st.composite
def sent_requests(draw: st.DrawFn) -> tuple[SentScope, bytes]:
    """A request that is mostly plain: a good head, in which some headers are changed, added, repeated or left out."""
    body = draw(st.sampled_from(BODIES))
    pairs = dict(head(body))
    for name in draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3)):
        pairs[name] = draw(st.sampled_from(VALUES[name]))
    for name in draw(st.lists(st.sampled_from(sorted(pairs)), max_size=1 if draw(st.booleans()) else 0)):
        del pairs[name]
    found = list(pairs.items())
    if draw(st.integers(0, 9)) == 0 and found:
        found.append(draw(st.sampled_from(found)))
    method = draw(st.sampled_from(["POST"] * 9 + ["GET", "DELETE", "PUT"]))
    return SentScope(found, draw(st.sampled_from(PATHS)), method), body


def check_both_ways(ways: Ways, sent: tuple[SentScope, bytes]) -> None:
    """Check that the direct way, if it takes a request, gives the answer of the WSGI application."""
    reply = ways.directly(*sent)
    if reply is None:
        return
    start = StartedAnswer()
    body = b"".join(reply.send(start))
    status, headers, expected = ways.by_wsgi(*sent)
    assert (start.status, sorted(start.headers), body) == (status, sorted(headers), expected)


@given(sent=sent_requests())
def test_both_ways_give_the_same_answer(ways: Ways, sent: tuple[SentScope, bytes]) -> None:
    check_both_ways(ways, sent)


@pytest.fixture(scope="module")
def ways_below_a_prefix(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ways]:
    hub = Hub(tmp_path_factory.mktemp("prefix"), {"echo.py": ECHO}, path_prefix="/hub")
    yield Ways(hub)
    hub.close()


@given(sent=sent_requests(), prefix=st.sampled_from(["", "/hub", "/hub/hub", "/hubs", "/hub/", "/HUB"]))
def test_both_ways_give_the_same_answer_below_a_path_prefix(
    ways_below_a_prefix: Ways, sent: tuple[SentScope, bytes], prefix: str
) -> None:
    scope, body = sent
    scope.path = prefix + scope.path
    check_both_ways(ways_below_a_prefix, (scope, body))


@pytest.mark.parametrize(
    ("path", "is_direct"), [("/hub/mcp/echo", True), ("/mcp/echo", True), ("/hubs/mcp/echo", False)]
)
def test_the_direct_way_takes_a_path_with_the_prefix_of_the_hub_and_without_it(
    ways_below_a_prefix: Ways, path: str, is_direct: bool
) -> None:
    """A proxy may pass the prefix on or strip it."""
    reply = ways_below_a_prefix.directly(SentScope(SENT, path), CALL)
    assert (reply is not None) == is_direct
    assert reply is None or reply.status == 200


@pytest.mark.parametrize("path", ["/hub/healthz", "/healthz"])
def test_health_checks_need_no_thread_with_the_prefix_and_without_it(tmp_path: Path, path: str) -> None:
    hub = Hub(tmp_path, path_prefix="/hub")
    limits = WorkLimits(hub.app.wsgi_app, 1, prefix="/hub")
    assert isinstance(limits.enter("192.0.2.1"), WorkPlace)
    start = StartedAnswer()
    scope = SentScope([("host", "127.0.0.1:8000")], path, "GET")
    assert b"".join(limits(environ_of(scope, scope.headers, io.BytesIO()), start)) == b"alive\n"
    assert start.status == 200
    hub.close()


def test_a_shared_hub_takes_valid_tokens_directly_and_leaves_refusals_to_the_middleware(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"echo.py": ECHO}, access="shared")
    key = hub.app.parts.keys.make("ci")
    ways = Ways(hub)

    def directly(**further: str) -> Reply | None:
        return ways.directly(SentScope(head(CALL, **further), "/mcp/echo", client="192.0.2.1:1"), CALL)

    for token in (key, hub.token):  # of a person and of the operator
        reply = directly(authorization=f"Bearer {token}")
        assert reply is not None and reply.status == 200
    assert directly() is None
    assert directly(authorization=f"Bearer {key}x") is None
    assert directly(authorization=f"Bearer {hub.token}x") is None
    assert directly(authorization=f"DPoP {key}", dpop="a.b.c") is None
    hub.close()


def test_a_request_waits_for_a_thread_and_keeps_to_the_direct_way(tmp_path: Path) -> None:
    """The WSGI application would hold the thread of a call with a JSON answer that waits for a mounted server."""
    hub = Hub(tmp_path, {"echo.py": ECHO})
    ways = Ways(hub, threads=1)
    place = ways.limits.enter("192.0.2.1")
    assert isinstance(place, WorkPlace)
    with ThreadPoolExecutor() as threads:
        running = threads.submit(ways.directly, SentScope(SENT, "/mcp/echo"), CALL)
        until(lambda: ways.limits._waiting == 1, "the request waits")
        ways.limits.leave(place)
        reply = running.result(BOUND)
    assert reply is not None and reply.status == 200
    assert ways.directly(SentScope(SENT, "/mcp/echo"), CALL) is not None, "the first one gave its place back"
    assert ways.at_work.oldest() == 0
    hub.close()


def test_a_request_for_which_no_thread_is_free_is_refused_in_both_ways_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("patchbay.wire.front.work_limits.PATIENCE_SECONDS", 0.0)
    hub = Hub(tmp_path, {"echo.py": ECHO})
    ways = Ways(hub, threads=1)
    assert isinstance(ways.limits.enter("192.0.2.1"), WorkPlace)
    reply = ways.directly(SentScope(SENT, "/mcp/echo"), CALL)
    assert reply is not None and reply.status == 503
    assert (reply.status, reply.head, reply.body) == ways.by_wsgi(SentScope(SENT, "/mcp/echo"), CALL)
    hub.close()


def test_a_streamed_answer_keeps_its_place_until_its_end(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"count.py": COUNT})
    ways = Ways(hub, threads=1)
    body = request_of("tools/call", {"name": "count", "_meta": {"progressToken": "t"}})
    reply = ways.directly(SentScope(head(body), "/mcp/count"), body)
    assert reply is not None and reply.holds_thread
    assert ways.limits._working
    sent = reply.send(StartedAnswer())
    assert b"notifications/progress" in b"".join(sent)
    sent.close()  # type: ignore[attr-defined]
    assert not ways.limits._working
    hub.close()


def test_a_refusal_for_a_quota_waits_and_says_its_length() -> None:
    refusals = HeldRefusals(lambda *_: ())
    refused = json_reply(Result(1, {"content": []}, retry_after=7))
    assert isinstance(refused.body, bytes)
    held = refusals.held(refused, "ann")
    assert isinstance(held.body, ListeningBody) and isinstance(next(held.body.steps), Wait)
    assert ("Content-Length", str(len(refused.body))) in held.head and ("Retry-After", "7") in held.head
    assert not held.holds_thread
    held.body.close()
    other = json_reply(Result(1, {"content": []}))
    assert refusals.held(other, "ann") is other
    busy = json_reply(Result(1, {"content": []}), 503)
    assert refusals.held(busy, "ann") is busy

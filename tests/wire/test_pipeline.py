"""Every request takes one way: the same answers as before there was one way, whichever web server took the request.

Requirements: issue 38 item 2; issue 51 item 3; MCP specification, basic/transports (Streamable HTTP).
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from flask import request

from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.wire.front.answers import StartedAnswer
from patchbay.wire.pipeline import Pipeline
from patchbay.wire.replies.reply import Reply
from patchbay.wire.requests.at_work import AtWork
from patchbay.wire.requests.request import Body, Request
from patchbay.wire.requests.rsgi import RsgiRequests
from patchbay.wire.requests.work_limits import RequestPlace, WorkLimits
from tests.hubs import BOTH, Hub
from tests.waiting import BOUND, until
from tests.wire.front.sent_headers import Pairs, SentScope
from tests.wire.raw_requests import CALL, ECHO, head, raw_requests, request_of

RECORDED = Path(__file__).parent / "raw_answers.json"

COUNT = '''"""Counts."""

from collections.abc import Iterator


def count() -> Iterator[str]:
    """Count."""
    yield from ("1", "2")
'''

Answer = tuple[int, Pairs, bytes]


class Served:
    """A hub whose requests come through the pipeline."""

    def __init__(self, hub: Hub, threads: int = 8) -> None:
        self.hub = hub
        self.pipeline: Pipeline = hub.app.parts.pipeline
        self.at_work = self.pipeline.at_work = AtWork(60.0)
        self.limits = self.pipeline.limits = WorkLimits(threads)
        self._requests = RsgiRequests(TrustedProxies(()), hub.settings.path_prefix, None)

    def request(self, scope: SentScope, body: bytes) -> Request:
        return self._requests.make(scope, scope.headers, Body(io.BytesIO(body)))

    def reply(self, scope: SentScope, body: bytes) -> Reply:
        return self.pipeline(self.request(scope, body))

    def by_front(self, scope: SentScope, body: bytes) -> Answer:
        start = StartedAnswer()
        sent = whole(self.reply(scope, body).settle_on_thread().send(start))
        return start.status, start.headers, sent

    def by_wsgi(self, scope: SentScope, body: bytes) -> Answer:
        start = StartedAnswer()
        app: Any = self.hub.app.wsgi_app
        sent = whole(app(environ_of(scope, body), start))
        return start.status, start.headers, sent


def whole(sent: Any) -> bytes:
    try:
        return b"".join(sent)
    finally:
        getattr(sent, "close", lambda: None)()


def environ_of(scope: SentScope, body: bytes) -> dict[str, Any]:
    """The environ that a web server by WSGI makes of a request without repeated headers."""
    names = {"content-type": "CONTENT_TYPE", "content-length": "CONTENT_LENGTH"}
    host, _, port = scope.client.rpartition(":")
    headers = {
        names.get(name) or f"HTTP_{name.upper().replace('-', '_')}": value for name, value in scope.headers.items()
    }
    return headers | {
        **{"REQUEST_METHOD": scope.method, "PATH_INFO": scope.path.encode().decode("latin-1"), "SCRIPT_NAME": ""},
        **{"QUERY_STRING": scope.query_string, "REMOTE_ADDR": host, "REMOTE_PORT": port, "SERVER_NAME": "127.0.0.1"},
        **{"SERVER_PORT": "8000", "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.url_scheme": "http"},
        **{"wsgi.input": io.BytesIO(body), "wsgi.input_terminated": True},
    }


@pytest.fixture(scope="module", params=[{}, {"access": "shared"}, {"access": "open"}, {"path_prefix": "/hub"}], ids=str)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    hub = Hub(tmp_path_factory.mktemp("served"), {"echo.py": ECHO}, **request.param)
    yield Served(hub)
    hub.close()


def test_each_raw_request_gets_the_answer_that_it_got_when_there_were_two_ways(served: Served) -> None:
    """The answers were recorded with the last version in which plain heads had a way of their own."""
    file = json.loads(RECORDED.read_text("utf-8"))
    named = file["requests"][mode_of(served.hub)]
    recorded = {name: file["answers"][int(number)] for number, names in named.items() for name in names}
    assert len(recorded) > 200
    sent = {name: (scope, body) for name, scope, body in raw_requests()}
    found = {name: as_recorded(served.by_front(*sent[name])) for name in recorded}
    assert found == recorded
    assert not served.limits._working and served.at_work.oldest() == 0


def mode_of(hub: Hub) -> str:
    return hub.settings.path_prefix or str(hub.settings.mode)


def as_recorded(answer: Answer) -> list[Any]:
    status, headers, body = answer
    # A second may pass between two answers.
    return [status, [list(pair) for pair in sorted(headers) if pair[0] != "Date"], body.decode()]


def test_the_front_and_a_web_server_by_wsgi_get_the_same_answers(served: Served) -> None:
    """An environ does not show the lines of a repeated header, an underscore in a name, or a host in the target."""
    compared = 0
    for name, scope, body in raw_requests():
        names = [pair[0] for pair in scope.headers.items()]
        shown = len(set(names)) == len(names) == len(scope.headers) and "_" not in "".join(names)
        if shown and scope.authority is None and scope.path.startswith("/") and _is_settled(name):
            found = served.by_front(scope, body)
            assert as_recorded(found) == as_recorded(served.by_wsgi(scope, body)), name
            compared += 1
    assert compared > 300


def _is_settled(name: str) -> bool:
    """Whether the answer to a request is the same each time: no new number, no room, no count of tokens."""
    return not name.startswith(("OPTIONS", "PUT", "DELETE")) and not any(
        part in name for part in ("body 12 to /rpc", "/rooms", "transfer-encoding: gzip", "authorization")
    )


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
    "behind a proxy": {"x_forwarded_proto": "https", "x_unknown": "1"},
}
SENT = head(CALL)


@pytest.fixture(scope="module")
def personal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    hub = Hub(tmp_path_factory.mktemp("personal"), {"echo.py": ECHO}, access="open")
    yield Served(hub)
    hub.close()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_call_of_a_usual_client_is_answered(personal: Served, client: str) -> None:
    status, _, body = personal.by_front(SentScope(head(CALL, **CLIENTS[client]), "/mcp/echo"), CALL)
    assert status == 200 and json.loads(body)["result"]["content"] == [{"type": "text", "text": "hello"}]


def test_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"echo.py": ECHO}, body_limit=len(CALL) - 1)
    assert Served(hub).by_front(SentScope(SENT, "/mcp/echo"), CALL)[0] == 413
    hub.close()


@pytest.mark.parametrize(("path", "status"), [("/hub/mcp/echo", 200), ("/mcp/echo", 200), ("/hubs/mcp/echo", 404)])
def test_a_path_with_the_prefix_of_the_hub_and_without_it_is_the_same(tmp_path: Path, path: str, status: int) -> None:
    """A proxy may pass the prefix on or strip it."""
    hub = Hub(tmp_path, {"echo.py": ECHO}, path_prefix="/hub")
    served, scope = Served(hub), SentScope(SENT, path)
    assert (served.by_front(scope, CALL)[0] == 200) == (status == 200)
    assert served.request(scope, CALL).prefix == "/hub"
    hub.close()


@pytest.mark.parametrize("path", ["/hub/healthz", "/healthz"])
def test_health_checks_need_no_thread_with_the_prefix_and_without_it(tmp_path: Path, path: str) -> None:
    hub = Hub(tmp_path, path_prefix="/hub")
    served = Served(hub, threads=1)
    assert isinstance(served.limits.enter("192.0.2.1"), RequestPlace)
    scope = SentScope([("host", "127.0.0.1:8000")], path, "GET")
    assert served.by_front(scope, b"")[::2] == (200, b"alive\n")
    hub.close()


def test_a_shared_hub_takes_valid_tokens_and_refuses_others(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"echo.py": ECHO}, access="shared")
    key = hub.app.parts.keys.make("ci")
    served = Served(hub)

    def status(**further: str) -> int:
        return served.by_front(SentScope(head(CALL, **further), "/mcp/echo", client="192.0.2.1:1"), CALL)[0]

    for token in (key, hub.token):  # of a person and of the operator
        assert status(authorization=f"Bearer {token}") == 200
    assert status() == 401
    assert status(authorization=f"Bearer {key}x") == 401
    assert status(authorization=f"Bearer {hub.token}x") == 401
    hub.close()


def test_a_request_waits_for_a_thread_and_gives_its_place_back(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"echo.py": ECHO})
    served = Served(hub, threads=1)
    place = served.limits.enter("192.0.2.1")
    assert isinstance(place, RequestPlace)
    with ThreadPoolExecutor() as threads:
        running = threads.submit(served.by_front, SentScope(SENT, "/mcp/echo"), CALL)
        until(lambda: served.limits._waiting == 1, "the request waits")
        place.release()
        assert running.result(BOUND)[0] == 200
    assert served.by_front(SentScope(SENT, "/mcp/echo"), CALL)[0] == 200, "the first one gave its place back"
    assert served.at_work.oldest() == 0
    hub.close()


def test_a_request_for_which_no_thread_is_free_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("patchbay.wire.requests.work_limits.PATIENCE_SECONDS", 0.0)
    hub = Hub(tmp_path, {"echo.py": ECHO})
    served = Served(hub, threads=1)
    assert isinstance(served.limits.enter("192.0.2.1"), RequestPlace)
    status, headers, body = served.by_front(SentScope(SENT, "/mcp/echo"), CALL)
    assert status == 503 and ("Retry-After", "5") in headers and b"too many requests" in body
    hub.close()


def test_a_streamed_answer_keeps_its_place_until_its_end(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"count.py": COUNT})
    served = Served(hub, threads=1)
    body = request_of("tools/call", {"name": "count", "_meta": {"progressToken": "t"}})
    reply = served.reply(SentScope(head(body), "/mcp/count"), body)
    assert reply.holds_thread
    assert served.limits._working
    sent: Any = reply.send(StartedAnswer())
    assert b"notifications/progress" in b"".join(sent)
    sent.close()
    assert not served.limits._working
    hub.close()


def test_a_page_that_fails_gives_its_place_back(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"echo.py": ECHO})
    served = Served(hub)

    def fail(request: Request) -> Reply:
        raise RuntimeError

    served.pipeline.pages = fail
    with pytest.raises(RuntimeError):
        served.reply(SentScope([("host", "127.0.0.1:8000")], "/servers", "GET"), b"")
    assert not served.limits._working and served.at_work.oldest() == 0
    hub.close()


def test_an_environ_for_the_pages_has_one_key_of_the_hub(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"echo.py": ECHO})
    seen: list[dict[str, Any]] = []
    with hub.app.test_client() as client:
        hub.app.before_request_funcs.setdefault(None, []).append(lambda: seen.append(dict(request.environ)))
        client.get("/servers", headers={"Accept": BOTH})
    (environ,) = seen
    assert [name for name in environ if name.startswith("patchbay")] == ["patchbay.request"]
    hub.close()

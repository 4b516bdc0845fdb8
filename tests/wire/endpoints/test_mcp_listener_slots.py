"""What several requests share: places for streams, turns to be read, and cancellations from another process."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.protocol.dispatch import Dispatcher
from tests.hubs import BOTH, Hub, modern_request
from tests.waiting import BOUND, until

SOURCE = """import time

def hangs(context) -> str:
    context.log("it begins")  # with a message, the stream begins at once
    while True:
        time.sleep(0.02)

def quick() -> str:
    return 'x'
"""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    made = Hub(tmp_path, {"one.py": SOURCE}, listeners=1, threads=4, keepalive=0.05)
    yield made
    made.close()


def hanging(id: Any = 7) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "hangs"}}


def get(hub: Hub, session: str, path: str = "/mcp/one", **headers: str) -> Any:
    known = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
    return hub.app.test_client().get(path, headers=known | headers, buffered=False)


def delete(hub: Hub, session: str) -> int:
    return hub.client.delete("/mcp/one", headers={"Mcp-Session-Id": session, "Host": "localhost"}).status_code


def left_stream(hub: Hub, session: str) -> str:
    """The first event id of a call that goes on although its reader has left."""
    frames = hub.stream("one", hanging(), {"Mcp-Session-Id": session})
    last = next(frames).decode().split("\n")[0][4:]
    frames.close()
    return last


def test_every_stream_that_only_listens_takes_one_of_the_same_places(hub: Hub) -> None:
    """THREATS 1.2: replays, changes, the stream of 2024-11-05 and subscriptions alike."""
    session = hub.open("one")
    last = {"Last-Event-ID": left_stream(hub, session)}
    replay = get(hub, session, **last)
    assert replay.status_code == 200
    for busy in (get(hub, session, **last), get(hub, session), get(hub, session, "/mcp/one/sse")):
        assert (busy.status_code, busy.headers["Retry-After"]) == (503, "5")
    assert hub.modern("one", "subscriptions/listen", {"notifications": {}}).status == 503
    replay.close()
    again = get(hub, session, "/mcp/one/sse")
    assert again.status_code == 200
    again.close()
    assert delete(hub, session) == 204


def test_a_listener_that_is_refused_leaves_its_place(hub: Hub) -> None:
    """THREATS 1.2."""
    for _ in range(3):
        assert hub.modern("one", "subscriptions/listen", {"notifications": None}).error["code"] == -32602
    session = hub.open("one")
    open_one = get(hub, session)
    assert open_one.status_code == 200
    open_one.close()


def test_a_replay_ends_with_its_session(hub: Hub) -> None:
    session = hub.open("one")
    replay = get(hub, session, **{"Last-Event-ID": left_stream(hub, session)})
    frames = iter(replay.response)
    next(frames)
    reader = threading.Thread(target=lambda: list(frames), daemon=True)
    reader.start()
    assert delete(hub, session) == 204
    reader.join(BOUND)
    assert not reader.is_alive()
    replay.close()


@pytest.mark.parametrize("slashed", ["/mcp/one/", "/mcp/"])
def test_a_slash_at_the_end_of_an_address_changes_nothing(hub: Hub, slashed: str) -> None:
    body, headers = modern_request("tools/list")
    known = headers | {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"}
    found = [hub.client.post(path, data=orjson.dumps(body), headers=known) for path in (slashed, slashed[:-1])]
    assert found[0].status_code == 200
    assert found[0].get_json() == found[1].get_json()


class Stalled:
    """A body that does not arrive until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def read(self, size: int = -1) -> bytes:
        self.begun.set()
        assert self.go.wait(BOUND)
        return b""


def test_bodies_that_do_not_arrive_leave_threads_for_others(hub: Hub) -> None:
    """THREATS M10: of four threads one may be held by reading."""
    stalled = Stalled()
    environ = {"wsgi.input": stalled, "CONTENT_LENGTH": "100"}
    headers = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"}

    def send() -> None:
        hub.app.test_client().post("/mcp/one", headers=headers, environ_overrides=environ)

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    assert stalled.begun.wait(BOUND)
    refused = hub.raw("one", b"{}")
    assert (refused.status, refused.headers["Retry-After"]) == (503, "5")
    assert hub.client.get("/healthz", headers={"Host": "localhost"}).status_code == 200
    stalled.go.set()
    sender.join(BOUND)
    assert hub.call("one", "quick").text == "x"


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[Hub, Hub]]:
    """Two processes' worth of one hub."""
    one = Hub(tmp_path, {"one.py": SOURCE}, store="sqlite", workers=2)
    other = Hub(tmp_path, store="sqlite", workers=2)
    yield one, other
    other.close()
    one.close()


def running(hub: Hub) -> Any:
    dispatcher: Dispatcher = hub.app.parts.dispatcher
    return dispatcher.services.running._flags


@pytest.mark.parametrize("id", [7, "7"])
def test_a_call_is_cancelled_by_a_request_that_another_process_takes_in(both: tuple[Hub, Hub], id: int | str) -> None:
    """SUB-C11: by the id in its type; another type's is another request."""
    one, other = both
    session = one.open("one")
    headers = {"Mcp-Session-Id": session, "Accept": "application/json"}
    call = threading.Thread(target=lambda: one.send("one", hanging(id), headers), daemon=True)
    call.start()
    (flag,) = until(lambda: list(running(one).values()), "the call runs")
    # Hints come in order, and the first reason stands.
    for named, reason in ((str(id) if isinstance(id, int) else int(id), "wrong"), (id, "right")):
        params = {"requestId": named, "reason": reason}
        note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert other.send("one", note, {"Mcp-Session-Id": session}).status == 202
    call.join(BOUND)
    assert not call.is_alive() and not running(one)
    assert flag.reason == "right"


def test_a_session_that_another_process_ends_takes_its_calls_and_streams_along(both: tuple[Hub, Hub]) -> None:
    """SPEC-DIGEST 2.3."""
    one, other = both
    session = one.open("one")
    stream = get(one, session)
    frames = iter(stream.response)
    next(frames)
    headers = {"Mcp-Session-Id": session, "Accept": "application/json"}
    call = threading.Thread(target=lambda: one.send("one", hanging(), headers), daemon=True)
    reader = threading.Thread(target=lambda: list(frames), daemon=True)
    call.start()
    reader.start()
    until(lambda: running(one), "the call runs")
    assert delete(other, session) == 204
    call.join(BOUND)
    reader.join(BOUND)
    assert not call.is_alive() and not reader.is_alive()
    stream.close()

"""The front hands every request of a shared hub to the fair queue, those for a WebSocket too."""

from __future__ import annotations

import threading
from types import SimpleNamespace

from patchbay.settings import Settings
from patchbay.wire.front.event_loop import EventLoop
from patchbay.wire.front.front import Front
from patchbay.wire.front.request_threads import RequestThreads
from patchbay.wire.replies.reply import Reply
from patchbay.wire.requests.request import Request
from tests.waiting import until
from tests.wire.front.sent_headers import SentHeaders

UPGRADES = 200


def test_the_upgrades_of_a_sender_wait_for_its_turns() -> None:
    """Without turns all of them would begin at once, on the threads that others need."""
    open_now, begun = threading.Event(), []

    def answer(request: Request) -> Reply:
        begun.append(request.headers["authorization"])
        open_now.wait()
        return Reply(403)

    threads = RequestThreads(UPGRADES + 10, EventLoop())
    front = Front(answer, Settings(access="shared", allowed_hosts=("localhost",)), threads)

    def ask(key: str) -> None:
        headers = {"authorization": f"Bearer {key}", "upgrade": "websocket"}
        scope = SimpleNamespace(proto="ws", http_version="1.1", server="127.0.0.1:80", client="127.0.0.1:4711")
        scope.scheme, scope.method, scope.path, scope.query_string = "http", "GET", "/ws", ""
        scope.authority, scope.headers = None, SentHeaders(list(headers.items()))
        protocol = SimpleNamespace(close=lambda status: None)
        threading.Thread(target=front, args=(scope, protocol)).start()

    try:
        ask("other")
        until(lambda: "Bearer other" in begun, "another sender is active")
        for _ in range(UPGRADES):
            ask("greedy")
        assert begun.count("Bearer greedy") < UPGRADES // 2
    finally:
        open_now.set()
    until(lambda: begun.count("Bearer greedy") == UPGRADES, "each of them has a turn in the end")

"""POST to a running hub, as any program on this machine can."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from typing import Any

import orjson

from tests.hubs import BOTH, Answer, sse_messages
from tests.serving.running import Hub
from tests.waiting import BOUND


def post(hub: Hub, path: str, message: Any, extra: dict[str, str] | None = None) -> Answer:
    """POST one JSON value and read the whole answer."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    try:
        known = {"Content-Type": "application/json", "Accept": BOTH} | (extra or {})
        connection.request("POST", path, orjson.dumps(message), known)
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    kind = (answer.getheader("Content-Type") or "").partition(";")[0]
    readers: dict[str, Callable[[bytes], list[Any]]] = {
        "text/event-stream": sse_messages,
        "application/json": lambda data: [orjson.loads(data)],
    }
    messages = readers[kind](body) if kind in readers else []
    headers = {name.title(): value for name, value in answer.headers.items()}
    return Answer(answer.status, headers, body, messages)

"""A small client on a pipe in this process: the real transport reads its messages and writes the answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from queue import SimpleQueue
from typing import Any

import orjson

from patchbay.protocol.dispatch import Dispatcher
from patchbay.wire.pipes.native import NativePipe
from patchbay.wire.pipes.stdio import Pipe
from tests.hubs import Hub, modern_request
from tests.waiting import BOUND

Json = dict[str, Any]


class Talk:
    """One conversation; everything that came back is in `said`, parsed, in order, and in `lines` as it was."""

    def __init__(self, hub: Hub, server: str = "zoo") -> None:
        self.said: list[Any] = []
        self.lines: list[bytes] = []
        self._input: SimpleQueue[bytes] = SimpleQueue()
        self._held = b""
        self._changed = threading.Condition()
        dispatcher: Dispatcher = hub.app.parts.dispatcher
        self.pipe = self._pipe(dispatcher, server)
        self._reader = threading.Thread(target=self.pipe.serve, daemon=True)
        self._reader.start()

    def _pipe(self, dispatcher: Dispatcher, server: str) -> Pipe | NativePipe:
        """The transport that is talked to."""
        return Pipe(dispatcher, server, self._read, self._write)

    def _read(self, most: int) -> bytes:
        return self._input.get()

    def _write(self, data: memoryview) -> int:
        # Takes a part only, as an operating system may.
        taken = bytes(data[: 1 + len(data) // 2])
        with self._changed:
            *whole, self._held = (self._held + taken).split(b"\n")
            self.lines += whole
            self.said += [orjson.loads(line) for line in whole]
            self._changed.notify_all()
        return len(taken)

    def raw(self, data: bytes) -> None:
        """Write any bytes."""
        self._input.put(data)

    def send(self, value: Any) -> None:
        """Write one JSON value as a line."""
        self.raw(orjson.dumps(value) + b"\n")

    def note(self, method: str, **params: Any) -> None:
        """Send a notification."""
        self.send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> None:
        """Send a request of the older revisions, and do not wait."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method} | ({"params": params} if params is not None else {}))

    def ask_modern(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1, **more: Any) -> None:
        """Send a request of 2026-07-28, and do not wait."""
        self.send(modern_request(method, params, id=id, **more)[0])

    def legacy(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1) -> Json:
        """A request of the older revisions, and its answer."""
        self.ask(method, params, id)
        return self.answer(id)

    def modern(self, method: str, params: Mapping[str, Any] | None = None, id: Any = 1, **more: Any) -> Json:
        """A request of 2026-07-28, and its answer."""
        self.ask_modern(method, params, id, **more)
        return self.answer(id)

    def open(self, version: str = "2025-11-25", capabilities: Mapping[str, Any] | None = None) -> Json:
        """The handshake; answers the result of initialize."""
        client = {"name": "tests", "version": "1"}
        params = {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": client}
        result = self.legacy("initialize", params, id="init")["result"]
        self.note("notifications/initialized")
        return dict(result)

    def until(self, wanted: Callable[[Any], Any], what: str) -> Any:
        """Wait for something said that is wanted; answers the first."""

        def found() -> Any:
            return next((one for one in self.said if wanted(one)), None)

        with self._changed:
            assert self._changed.wait_for(lambda: found() is not None, BOUND), f"{what}; so far {self.said}"
            return found()

    def answer(self, id: Any) -> Json:
        """The answer to a request."""

        def answers(one: Any) -> bool:
            return isinstance(one, dict) and "method" not in one and same(one.get("id"), id)

        return dict(self.until(answers, f"no answer to {id!r}"))

    def told(self, method: str) -> Json:
        """The first notification or request of a method."""
        return dict(self.until(lambda one: isinstance(one, dict) and one.get("method") == method, f"no {method}"))

    def end(self, seconds: float = BOUND) -> bool:
        """End the input and let everything come to its end; whether it did."""
        self._input.put(b"")
        self._reader.join(BOUND)
        assert not self._reader.is_alive()
        return self.pipe.finish(seconds)

    def close(self) -> None:
        """End it, whatever is going on."""
        self.end(0)
        assert self.pipe.close(BOUND)


class NativeTalk(Talk):
    """One native conversation."""

    def _pipe(self, dispatcher: Dispatcher, server: str) -> NativePipe:
        return NativePipe(dispatcher, self._read, self._write)

    def call(self, method: str, params: Any = None, id: Any = 1) -> int:
        """Send a request; its subscription id."""
        self.send({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
        result = self.answer(id)["result"]
        assert isinstance(result, int)
        return result

    def items(self, subscription: int) -> list[Json]:
        """Every item of a subscription, once the last is there."""
        self.until(lambda one: item_of(one, subscription).get("type") == "done", f"no done for {subscription}")
        return [item for one in self.said if (item := item_of(one, subscription))]


def item_of(said: Any, subscription: int) -> Json:
    """The item that a message brings for a subscription; empty for any other message."""
    params = said.get("params", {})
    return dict(params["result"]) if params.get("subscription") == subscription else {}


def same(one: Any, other: Any) -> bool:
    """Whether two ids are the same in value and in type."""
    return type(one) is type(other) and bool(one == other)

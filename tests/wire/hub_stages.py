"""The stage of conversations with a hub as users start it: a process of its own with the front, and its workers.

The tests change the definitions through the store in the hub's data folder, as a second process. A change has
happened when all workers serve it.
"""

from __future__ import annotations

import atexit
import itertools
import os
import signal
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import orjson

from patchbay.boot import change_names
from patchbay.store import Store
from patchbay.stores import open_store
from patchbay.topics import SERVERS, STATE, UPDATED
from tests.databases import PostgresqlServer
from tests.hubs import BOTH, modern_request, path
from tests.interaction.programs import Hub, nodes_of_run, running_hub
from tests.waiting import until, until_every_worker
from tests.wire.connections import SocketResponse, send_request
from tests.wire.happenings import counted_server, open_listeners, seal_earlier, store_server
from tests.wire.patterns import Words


class HubStage:
    """A hub process on one data folder. It runs from the first request on, and again after it was stopped."""

    def __init__(self, folder: Path, files: Mapping[str, str], workers: int, settings: Mapping[str, str]) -> None:
        self._folder = folder
        self._workers = workers
        self._options = [
            text for name, value in settings.items() for text in (f"--{name.replace('_', '-')}", str(value))
        ]
        self._files = files
        self._starts = itertools.count()
        self._marks = itertools.count()
        self._put: set[str] = set()
        self._running = ExitStack()
        self._hub: Hub | None = None
        self._store: Store | None = None
        self._stopping = False
        # Several hubs have their data in a PostgreSQL, which outlives them as the folder does.
        self._address = shared_postgresql().new_schema() if nodes_of_run() > 1 else "sqlite"

    @property
    def hub(self) -> Hub:
        """The running hub."""
        return self._hub or self._start()

    def _start(self) -> Hub:
        if self._hub is None:
            definitions = self._folder / "definitions"
            definitions.mkdir(parents=True, exist_ok=True)
            for name, text in self._files.items():
                (definitions / name).write_text(text)
            options = ["--workers", str(self._workers), *self._options, "--data", str(self._folder / "data")]
            options += ["--store", self._address] if self._address != "sqlite" else []
            start = self._folder / f"start-{next(self._starts)}"
            hub = running_hub(start, sorted(definitions.iterdir()), options=options, enable="")
            self._hub = self._running.enter_context(hub)
        return self._hub

    @property
    def store(self) -> Store:
        """The store of the hub, in this process."""
        if self._store is None:
            self._start()
            self._store = open_store(self._address, self._folder / "data")
        return self._store

    def request(self, address: str, verb: str, headers: list[tuple[str, str]], data: bytes | None) -> SocketResponse:
        """Send a request over a new connection."""
        return send_request(self.hub.url, address, verb, headers, data)

    def happen(self, words: list[str], bound: Words) -> None:
        """Let something happen. Raises KeyError for what this stage cannot do."""
        _HAPPENINGS[words[0]](self, bound, *words[1:])

    def clear(self) -> None:
        """Remove what a conversation left: its servers and the state of its tools; wait for a hub that was to stop."""
        if left := dict.fromkeys(self.store.names.all(STATE)):
            self.store.names.move(left, "test", "cleared")
        if self._stopping:
            self.close()
        for name in self._put:
            self.take({}, name)
        self._put.clear()

    def close(self) -> None:
        """Stop the hub with SIGTERM. Raises RuntimeError when it does not end as it should."""
        if self._store is not None:
            self._store.close()
        self._hub = self._store = None
        self._stopping = False
        self._running.close()

    def serve(self, name: str, source: str, config: Mapping[str, object]) -> None:
        """Serve a server; returns when all workers do. Its instructions become a mark of this change."""
        mark = f"mark {next(self._marks)}"
        store_server(self.store, name, source, {**config, "instructions": mark})
        self._put.add(name)
        self._wait(lambda: self._discover(name).get("result", {}).get("instructions") == mark)

    def put(self, bound: Words, name: str, *counts: str) -> None:
        """Serve a server with so many tools, prompts and resources, instead of what stood there."""
        numbers = {kind: int(number) for kind, number in (count.split("=") for count in counts)}
        self.serve(name, *counted_server(name, **numbers))

    def take(self, bound: Words, name: str) -> None:
        """Serve a server no more."""
        change_names(self.store, {SERVERS + name: None}, "test", "taken")
        self._wait(lambda: "error" in self._discover(name))

    def updated(self, bound: Words, name: str, uri: str) -> None:
        """Say that a resource changed, as a server's author does."""
        self.store.bus.publish(UPDATED + name, uri.encode())

    def drain(self, bound: Words) -> None:
        """Tell the hub to stop, as a service manager does; it may still answer."""
        for process in [pid for _, pid in self.hub.nodes] or [self.hub.pid]:
            os.kill(process, signal.SIGTERM)
        self._stopping = True

    def sweep(self, bound: Words) -> None:
        """Have the store drop what need not be kept any longer."""
        self.store.journal.sweep()

    def restart(self, bound: Words) -> None:
        """Stop the hub; the next request starts another one on the same data."""
        self.close()

    def listeners(self, bound: Words, number: str) -> None:
        """Wait until so many listening streams are open."""
        urls = [url for url, _ in self.hub.nodes] or [self.hub.url]
        until(lambda: sum(open_listeners(read_metrics(url)) for url in urls) == int(number), "the listeners")

    def age(self, bound: Words, word: str, salt: str, seconds: str) -> None:
        """Seal a word again, with the hub's own key, as if that had been done earlier."""
        bound[word] = seal_earlier(self._folder / "data", bound[word], salt, int(seconds))

    def _wait(self, condition: Callable[[], bool]) -> None:
        if self._workers > 1 or self.hub.nodes:
            until_every_worker(condition, "the change in all workers")
        else:
            until(condition, "the change")

    def _discover(self, name: str) -> dict[str, dict[str, str]]:
        body, headers = modern_request("server/discover")
        sent = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost", **headers}
        answer = self.request(path(name), "POST", list(sent.items()), orjson.dumps(body))
        found: dict[str, dict[str, str]] = orjson.loads(answer.get_data())
        answer.close()
        return found


def read_metrics(url: str) -> bytes:
    """Return the metrics of one hub."""
    answer = send_request(url, "/metrics", "GET", [("Host", "localhost")], None)
    found = answer.get_data()
    answer.close()
    assert answer.status_code == 200 and isinstance(found, bytes)
    return found


@cache
def shared_postgresql() -> PostgresqlServer:
    """Return a PostgreSQL that ends with this process."""
    server = PostgresqlServer()
    atexit.register(server.close)
    return server


_HAPPENINGS: dict[str, Callable[..., None]] = {
    "put": HubStage.put,
    "take": HubStage.take,
    "updated": HubStage.updated,
    "drain": HubStage.drain,
    "sweep": HubStage.sweep,
    "restart": HubStage.restart,
    "age": HubStage.age,
    "listeners": HubStage.listeners,
}

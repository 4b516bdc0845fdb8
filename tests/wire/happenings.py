"""What can happen at the hub in a conversation, each as a line `! name words`.

! put beasts tools=2 prompts=1 resources=1     a server of this name with so many of each is served from now on
! take beasts                                  it is served no more
! updated beasts beast://1                     its author says that a resource has another content
! drain                                        the hub is told to stop
! restart                                      the hub stops and starts again on the same data
! sweep                                        the store drops what need not be kept any longer
! listeners 0                                 the hub has noticed which readers left: so many listening streams are open
! age state request-state 601                  the word `state` is sealed again as if it were so many seconds older
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import orjson
from itsdangerous import TimestampSigner, URLSafeTimedSerializer
from werkzeug.test import TestResponse

from patchbay.access.hub_key import load_key
from patchbay.boot import change_names
from patchbay.catalogue.servers.rows import (
    ServerRow,
)
from patchbay.store import Store
from patchbay.topics import SERVERS
from tests.hubs import Hub
from tests.waiting import until
from tests.wire.patterns import Words


class Stage:
    """The hub of a conversation. `build` makes it, on the same folders each time."""

    def __init__(self, build: Callable[[], Hub]) -> None:
        self._build = build
        self.hub = build()

    def request(self, address: str, verb: str, headers: list[tuple[str, str]], data: bytes | None) -> TestResponse:
        """Send a request to the WSGI application; its body is read later."""
        return self.hub.client.open(address, method=verb, headers=headers, data=data, buffered=False)

    def happen(self, words: list[str], bound: Words) -> None:
        """Let something happen. Raises KeyError for what this stage cannot do."""
        _HAPPENINGS[words[0]](self, bound, *words[1:])

    def put(self, bound: Words, name: str, *counts: str) -> None:
        """Serve a server with so many tools, prompts and resources, instead of what stood there."""
        put(self.hub, name, **{kind: int(number) for kind, number in (count.split("=") for count in counts)})

    def take(self, bound: Words, name: str) -> None:
        """Serve a server no more."""
        change_names(self.hub.catalogue.store, {SERVERS + name: None}, "test", "taken")
        self.hub.catalogue.refresh()

    def updated(self, bound: Words, name: str, uri: str) -> None:
        """Say that a resource changed, as a server's author does."""
        self.hub.catalogue.hub.updated(name, uri)

    def drain(self, bound: Words) -> None:
        """Tell the hub to stop."""
        self.hub.app.parts.drain.begin()

    def sweep(self, bound: Words) -> None:
        """Have the store drop what need not be kept any longer."""
        self.hub.catalogue.store.journal.sweep()

    def restart(self, bound: Words) -> None:
        """Another hub on the same data."""
        self.hub.close()
        self.hub = self._build()

    def listeners(self, bound: Words, number: str) -> None:
        """Wait until so many listening streams are open."""
        until(lambda: open_listeners(self.hub.client.get("/metrics").get_data()) == int(number), "the listeners")

    def age(self, bound: Words, word: str, salt: str, seconds: str) -> None:
        """Seal a word again, with the hub's own key, as if that had been done earlier."""
        bound[word] = seal_earlier(self.hub.settings.data, bound[word], salt, int(seconds))


_HAPPENINGS: dict[str, Callable[..., None]] = {
    "put": Stage.put,
    "take": Stage.take,
    "updated": Stage.updated,
    "drain": Stage.drain,
    "sweep": Stage.sweep,
    "restart": Stage.restart,
    "age": Stage.age,
    "listeners": Stage.listeners,
}


def open_listeners(metrics: bytes) -> int:
    """Return the number of listening streams of all workers, from the metrics of a hub."""
    return sum(int(number) for number in re.findall(rb"^patchbay_listeners_open\S* (\d+)", metrics, re.MULTILINE))


def seal_earlier(data: Path, word: str, salt: str, seconds: int) -> str:
    """Return a signed word as the hub with this data folder would have signed it so many seconds earlier."""

    class Earlier(TimestampSigner):
        def get_timestamp(self) -> int:
            return int(time.time()) - seconds

    key = load_key(data)
    now, then = (URLSafeTimedSerializer(key, salt=salt, signer=signer) for signer in (TimestampSigner, Earlier))
    return str(then.dumps(now.loads(word)))


def put(hub: Hub, name: str, tools: int = 0, prompts: int = 0, resources: int = 0) -> None:
    """Serve a server with so many tools, prompts and resources; when this returns, listeners have been told."""
    source, config = counted_server(name, tools, prompts, resources)
    store_server(hub.catalogue.store, name, source, config)
    hub.catalogue.refresh()


def counted_server(name: str, tools: int = 0, prompts: int = 0, resources: int = 0) -> tuple[str, dict[str, Any]]:
    """Return the source and the configuration of a server with so many tools, prompts and resources."""
    source = "".join(
        f'def tool_{n}() -> str:\n    """Tool {n}."""\n    return "{n}"\n\n\n' for n in range(1, tools + 1)
    )
    config: dict[str, Any] = {
        "auto_discover": True,
        "isolation": "inline",
        "resources": {f"r{n}": {"uri": f"{name}://{n}", "text": str(n)} for n in range(1, resources + 1)},
        "prompts": {f"p{n}": {"messages": [{"content": str(n)}]} for n in range(1, prompts + 1)},
    }
    return f'"""The server {name}."""\n\n\n{source}', config


def store_server(store: Store, name: str, source: str, config: Mapping[str, Any]) -> None:
    """Put a server of this source and configuration into the store."""
    row = ServerRow(name, "python", store.blobs.put(source.encode()), store.blobs.put(orjson.dumps(config)))
    change_names(store, {SERVERS + name: store.blobs.put(row.to_json())}, "test", "put")

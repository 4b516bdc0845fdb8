"""A bench for the catalogue: put servers into a store and inspect the result."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from patchbay.activation import Call
from patchbay.boot import canonical_json, change_names
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.server import Server
from patchbay.protocol.run_tool import call_from_tool
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED
from tests.waiting import until

DEADLINE_SECONDS = 5.0
"""Seconds that a call of these tests may take."""


@dataclass
class Bench:
    """A store, the settings of a hub, and the catalogues that were opened."""

    store: Store
    settings: Settings
    opened: list[Catalogue] = field(default_factory=list)

    def keep(self, value: bytes | str | Any) -> str:
        """Store bytes, text or a JSON value; returns the CID."""
        data = (
            value if isinstance(value, bytes) else value.encode() if isinstance(value, str) else canonical_json(value)
        )
        return self.store.blobs.put(data)

    def plug(self, name: str, source: str, kind: str = "python", enabled: bool = True, config: Any = None) -> str:
        """Add a server; `config` goes into the mcps variable. Returns the definition's CID."""
        cid = self.keep(source)
        row = {"definition_cid": cid, "kind": kind, "enabled": enabled}
        self.change({f"servers/{name}": self.keep(row)})
        if config is not None:
            self.configure(name, config)
        return cid

    def configure(self, name: str, config: Any) -> None:
        """Add an entry for a server to the mcps variable."""
        cid = self.store.names.get("variables/mcps")
        entries = json.loads(self.store.blobs.get(cid)) if cid else {}
        entries[name] = {"config_cid": self.keep(config)}
        # This bypasses the check of `change_names`, because some configurations here are invalid on purpose.
        self.store.names.move({"variables/mcps": self.keep(entries)}, "test", "test")
        self.store.bus.publish(NAMES_CHANGED)

    def change(self, changes: dict[str, str | None]) -> None:
        change_names(self.store, changes, "test", "test")
        self.store.bus.publish(NAMES_CHANGED)

    def open(self, store: Store | None = None, watch: bool = False) -> Catalogue:
        """Return a catalogue on this store (or another one), closed after the test."""
        catalogue = Catalogue(store or self.store, self.settings, watch=watch)
        catalogue.hub.run_tool = call_from_tool
        self.opened.append(catalogue)
        return catalogue

    def server(self, name: str) -> Server:
        """Return a server, also when it is broken or disabled."""
        return next(one for one in self.open().all() if one.name == name)

    def call(self, catalogue: Catalogue, server: str, arguments: dict[str, Any] | None = None, **more: Any) -> Call:
        return Call(server, {}, arguments or {}, time.monotonic() + DEADLINE_SECONDS, catalogue.hub, **more)

    def drop(self, file: str, text: str | Any) -> None:
        """Save a file into the watched folder."""
        text = text if isinstance(text, str) else json.dumps(text)
        (self.settings.servers / file).write_text(text, encoding="utf-8")

    def remove(self, file: str) -> None:
        (self.settings.servers / file).unlink()


@pytest.fixture
def bench(store: Store, settings: Settings) -> Iterator[Bench]:
    bench = Bench(store, settings)
    yield bench
    for catalogue in bench.opened:
        catalogue.close()


@pytest.fixture(name="until")
def provide_until() -> Callable[[Callable[[], Any]], Any]:
    """Return the function that waits for a condition with the bound of all tests."""
    return until

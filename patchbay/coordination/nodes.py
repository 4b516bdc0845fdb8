"""The processes of all hubs on one store: which live, what they say of themselves, and which regular work they do."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay import __version__
from patchbay.store import Store
from patchbay.topics import LEASES, LIVING

LOST_SECONDS = 4.0
"""Seconds without a beat after which a process does not count as alive."""

ID_DIGITS = 32
"""Length of the id of a process, with which each beat begins."""

MAX_BEATS = 10_000
"""Beats that are read at once."""

WORK = {
    "sweep": "expired entries",
    "collect": "unused contents",
    "servers-folder": "servers folder",
    "jobs": "jobs of dead workers",
}
"""The pieces of regular work that have a lease, by its name."""


@dataclass(frozen=True, slots=True)
class Node:
    """One living process. `age` is the seconds since its last beat; `work` names the regular work that it does.

    `lag_ms` is the lag of the bus as it sees it, in milliseconds; None where no other process has sent it a message.
    """

    host: str
    process: int
    version: str
    age: float
    calls: int
    listeners: int
    work: tuple[str, ...]
    lag_ms: int | None = None


def own_name() -> str:
    """Return the name of this process among those of all machines: its host and its process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


def beat_of(id: str, load: Callable[[], Mapping[str, int | None]]) -> bytes:
    """Return the heartbeat of this process: its id, then JSON with its host, process id, version and load.

    `load` returns the numbers of its `calls` and `listeners`, and the lag of the bus as `lag_ms`.
    """
    facts = {"host": socket.gethostname(), "process": os.getpid(), "version": __version__, **load()}
    return id.encode() + orjson.dumps(facts)


def living_nodes(store: Store) -> list[Node]:
    """Return the living processes of all hubs on a store that several machines use, by host and process id."""
    holders: dict[str, list[str]] = {}
    for name, work in WORK.items():
        for entry in store.journal.tail(LEASES + name, 1):
            holders.setdefault(entry.data.decode().rpartition(":")[0], []).append(work)
    now, newest = store.now(), dict[bytes, tuple[float, dict[str, Any]]]()
    for beat in store.journal.tail(LIVING, MAX_BEATS):
        if now - beat.at > LOST_SECONDS:
            break
        newest.setdefault(beat.data[:ID_DIGITS], (beat.at, orjson.loads(beat.data[ID_DIGITS:] or b"{}")))
    nodes = []
    for at, facts in newest.values():
        host, process = str(facts.get("host", "unknown")), int(facts.get("process", 0))
        nodes.append(
            Node(
                host=host,
                process=process,
                version=str(facts.get("version", "unknown")),
                age=max(now - at, 0.0),
                calls=int(facts.get("calls", 0)),
                listeners=int(facts.get("listeners", 0)),
                work=tuple(holders.get(f"{host}:{process}", ())),
                lag_ms=facts.get("lag_ms"),
            )
        )
    return sorted(nodes, key=lambda node: (node.host, node.process))

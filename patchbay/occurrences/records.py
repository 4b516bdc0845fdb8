"""The events of servers in the journal: one topic for each event type, in the order in which they were emitted.

Each entry has the number of the entry before it, written in the same transaction, so that a reader sees whether entries
behind its cursor were deleted. Entries live `KEPT_SECONDS`, and a topic has at most `MAX_TOPIC_BYTES`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson

from patchbay.errors import StaleUpdate, ToolFailed
from patchbay.store import JournalEntry, Store
from patchbay.topics import EVENTS

KEPT_SECONDS = 7 * 24 * 3600.0
"""Lifetime of an event in the journal."""

MAX_TOPIC_BYTES = 64 * 1024 * 1024
"""Limit on the events of one type; the oldest are deleted."""

MAX_PAYLOAD_BYTES = 200 * 1024
"""Limit on the payload of an event: the body of a webhook has at most 256 KiB (SEP-3415, delivery profile)."""

MAX_ID_CHARACTERS = 256
TRIM_INTERVAL = 256
"""Events between two checks of the size of the journal."""

MAX_TRIES = 200
"""Attempts to write behind the newest entry while other writers are first."""


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One event. `at` is Unix time in seconds, `position` its place among the events of its type."""

    id: str
    at: float
    data: Mapping[str, Any]
    position: str

    def wire(self, name: str) -> dict[str, Any]:
        """Return the EventOccurrence under a name, without its cursor."""
        return {"eventId": self.id, "name": name, "timestamp": iso_time(self.at), "data": dict(self.data)}


def iso_time(at: float) -> str:
    """Return Unix time as ISO 8601 in UTC, with milliseconds."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def topic_of(server: str, event: str) -> str:
    """Return the topic of an event type, on the journal and on the bus."""
    return f"{EVENTS}{server}/{event}"


def record_event(store: Store, server: str, event: str, data: Mapping[str, Any], id: str = "") -> str:
    """Append an event to its topic and announce it; return its id, a new one unless given.

    Raises ToolFailed for a payload that is too large or has no JSON form.
    """
    topic, id = topic_of(server, event), id or f"evt_{secrets.token_urlsafe(15)}"
    try:
        payload = orjson.dumps(data)
    except orjson.JSONEncodeError as problem:
        raise ToolFailed(f"the data of the event {event} has no JSON form: {problem}") from problem
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ToolFailed(f"the data of the event {event} has {len(payload)} bytes; at most {MAX_PAYLOAD_BYTES}")
    for attempt in range(MAX_TRIES):
        before = store.journal.last(topic)
        entry = orjson.dumps({"id": id, "before": before, "data": orjson.Fragment(payload)})
        try:
            (seq,) = store.journal.append_all([(topic, entry, KEPT_SECONDS)], {topic: before})
        except StaleUpdate:
            if attempt == MAX_TRIES - 1:
                raise
            continue
        if seq % TRIM_INTERVAL == 0:
            store.journal.trim(topic, MAX_TOPIC_BYTES)
        store.bus.publish(topic)
        return id
    raise AssertionError("the loop returns or raises")


def read_entry(entry: JournalEntry) -> tuple[int, Occurrence]:
    """Return the number of the entry before this one, and its event."""
    fields = orjson.loads(entry.data)
    return fields["before"], Occurrence(fields["id"], entry.at, fields["data"], str(entry.seq))

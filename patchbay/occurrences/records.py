"""The events of servers in the journal: one topic for each event type, in the order in which they were emitted.

Each entry has the number of the entry before it, written in the same transaction, so that a reader sees whether entries
behind its cursor were deleted. Entries live `KEPT_SECONDS`, and a topic has at most `MAX_TOPIC_BYTES`.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import orjson

from patchbay.errors import StaleUpdate, ToolFailed
from patchbay.store import JournalEntry, Store
from patchbay.topics import EVENT_IDS, EVENTS

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
    is_gap: bool = False
    """Whether this is no event, but the mark that events before it may be missing."""

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

    An event with a given id is stored once, also when several processes record it. Raises ToolFailed for a payload that
    is too large or has no JSON form.
    """
    once = f"{EVENT_IDS}{server}/{event}/{sha256(id.encode()).hexdigest()[:32]}" if id else ""
    id = id or f"evt_{secrets.token_urlsafe(15)}"
    try:
        payload = orjson.dumps(data)
    except orjson.JSONEncodeError as problem:
        raise ToolFailed(f"the data of the event {event} has no JSON form: {problem}") from problem
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ToolFailed(f"the data of the event {event} has {len(payload)} bytes; at most {MAX_PAYLOAD_BYTES}")
    _append(store, topic_of(server, event), {"id": id, "data": orjson.Fragment(payload)}, once)
    return id


def record_gap(store: Store, server: str, event: str) -> None:
    """Append the mark that events of this type may be missing before it: the source was not watched for a time."""
    _append(store, topic_of(server, event), {"id": "", "data": None}, "")


def _append(store: Store, topic: str, fields: Mapping[str, Any], once: str) -> None:
    """Append an entry behind the newest one and announce it; nothing if the topic `once` has an entry already."""
    for attempt in range(MAX_TRIES):
        if once and store.journal.last(once):
            return
        before = store.journal.last(topic)
        entries: list[tuple[str, bytes, float | None]] = [
            (topic, orjson.dumps({**fields, "before": before}), KEPT_SECONDS),
            *([(once, b"", KEPT_SECONDS)] if once else []),
        ]
        try:
            seq = store.journal.append_all(entries, {topic: before, **({once: 0} if once else {})})[0]
        except StaleUpdate:
            if attempt == MAX_TRIES - 1:
                raise
            continue
        if seq % TRIM_INTERVAL == 0:
            store.journal.trim(topic, MAX_TOPIC_BYTES)
        store.bus.publish(topic)
        return


def read_entry(entry: JournalEntry) -> tuple[int, Occurrence]:
    """Return the number of the entry before this one, and its event."""
    fields = orjson.loads(entry.data)
    data = fields["data"]
    return fields["before"], Occurrence(fields["id"], entry.at, data or {}, str(entry.seq), data is None)

"""The events of a mounted server, read by polling it.

The hub keeps no events of a mounted server. A cursor of the hub holds the cursor of the server, so that a client that
comes back gets from the server what the server can replay.
Source: SEP-3415, Poll-Based Delivery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from patchbay.client.errors import McpFailure, Unreachable
from patchbay.occurrences.cursors import Cursor, read_cursor, write_cursor
from patchbay.occurrences.sources import Batch, EventQuery
from patchbay.upstreams.pushing.received_events import MAX_CURSOR, UpstreamEventFailure, is_event

if TYPE_CHECKING:
    from patchbay.upstreams.connections.standing_connection import StandingConnection

SECONDS = 30.0
"""Seconds that one poll of a mounted server may take."""

MIN_POLL_MS, MAX_POLL_MS = 1000, 60_000
"""Limits on the milliseconds between two polls, whatever the server recommends."""

FIRST_CONNECTION_SECONDS = 20.0


class UpstreamSource:
    """The events of one event type of a mounted server."""

    waits_for_network = True
    topics: tuple[str, ...] = ()

    def __init__(self, standing: StandingConnection, event: str, now: float) -> None:
        self._standing = standing
        self._event = event
        self._place = f"{standing.mount.name}/{event}"
        self._now = now

    def read(self, cursor: str | None, wanted: EventQuery, limit: int) -> Batch:
        """Poll the server. Raises UpstreamEventFailure, and InvalidParams for a cursor of something else."""
        theirs = None if cursor is None else read_cursor(self._place, cursor).position
        params: dict[str, Any] = {"name": self._event, "arguments": dict(wanted.arguments), "cursor": theirs}
        params |= {"maxEvents": limit}
        if wanted.max_age_ms is not None:
            params["maxAgeMs"] = wanted.max_age_ms
        answer = self._ask(params)
        fresh = answer.get("cursor")
        if fresh is not None and (not isinstance(fresh, str) or len(fresh) > MAX_CURSOR):
            raise UpstreamEventFailure(
                f"{self._standing.mount.name} gave a cursor that is not a string of usual length"
            )
        ours = None if fresh is None else write_cursor(self._place, Cursor(fresh, self._now))
        # The server's cursor is that behind all of them, so that a client that stops before the end asks again.
        found = [one for one in answer.get("events") or () if is_event(one)]
        events: list[tuple[dict[str, Any], str | None]] = [
            ({**_fields(one), "name": wanted.name}, ours if place == len(found) else cursor)
            for place, one in enumerate(found, 1)
        ]
        poll_ms = answer.get("nextPollMs")
        poll_ms = int(poll_ms) if isinstance(poll_ms, (int, float)) and not isinstance(poll_ms, bool) else MIN_POLL_MS
        return Batch(
            events,
            ours,
            answer.get("truncated") is True,
            answer.get("hasMore") is True and bool(found),
            max(MIN_POLL_MS, min(MAX_POLL_MS, poll_ms)),
        )

    def _ask(self, params: Mapping[str, Any]) -> dict[str, Any]:
        standing, name = self._standing, self._standing.mount.name
        standing.start()
        standing.state_known.wait(FIRST_CONNECTION_SECONDS)
        connection = standing.connection
        if connection is None:
            raise UpstreamEventFailure(f"the server behind {name} is not available: {standing.health.sentence}")
        try:
            return connection.get_result("events/poll", params, timeout=SECONDS)
        except McpFailure as failure:
            raise UpstreamEventFailure(failure.message, failure.code, failure.data) from failure
        except Unreachable as problem:
            standing.check_soon()
            raise UpstreamEventFailure(
                f"the server behind {name} gave no answer: {standing.describe(problem)}"
            ) from problem


def _fields(one: Mapping[str, Any]) -> dict[str, Any]:
    return {key: one[key] for key in ("eventId", "timestamp", "data", "_meta") if key in one}

"""The limits of a principal for which the variable `access` has no row of quotas."""

from __future__ import annotations

from patchbay.access.quotas import (
    BYTES_STORED,
    CALL_IDS,
    CALLS_IN_FLIGHT,
    CALLS_PER_MINUTE,
    ROOM_BYTES,
    ROOM_BYTES_PER_SECOND,
    ROOMS,
    SESSION_CHANGES,
    STATE_BYTES,
    STREAMS,
    SUBSCRIPTION_BYTES,
    THINGS_STORED,
    WEBSOCKETS,
)
from patchbay.settings import SHARED, Settings

DEFAULT_CALLS_PER_MINUTE = 3000
"""Calls of one principal in a minute, in shared mode without a row."""

DEFAULT_ROOM_BYTES_PER_SECOND = 2 * 1024 * 1024
"""Bytes that one principal may send to rooms in a second, in shared mode without a row."""

DEFAULT_STATE_BYTES = 256 * 1024 * 1024
"""Bytes that calls of one principal may write into the state of tools in 24 hours, in shared mode without a row."""

SHARE_OF_THREADS = 4
"""One principal may use this fraction of the threads and of the processes for definitions, without a row."""

SHARE_OF_STREAMS = 10
"""One principal may open this fraction of the listening streams, without a row."""

SHARE_OF_WEBSOCKETS = 20
"""One principal may have this fraction of the listening streams as WebSockets, without a row."""


def default_quotas(settings: Settings) -> dict[str, int]:
    """Return the limits of a principal without a row, for the whole hub: none but in shared mode."""
    if settings.mode != SHARED:
        return {}
    threads = settings.workers * min(settings.threads, settings.hosts)
    return {
        CALLS_IN_FLIGHT: max(1, threads // SHARE_OF_THREADS),
        CALLS_PER_MINUTE: DEFAULT_CALLS_PER_MINUTE,
        STREAMS: max(1, settings.workers * settings.listeners // SHARE_OF_STREAMS),
        WEBSOCKETS: max(1, settings.workers * settings.listeners // SHARE_OF_WEBSOCKETS),
        ROOM_BYTES_PER_SECOND: DEFAULT_ROOM_BYTES_PER_SECOND,
        **_stored_defaults(settings),
    }


def _stored_defaults(settings: Settings) -> dict[str, int]:
    """Return the limits on what a principal leaves in the store."""
    return {
        BYTES_STORED: settings.result_size,
        THINGS_STORED: settings.stored_things,
        SESSION_CHANGES: settings.session_changes,
        SUBSCRIPTION_BYTES: settings.subscription_size,
        CALL_IDS: settings.call_ids,
        ROOMS: settings.own_rooms,
        ROOM_BYTES: settings.room_log_limit,
        STATE_BYTES: DEFAULT_STATE_BYTES,
    }

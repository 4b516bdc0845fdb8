"""`/rooms/<room>/changes`: says that the log of a room has new entries, as server-sent events for its page.

The event `entries` has the `seq` of the newest entry and nothing else; the page then asks for what it may see. A reader
of this stream has not joined the room, and the log does not name it. `/rooms/<room>/events` is for participants.
Source: https://html.spec.whatwg.org/multipage/server-sent-events.html.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from patchbay.rooms.room import Room
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import ACCESS_ENDED, ENDING, ROOM_NEWS
from patchbay.views.sse import COMMENT
from patchbay.web.activity.stream import KEEPALIVE_SECONDS, UPDATE_SECONDS, format_event


def stream_room_changes(
    store: Store, settings: Settings, room: Room, is_current: Callable[[], bool] = lambda: True
) -> Iterator[bytes]:
    """The event frames of one reader, until the hub ends. The first frame has the `seq` of now.

    The stream ends when `is_current` is false: the reader's credentials were revoked, or its rights are others now.
    """
    with store.bus.subscribe([ROOM_NEWS + room.id, ACCESS_ENDED, ENDING]) as mailbox:
        sent, sent_at = room.seq, time.monotonic()
        yield format_event("entries", sent)
        while True:
            got = mailbox.get(UPDATE_SECONDS)
            if (got is not None and got[0] == ENDING) or not is_current():
                return
            now = room.seq
            if now != sent:
                sent, sent_at = now, time.monotonic()
                yield format_event("entries", sent)
            elif time.monotonic() - sent_at >= min(KEEPALIVE_SECONDS, settings.keepalive):
                sent_at = time.monotonic()
                yield COMMENT

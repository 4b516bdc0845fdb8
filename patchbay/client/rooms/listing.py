"""Wait until the hub of a room lists the tools of an announced server to MCP clients.

The hub lists them a moment after it has received the announcement. It may list less: a policy may close the room to MCP
clients, a pin may hold a tool, and the caller may have no right to see it.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from threading import Event

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.client.rooms.address import RoomAddress
from patchbay.errors import PatchbayError

LISTED_SECONDS = 5.0
"""Seconds in which the hub usually lists the tools of a server."""

LOOK_SECONDS = 0.05
"""Seconds between two looks at the list."""


def wait_until_listed(
    room: RoomAddress, server: str, tools: Collection[str], headers: Mapping[str, str], ending: Event
) -> None:
    """Wait until the list of the room has all these tools of a server, `ending` is set, or LISTED_SECONDS are over."""
    wanted = {f"{server}__{name}" for name in tools}
    limit = time.monotonic() + LISTED_SECONDS
    target = Http(f"{room.hub}/mcp/room.{room.name}", dict(headers))
    try:
        with Connection.open(target, start_timeout=LISTED_SECONDS, timeout=LISTED_SECONDS, quick=True) as connection:
            while wanted - {tool["name"] for tool in connection.list_tools()}:
                if time.monotonic() >= limit or ending.wait(LOOK_SECONDS):
                    return
    except PatchbayError:
        return  # this caller sees no list

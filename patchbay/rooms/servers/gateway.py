"""The hub as the one who mounts: reaches MCP servers for a room, mirrors what they offer, runs calls of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.activation import CancelFlag
from patchbay.kinds.mount.standing_connections import StandingConnections
from patchbay.rooms.errors import RoomRefused
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.log import Logged
from patchbay.rooms.servers.calls import Calls


@dataclass(frozen=True)
class GatewayContext:
    """What mounts of rooms stand on.

    `connections` reach MCP servers; None where this process reaches none. `hosts` are the host names that may be
    reached although they are not public; `credentials` gives the operator's credentials by name.
    """

    connections: StandingConnections | None = None
    hosts: tuple[str, ...] = ()
    credentials: Callable[[], Mapping[str, Any]] = dict


class Gateway:
    """The mounts of one room in this process."""

    def __init__(self, calls: Calls, context: GatewayContext) -> None:
        self._calls = calls
        self._context = context
        self._threads: set[threading.Thread] = set()

    def mount(self, envelope: Json) -> Logged:
        raise RoomRefused("this process reaches no other servers")

    def run(self, call: str, record: Json, arguments: Any, flag: CancelFlag) -> None:
        self._calls.end(call, False, error="this process reaches no other servers")

    def notice(self, logged: Logged) -> None:
        """Take note of an entry."""

    def close(self) -> None:
        return

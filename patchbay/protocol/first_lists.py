"""Lets a request that needs the lists of a mounted server wait for them, right after the start of the mount.

The lists of a mount are empty until its server answers for the first time, and the servers of this process have them a
moment after that. A request in that time would hear that there is no such tool, or get an empty list.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterable, Mapping
from typing import Any

from patchbay.access.principals import Principal
from patchbay.activation import PAUSE, Call, CancelFlag, Events, Handler, activate, pauses
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.aggregate.public_names import has_server_part
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.server import Server
from patchbay.errors import OverQuota
from patchbay.events import Failed, Pause
from patchbay.upstreams.lists.snapshots import mounts_in
from patchbay.upstreams.standing import Standing


def has_lists(server: Server) -> bool:
    """Whether anything of a server is known."""
    return bool(server.tools or server.resources or server.templates or server.prompts)


def knows_target(server: Server, method: str, params: Mapping[str, Any]) -> bool:
    """Whether a server has what a request calls, or cannot get it by waiting."""
    name = params.get("name")
    if method == "tools/call":
        return not isinstance(name, str) or server.answers_before(name) or _has(server, "tools", name)
    if method == "prompts/get":
        return not isinstance(name, str) or _has(server, "prompts", name)
    return method != "resources/read" or bool(server.resources or server.templates)


def has_first_lists_ahead(server: Server, meta: Any) -> bool:
    """Whether a request may wait for the first lists of a server; `meta` is the `_meta` of the request.

    A request of a mount does not wait: two mounts that lead to each other would wait for each other.
    """
    return server.standing is not None and not server.pinned and not mounts_in(meta)


def await_first_lists(catalogue: Catalogue, server: Server, meta: Any) -> bool:
    """Wait a moment for the first lists of a mounted server, for a list of them.

    Return whether this process may serve others now.
    """
    standing = server.standing
    if standing is None or not has_first_lists_ahead(server, meta):
        return False
    if not standing.state_known.is_set():
        standing.start()
        standing.wait_for_first_answer()
        if not standing.state_known.is_set():
            return False
    catalogue.catch_up()
    return True


def await_first_entries(
    catalogue: Catalogue, server: Server, sender: Principal, cancelled: CancelFlag
) -> Generator[Pause, None, Failed | None]:
    """Wait for the first lists of a mounted server, for a call of what it does not list yet; yield Pauses meanwhile.

    The wait takes one of the places of the server, and ends with the call, with the credentials of its sender and with
    the hub: then return why. A call without a place goes on at once.
    """
    standing = server.standing
    if standing is None:
        return None
    if not standing.state_known.is_set():
        try:
            place = catalogue.hub.begin_call(None, server.name, False)
        except OverQuota:
            return None  # The answer says that the hub still connects to the server.
        call = Call(server.name, {}, {}, math.inf, hub=catalogue.hub, sender=sender, cancelled=cancelled)
        try:
            for event in activate(_entries_waiter(standing, server.timeout), call):
                if isinstance(event, Pause):
                    yield event
                elif isinstance(event, Failed):
                    return event
        finally:
            if place is not None:
                place.release()
    if standing.state_known.is_set():
        catalogue.catch_up()
    return None


def _entries_waiter(standing: Standing, timeout: float) -> Handler:
    """Return the handler that waits until it is known whether a mounted server answers, at most for `timeout`."""

    def wait(call: Call) -> Events:
        standing.start()
        until = time.monotonic() + min(timeout, standing.left_for_entry())
        for seconds in pauses(call):
            left = max(0.0, until - time.monotonic())
            if standing.state_known.wait(min(seconds, left)) or seconds >= left:
                return
            yield PAUSE

    return wait


def find_mount(servers: Iterable[Server], name: Any) -> Server | None:
    """Return the mounted server that a name of a tool or prompt at /mcp begins with; None without one.

    `servers` are those that the caller may see. Of several, the one with the longest name is meant.
    """
    if not isinstance(name, str):
        return None
    mounts = (one for one in servers if one.standing is not None and has_server_part(name, one.name))
    return max(mounts, key=lambda one: len(one.name), default=None)


def _has(server: Server, kind: str, name: str) -> bool:
    """Whether a server has a tool or prompt of this name, or /mcp knows it by another name than the listed one."""
    own = server.tools if kind == "tools" else server.prompts
    return name in own or (isinstance(server, Aggregate) and server.owner(kind, name) is not None)

"""Lets a request that needs the lists of a mounted server wait for them, right after the start of the mount.

The lists of a mount are empty until its server answers for the first time, and the servers of this process have them a
moment after that. A request in that time would hear that there is no such tool, or get an empty list.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.aggregate.public_names import has_server_part
from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.server import Server
from patchbay.upstreams.lists.snapshots import mounts_in


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


def await_first_lists(catalogue: Catalogue, server: Server, meta: Any, is_call: bool = False) -> bool:
    """Wait for the first lists of a mounted server; return whether this process may serve others now.

    `meta` is the `_meta` of the request, `is_call` says that it names an entry. A request of a mount does not wait: two
    mounts that lead to each other would wait for each other. `wait_for_first_answer` says when the wait ends.
    """
    standing = server.standing
    if standing is None or server.pinned or mounts_in(meta):
        return False
    if not standing.state_known.is_set():
        standing.start()
        standing.wait_for_first_answer(is_call)
        if not standing.state_known.is_set():
            return False
    catalogue.catch_up()
    return True


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

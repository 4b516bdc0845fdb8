"""Lets a request that needs the lists of a mounted server wait for them, right after the start of the mount.

The lists of a mount are empty until its server answers for the first time, and the servers of this process have them a
moment after that. A request in that time would hear that there is no such tool, or get an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers import Server
from patchbay.upstreams.lists.snapshots import mounts_in


def has_lists(server: Server) -> bool:
    """Whether anything of a server is known."""
    return bool(server.tools or server.resources or server.templates or server.prompts)


def knows_target(server: Server, method: str, params: Mapping[str, Any]) -> bool:
    """Whether a server has what a request calls, or cannot get it by waiting."""
    name = params.get("name")
    if method == "tools/call":
        return not isinstance(name, str) or name in server.tools or server.is_search_active
    if method == "prompts/get":
        return not isinstance(name, str) or name in server.prompts
    return method != "resources/read" or bool(server.resources or server.templates)


def await_first_lists(catalogue: Catalogue, server: Server, meta: Any) -> bool:
    """Wait for the first lists of a mounted server; return whether this process may serve others now.

    `meta` is the `_meta` of the request. One that comes from a mount does not wait: two mounts that lead to each other
    would wait for each other. The wait ends FIRST_LISTS_SECONDS after the start of the mount.
    """
    standing = server.standing
    if standing is None or server.pinned or mounts_in(meta):
        return False
    if not standing.state_known.is_set():
        standing.start()
        standing.wait_for_first_answer()
        if not standing.state_known.is_set():
            return False
    catalogue.catch_up()
    return True


def find_mount(find: Callable[[str], Server], name: Any) -> Server | None:
    """Return the mounted server that the public name of a tool or prompt at /mcp names; None for another one.

    `find` finds a server that the caller may see. Raises what it raises.
    """
    if not isinstance(name, str):
        return None
    server, separator, _ = name.partition("__") if "__" in name else name.partition(".")
    found = find(server) if separator else None
    return found if found is not None and found.standing is not None else None

"""The groups of the list of all servers: each listed server is a group, for clients that declare the extension.

The hub announces no change of groups by itself: the lists of entries, which name the groups, are announced.
Source: SEP-2084 (draft).
"""

from __future__ import annotations

from typing import Any

from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.errors import MethodNotFound
from patchbay.protocol.lists import GROUPS
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.translate import stamped

GROUPED = ("tools", "resources", "templates", "prompts")
"""The lists whose entries name their groups."""


def has_groups(context: RequestContext) -> bool:
    """Whether the caller gets groups here: it declares the extension, and this is the list of all servers."""
    return _grouped(context) is not None


def _grouped(context: RequestContext) -> Aggregate | None:
    """Return the list of all servers, if the caller asks for it and declares the extension."""
    server = context.server
    return server if isinstance(server, Aggregate) and context.caller.extends(GROUPS) else None


def list_groups(context: RequestContext) -> dict[str, Any]:
    """Answer groups/list: a page of the servers with listed entries. Raises MethodNotFound, InvalidParams."""
    server = _grouped(context)
    if server is None:
        raise MethodNotFound(
            f"{context.request.method}: only /mcp has groups, for clients that declare the extension {GROUPS}"
        )
    groups = {name: _describe(server, name) for kind in GROUPED for name in server.groups(kind).values()}
    names, more = context.services.lists.cut("groups", list(groups), context.params)
    result: dict[str, Any] = {"groups": [groups[name] for name in names], **more}
    return stamped(result, server, context.caller.revision, cache=True)


def _describe(server: Aggregate, name: str) -> dict[str, Any]:
    """Return the group of a server."""
    owner = server.members[name]
    texts = {"title": owner.title, "description": owner.description}
    return {"name": name, **{key: text for key, text in texts.items() if text}}

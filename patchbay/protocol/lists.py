"""The lists in pages. The four main lists are rendered to bytes once for each server and revision.

Callers with the same rights share one view of a server, and so its lists.

A cursor is opaque: the signed name of the last entry of a page. An empty string is a cursor too, so the code tests for
None.
Source: MCP specification, server/utilities/pagination.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from itsdangerous import BadSignature, URLSafeSerializer

from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.client.connection.list_pages import APPS as APPS
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams
from patchbay.jsonrpc import Rendered
from patchbay.messages.versions import Revision
from patchbay.protocol.translate import for_revision, stamped
from patchbay.upstreams.lists.snapshots import VIA

GROUPS = "io.modelcontextprotocol/groups"
"""The id of the extension for groups, and the member of `_meta` with the names of the groups of an entry (SEP-2084)."""

MEMBERS = {"tools": "tools", "resources": "resources", "templates": "resourceTemplates"}
MEMBERS |= {"prompts": "prompts", "events": "events"}

PAGES: ServerCache[tuple[str, str, bool, bool, str | None], bytes] = ServerCache()
"""Rendered pages by list, revision, whether the client shows apps, whether it knows groups, and cursor."""


class Lists:
    """Renders lists, with `page_size` entries in a page."""

    def __init__(self, key: bytes, page_size: int) -> None:
        self._serializer = URLSafeSerializer(key, salt="cursor")
        self._page_size = page_size

    def page(
        self,
        server: Server,
        kind: str,
        revision: Revision,
        params: Mapping[str, Any],
        apps: bool = False,
        groups: bool = False,
    ) -> Rendered:
        """Return one page of `tools`, `resources`, `templates`, `prompts` or `events`.

        `apps` says that the client shows apps, and so gets the tools that are for apps only; with `groups`, entries of
        the list of all servers name their server as their group. Raises InvalidParams for a bad cursor.
        """
        cursor = _cursor(params)
        key = (kind, revision.name, apps, groups, cursor)
        return Rendered(PAGES.get(server, key, lambda: self._render(server, kind, revision, apps, groups, cursor)))

    def _render(
        self, server: Server, kind: str, revision: Revision, apps: bool, groups: bool, cursor: str | None
    ) -> bytes:
        entries: Mapping[str, Descriptor] = server.listed(kind)
        names = [name for name, one in entries.items() if apps or kind != "tools" or one.is_for_models]
        chosen, more = self._cut(kind, names, cursor)
        result: dict[str, Any] = {"_meta": {VIA: list(server.via)}} if server.via else {}
        owners = server.groups(kind) if groups and isinstance(server, Aggregate) else {}
        wires = [_with_group(entries[name].wire, owners.get(name)) for name in chosen]
        result |= {MEMBERS[kind]: [for_revision(wire, revision) for wire in wires], **more}
        return orjson.dumps(stamped(result, server, revision, cache=True))

    def cut(self, kind: str, names: Sequence[str], params: Mapping[str, Any]) -> tuple[Sequence[str], dict[str, str]]:
        """Return the names on the requested page, and `nextCursor` if more follow.

        `kind` separates the cursors of different lists. Raises InvalidParams for a bad cursor.
        """
        return self._cut(kind, names, _cursor(params))

    def _cut(self, kind: str, names: Sequence[str], cursor: str | None) -> tuple[Sequence[str], dict[str, str]]:
        begin = self._begin(kind, names, cursor)
        chosen = names[begin : begin + self._page_size]
        more = begin + self._page_size < len(names)
        return chosen, {"nextCursor": str(self._serializer.dumps([kind, chosen[-1]]))} if more else {}

    def _begin(self, kind: str, names: Sequence[str], cursor: str | None) -> int:
        if cursor is None:
            return 0
        try:
            of, last = self._serializer.loads(cursor)
        except (BadSignature, ValueError, TypeError):
            of, last = None, None
        if of != kind or last not in names:
            raise InvalidParams("params.cursor is not a cursor of this list; begin again without one")
        return names.index(last) + 1


def _with_group(wire: Mapping[str, Any], group: str | None) -> Mapping[str, Any]:
    """Return the wire form of an entry with its group, if it has one (SEP-2084)."""
    if group is None:
        return wire
    meta = wire.get("_meta")
    return {**wire, "_meta": {**(meta if isinstance(meta, Mapping) else {}), GROUPS: [group]}}


def _cursor(params: Mapping[str, Any]) -> str | None:
    cursor = params.get("cursor")
    if cursor is None or isinstance(cursor, str):
        return cursor
    raise InvalidParams("params.cursor has to be a string")

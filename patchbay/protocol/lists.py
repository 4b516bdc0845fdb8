"""The four lists, page by page, rendered to bytes once for each version of a server and revision.

A cursor is opaque: it names the last entry that was given, signed. An empty string is a cursor like
any other (SPEC-DIGEST 1.11), so presence is tested, not truth.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from itsdangerous import BadSignature, URLSafeSerializer

from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams
from patchbay.jsonrpc import Rendered
from patchbay.protocol.translate import listed, stamped
from patchbay.protocol.versions import Revision

MEMBERS = {"tools": "tools", "resources": "resources", "templates": "resourceTemplates", "prompts": "prompts"}


class Lists:
    """Renders lists. `page_size` entries a page."""

    def __init__(self, key: bytes, page_size: int) -> None:
        self._serializer = URLSafeSerializer(key, salt="cursor")
        self._page_size = page_size

    def page(self, server: Server, kind: str, revision: Revision, params: Mapping[str, Any]) -> Rendered:
        """One page of `tools`, `resources`, `templates` or `prompts`. Raises InvalidParams for a bad cursor."""
        cursor = params.get("cursor")
        key = (kind, revision.name, cursor)
        found = server.rendered.get(key)
        if found is None:
            found = self._render(server, kind, revision, cursor)
            server.rendered[key] = found
        return Rendered(found)

    def _render(self, server: Server, kind: str, revision: Revision, cursor: Any) -> bytes:
        entries: Mapping[str, Descriptor] = getattr(server, kind)
        names = list(entries)
        begin = self._begin(kind, names, cursor)
        chosen = names[begin : begin + self._page_size]
        result: dict[str, Any] = {MEMBERS[kind]: [listed(entries[name].wire, revision) for name in chosen]}
        if begin + self._page_size < len(names):
            result["nextCursor"] = str(self._serializer.dumps([kind, chosen[-1]]))
        return orjson.dumps(stamped(result, server, revision, cache=True))

    def _begin(self, kind: str, names: list[str], cursor: Any) -> int:
        if cursor is None:
            return 0
        try:
            of, last = self._serializer.loads(cursor) if isinstance(cursor, str) else (None, None)
        except (BadSignature, ValueError, TypeError):
            of, last = None, None
        if of != kind or last not in names:
            raise InvalidParams("params.cursor is none that this list gave; begin again without one")
        return names.index(last) + 1

"""The built-in servers: those of the boot image that a hub imports when no other image is named.

They keep their endpoints and pages, but /mcp lists only those that are switched in. The store says which servers they
are, and whether the hub lists them all without being told so: a hub that an earlier version began does, because its
clients use them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from patchbay.boot.image import Image, canonical_json
from patchbay.errors import ContentError
from patchbay.store import Store
from patchbay.topics import BUILT_IN

DEFAULT_IMAGE = "default"
"""The value of the setting `boot` whose servers are built in."""


@dataclass(frozen=True, slots=True)
class BuiltIn:
    """The built-in servers: the CID of the definition of each by name, and those that are off at first.

    `are_listed` says that /mcp lists all of them unless the listing says otherwise.
    """

    definitions: Mapping[str, str] = field(default_factory=dict)
    off: frozenset[str] = frozenset()
    are_listed: bool = True

    def has(self, name: str, definition: str) -> bool:
        """Whether a server of this name and definition is built in: one whose code was changed is the operator's."""
        return self.definitions.get(name) == definition

    def to_json(self) -> bytes:
        """Return the stored form."""
        parts = {"definitions": dict(self.definitions), "off": sorted(self.off), "are_listed": self.are_listed}
        return canonical_json(parts)


NONE = BuiltIn()
"""A hub without built-in servers, such as one with a boot image of its operator."""


def built_in_servers(image: Image, are_listed: bool) -> BuiltIn:
    """Return the servers of an image as built-in ones."""
    definitions, off = {}, set()
    for name, row in image.servers.items():
        definitions[name] = str(row["definition_cid"])
        if not row.get("enabled", True):
            off.add(name)
    return BuiltIn(definitions, frozenset(off), are_listed)


def read_built_in(store: Store) -> BuiltIn:
    """Return the built-in servers that a store records; none where the record cannot be read."""
    cid = store.names.get(BUILT_IN)
    if cid is None:
        return NONE
    try:
        parts: Any = orjson.loads(store.blobs.get(cid))
        return BuiltIn(dict(parts["definitions"]), frozenset(parts["off"]), parts["are_listed"] is True)
    except (ContentError, ValueError, KeyError, TypeError):
        return NONE

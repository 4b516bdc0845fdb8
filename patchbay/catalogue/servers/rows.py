"""A server's row: the value of the name `servers/<name>`, as canonical JSON under a CID.

`definition_cid`, `kind` and `enabled` are required; `config_cid` is present when the server has its own configuration.
The origin of a row is not part of it. Names are checked here.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from patchbay.boot import canonical_json
from patchbay.descriptors import NAME
from patchbay.errors import ConfigError
from patchbay.kind import definition_kinds, find_kind, kind_named
from patchbay.pins.offers import SERVER_PREFIX
from patchbay.store import Blobs
from patchbay.topics import SERVERS

BOOT = "boot image"
ROOM = "room"
"""Origins of rows: the boot image, and a room of this hub."""

SHIPPED_NAME = "mcp"
"""Reserved for a server of the boot image, because /mcp is the address of the aggregate of all servers."""

PATHS = frozenset(
    (
        *(".well-known", "access", "account", "activity", "approvals", "audit", "blobs", "cid", "healthz"),
        *(
            "history",
            "inspect",
            "invitation",
            "login",
            "logout",
            SHIPPED_NAME,
            "metrics",
            "nodes",
            "oauth",
            "openapi.json",
        ),
        *("people", "pins", "readyz", "registry", "render", "rooms", "rpc", "schedules", "search"),
        *("secrets", "servers", "settings", "sign-in", "toolsets", "upstreams", "v0.1", "variables", "webhooks"),
    )
)
"""How the paths of the hub begin. Written here, because the table of routes loads every page; a test compares them."""

RESERVED = (PATHS - {SHIPPED_NAME}) | {"meta", "sse", "messages", "static", "favicon.ico", "new", "server-card"}
"""Names that no server may have: the hub's own paths, and what stands behind /mcp/ and /servers/."""

_NAME = re.compile(NAME)


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One server of the hub: its parts by CID. `config_cid` may come from the `mcps` variable.

    `replaces` is the definition of the server that a drop-in of the same name replaces.
    """

    name: str
    kind: str
    definition_cid: str
    config_cid: str | None = None
    enabled: bool = True
    origin: str = BOOT
    replaces: str | None = None

    @property
    def is_configuration(self) -> bool:
        """Whether the definition is also the server's configuration."""
        return kind_named(self.kind).is_configuration

    def to_json(self) -> bytes:
        """Return the stored form: canonical JSON, without name and origin."""
        parts = {"definition_cid": self.definition_cid, "enabled": self.enabled, "kind": self.kind}
        return canonical_json(parts | ({"config_cid": self.config_cid} if self.config_cid else {}))

    def is_enabled(self, fields: Mapping[str, Any]) -> bool:
        """Whether both the row and the fields of the configuration enable the server."""
        return bool(self.enabled and fields.get("enabled", True) and fields.get("mcp_enabled", True))

    def manifest(self) -> bytes:
        """Return the canonical JSON whose CID is the version."""
        parts = {"config_cid": self.config_cid, "definition_cid": self.definition_cid}
        return canonical_json({**parts, "kind": self.kind, "name": self.name})


def parse_row(name: str, data: bytes, origin: str = BOOT) -> ServerRow:
    """Parse the row of a name. Raises ConfigError."""
    where = SERVERS + name
    try:
        parts = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        raise ConfigError(where, "", f"expected JSON; {problem}") from problem
    if not isinstance(parts, dict) or not isinstance(parts.get("definition_cid"), str):
        raise ConfigError(where, "definition_cid", "expected an object with the CID of the server's definition")
    kind = find_kind(parts.get("kind"))
    if kind is None or not kind.endings:
        names = ", ".join(kind.name for kind in definition_kinds())
        raise ConfigError(where, "kind", f"expected one of {names}; this is {parts.get('kind')!r}")
    config = parts.get("config_cid")
    if config is not None and not isinstance(config, str):
        raise ConfigError(where, "config_cid", "expected the CID of a configuration")
    return ServerRow(name, parts["kind"], parts["definition_cid"], config, parts.get("enabled", True) is True, origin)


class RowReader:
    """Reads rows by name and CID. A content never changes, so each row is read once while its name has it."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._known: dict[str, tuple[str, ServerRow]] = {}

    def read(self, name: str, cid: str) -> ServerRow:
        """Return the row. Raises ContentError for one that cannot be read."""
        known = self._known.get(name)
        if known is not None and known[0] == cid:
            return known[1]
        row = parse_row(name, self._blobs.get(cid))
        self._known[name] = cid, row
        return row

    def forget_all_but(self, names: Container[str]) -> None:
        """Free the memory of the rows of other names."""
        for name in [name for name in self._known if name not in names]:
            del self._known[name]


@lru_cache(maxsize=8192)
def name_problem(name: str, origin: str = "") -> str | None:
    """Return why a server of this origin cannot have this name, or None."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        return f"a server cannot be called {name!r}: expected 1 to 128 letters, digits, _, . or -"
    if name.lower() in RESERVED:
        return f"a server cannot be called {name!r}: the hub has a page of its own at this address; choose another name"
    if name.lower() == SHIPPED_NAME and origin != BOOT:
        return f"a server cannot be called {name!r}: the hub ships with a server of this name; choose another"
    if is_room_name(name) and origin != ROOM:
        return f"a server cannot be called {name!r}: names that begin with {SERVER_PREFIX} belong to the hub's rooms"
    return None


def is_room_name(name: str) -> bool:
    """Whether a name is that of a room's server."""
    return name.lower().startswith(SERVER_PREFIX)


def is_of_room(row: ServerRow) -> bool:
    """Whether a row of the store is that of a room's server; only rooms write rows of such a name."""
    return row.name.startswith(SERVER_PREFIX)

"""A mounted server: what the upstream said of itself last, under the rules that the configuration adds.

Rules: what the upstream lists is shown as it came; what cannot be served is a Problem. Only an operator mounts
servers: a file in the watched folder, the boot image, the command line. A configuration that came over HTTP can neither
start a program, nor send what stands in the hub's environment anywhere, nor make the hub ask an address of its choice.
Sources: issue 5 part 7; DESIGN sections 5 and 11; THREATS 1.8; REQUIREMENTS X-16, JN-C19.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from patchbay.catalogue.listing import Listing
from patchbay.catalogue.reading.uri_templates import compiled
from patchbay.catalogue.rows import PREFIX, Row, parse_row
from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor, Problem
from patchbay.errors import ConfigError, ContentError
from patchbay.kinds.mount.configuration import mount_of
from patchbay.kinds.mount.handler import upstream_handler
from patchbay.kinds.mount.snapshots import Snapshot
from patchbay.kinds.mount.standing_connections import Keepers
from patchbay.store import Move, Store

OPERATORS = frozenset({"start", "servers/", "command line"})
"""Who moves names on behalf of an operator: the import of a boot image, the watched folder, a command."""

PAGE = 500
MCPS = "variables/mcps"


def mounted(
    row: Row,
    version: str,
    fields: Mapping[str, Any],
    keepers: Keepers | None,
    timeout: float,
    readonly: bool = False,
    pinned: bool = False,
) -> Server:
    """The server of a mount. Raises ConfigError for an address or a header that cannot be."""
    if keepers is None:
        raise ConfigError(row.origin, "kind", "expected no mounted server here: nothing reaches other servers")
    keeper = keepers.of(mount_of(row.name, fields, row.origin))
    last = keeper.last() or Snapshot(keeper.mount.digest)
    found, problems = last.descriptors()
    problems += _untemplated(found["template"])
    listing = Listing.of(fields.get("listing", {}))
    enabled = row.serves(fields)
    problems += listing.problems(found["tool"]) if enabled and found["tool"] else ()
    tools = {name: one for name, one in listing.kept(found["tool"]).items() if one.read_only or not readonly}
    return Server(
        row.name,
        version,
        "upstream",
        definition=row.definition_cid,
        config_cid=row.config_cid,
        config=fields,
        title=fields.get("title") or _text(last.info.get("title")),
        description=fields.get("description") or _text(last.info.get("description")) or "",
        instructions=fields.get("instructions") or last.instructions,
        tools=tools if enabled else {},
        resources=found["resource"] if enabled else {},
        templates=found["template"] if enabled else {},
        prompts=found["prompt"] if enabled else {},
        problems=tuple(problems) if enabled else (),
        handler=upstream_handler(keeper),
        enabled=enabled,
        pinned=pinned,
        origin=row.origin,
        timeout=float(fields.get("timeout", timeout)),
        listing=listing,
        upstream=keeper,
        offers=last.capabilities,
        via=(keeper.id, *last.via),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _untemplated(templates: dict[str, Descriptor]) -> Iterator[Problem]:
    """Take out the templates whose addresses cannot be told from others, and say so."""
    for key in list(templates):
        try:
            compiled(key)
        except ConfigError as problem:
            del templates[key]
            yield Problem(key, f"not served: {problem.expected}")


def reaches_out(definition: bytes) -> bool:
    """Whether a definition mounts a server or a folder, which is served only where an operator brought it."""
    try:
        fields = orjson.loads(definition)
    except orjson.JSONDecodeError:
        return False
    return isinstance(fields, dict) and fields.get("kind") in ("upstream", "documents")


def vouched(store: Store, row: Row) -> bool:
    """Whether it was an operator who brought what this row mounts under this name.

    That is the definition of a server without code, and the configuration of one with code, which may be another's.
    """
    return any(
        move.who in OPERATORS and move.cid is not None and _brings(store, move, row)
        for name in (PREFIX + row.name, MCPS)
        for move in _past(store, name)
    )


def _past(store: Store, name: str) -> Iterator[Move]:
    before = None
    while moves := store.names.past(name, PAGE, before):
        yield from moves
        before = moves[-1].seq


def _brings(store: Store, move: Move, row: Row) -> bool:
    assert move.cid is not None
    try:
        data = store.blobs.get(move.cid)
        if move.name != MCPS:
            return _mounting(parse_row(row.name, data)) == _mounting(row)
        text = data if data.lstrip()[:1] == b"{" else store.blobs.get(data.decode().strip())
        entry = orjson.loads(text).get(row.name)
    except (ContentError, ValueError, AttributeError):
        return False
    return isinstance(entry, dict) and entry.get("config_cid") == _mounting(row)


def _mounting(row: Row) -> str | None:
    """The CID of the configuration that says what is mounted."""
    return row.definition_cid if row.kind == "static" else row.config_cid

"""Announced servers: a participant lists the entries of its server, and the hub advertises them to the room.

The newest announcement or mount of a member under one id counts. The session whose server is replaced gets
`mcp.replaced`, and no calls any more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from patchbay.descriptors import Descriptor, Kind, Problem
from patchbay.errors import PatchbayError
from patchbay.pins.offers import METHODS
from patchbay.rooms.core import RoomCore
from patchbay.rooms.folding.acl import Participant, is_limited, matches, resource_names
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.record.canonical import canonical_bytes
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.errors import BadFrame, RoomRefused, TooMany
from patchbay.rooms.record.log import Logged
from patchbay.rooms.visibility import shows_wire
from patchbay.upstreams.lists.list_bounds import ListReader
from patchbay.upstreams.lists.snapshots import Snapshot

log = logging.getLogger(__name__)

MAX_ADVERT_PROBLEMS = 20

MAX_REPLACED = 64
"""Sessions that one announcement may name as replaced."""

Scope = tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]
"""Lists of patterns for tools and for resources: a shown entry matches a pattern of every list."""

EVERYTHING: Scope = ((("*",),), (("*",),))


LISTS: Mapping[Kind, tuple[str, str]] = {
    "tool": ("tools/list", "tools"),
    "resource": ("resources/list", "resources"),
    "prompt": ("prompts/list", "prompts"),
}
"""The method of each list that a room shows, and the field of an announcement with that list."""


class Outdated(RoomRefused):
    """An advertisement of a server that was replaced or has gone meanwhile."""


@dataclass(frozen=True, slots=True)
class Advertised:
    """One tool, resource or prompt of a room, by its own name or URI.

    `digest` is that of the descriptor; `member` mounted or announced the server.
    """

    server_id: str
    name: str
    descriptor: Descriptor
    digest: str
    kind: str
    member: str


def announce(room: RoomCore, envelope: Json) -> Logged:
    """Log an announcement and advertise its entries. Raises BadFrame, TooMany, RoomRefused."""
    payload = envelope["payload"]
    found, problems = read_lists(payload)
    may_replace = _replaceable(payload)

    def check(fold: Fold) -> None:
        server = str(payload.get("serverId"))
        check_tool_bound(room, fold, server, len(found["tool"]))
        owner = fold.now["servers"].get(server, {}).get("owner")
        if may_replace is not None and owner not in (None, envelope["from"], *may_replace):
            raise RoomRefused(f"the server {server} is shared by a newer session of this member")

    logged = append_server(room, envelope, check)
    if not logged.is_duplicate:
        sentences = [f"{one.where}: {one.reason}" for one in problems]
        offered = Offered(str(payload["serverId"]), logged.entry.seq, found, EVERYTHING, sentences)
        try:
            advertise(room, offered, {"replyTo": envelope["id"]})
        except Outdated:
            return logged
        except PatchbayError:
            room.append_own("mcp.unmount", {"serverId": payload["serverId"]})
            raise
    return logged


def read_lists(payload: Json) -> tuple[dict[Kind, dict[str, Descriptor]], Sequence[Problem]]:
    """Return the entries that an announcement lists, and those that cannot be served. Raises BadFrame."""
    lists = {}
    for method, key in LISTS.values():
        entries = payload.get(key, [])
        if not isinstance(entries, list):
            raise BadFrame(f"the announcement's {key} are not a list of MCP descriptors")
        lists[method] = ListReader(key).read(entries)
    return Snapshot("", lists=lists).descriptors()


def _replaceable(payload: Json) -> list[str] | None:
    """The sessions whose server an announcement may replace; None for every session of the member."""
    found = payload.get("replaces")
    if found is None:
        return None
    texts = isinstance(found, list) and all(isinstance(one, str) for one in found)
    if not texts or len(found) > MAX_REPLACED:
        raise BadFrame(f"the announcement's replaces is not a list of at most {MAX_REPLACED} ids of sessions")
    return list(found)


def append_server(room: RoomCore, envelope: Json, check: Callable[[Fold], None]) -> Logged:
    """Log an announcement or a mount that passes `check`, and notify the session whose server it replaces.

    Raises the errors of `check` and of `RoomCore.append`.
    """
    former: dict[str, str] = {}

    def make(fold: Fold, now: int) -> Json:
        check(fold)
        record = fold.now["servers"].get(str(envelope["payload"].get("serverId")), {})
        former["owner"] = record.get("owner", envelope["from"])
        return envelope

    logged = room.append(make)
    if not logged.is_duplicate and former["owner"] != envelope["from"]:
        reason = "a newer session of this member shares it now"
        payload: Json = {"serverId": envelope["payload"]["serverId"], "session": former["owner"]}
        room.append_own("mcp.replaced", payload | {"by": envelope["from"], "reason": reason})
    return logged


def check_tool_bound(room: RoomCore, fold: Fold, server: str, count: int) -> None:
    """Raise TooMany when the room would have more tools than it may."""
    others = sum(len(one["tools"]) for name, one in fold.now["servers"].items() if name != server)
    if others + count > room.bounds.tools:
        raise TooMany(
            f"the room has {others} tools and may have {room.bounds.tools} (--room-tools); {count} more do not fit"
        )


@dataclass(frozen=True, slots=True)
class Offered:
    """The entries of a server that was announced or mounted by the entry `seq` of the log.

    `scope` says which of them the room may see; `problems` are sentences about entries that cannot be served.
    """

    server: str
    seq: int
    found: Mapping[Kind, Mapping[str, Descriptor]]
    scope: Scope
    problems: list[str]


def advertise(room: RoomCore, offered: Offered, rel: Json | None = None) -> Logged:
    """Log `tool.advertise` for a server: the entries that its scope and the room's ACL show, with digests.

    The patterns for tools show its prompts too. Raises Outdated when the server was replaced or has gone, TooMany.
    """
    server, found = offered.server, offered.found
    state = room.state_now
    problems = list(offered.problems)

    def matching(kind: Kind) -> list[Descriptor]:
        lists = [one for one in found[kind].values() if _is_in_scope(kind, one, offered.scope)]
        lists = [one for one in lists if shows_wire(state, server, METHODS[kind], one.wire)]
        inexact = [one.name for one in lists if not _is_canonical(one.wire)]
        problems.extend(f"{name}: not served: it has a number that is not exact" for name in inexact)
        return [one for one in lists if one.name not in inexact]

    tools, resources, prompts = matching("tool"), matching("resource"), matching("prompt")
    payload: Json = {
        "provider": "mcp",
        "serverId": server,
        "tools": [{**one.wire, "schema": one.wire.get("inputSchema", {})} for one in tools],
        "resources": [dict(one.wire) for one in resources],
        "digests": {one.name: one.digest for one in tools},
        "uris": [one.name for one in resources],
    }
    if prompts:
        payload |= {"prompts": [dict(one.wire) for one in prompts], "promptNames": [one.name for one in prompts]}
    if problems:
        payload["problems"] = problems[:MAX_ADVERT_PROBLEMS]
    names = {one.name: one.wire["name"] for one in resources if isinstance(one.wire.get("name"), str)}
    if names and is_limited(state):
        payload["uriNames"] = names
    size = len(canonical_bytes(payload))
    if size > room.bounds.envelope:
        most = f"a room takes {room.bounds.envelope} (--room-envelope-limit)"
        raise TooMany(f"what the server {server} lists has {size} bytes, and {most}; expose less of it")

    def make(fold: Fold, now: int) -> Json:
        record = fold.now["servers"].get(server)
        if record is None or record["seq"] != offered.seq:
            raise Outdated(f"the server {server} was replaced or has gone")
        return room.make_own("tool.advertise", {**payload, "session": record["owner"]}, now, rel)

    return room.append(make)


def _is_canonical(wire: Mapping[str, Any]) -> bool:
    try:
        return bool(canonical_bytes(wire))
    except BadFrame:
        return False


def _is_in_scope(kind: Kind, one: Descriptor, scope: Scope) -> bool:
    """Whether the patterns of a mount and of its manifest show an entry."""
    if kind == "resource":
        names = resource_names(one.name, str(one.wire.get("name", "")))
        return all(any(matches(name, patterns) for name in names) for patterns in scope[1])
    return all(matches(one.name, patterns) for patterns in scope[0])


def advertise_again(room: RoomCore) -> None:
    """Log `tool.advertise` of each announced server, because the access list of the room has changed.

    The entries are those of the announcement; or, where its contents were deleted, of the last advertisement.
    """
    for server, record in room.state_now["servers"].items():
        if record["kind"] != "announce" or record["status"] != "ready":
            continue
        announced = room.log.entry(record["seq"]).contents or room.log.entry(record["advert"]).contents or {}
        try:
            found, problems = read_lists(announced)
            sentences = [f"{one.where}: {one.reason}" for one in problems]
            advertise(room, Offered(server, record["seq"], found, EVERYTHING, sentences))
        except PatchbayError as problem:
            log.warning("the server %s of the room %s was not advertised again: %s", server, room.name, problem.message)


def advertised(room: RoomCore, readers: Sequence[Participant] | None = None) -> list[Advertised]:
    """Return what one of some readers can use in a room, or without readers what somebody could; by server, then by
    kind in the order of its advertisement.
    """
    made: list[Advertised] = []
    state, seen_by = room.state_now, [None] if readers is None else readers
    for server, record in sorted(state["servers"].items()):
        if record["status"] != "ready":
            continue
        advert = room.log.entry(record["advert"]).contents or {}
        for kind, (_, key) in LISTS.items():
            for wire in advert.get(key, []):
                if not any(shows_wire(state, server, METHODS[kind], wire, who) for who in seen_by):
                    continue
                plain = {name: value for name, value in wire.items() if kind != "tool" or name != "schema"}
                name = str(plain["uri"] if kind == "resource" else plain["name"])
                descriptor = Descriptor(kind, name, plain, {"serverId": server, "name": name}, "upstream")
                digest = record["tools"].get(name, "") if kind == "tool" else descriptor.digest
                made.append(Advertised(server, name, descriptor, digest, record["kind"], record["member"]))
    return made

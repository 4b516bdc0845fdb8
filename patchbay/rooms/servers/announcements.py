"""Announced servers: a participant says which tools it hosts, and the hub advertises them to the room."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.descriptors import Descriptor, Kind
from patchbay.kinds.mount.list_bounds import ListReader
from patchbay.kinds.mount.snapshots import Snapshot
from patchbay.rooms.core import RoomCore
from patchbay.rooms.errors import BadFrame, TooMany
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.rights import acl_patterns, matches
from patchbay.rooms.record.canonical import canonical_bytes
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.log import Logged

MAX_ADVERT_PROBLEMS = 20

Scope = tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]]
"""Lists of patterns for tools and for resources: what is shown matches a pattern of every list."""

EVERYTHING: Scope = ((("*",),), (("*",),))


@dataclass(frozen=True, slots=True)
class AdvertisedTool:
    """One tool that can be called in a room. `digest` is the descriptor's; `member` is who mounted or announced it."""

    server_id: str
    name: str
    descriptor: Descriptor
    digest: str
    kind: str
    member: str


def announce(room: RoomCore, envelope: Json) -> Logged:
    """Log an announcement and advertise what it announces. Raises BadFrame, TooMany, RoomRefused."""
    payload = envelope["payload"]
    lists = {}
    for method, key in (("tools/list", "tools"), ("resources/list", "resources")):
        entries = payload.get(key, [])
        if not isinstance(entries, list):
            raise BadFrame(f"the announcement's {key} are no list of MCP descriptors")
        lists[method] = ListReader(key).read(entries)
    found, problems = Snapshot("", lists=lists).descriptors()

    def make(fold: Fold, now: int) -> Json:
        check_tool_bound(room, fold, str(payload.get("serverId")), len(found["tool"]))
        return envelope

    logged = room.append(make)
    if not logged.is_duplicate:
        sentences = [f"{one.where}: {one.reason}" for one in problems]
        advertise(room, str(payload["serverId"]), found, EVERYTHING, sentences, {"replyTo": envelope["id"]})
    return logged


def check_tool_bound(room: RoomCore, fold: Fold, server: str, count: int) -> None:
    """Raise TooMany when the room would have more tools than it may."""
    others = sum(len(one["tools"]) for name, one in fold.now["servers"].items() if name != server)
    if others + count > room.bounds.tools:
        raise TooMany(
            f"the room has {others} tools and may have {room.bounds.tools} (--room-tools); {count} more do not fit"
        )


def advertise(
    room: RoomCore,
    server: str,
    found: Mapping[Kind, Mapping[str, Descriptor]],
    scope: Scope,
    problems: list[str],
    rel: Json | None = None,
) -> Logged:
    """Log `tool.advertise` for a server: what its scope and the room's ACL show of it, with digests."""
    state = room.state_now
    for_tools = (*scope[0], acl_patterns(state, server, "tools"))
    for_resources = (*scope[1], acl_patterns(state, server, "resources"))
    wanted = [one for one in found["tool"].values() if all(matches(one.name, patterns) for patterns in for_tools)]
    tools = [one for one in wanted if _is_canonical(one.wire)]
    inexact = [one.name for one in wanted if one not in tools]
    problems = [*problems, *(f"{name}: not served: it has a number that is not exact" for name in inexact)]
    resources = [
        one
        for one in found["resource"].values()
        if all(matches_resource(one.wire, patterns) for patterns in for_resources)
    ]
    payload: Json = {
        "provider": "mcp",
        "serverId": server,
        "tools": [{**one.wire, "schema": one.wire.get("inputSchema", {})} for one in tools],
        "resources": [dict(one.wire) for one in resources],
        "digests": {one.name: one.digest for one in tools},
        "uris": [one.name for one in resources],
    }
    if problems:
        payload["problems"] = problems[:MAX_ADVERT_PROBLEMS]
    size = len(canonical_bytes(payload))
    if size > room.bounds.envelope:
        most = f"a room takes {room.bounds.envelope} (--room-envelope-limit)"
        raise TooMany(f"what the server {server} lists has {size} bytes, and {most}; expose less of it")
    return room.append_own("tool.advertise", payload, rel)


def _is_canonical(wire: Mapping[str, Any]) -> bool:
    try:
        return bool(canonical_bytes(wire))
    except BadFrame:
        return False


def matches_resource(wire: Mapping[str, Any], patterns: tuple[str, ...]) -> bool:
    """Whether patterns show a resource: by its name, by its URI, or by its URI without the scheme."""
    uri = str(wire.get("uri", ""))
    path = uri.partition(":")[2].removeprefix("//")
    names = [uri, path, str(wire.get("name", ""))]
    return any(matches(name, patterns) for name in names if name)


def advertised_tools(room: RoomCore) -> list[AdvertisedTool]:
    """Return every tool that can be called in a room, by server and name."""
    made: list[AdvertisedTool] = []
    for server, record in sorted(room.state_now["servers"].items()):
        if record["status"] != "ready":
            continue
        advert = room.log.entry(record["advert"]).contents or {}
        for wire in advert.get("tools", []):
            plain = {key: value for key, value in wire.items() if key != "schema"}
            target = {"serverId": server, "name": plain["name"]}
            descriptor = Descriptor("tool", plain["name"], plain, target, "upstream")
            digest = record["tools"].get(plain["name"], "")
            made.append(AdvertisedTool(server, plain["name"], descriptor, digest, record["kind"], record["member"]))
    return made

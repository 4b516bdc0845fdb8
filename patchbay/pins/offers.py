"""What a room offers to MCP clients, as the store has it: one canonical JSON document under the name of the room.

The part of the hub that keeps rooms writes it whenever the tools, resources or prompts of a room change; every process
builds the room's server from it, without reading the room's log.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.descriptors import Descriptor, Kind, Problem
from patchbay.errors import ContentError, StaleUpdate
from patchbay.pins.documents import Changes, ItemKey, Wire
from patchbay.pins.observation import observe
from patchbay.pins.records import has_pins
from patchbay.store import Store
from patchbay.topics import ROOM_OFFERS

WHO = "rooms"
"""Author of everything that rooms write into the store, their servers included."""

SERVER_PREFIX = "room."
"""How the name of a room's server begins; the name of the room follows."""

SEPARATOR = "__"

Json = dict[str, Any]


TOOL, RESOURCE, PROMPT = "tools/call", "resources/read", "prompts/get"
"""The methods by which what a room offers is used."""

METHODS: Mapping[Kind, str] = {"tool": TOOL, "resource": RESOURCE, "prompt": PROMPT}


@dataclass(frozen=True, slots=True)
class OfferedEntry:
    """A tool, resource or prompt of a room: the id of its server there, its descriptor as MCP has it, its digest."""

    server_id: str
    wire: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, slots=True)
class Offer:
    """What a room offers as of entry `seq` of its log. `room` is the id of the room.

    `limits` is a digest of everything that hides some of it from some callers; empty when each caller sees all.
    """

    room: str
    seq: int
    tools: tuple[OfferedEntry, ...] = ()
    resources: tuple[OfferedEntry, ...] = ()
    prompts: tuple[OfferedEntry, ...] = ()
    limits: str = ""

    @property
    def entries(self) -> dict[Kind, tuple[OfferedEntry, ...]]:
        """Everything that is offered, by kind."""
        return {"tool": self.tools, "resource": self.resources, "prompt": self.prompts}

    def to_bytes(self) -> bytes:
        """Return the stored form."""
        lists = {
            f"{kind}s": [{"digest": one.digest, "server": one.server_id, "wire": one.wire} for one in entries]
            for kind, entries in self.entries.items()
        }
        limits = {"limits": self.limits} if self.limits else {}
        return orjson.dumps({"room": self.room, "seq": self.seq, **limits, **lists})

    def pinned_entries(self) -> dict[ItemKey, Wire]:
        """Return the tools and prompts as announced, by the names under which they are served."""
        listed: dict[ItemKey, Wire] = {}
        for one in self.tools:
            listed["tool", _served_name(one)] = one.wire
        for one in self.prompts:
            listed["prompt", _served_name(one)] = one.wire
        return listed

    def descriptors(self) -> tuple[dict[Kind, dict[str, Descriptor]], tuple[Problem, ...]]:
        """Return what is served, by kind, and a Problem for each name or URI that two servers would share.

        Tools and prompts are `<serverId>__<name>`; resources keep their URIs.
        """
        served: dict[Kind, dict[str, Descriptor]] = {}
        problems: list[Problem] = []
        for kind, entries in self.entries.items():
            found: dict[str, Descriptor] = {}
            twice: set[str] = set()
            for one in entries:
                made = _descriptor(kind, one)
                if made.name in found:
                    twice.add(made.name)
                found[made.name] = made
            served[kind] = {name: one for name, one in found.items() if name not in twice}
            sentence = f"not served: two servers of the room have a {kind} that would be called so"
            problems += [Problem(name, sentence) for name in sorted(twice)]
        return served, tuple(problems)


def _descriptor(kind: Kind, one: OfferedEntry) -> Descriptor:
    key = str(one.wire["uri"] if kind == "resource" else one.wire["name"])
    target = {"serverId": one.server_id, "name": key} | ({} if kind == "tool" else {"method": METHODS[kind]})
    if kind == "resource":
        return Descriptor(kind, key, one.wire, target, "upstream")
    name = _served_name(one)
    return Descriptor(kind, name, {**one.wire, "name": name}, target, "upstream")


def served_names(offer: Offer, shows: Callable[[str, Kind, Mapping[str, Any]], bool]) -> frozenset[str]:
    """Return the served names and URIs of the entries for which `shows` (by server, kind and descriptor) is true."""
    return frozenset(
        str(one.wire["uri"]) if kind == "resource" else _served_name(one)
        for kind, entries in offer.entries.items()
        for one in entries
        if shows(one.server_id, kind, one.wire)
    )


def _served_name(one: OfferedEntry) -> str:
    return f"{one.server_id}{SEPARATOR}{one.wire['name']}"


def keep_offer(store: Store, server: str, offer: Offer, changes: Changes = "tell") -> bool:
    """Store what a room offers under the name of its server; return whether the offer has changed.

    An offer of an earlier entry than the stored one changes nothing. Tools and prompts are compared with their pins
    first; those of each server of the room are approved at first sight.
    """
    while True:
        before = store.names.get(ROOM_OFFERS + server)
        known = _read(store, before)
        is_same = known is not None and (known.entries, known.limits) == (offer.entries, offer.limits)
        is_old = known is not None and (is_same or known.seq >= offer.seq)
        if is_old and has_pins(store, server):
            return False
        observe(store, server, offer.pinned_entries(), changes, WHO, lambda key: key[1].partition(SEPARATOR)[0])
        if is_old:
            return False
        cid = store.blobs.put(offer.to_bytes())
        try:
            name = ROOM_OFFERS + server
            store.names.move({name: cid}, WHO, f"{server} offers something else", {name: before})
        except StaleUpdate:
            continue  # another process wrote in the meantime
        return True


def load_offer(store: Store, server: str) -> Offer | None:
    """Return what a room offers, by the name of its server; None without one that can be read."""
    return _read(store, store.names.get(ROOM_OFFERS + server))


def offer_cids(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the CID of what each room offers, by the name of its server."""
    return {name.removeprefix(ROOM_OFFERS): (cid,) for name, cid in store.names.all(ROOM_OFFERS).items()}


def _read(store: Store, cid: str | None) -> Offer | None:
    try:
        fields = orjson.loads(store.blobs.get(cid)) if cid else None
    except (ContentError, orjson.JSONDecodeError):
        return None
    if fields is None:
        return None
    lists = {
        name: tuple(OfferedEntry(one["server"], one["wire"], one["digest"]) for one in fields.get(name, ()))
        for name in ("tools", "resources", "prompts")
    }
    return Offer(fields["room"], fields["seq"], **lists, limits=fields.get("limits", ""))

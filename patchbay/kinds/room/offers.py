"""What a room offers to MCP clients, as the store has it: one canonical JSON document under the name of the room.

The part of the hub that keeps rooms writes it whenever the tools of a room change; every process builds the room's
server from it, without reading the room's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.descriptors import Descriptor, Problem
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


@dataclass(frozen=True, slots=True)
class OfferedTool:
    """One tool of a room: the id of its server there, its descriptor as MCP has it, and the descriptor's digest."""

    server_id: str
    wire: Mapping[str, Any]
    digest: str


@dataclass(frozen=True, slots=True)
class Offer:
    """The tools of a room as of entry `seq` of its log. `room` is the id of the room."""

    room: str
    seq: int
    tools: tuple[OfferedTool, ...] = ()

    def encoded(self) -> bytes:
        """Return the stored form."""
        tools = [{"digest": one.digest, "server": one.server_id, "wire": one.wire} for one in self.tools]
        return orjson.dumps({"room": self.room, "seq": self.seq, "tools": tools})

    def pinned_entries(self) -> dict[ItemKey, Wire]:
        """Return the tools as announced, by the names under which they are served."""
        return {("tool", f"{one.server_id}{SEPARATOR}{one.wire['name']}"): one.wire for one in self.tools}

    def descriptors(self) -> tuple[dict[str, Descriptor], tuple[Problem, ...]]:
        """Return the tools as `<serverId>__<tool>`, and a Problem for each name that two tools would share."""
        found: dict[str, Descriptor] = {}
        twice: set[str] = set()
        for one in self.tools:
            name = f"{one.server_id}{SEPARATOR}{one.wire['name']}"
            target = {"serverId": one.server_id, "name": one.wire["name"]}
            if name in found:
                twice.add(name)
            found[name] = Descriptor("tool", name, {**one.wire, "name": name}, target, "upstream")
        sentence = "not served: two servers of the room have a tool that would have this name"
        served = {name: one for name, one in found.items() if name not in twice}
        return served, tuple(Problem(name, sentence) for name in sorted(twice))


def keep_offer(store: Store, server: str, offer: Offer, changes: Changes = "tell") -> bool:
    """Store what a room offers under the name of its server; whether other tools are offered now.

    An offer of an earlier entry than the stored one changes nothing. The tools are compared with their pins first;
    the tools of each server of the room are approved at first sight.
    """
    while True:
        before = store.names.get(ROOM_OFFERS + server)
        known = _read(store, before)
        is_old = known is not None and (known.tools == offer.tools or known.seq >= offer.seq)
        if is_old and has_pins(store, server):
            return False
        observe(store, server, offer.pinned_entries(), changes, WHO, lambda key: key[1].partition(SEPARATOR)[0])
        if is_old:
            return False
        cid = store.blobs.put(offer.encoded())
        try:
            name = ROOM_OFFERS + server
            store.names.move({name: cid}, WHO, f"{server} offers other tools", {name: before})
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
    tools = tuple(OfferedTool(one["server"], one["wire"], one["digest"]) for one in fields["tools"])
    return Offer(fields["room"], fields["seq"], tools)

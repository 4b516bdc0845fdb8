"""Decide which entries of a list are served: those with approved bytes and, where changes are reported, the others too.

Every build of a server asks it, so MCP, plain HTTP, searches and pages see one list.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from patchbay.cid import cid_of
from patchbay.pins.documents import Changes, ItemKey, Wire, encode_wire
from patchbay.pins.records import LoadedPins


@dataclass(frozen=True, slots=True)
class PinState:
    """The entries of one server that are not approved: `held` are not served, `reported` are.

    `changes` is the setting in force; `problem` says why the pins in force are not the newest.
    """

    changes: Changes
    held: frozenset[ItemKey] = frozenset()
    reported: frozenset[ItemKey] = frozenset()
    problem: str = ""


def check_pins(loaded: LoadedPins, changes: Changes, listed: Mapping[ItemKey, Wire]) -> PinState:
    """Return which of these entries are held or reported.

    A server without pins is at first sight: everything is served. Pins that cannot be read hold every change.
    """
    document = loaded.document
    if document is None or (changes == "follow" and not loaded.problem):
        return PinState(changes)
    found = set()
    for key, wire in listed.items():
        item = document.items.get(key)
        if item is None or item.approved is None or item.approved.cid != cid_of(encode_wire(wire)):
            found.add(key)
    if changes == "hold" or loaded.problem:
        return PinState("hold", held=frozenset(found), problem=loaded.problem)
    return PinState(changes, reported=frozenset(found))

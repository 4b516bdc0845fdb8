"""The named tools of toolsets that no longer fit their origins, each with its origin as it was before and as it is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.catalogue.catalogue import Catalogue
from patchbay.catalogue.servers.server import Server
from patchbay.errors import ContentError, UnknownServer
from patchbay.jsonrpc import parse
from patchbay.patterns.entries import splits
from patchbay.pins.documents import Pin, parse_document
from patchbay.pins.records import load_pins
from patchbay.store import Store
from patchbay.topics import PINS, SERVED
from patchbay.web.rendering.templates import format_json
from patchbay.web.rendering.text_comparison import Comparison, compare
from patchbay.web.site.data import page_path

MAX_BROKEN_ENTRIES = 20
"""Entries on one page, at most."""

MAX_EARLIER_VERSIONS = 50
"""Versions of a server, or changes of its pins, in which the earlier form of a tool is looked for."""

Wire = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class BrokenEntry:
    """A tool that a toolset does not list. `compared` is its origin before and now; None where neither is known."""

    toolset: str
    tool: str
    origin: str
    reason: str
    page: str
    compared: Comparison | None


def list_broken_entries(catalogue: Catalogue) -> list[BrokenEntry]:
    """Return the broken tools of all toolsets, MAX_BROKEN_ENTRIES at most."""
    servers = {one.name: one for one in catalogue.all()}
    found: list[BrokenEntry] = []
    for toolset in servers.values():
        for tool, origin, reason in _broken_tools(toolset) if toolset.is_composed else ():
            if len(found) == MAX_BROKEN_ENTRIES:
                return found
            compared = _compare_origin(catalogue, servers, origin)
            found.append(BrokenEntry(toolset.name, tool, origin, reason, page_path(toolset.name), compared))
    return found


def _broken_tools(toolset: Server) -> Iterator[tuple[str, str, str]]:
    """Yield the name, the origin and the reason of each named tool that is not listed."""
    for name, said in toolset.config.get("tools", {}).items():
        if name in toolset.tools:
            continue
        reasons = [one.reason for one in toolset.problems if f"{one.where}.".startswith(f"tools.{name}.")]
        if reasons:
            yield name, str(said["from"] if isinstance(said, Mapping) else said), reasons[0]


def _compare_origin(catalogue: Catalogue, servers: Mapping[str, Server], origin: str) -> Comparison | None:
    """Return the descriptor of an origin before its last change beside that of now, which may be gone."""
    for name, tool in splits(origin):
        server = servers.get(name)
        now = server.tools.get(tool) if server is not None else None
        wire = now.wire if now is not None else _held(catalogue.store, name, tool)
        before = next((one for one in _earlier(catalogue, name, tool) if one != wire), None)
        if before is not None:
            return compare(format_json(dict(before)), format_json(dict(wire)) if wire is not None else "")
    return None


def _held(store: Store, server: str, tool: str) -> Wire | None:
    """Return the descriptor that a mounted server lists and that its pins hold; None without one."""
    document = load_pins(store, server).document
    item = document.items.get(("tool", tool)) if document is not None else None
    return _read_pin(store, item.seen) if item is not None and item.seen is not None else None


def _read_pin(store: Store, pin: Pin) -> Wire | None:
    """Return the descriptor of a pin; None for one that cannot be read."""
    try:
        found = parse(store.blobs.get(pin.cid))
    except ContentError:
        return None
    return found if isinstance(found, dict) else None


def _earlier(catalogue: Catalogue, server: str, tool: str) -> Iterator[Wire]:
    """Yield the descriptors that a tool of a server had, newest first: by its versions, or by its pins."""
    yield from _pinned(catalogue.store, server, tool)
    for move in catalogue.store.names.past(f"{SERVED}{server}", MAX_EARLIER_VERSIONS):
        try:
            found = catalogue.version(server, move.cid).tools.get(tool) if move.cid else None
        except (ContentError, UnknownServer):
            continue
        if found is not None:
            yield found.wire


def _pinned(store: Store, server: str, tool: str) -> Iterator[Wire]:
    """Yield the descriptors of a tool of a mounted server that its pins have had, newest first."""
    for move in store.names.past(f"{PINS}{server}", MAX_EARLIER_VERSIONS):
        try:
            item = parse_document(store.blobs.get(move.cid)).items.get(("tool", tool)) if move.cid else None
        except ContentError:
            continue
        pins = (item.seen, item.approved) if item is not None else ()
        yield from (wire for pin in pins if pin is not None and (wire := _read_pin(store, pin)) is not None)

"""What an upstream said of itself the last time it answered: kept in the store, so that it is still there when the
upstream is not, or this hub was started again.

The name `upstreams/<server>@<mount>` points to it, as canonical JSON: what was read elsewhere is never
shown. Only what can be served is taken: an entry that is no object, has no name, or is no tool that can be called is
left out and said to be. What is taken stays as it came.
Sources: PEERS 22 (relay untouched) and 24 (serve the last known list); THREATS 1.8.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import orjson

from patchbay.client.errors import McpFailure
from patchbay.descriptors import Descriptor, Kind, Problem
from patchbay.errors import ContentError, MethodNotFound
from patchbay.store import Store

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

PREFIX = "upstreams/"
WHO = "upstream"
VIA = "io.patchbay/via"
"""Key in `_meta` of lists and requests: the mounts that they come by."""

LONGEST_VIA = 16
"""How many mounts may stand one behind the other."""

LONGEST_NAME = 1024

TEXTS = ("title", "description", "mimeType")
"""What is text in every entry that has it: pages and searches of all servers rely on that."""

Json = dict[str, Any]
KEYS: Mapping[Kind, str] = {"tool": "name", "resource": "uri", "template": "uriTemplate", "prompt": "name"}
LISTS: Sequence[tuple[Kind, str, str]] = (
    ("tool", "tools/list", "tools"),
    ("resource", "resources/list", "resources"),
    ("template", "resources/templates/list", "resourceTemplates"),
    ("prompt", "prompts/list", "prompts"),
)


@dataclass(frozen=True)
class Snapshot:
    """What one upstream offers. `mount` is the digest of how it was reached; lists are as they came, by method."""

    mount: str
    info: Json = field(default_factory=dict)
    instructions: str | None = None
    capabilities: Json = field(default_factory=dict)
    revision: str = ""
    via: tuple[str, ...] = ()
    lists: Mapping[str, list[Json]] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """As it is kept: with the keys in the order in which the upstream gave them, as people read it."""
        return orjson.dumps(asdict(self))

    def descriptors(self) -> tuple[dict[Kind, dict[str, Descriptor]], list[Problem]]:
        """What can be served, by kind and key, and why the rest is not."""
        found: dict[Kind, dict[str, Descriptor]] = {kind: {} for kind in KEYS}
        problems: list[Problem] = []
        for kind, method, _ in LISTS:
            for entry in self.lists.get(method, ()):
                made = _descriptor(kind, entry)
                if isinstance(made, Problem):
                    problems.append(made)
                else:
                    found[kind].setdefault(made.name, made)
        return found, problems


def read(connection: Connection, mount: str, before: Snapshot | None = None, changed: Collection[str] = ()) -> Snapshot:
    """Ask an upstream for everything; a list that it fails to give is as `before`. Raises Unreachable.

    With `changed`, methods of notifications, only those lists are read that they tell of; the others are as `before`.
    """
    lists: dict[str, list[Json]] = {}
    via: list[str] = []
    if before is not None and changed:
        lists |= {method: found for method, found in before.lists.items() if _told_by(method) not in changed}
        via += before.via
    for _, method, key in LISTS:
        if method in lists:
            continue
        try:
            lists[method] = _listed(connection, method, key, via)
        except McpFailure as problem:
            log.warning("%s of %s failed: %s", method, mount, problem.message)
            known = before is not None and problem.code != MethodNotFound.code
            lists[method] = list(before.lists.get(method, ())) if before is not None and known else []
    return Snapshot(
        mount,
        connection.info,
        connection.instructions,
        connection.capabilities,
        connection.revision,
        tuple(dict.fromkeys(via)),
        lists,
    )


def _told_by(method: str) -> str:
    """The notification that says that a list has changed."""
    return f"notifications/{method.partition('/')[0]}/list_changed"


def _listed(connection: Connection, method: str, key: str, via: list[str]) -> list[Json]:
    entries = connection.pages(method, key, lambda page: via.extend(ways_of(page.get("_meta"))))
    return [entry for entry in entries if type(entry) is dict]


def ways_of(meta: Any) -> list[str]:
    """The mounts that a `_meta` names."""
    found = meta.get(VIA) if isinstance(meta, Mapping) else None
    return [one for one in found if isinstance(one, str)][: 2 * LONGEST_VIA] if isinstance(found, list) else []


def keep(store: Store, name: str, snapshot: Snapshot) -> bool:
    """Keep it; whether it is another than before."""
    cid, full = store.blobs.put(snapshot.encoded()), f"{PREFIX}{name}@{snapshot.mount}"
    if store.names.get(full) == cid:
        return False
    store.names.move({full: cid}, WHO, f"{name} said what it offers")
    return True


def names(store: Store) -> dict[str, tuple[str, ...]]:
    """The CIDs of all that is kept, by server."""
    found: dict[str, tuple[str, ...]] = {}
    for full, cid in store.names.all(PREFIX).items():
        server = full.removeprefix(PREFIX).partition("@")[0]
        found[server] = (*found.get(server, ()), cid)
    return found


def load(store: Store, name: str, mount: str) -> Snapshot | None:
    """The last one of a mount; None when there is none."""
    cid = store.names.get(f"{PREFIX}{name}@{mount}")
    try:
        fields = orjson.loads(store.blobs.get(cid)) if cid else None
    except (ContentError, orjson.JSONDecodeError):
        return None
    return None if fields is None else Snapshot(**{**fields, "via": tuple(fields["via"])})


def _descriptor(kind: Kind, entry: Json) -> Descriptor | Problem:
    key = KEYS[kind]
    name = entry.get(key)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME or not name.isprintable():
        return Problem(kind, f"not served: its {key} is no text that can be used: {name!r:.100}")
    faults = list(_faults(kind, entry))
    if faults:
        return Problem(name, f"not served: {faults[0]}")
    wire = {field: value for field, value in entry.items() if value is not None}
    return Descriptor(kind, name, wire, target_of(kind, name), "upstream")


def _faults(kind: Kind, entry: Json) -> Iterator[str]:
    for text in TEXTS:
        if not isinstance(entry.get(text) or "", str):
            yield f"its {text} is no text"
    if kind == "tool":
        schema = entry.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield 'its inputSchema has no "type": "object"'
        if not isinstance(entry.get("outputSchema") or {}, dict):
            yield "its outputSchema is no object"
        hints = entry.get("annotations") or {}
        if not isinstance(hints, dict) or not isinstance(hints.get("title") or "", str):
            yield "its annotations are no object, or their title is no text"
    arguments = entry.get("arguments") or []
    named = isinstance(arguments, list) and all(isinstance(one, dict) and _is_named(one) for one in arguments)
    if kind == "prompt" and not named:
        yield "its arguments are no list of objects with names"
    if kind in ("resource", "template") and not isinstance(entry.get("name", ""), str):
        yield "its name is no text"


def _is_named(argument: Json) -> bool:
    return isinstance(argument.get("name"), str) and isinstance(argument.get("description") or "", str)


def target_of(kind: Kind, key: str) -> Json:
    """What the handler is to ask for: a method and what it names."""
    if kind in ("resource", "template"):
        return {"method": "resources/read", "uri": key}
    return {"method": "tools/call" if kind == "tool" else "prompts/get", "name": key}

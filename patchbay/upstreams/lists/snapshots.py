"""The last answers of an upstream about itself, in the store for times when it is away and after a restart of the hub.

The name `upstreams/<server>@<mount>` points to them, as canonical JSON: answers from another address are never shown.
An entry is left out when it is not an object, has no name, is a tool that cannot be called, or exceeds a limit of
`list_bounds.py`; the server's page gives the reason. Other entries are stored unchanged.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import orjson

from patchbay.client.errors import McpFailure, ServerTimeout, SessionLost, Unreachable, describe_briefly
from patchbay.descriptors import Descriptor, Kind, Problem
from patchbay.errors import ContentError, MethodNotFound
from patchbay.pins.documents import INTRODUCTION, ItemKey, Wire
from patchbay.store import Store
from patchbay.topics import UPSTREAMS
from patchbay.upstreams.lists.event_entries import bridged, find_faults, is_pushed
from patchbay.upstreams.lists.list_bounds import (
    MAX_CAPABILITIES_BYTES,
    MAX_INFO_BYTES,
    MAX_INSTRUCTIONS_CHARACTERS,
    ListReader,
    check_entry,
    check_name,
    encoded_size,
    limit_problems,
)
from patchbay.upstreams.lists.unread_lists import UnreadLists

if TYPE_CHECKING:
    from patchbay.client.connection.connection import Connection

log = logging.getLogger(__name__)

AUTHOR = "upstream"
VIA = "io.patchbay/via"
"""Key in `_meta` of lists and requests: the mounts that they passed."""

APP = "io.patchbay/app"
"""Key in `_meta` of requests: the URI of the app that sends it, as the endpoint names it."""

SIGN_IN = "sign_in"
"""The tool of a mount whose lists are not known before a caller has signed in, and the method of its target."""

MAX_REMEMBERED_URIS = 10_000
"""Maximum number of resources and templates of one server whose first sight is remembered."""

MAX_MOUNTS_IN_ROW = 16
"""Maximum number of mounts in a row."""

TEXT_FIELDS = ("title", "description", "mimeType")
"""Fields that must be strings in every entry: pages and searches rely on that."""

Json = dict[str, Any]
PINNED_LISTS: Sequence[Literal["tool", "prompt", "template", "event"]] = ("tool", "prompt", "template", "event")
"""The lists whose entries are pinned. Resources are data that comes and goes."""

KEYS: Mapping[Kind, str] = {
    **{"tool": "name", "resource": "uri", "template": "uriTemplate", "prompt": "name"},
    "event": "name",
}
LISTS: Sequence[tuple[Kind, str, str]] = (
    ("tool", "tools/list", "tools"),
    ("resource", "resources/list", "resources"),
    ("template", "resources/templates/list", "resourceTemplates"),
    ("prompt", "prompts/list", "prompts"),
    ("event", "events/list", "events"),
)


@dataclass(frozen=True)
class Snapshot:
    """The offers of one upstream. `mount` is the digest of how it was reached; lists are unchanged, by method.

    `left_out` has sentences about parts that are not stored, by method, or by `initialize` for parts outside lists.
    `first_seen` says when the hub first saw each resource and template (Unix time in seconds), which is who came first
    where two servers list one URI.
    """

    mount: str
    info: Json = field(default_factory=dict)
    instructions: str | None = None
    capabilities: Json = field(default_factory=dict)
    revision: str = ""
    via: tuple[str, ...] = ()
    lists: Mapping[str, list[Json]] = field(default_factory=dict)
    left_out: Mapping[str, list[str]] = field(default_factory=dict)
    first_seen: Mapping[str, float] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """Return the stored form, with keys in the upstream's order, which people read best."""
        return orjson.dumps(asdict(self))

    def descriptors(self) -> tuple[dict[Kind, dict[str, Descriptor]], list[Problem]]:
        """Return what can be served, by kind and key, and the reasons for the rest."""
        found: dict[Kind, dict[str, Descriptor]] = {kind: {} for kind in KEYS}
        problems = [Problem(method, sentence) for method, sentences in self.left_out.items() for sentence in sentences]
        for kind, method, _ in LISTS:
            for entry in self.lists.get(method, ()):
                made = _descriptor(kind, entry)
                if isinstance(made, Problem):
                    problems.append(made)
                elif made.name in found[kind]:
                    problems.append(Problem(made.name, f"not served: an earlier {kind} has the same {KEYS[kind]}"))
                else:
                    found[kind][made.name] = made
        return found, limit_problems(problems)


def listed_entries(snapshot: Snapshot, found: Mapping[Kind, Mapping[str, Descriptor]]) -> dict[ItemKey, Wire]:
    """Return what is pinned of an upstream: its introduction, and the tools, prompts and templates of `found`."""
    texts = {key: snapshot.info.get(key) for key in ("title", "description")} | {"instructions": snapshot.instructions}
    listed: dict[ItemKey, Wire] = {
        INTRODUCTION: {key: text for key, text in texts.items() if isinstance(text, str) and text}
    }
    for kind in PINNED_LISTS:
        listed |= {(kind, name): one.wire for name, one in found[kind].items()}
    return listed


def read_snapshot(
    connection: Connection,
    mount: str,
    unread: UnreadLists,
    before: Snapshot | None = None,
    changed: Collection[str] = (),
    via_id: str = "",
) -> Snapshot:
    """Read the lists that an upstream declares; a list that fails is taken from `before`. Raises Unreachable.

    A list without an answer in time is recorded in `unread` and is a problem of the server, not the end of the mount.
    With `changed`, methods of notifications, only the lists that they announce are read; others are taken from
    `before`. `via_id` names the mount in each request, so that a mount behind it does not wait for this one.
    """
    meta = {VIA: [via_id]} if via_id else None
    lists: dict[str, list[Json]] = {}
    via: list[str] = []
    left_out: dict[str, list[str]] = {}
    if before is not None and changed:
        lists |= {method: found for method, found in before.lists.items() if _notification_of(method) not in changed}
        left_out |= {method: before.left_out[method] for method in lists if method in before.left_out}
        via += before.via
    for _, method, key in LISTS:
        if method in lists:
            continue
        if not (connection.has_list(method) or _notification_of(method) in changed):
            lists[method] = []
            continue
        seconds = unread.seconds_for(method, bool(changed))
        reader = ListReader(key)
        try:
            pages = connection.iterate_pages(
                method, key, lambda page: via.extend(mounts_in(page.get("_meta"))), meta, seconds
            )
            lists[method] = reader.read(pages)
            left_out[method] = [*reader.left_out, *connection.list_problems.get(method, ())]
            for sentence in connection.list_problems.get(method, ()):
                log.warning("%s of %s: %s", method, mount, sentence)
        except (McpFailure, ServerTimeout, SessionLost) as problem:
            if connection.closed:
                raise
            log.warning("%s of %s failed: %s", method, mount, problem.message)
            is_missing = isinstance(problem, McpFailure) and problem.code == MethodNotFound.code
            lists[method] = list(before.lists.get(method, ())) if before is not None and not is_missing else []
            is_partial = not lists[method] and bool(reader.taken) and not isinstance(problem, Unreachable)
            if is_partial:
                lists[method] = reader.taken
            if isinstance(problem, Unreachable):
                unread.note_silence(method)
                why = f"no answer within {seconds:g} s" if isinstance(problem, ServerTimeout) else problem.message
                left_out[method] = [f"not read: {describe_briefly(why)}; the hub asks again later"]
                continue
            if not is_missing:
                where = f" after {len(reader.taken)} entries" if is_partial else ""
                left_out[method] = [f"not read{where}: {describe_briefly(problem.message)}"]
        unread.note_answer(method)
    shown, sentences = _bounded_introduction(connection)
    left_out["initialize"] = sentences
    left_out = {method: found for method, found in left_out.items() if found}
    return Snapshot(mount, **shown, via=tuple(dict.fromkeys(via)), lists=lists, left_out=left_out)


def _bounded_introduction(connection: Connection) -> tuple[Json, list[str]]:
    """Return the upstream's introduction without parts that are too large, and a sentence for each of those."""
    shown: Json = {"info": connection.info, "instructions": None, "capabilities": connection.capabilities}
    left_out = []
    for name, limit in (("info", MAX_INFO_BYTES), ("capabilities", MAX_CAPABILITIES_BYTES)):
        size = encoded_size(shown[name])
        if size is None or size > limit:
            shown[name] = {}
            left_out.append(f"not served: its {name} cannot be written as JSON of at most {limit} bytes")
    words = connection.instructions
    if isinstance(words, str) and (len(words) > MAX_INSTRUCTIONS_CHARACTERS or encoded_size(words) is None):
        left_out.append(
            f"not served: its instructions are not a string of at most {MAX_INSTRUCTIONS_CHARACTERS} characters"
        )
    else:
        shown["instructions"] = words
    return shown | {"revision": connection.revision}, left_out


def _notification_of(method: str) -> str:
    """Return the notification that announces a change of a list."""
    return f"notifications/{method.partition('/')[0]}/list_changed"


def mounts_in(meta: Any) -> list[str]:
    """Return the mounts in a `_meta`."""
    found = meta.get(VIA) if isinstance(meta, Mapping) else None
    return [one for one in found if isinstance(one, str)][: 2 * MAX_MOUNTS_IN_ROW] if isinstance(found, list) else []


def with_first_sight(fresh: Snapshot, before: Snapshot | None, now: float) -> Snapshot:
    """Return a snapshot that says when each resource and template was first seen; new ones are first seen `now`.

    Those that are no longer listed stay known, up to MAX_REMEMBERED_URIS together with the listed ones: a server that
    was restarted keeps its place before those that came later.
    """
    known = dict(before.first_seen) if before is not None else {}
    # An earlier version of the hub did not record it: these were there before all others.
    earlier = set() if before is None or known else set(_listed_uris(before))
    seen = {uri: known.pop(uri, 0.0 if uri in earlier else now) for uri in _listed_uris(fresh)}
    room = max(0, MAX_REMEMBERED_URIS - len(seen))
    return replace(fresh, first_seen=seen | dict(list(known.items())[:room]))


def _listed_uris(snapshot: Snapshot) -> Iterator[str]:
    """Yield the URIs and templates that a snapshot lists."""
    for kind, method, _ in LISTS:
        entries = snapshot.lists.get(method, ()) if kind in ("resource", "template") else ()
        for entry in entries:
            uri = entry.get(KEYS[kind])
            if isinstance(uri, str) and check_name(kind, KEYS[kind], uri) is None:
                yield uri


def store_snapshot(store: Store, name: str, snapshot: Snapshot) -> bool:
    """Store a snapshot; return whether it differs from the last one."""
    cid, full = store.blobs.put(snapshot.to_bytes()), f"{UPSTREAMS}{name}@{snapshot.mount}"
    if store.names.get(full) == cid:
        return False
    store.names.move({full: cid}, AUTHOR, f"{name} reported its lists")
    return True


def stored_cids(store: Store) -> dict[str, tuple[str, ...]]:
    """Return the CIDs of all stored snapshots, by server."""
    found: dict[str, tuple[str, ...]] = {}
    for full, cid in store.names.all(UPSTREAMS).items():
        server = full.removeprefix(UPSTREAMS).partition("@")[0]
        found[server] = (*found.get(server, ()), cid)
    return found


def load_snapshot(store: Store, name: str, mount: str) -> Snapshot | None:
    """Return the last snapshot of a mount, or None."""
    cid = store.names.get(f"{UPSTREAMS}{name}@{mount}")
    try:
        fields = orjson.loads(store.blobs.get(cid)) if cid else None
    except (ContentError, orjson.JSONDecodeError):
        return None
    return None if fields is None else Snapshot(**{**fields, "via": tuple(fields["via"])})


def _descriptor(kind: Kind, entry: Json) -> Descriptor | Problem:
    key = KEYS[kind]
    name: Any = entry.get(key)
    fault = check_name(kind, key, name)
    if fault is not None:
        return Problem(kind, f"not served: {fault}")
    fault = next(_faults(kind, entry), None) or check_entry(entry)
    if fault is not None:
        return Problem(name, f"not served: {fault}")
    wire = {field: value for field, value in entry.items() if value is not None}
    if kind == "event":
        return Descriptor(
            kind, name, bridged(wire), {"source": {"upstream": "push" if is_pushed(wire) else "poll"}}, "upstream"
        )
    return Descriptor(kind, name, wire, target_of(kind, name), "upstream")


def _faults(kind: Kind, entry: Json) -> Iterator[str]:
    for text in TEXT_FIELDS:
        if not isinstance(entry.get(text) or "", str):
            yield f"its {text} is not a string"
    if kind == "tool":
        schema = entry.get("inputSchema")
        if not isinstance(schema, dict) or schema.get("type") != "object":
            yield 'its inputSchema has no "type": "object"'
        if not isinstance(entry.get("outputSchema") or {}, dict):
            yield "its outputSchema is not an object"
        hints = entry.get("annotations") or {}
        if not isinstance(hints, dict) or not isinstance(hints.get("title") or "", str):
            yield "its annotations are not an object, or their title is not a string"
    if kind == "event":
        yield from find_faults(entry)
    arguments = entry.get("arguments") or []
    named = isinstance(arguments, list) and all(isinstance(one, dict) and _is_named(one) for one in arguments)
    if kind == "prompt" and not named:
        yield "its arguments are not a list of objects with names"
    if kind in ("resource", "template") and not isinstance(entry.get("name", ""), str):
        yield "its name is not a string"


def _is_named(argument: Json) -> bool:
    return isinstance(argument.get("name"), str) and isinstance(argument.get("description") or "", str)


def sign_in_tool(server: str) -> Descriptor:
    """Return the tool that asks a caller to sign in, for a mount without lists."""
    wire = {
        "name": SIGN_IN,
        "description": f"Connect your own account at the server behind {server}. Its tools are listed after that.",
        "inputSchema": {"type": "object", "properties": {}, "additionalProperties": False},
    }
    return Descriptor("tool", SIGN_IN, wire, {"method": SIGN_IN, "params": {}})


def target_of(kind: Kind, key: str) -> Json:
    """Return the target for the handler: a method and its parameter."""
    if kind in ("resource", "template"):
        return {"method": "resources/read", "uri": key}
    return {"method": "tools/call" if kind == "tool" else "prompts/get", "name": key}

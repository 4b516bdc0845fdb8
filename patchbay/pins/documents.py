"""The pins of one server: for each entry that it lists, the approved bytes and the bytes that it listed last.

An entry is identified by kind and name. The kind `introduction` stands for the title, description and instructions of
the server itself; its name is empty. A pin has three digests of one descriptor:

    cid      the CID of all its fields as JSON with sorted keys: it changes exactly when a byte of them changes
    body     the CID of the same without the name: it shows that a tool only has another name
    digest   SHA-256 over canonical JSON of name, description, inputSchema and outputSchema, for tools (SEP-1766)

The stored form is strict JSON of this version; other contents raise PinsUnreadable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import orjson

from patchbay.cid import cid_of, is_cid
from patchbay.client.contracts.contract import compute_tool_digest
from patchbay.errors import ContentError, ParseError
from patchbay.jsonrpc import parse

Changes = Literal["hold", "tell", "follow"]
"""What happens with a changed entry: withdrawn until it is approved, served and reported, or served."""

PinnedKind = Literal["tool", "prompt", "template", "event", "introduction"]
"""Resources are data and not pinned; their templates are."""

ItemKey = tuple[PinnedKind, str]
"""The kind and the name of an entry; the URI template of a template."""

Wire = Mapping[str, Any]

CHANGES: tuple[Changes, ...] = get_args(Changes)
KINDS: tuple[PinnedKind, ...] = get_args(PinnedKind)
INTRODUCTION: ItemKey = ("introduction", "")
NAME_FIELDS: Mapping[PinnedKind, str] = {"tool": "name", "prompt": "name", "template": "uriTemplate", "event": "name"}
VERSION = 1
DIGEST_PREFIX = "sha256:"
DIGEST_CHARACTERS = 64


class PinsUnreadable(ContentError):
    """A document that is not a document of pins; the message says which part is wrong and what was expected."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The digests of one descriptor. `digest` is empty for kinds other than tools."""

    cid: str
    body: str
    digest: str = ""


@dataclass(frozen=True, slots=True)
class PinnedItem:
    """One entry. `approved` is None for a new one, `seen` is None while the server does not list it."""

    approved: Pin | None
    seen: Pin | None

    @property
    def is_waiting(self) -> bool:
        """Whether the server lists bytes that are not approved."""
        return self.seen is not None and (self.approved is None or self.approved.cid != self.seen.cid)


@dataclass(frozen=True, slots=True)
class PinDocument:
    """The pins of one server.

    `changes` is the mount's setting at the last look. `sources` are the parts of the server whose entries are pinned
    already: `""` for a mounted server, the ids of the servers of a room. `ready` maps entries to CIDs that are approved
    before the server lists them.
    """

    changes: Changes = "tell"
    sources: frozenset[str] = frozenset()
    items: Mapping[ItemKey, PinnedItem] = field(default_factory=dict)
    ready: Mapping[ItemKey, frozenset[str]] = field(default_factory=dict)

    @property
    def waiting(self) -> dict[ItemKey, PinnedItem]:
        """The entries with bytes that are not approved, in the order of the document."""
        return {key: item for key, item in self.items.items() if item.is_waiting}

    def approve(self, keys: Iterable[ItemKey]) -> PinDocument:
        """Return the document with the present bytes of these entries approved."""
        wanted, items = set(keys), dict(self.items)
        for key in wanted:
            items[key] = PinnedItem(items[key].seen, items[key].seen)
        ready = {key: cids for key, cids in self.ready.items() if key not in wanted}
        return replace(self, items=items, ready=ready)

    def to_bytes(self) -> bytes:
        """Return the stored form. `seen` is left out where it equals `approved`."""
        items = []
        for (kind, name), item in self.items.items():
            row: dict[str, Any] = {"kind": kind, "name": name, "approved": _encode_pin(item.approved)}
            items.append(row if item.seen == item.approved else row | {"seen": _encode_pin(item.seen)})
        ready = [
            {"kind": kind, "name": name, "cid": cid}
            for (kind, name), cids in sorted(self.ready.items())
            for cid in sorted(cids)
        ]
        return orjson.dumps(
            {
                "version": VERSION,
                "changes": self.changes,
                "sources": sorted(self.sources),
                "items": items,
                "ready": ready,
            }
        )


def encode_wire(wire: Wire) -> bytes:
    """Return the bytes of a descriptor that its pin and its blob are made of."""
    return orjson.dumps(wire, option=orjson.OPT_SORT_KEYS)


def make_pin(kind: PinnedKind, wire: Wire) -> Pin:
    """Return the pin of a descriptor. Raises ContractError for a tool without a canonical form."""
    name = NAME_FIELDS.get(kind)
    body = {key: value for key, value in wire.items() if key != name}
    digest = DIGEST_PREFIX + compute_tool_digest(wire) if kind == "tool" else ""
    return Pin(cid_of(encode_wire(wire)), cid_of(encode_wire(body)), digest)


def parse_document(data: bytes) -> PinDocument:
    """Return the document with this stored form. Raises PinsUnreadable."""
    try:
        value = parse(data)
    except ParseError as problem:
        raise PinsUnreadable(f"expected JSON; {problem.message}") from problem
    fields = checked_object(value, "the document", ("version", "changes", "sources", "items", "ready"))
    if fields["version"] != VERSION:
        raise PinsUnreadable(f"expected version {VERSION}; this is {fields['version']!r:.40}")
    if fields["changes"] not in CHANGES:
        raise PinsUnreadable(f"changes: expected one of {', '.join(CHANGES)}; this is {fields['changes']!r:.40}")
    sources = fields["sources"]
    if not isinstance(sources, list) or not all(isinstance(one, str) for one in sources):
        raise PinsUnreadable("sources: expected a list of strings")
    items: dict[ItemKey, PinnedItem] = {}
    for number, row in enumerate(checked_list(fields["items"], "items")):
        place = f"items[{number}]"
        row = checked_object(row, place, ("kind", "name", "approved"), ("seen",))
        approved = _parse_pin(row["approved"], f"{place}.approved")
        seen = _parse_pin(row["seen"], f"{place}.seen") if "seen" in row else approved
        key = parse_key(row, place)
        if key in items:
            raise PinsUnreadable(f"{place}: expected each entry once")
        items[key] = PinnedItem(approved, seen)
    ready: dict[ItemKey, frozenset[str]] = {}
    for number, row in enumerate(checked_list(fields["ready"], "ready")):
        row = checked_object(row, f"ready[{number}]", ("kind", "name", "cid"))
        key = parse_key(row, f"ready[{number}]")
        ready[key] = ready.get(key, frozenset()) | {parse_cid(row["cid"], f"ready[{number}].cid")}
    return PinDocument(fields["changes"], frozenset(sources), items, ready)


def parse_key(row: Mapping[str, Any], place: str) -> ItemKey:
    """Return the kind and the name of a row. Raises PinsUnreadable."""
    kind, name = row["kind"], row["name"]
    if kind not in KINDS:
        raise PinsUnreadable(f"{place}.kind: expected one of {', '.join(KINDS)}; this is {kind!r:.40}")
    if not isinstance(name, str) or (name == "") != (kind == "introduction"):
        raise PinsUnreadable(f"{place}.name: expected a name, and an empty text for the introduction")
    return kind, name


def parse_cid(value: Any, place: str) -> str:
    """Return a CID of the usual spelling. Raises PinsUnreadable."""
    if not isinstance(value, str) or not value.startswith("bafkrei") or not is_cid(value):
        raise PinsUnreadable(f"{place}: expected a CID such as bafkrei...; this is {value!r:.80}")
    return value


def parse_digest(value: Any, place: str) -> str:
    """Return a digest as `sha256:` and 64 hexadecimal digits. Raises PinsUnreadable."""
    digits = value.removeprefix(DIGEST_PREFIX) if isinstance(value, str) else ""
    if len(digits) != DIGEST_CHARACTERS or not set(digits) <= set("0123456789abcdef"):
        raise PinsUnreadable(f"{place}: expected sha256: and 64 hexadecimal digits; this is {value!r:.80}")
    return DIGEST_PREFIX + digits


def describe_key(key: ItemKey) -> str:
    """Return the words for an entry in sentences: `tool echo`, `introduction`."""
    return f"{key[0]} {key[1]}".strip()


def _encode_pin(pin: Pin | None) -> dict[str, str] | None:
    if pin is None:
        return None
    return {"cid": pin.cid, "body": pin.body} | ({"digest": pin.digest} if pin.digest else {})


def _parse_pin(value: Any, place: str) -> Pin | None:
    if value is None:
        return None
    row = checked_object(value, place, ("cid", "body"), ("digest",))
    digest = parse_digest(row["digest"], f"{place}.digest") if "digest" in row else ""
    return Pin(parse_cid(row["cid"], f"{place}.cid"), parse_cid(row["body"], f"{place}.body"), digest)


def checked_list(value: Any, place: str) -> list[Any]:
    """Return a list. Raises PinsUnreadable for another value."""
    if not isinstance(value, list):
        raise PinsUnreadable(f"{place}: expected a list")
    return value


def checked_object(value: Any, place: str, required: Iterable[str], optional: Iterable[str] = ()) -> Mapping[str, Any]:
    """Return an object with exactly these fields. Raises PinsUnreadable."""
    wanted = (*required, *optional)
    if not isinstance(value, dict) or not set(required) <= set(value) or not set(value) <= set(wanted):
        raise PinsUnreadable(f"{place}: expected an object with the fields {', '.join(wanted)}")
    return value

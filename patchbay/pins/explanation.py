"""Explain a change of one entry: what it means for calls, which fields differ, what people do not see.

The values are plain data for a page and for a terminal. Graded sentences come from the comparison of contracts: a new
required argument is breaking, an added optional one is not, a changed description is for review.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.drift import ChangeKind, detect_schema_changes
from patchbay.errors import ContentError
from patchbay.pins.documents import ItemKey, Pin, PinDocument, PinnedItem, Wire, describe_key
from patchbay.pins.model_instructions import Finding, find_model_instructions, iterate_texts
from patchbay.store import Blobs
from patchbay.views.hidden_characters import HIDDEN

FIELDS: tuple[tuple[str, str], ...] = (
    ("name", "Name"),
    ("uriTemplate", "URI template"),
    ("title", "Title"),
    ("description", "Description"),
    ("instructions", "Instructions"),
    ("inputSchema", "Input schema"),
    ("outputSchema", "Output schema"),
    ("arguments", "Arguments"),
    ("annotations", "Annotations"),
    ("icons", "Icons"),
    ("mimeType", "Media type"),
    ("execution", "Execution"),
    ("_meta", "Metadata"),
)
"""Fields of descriptors in the order of the page, with their labels; other fields follow under their own name."""

GRADED_FIELDS: Mapping[str, frozenset[str]] = {
    "tool": frozenset({"name", "title", "description", "inputSchema", "outputSchema", "annotations", "execution"}),
    "prompt": frozenset({"name", "title", "description", "arguments"}),
}
"""The fields whose changes the comparison of contracts grades."""

MAX_HIDDEN = 50
"""Maximum number of places with hidden characters that one explanation has."""


@dataclass(frozen=True, slots=True)
class Part:
    """One field that differs: a text or another JSON value before and after; None for an absent field."""

    label: str
    old: Any
    new: Any


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a change means: how grave it is, and a sentence."""

    grade: ChangeKind
    sentence: str


@dataclass(frozen=True, slots=True)
class HiddenCharacters:
    """The hidden characters of one text that the approved text does not have, as code points."""

    place: str
    code_points: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """One change. `same_as` names entries with the same definition; `problem` says what cannot be read."""

    key: ItemKey
    item: PinnedItem
    meanings: tuple[Meaning, ...]
    parts: tuple[Part, ...]
    hidden: tuple[HiddenCharacters, ...]
    instructions: tuple[Finding, ...]
    same_as: tuple[str, ...]
    problem: str = ""


def explain(blobs: Blobs, document: PinDocument, key: ItemKey) -> Explanation:
    """Explain how the listed bytes of an entry differ from the approved ones. KeyError for an unknown entry."""
    item = document.items[key]
    old, problem = _read(blobs, item.approved)
    new, fault = _read(blobs, item.seen)
    before, after = old or {}, new or {}
    return Explanation(
        key,
        item,
        tuple(describe_change(key, old, new)),
        tuple(_parts(before, after)),
        tuple(find_hidden(before, after)),
        tuple(find_model_instructions(before, after)),
        tuple(_same_definitions(document, key)),
        problem or fault,
    )


def describe_change(key: ItemKey, old: Wire | None, new: Wire | None) -> Iterator[Meaning]:
    """Yield what a change from the old descriptor to the new one means; None is an absent descriptor."""
    kind = key[0]
    if new is None:
        yield Meaning("breaking", "Is no longer listed")
        return
    if old is None:
        yield Meaning("review", f"New: the server did not list this {kind} before")
        return
    graded = GRADED_FIELDS.get(kind, frozenset())
    if graded:
        try:
            changes = detect_schema_changes([_as_tool(kind, old)], [_as_tool(kind, new)])
        except ContractError as problem:
            yield Meaning("review", f"Cannot be compared: {problem.message}")
            changes = []
        prefix = f"Tool '{key[1]}': "
        for change in changes:
            sentence = change.sentence.removeprefix(prefix)
            yield Meaning(change.kind, sentence.replace("parameter", "argument").replace("Parameter", "Argument"))
    labels = dict(FIELDS)
    for name in sorted({*old, *new} - graded):
        if old.get(name) != new.get(name):
            verb = "added" if old.get(name) is None else "removed" if new.get(name) is None else "changed"
            yield Meaning("review", f"{labels.get(name, name)} {verb}")


def find_hidden(old: Wire, new: Wire) -> Iterator[HiddenCharacters]:
    """Yield the places of `new` with hidden characters that the same place of `old` does not have."""
    known = dict(iterate_texts(old))
    count = 0
    for place, text in iterate_texts(new):
        had = set(_hidden_of(known.get(place, "")))
        fresh = dict.fromkeys(one for one in _hidden_of(text) if one not in had)
        if fresh and count < MAX_HIDDEN:
            count += 1
            yield HiddenCharacters(place, tuple(f"U+{ord(one):04X}" for one in fresh))


def _hidden_of(text: str) -> list[str]:
    return [match[1] for match in HIDDEN.finditer(text) if match[1]]


def _as_tool(kind: str, wire: Wire) -> dict[str, Any]:
    """Return a tool, or a prompt with its arguments as an input schema, for the comparison of contracts."""
    if kind == "tool":
        return dict(wire)
    arguments = wire.get("arguments") or []
    schema = {
        "type": "object",
        "properties": {
            one["name"]: {key: one[key] for key in ("title", "description") if one.get(key)} | {"type": "string"}
            for one in arguments
        },
        "required": [one["name"] for one in arguments if one.get("required")],
    }
    shown = {key: wire[key] for key in ("name", "title", "description") if wire.get(key) is not None}
    return shown | {"inputSchema": schema}


def _parts(old: Wire, new: Wire) -> Iterator[Part]:
    labels = dict(FIELDS)
    for name in [*labels, *sorted({*old, *new} - labels.keys())]:
        if old.get(name) != new.get(name):
            yield Part(labels.get(name, name), old.get(name), new.get(name))


def _same_definitions(document: PinDocument, key: ItemKey) -> Iterator[str]:
    """Yield the other entries of the kind whose approved definition is the one that this entry has now."""
    seen = document.items[key].seen
    for other, item in document.items.items():
        same = seen is not None and item.approved is not None and item.approved.body == seen.body
        if same and other != key and other[0] == key[0]:
            yield other[1]


def _read(blobs: Blobs, pin: Pin | None) -> tuple[Wire | None, str]:
    """Return the descriptor of a pin, and a sentence when it cannot be read."""
    if pin is None:
        return None, ""
    try:
        found = orjson.loads(blobs.get(pin.cid))
    except (ContentError, orjson.JSONDecodeError) as problem:
        return None, f"the content {pin.cid} cannot be read: {problem}"
    return (found, "") if isinstance(found, dict) else (None, f"the content {pin.cid} is not an object")


def summarize(explanation: Explanation) -> str:
    """Return a change as one sentence for a list."""
    graver = [one.sentence for one in explanation.meanings[:3]]
    more = len(explanation.meanings) - len(graver)
    words = "; ".join(graver) + (f"; and {more} more" if more > 0 else "")
    return f"{describe_key(explanation.key)}: {words or 'the same fields in other bytes'}"

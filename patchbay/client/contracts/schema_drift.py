"""What changed between two JSON Schemas, as sentences, each with the effect on the values that are allowed.

    narrower   something that was allowed no longer is
    wider      something new is allowed
    replaced   both
    changed    it cannot be told
    lost       something that was there for the other side is gone
    text       words for readers, model or person
    label      words that are only shown

What an effect means (breaking or not) depends on who makes the values: see `drift.py`.
References are followed, circles are met once, and the work is bounded. Sources: JSON Schema 2020-12; JN-45, JN-C2.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal

from patchbay.client.contracts.canonical_json import canonical_json
from patchbay.client.contracts.schema_types import (
    TYPES,
    choices,
    parts_of,
    properties_of,
    required_of,
    resolved,
    types_of,
)

Effect = Literal["narrower", "wider", "replaced", "changed", "lost", "text", "label"]

MAX_COMPARED_SCHEMAS = 2_000
MAX_COMPARED_DEPTH = 100
"""How many pairs of schemas are compared, and how deep, before the rest is called too large."""

_NOTHING: dict[str, Any] = {}

_ALIKE = 0.6
"""How alike two names must be (0 to 1) to be one name before and after."""

_LOWER = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties", "minContains")
_UPPER = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties", "maxContains")
_LIMITS = (
    "pattern",
    "multipleOf",
    "uniqueItems",
    "propertyNames",
    "patternProperties",
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "prefixItems",
    "contains",
    "not",
    "if",
    "then",
    "else",
    "dependentRequired",
    "dependentSchemas",
    "dependencies",
)
_LABELS = ("title", "examples", "deprecated", "$comment")
_ELSEWHERE = frozenset(
    {*_LOWER, *_UPPER, *_LIMITS, *_LABELS, "type", "enum", "const", "anyOf", "oneOf", "allOf", "properties", "required"}
    | {"items", "description", "default", "$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "nullable"}
)
_WORDS = frozenset({*_LABELS, "description", "default"})


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One difference: the place as a JSON pointer inside the schema, the effect, and a sentence.

    `parameter` is the top-level property it is about, when a whole one was added, removed or renamed.
    """

    pointer: str
    effect: Effect
    sentence: str
    parameter: str = ""
    required: bool = False


@dataclass(slots=True)
class Comparison:
    """One comparison of an old schema with a new one. `noun` is what a property is called: parameter, output field."""

    old: Any
    new: Any
    noun: str
    left: int = MAX_COMPARED_SCHEMAS
    found: list[SchemaDifference] = field(default_factory=list)
    equal: set[tuple[int, int]] = field(default_factory=set)

    def run(self) -> list[SchemaDifference]:
        """Every difference, in the order of the schema."""
        if not _same(self.old, self.new):
            self._schemas(self.old, self.new, "", "", frozenset())
        if self.left <= 0:
            self._say("", "changed", f"The schema of the {self.noun}s is too large to be compared whole")
        return self.found

    def _say(self, pointer: str, effect: Effect, sentence: str, parameter: str = "", required: bool = False) -> None:
        self.found.append(SchemaDifference(pointer, effect, sentence, parameter, required))

    def _schemas(self, old: Any, new: Any, name: str, pointer: str, above: frozenset[tuple[int, int]]) -> None:
        # A pair is known by its two places in the documents: met again on the way down it is a circle, and one that
        # was found equal is not looked at again, however many ways lead to it.
        pair = (id(old), id(new))
        if pair in above or pair in self.equal:
            return
        self.left = 0 if len(above) >= MAX_COMPARED_DEPTH else self.left - 1
        if self.left <= 0:
            return
        known = len(self.found)
        self._parts(old, new, name, pointer, above | {pair})
        if len(self.found) == known:
            self.equal.add(pair)

    def _parts(self, old: Any, new: Any, name: str, pointer: str, above: frozenset[tuple[int, int]]) -> None:
        before, after = _core(old, self.old), _core(new, self.new)
        what = f"{self.noun} '{name}'" if name else f"the {self.noun}s"
        self._types(old, new, before, after, what, pointer)
        self._choices(before, after, what, pointer)
        self._alternatives(before, after, what, pointer)
        self._inside_alternatives(before, after, name, pointer, above)
        self._bounds(before, after, what, pointer)
        self._limits(before, after, what, pointer)
        self._words(before, after, what, pointer)
        self._properties(before, after, name, pointer, above)
        if "items" in before or "items" in after:
            inner = f"{name}[]" if name else "[]"
            self._schemas(before.get("items", _NOTHING), after.get("items", _NOTHING), inner, f"{pointer}/items", above)

    def _types(
        self, old: Any, new: Any, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str
    ) -> None:
        if choices(before) is not None and choices(after) is not None:
            return
        had, has = types_of(old, self.old), types_of(new, self.new)
        if had != has:
            effect: Effect = "replaced" if had - has and has - had else "narrower" if had - has else "wider"
            self._say(
                f"{pointer}/type", effect, f"Type of {what} changed from {_type_words(had)} to {_type_words(has)}"
            )

    def _choices(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        had, has = choices(before), choices(after)
        place = f"{pointer}/enum"
        if had is None and has is not None:
            self._say(place, "narrower", f"{_first(what)} now accepts only {_values(has)}")
        elif had is not None and has is None:
            self._say(place, "wider", f"{_first(what)} is no longer limited to {_values(had)}")
        elif had is not None and has is not None:
            old, new = {canonical_json(one): one for one in had}, {canonical_json(one): one for one in has}
            gone = [old[key] for key in old if key not in new]
            added = [new[key] for key in new if key not in old]
            if gone:
                self._say(place, "narrower", f"{_first(what)} no longer accepts {_values(gone)}")
            if added:
                self._say(place, "wider", f"{_first(what)} now also accepts {_values(added)}")

    def _alternatives(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        for word in ("anyOf", "oneOf", "allOf"):
            old = {canonical_json(_stripped(part)) for part in parts_of(before, word)}
            new = {canonical_json(_stripped(part)) for part in parts_of(after, word)}
            if old == new:
                continue
            gone, added = bool(old - new), bool(new - old)
            effect: Effect = "changed"
            if gone != added and word != "allOf" and old and new:
                effect = "narrower" if gone else "wider"
            self._say(f"{pointer}/{word}", effect, f"The alternatives ({word}) of {what} changed")

    def _inside_alternatives(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        name: str,
        pointer: str,
        above: frozenset[tuple[int, int]],
    ) -> None:
        """An alternative that reads the same may refer to something that does not."""
        for word in ("anyOf", "oneOf"):
            new = {canonical_json(_stripped(part)): part for part in parts_of(after, word)}
            for number, part in enumerate(parts_of(before, word)):
                same = new.get(canonical_json(_stripped(part)))
                if same is not None:
                    self._schemas(part, same, name, f"{pointer}/{word}/{number}", above)

    def _bounds(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        for word in (*_LOWER, *_UPPER):
            had, has = before.get(word), after.get(word)
            if _same(had, has):
                continue
            effect: Effect = "narrower" if has is not None else "wider"
            if isinstance(had, int | float) and isinstance(has, int | float):
                effect = "narrower" if (has > had) == (word in _LOWER) else "wider"
            elif had is not None and has is not None:
                effect = "changed"
            self._say(f"{pointer}/{word}", effect, f"{word} of {what} changed from {_value(had)} to {_value(has)}")

    def _limits(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        for word in (*_LIMITS, *sorted((before.keys() | after.keys()) - _ELSEWHERE)):
            had, has = _said(before, word), _said(after, word)
            if not _same(had, has):
                effect: Effect = "narrower" if had is None else "wider" if has is None else "changed"
                if word not in _LIMITS:
                    effect = "changed"
                self._say(f"{pointer}/{word}", effect, f"{word} of {what} changed from {_value(had)} to {_value(has)}")

    def _words(self, before: Mapping[str, Any], after: Mapping[str, Any], what: str, pointer: str) -> None:
        if not _same(before.get("default"), after.get("default")) or ("default" in before) != ("default" in after):
            said = [_value(one["default"]) if "default" in one else "none" for one in (before, after)]
            self._say(f"{pointer}/default", "changed", f"Default of {what} changed from {said[0]} to {said[1]}")
        had, has = before.get("description"), after.get("description")
        if had != has:
            self._say(f"{pointer}/description", "text", f"Description of {what} changed{hidden(had, has)}")
        for word in _LABELS:
            if not _same(before.get(word), after.get(word)):
                self._say(f"{pointer}/{word}", "label", f"{_first(word)} of {what} changed")

    def _properties(
        self,
        before: Mapping[str, Any],
        after: Mapping[str, Any],
        name: str,
        pointer: str,
        above: frozenset[tuple[int, int]],
    ) -> None:
        old, new = properties_of(before, self.old), properties_of(after, self.new)
        needed, needs = set(required_of(before, self.old)), set(required_of(after, self.new))
        gone = {key: old[key] for key in old if key not in new}
        added = {key: new[key] for key in new if key not in old}
        names = self._renames(gone, added, needed, needs)
        dot = f"{name}." if name else ""
        for key in gone:
            self._gone(key, names.get(key), key in needed, dot, pointer)
        for key in added:
            if key not in names.values():
                kind = "required" if key in needs else "optional"
                effect: Effect = "narrower" if key in needs else "wider"
                self._say(
                    f"{pointer}/properties/{key}",
                    effect,
                    f"New {kind} {self.noun} '{dot}{key}' added",
                    "" if name else key,
                    key in needs,
                )
        for key in old:
            if key in new:
                self._needed(key, key in needed, key in needs, dot, pointer)
                self._schemas(old[key], new[key], dot + key, f"{pointer}/properties/{key}", above)
        for key in sorted((needs - needed) - new.keys()):
            self._say(f"{pointer}/required", "narrower", f"{_first(self.noun)} '{dot}{key}' is now required")
        for key in sorted((needed - needs) - old.keys()):
            self._say(f"{pointer}/required", "wider", f"{_first(self.noun)} '{dot}{key}' is no longer required")

    def _gone(self, key: str, renamed: str | None, needed: bool, dot: str, pointer: str) -> None:
        kind = "Required" if needed else "Optional"
        end = f"renamed to '{dot}{renamed}'" if renamed else "removed"
        sentence = f"{kind} {self.noun} '{dot}{key}' {end}"
        self._say(f"{pointer}/properties/{key}", "lost", sentence, "" if dot else key, needed)

    def _needed(self, key: str, needed: bool, needs: bool, dot: str, pointer: str) -> None:
        if needed != needs:
            effect: Effect = "narrower" if needs else "wider"
            end = "is now required" if needs else "is no longer required"
            self._say(f"{pointer}/required", effect, f"{_first(self.noun)} '{dot}{key}' {end}")

    def _renames(
        self, gone: Mapping[str, Any], added: Mapping[str, Any], needed: set[str], needs: set[str]
    ) -> dict[str, str]:
        """Old name to new name, for properties of one shape that look like the same one."""
        shape = {
            **{(0, key): (_shape(one, self.old), key in needed) for key, one in gone.items()},
            **{(1, key): (_shape(one, self.new), key in needs) for key, one in added.items()},
        }
        found = [
            (_likeness(old, gone[old], new, added[new], list(shape.values()).count(shape[0, old]) == 2), old, new)
            for old in gone
            for new in added
            if shape[0, old] == shape[1, new]
        ]
        names: dict[str, str] = {}
        for score, old, new in sorted(found, key=lambda row: -row[0]):
            if score >= _ALIKE and old not in names and new not in names.values():
                names[old] = new
        return names


def _likeness(old: str, before: Any, new: str, after: Any, only: bool) -> float:
    """How surely two properties of one shape are the same one: by name, by description, or as the only pair."""
    words = [one.get("description") if isinstance(one, dict) else None for one in (before, after)]
    same_words = 2.0 if words[0] and words[0] == words[1] else 0.0
    return name_similarity(old, new) + same_words + (_ALIKE if only else 0.0)


def name_similarity(old: str, new: str) -> float:
    """How alike two names are, 0 to 1."""
    return SequenceMatcher(None, old.lower(), new.lower()).ratio()


def hidden(before: Any, after: Any) -> str:
    """A warning, when a new text has characters that nobody sees and the old one had not."""
    new, old = (str(text or "") for text in (after, before))
    unseen = [sign for sign in new if unicodedata.category(sign) in ("Cf", "Co", "Cn") and sign not in old]
    return f" and now has invisible characters (U+{ord(unseen[0]):04X})" if unseen else ""


def _core(schema: Any, root: Any) -> dict[str, Any]:
    """The schema without reference, and with "this or null" written as this."""
    found = dict(resolved(schema, root))
    for word in ("anyOf", "oneOf"):
        parts = parts_of(found, word)
        real = [part for part in parts if types_of(part, root) != {"null"}]
        if len(real) == 1:
            rest = {key: value for key, value in found.items() if key != word}
            found = {**resolved(real[0], root), **rest}
    return found


def _stripped(schema: Any) -> Any:
    """A schema without the words that are only read; properties may be called as such words are, so they stay."""
    if not isinstance(schema, dict):
        return schema
    return {key: value for key, value in schema.items() if key not in _WORDS}


def _shape(schema: Any, root: Any) -> bytes:
    found = resolved(schema, root)
    values = choices(found)
    return canonical_json([sorted(types_of(schema, root)), values, sorted(properties_of(found, root))])


def _said(schema: Mapping[str, Any], word: str) -> Any:
    """The value of a keyword, None where it says nothing."""
    value = schema.get(word)
    if word in ("additionalProperties", "unevaluatedProperties", "unevaluatedItems") and value in (True, {}):
        return None
    return None if word == "uniqueItems" and value is False else value


def _same(one: Any, other: Any) -> bool:
    return canonical_json(one) == canonical_json(other)


def _type_words(types: frozenset[str]) -> str:
    if types == TYPES:
        return "any"
    shown = types - {"integer"} if "number" in types else types
    return " or ".join(sorted(shown, key=lambda word: (word == "null", word))) or "nothing"


def _values(values: list[Any]) -> str:
    shown = [_value(value) for value in values[:8]]
    return ", ".join(shown) + (", ..." if len(values) > len(shown) else "")


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = canonical_json(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def _first(text: str) -> str:
    return text[:1].upper() + text[1:]


def changes_between(old: Any, new: Any, noun: str) -> Iterator[SchemaDifference]:
    """Every difference between two schemas. Raises ContractError for numbers or texts JSON cannot say."""
    yield from Comparison(old, new, noun).run()

"""Differences between two JSON Schemas, as sentences, each with its effect on the allowed values.

    narrower   a value that was allowed is not any more
    wider      a new value is allowed
    replaced   both
    changed    the effect cannot be computed
    lost       a property that the other side may use was removed
    text       text for readers: a model or a person
    label      text that is only shown

Whether an effect is breaking depends on the side that makes the values: see `drift.py`. References are followed, each
cycle is visited once, and the work is bounded.

Source: JSON Schema 2020-12.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from typing import Any, Literal

from patchbay.client.contracts.canonical_json import encode_canonical_json
from patchbay.client.contracts.schema_types import (
    ALL_TYPES,
    Schema,
    collect_properties,
    collect_required,
    find_types,
    list_branches,
    list_choices,
    resolve_reference,
)

Ancestors = frozenset[tuple[int, int]]
"""The pairs of schemas above one in the documents, by identity."""

Effect = Literal["narrower", "wider", "replaced", "changed", "lost", "text", "label"]

MAX_COMPARED_SCHEMAS = 2_000
MAX_COMPARED_DEPTH = 100
"""Pairs of schemas that are compared, and their depth; beyond that the schema is called too large."""

MAX_RENAMES = 20_000
"""Pairs of a removed and an added property that are compared in one comparison; beyond that no renames are found."""

_EMPTY_SCHEMA: dict[str, Any] = {}

_MIN_NAME_SIMILARITY = 0.6
"""How alike two names must be (0 to 1) to be one name before and after."""

_LOWER_BOUNDS = ("minLength", "minimum", "exclusiveMinimum", "minItems", "minProperties", "minContains")
_UPPER_BOUNDS = ("maxLength", "maximum", "exclusiveMaximum", "maxItems", "maxProperties", "maxContains")
_LIMIT_KEYWORDS = (
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
_LABEL_KEYWORDS = ("title", "examples", "deprecated", "$comment")
_COMPARED_KEYWORDS = frozenset(
    {*_LOWER_BOUNDS, *_UPPER_BOUNDS, *_LIMIT_KEYWORDS, *_LABEL_KEYWORDS, "type", "enum", "const", "anyOf", "oneOf"}
    | {"allOf", "properties", "required"}
    | {"items", "description", "default", "$ref", "$defs", "definitions", "$schema", "$id", "$anchor", "nullable"}
)
_TEXT_KEYWORDS = frozenset({*_LABEL_KEYWORDS, "description", "default"})


@dataclass(frozen=True, slots=True)
class SchemaDifference:
    """One difference: the place as a JSON pointer inside the schema, the effect, and a sentence.

    `parameter` is the top-level property that was added, removed or renamed as a whole.
    """

    pointer: str
    effect: Effect
    sentence: str
    parameter: str = ""
    required: bool = False


@dataclass(slots=True)
class Comparison:
    """One comparison of an old schema with a new one. `noun` names a property in sentences: parameter, output field."""

    old: Any
    new: Any
    noun: str
    left: int = MAX_COMPARED_SCHEMAS
    renames_left: int = MAX_RENAMES
    found: list[SchemaDifference] = field(default_factory=list)
    equal: set[tuple[int, int]] = field(default_factory=set)

    def run(self) -> list[SchemaDifference]:
        """Find every difference, in the order of the schema."""
        if not _is_equal(self.old, self.new):
            self._compare_pair(self.old, self.new, "", "", frozenset())
        if self.left <= 0:
            self._add("", "changed", f"The schema of the {self.noun}s is too large to compare completely")
        return self.found

    def _add(self, pointer: str, effect: Effect, sentence: str, parameter: str = "", required: bool = False) -> None:
        self.found.append(SchemaDifference(pointer, effect, sentence, parameter, required))

    def _compare_pair(self, old: Any, new: Any, name: str, pointer: str, above: Ancestors) -> None:
        # A pair is identified by its two places in the documents. A pair that contains itself is a cycle; a pair that
        # was found equal is not compared again.
        pair = (id(old), id(new))
        if pair in above or pair in self.equal:
            return
        self.left = 0 if len(above) >= MAX_COMPARED_DEPTH else self.left - 1
        if self.left <= 0:
            return
        known = len(self.found)
        self._compare_keywords(old, new, name, pointer, above | {pair})
        if len(self.found) == known:
            self.equal.add(pair)

    def _compare_keywords(self, old: Any, new: Any, name: str, pointer: str, above: Ancestors) -> None:
        before, after = _resolve_nullable(old, self.old), _resolve_nullable(new, self.new)
        what = f"{self.noun} '{name}'" if name else f"the {self.noun}s"
        self._compare_types(old, new, before, after, what, pointer)
        self._compare_choices(before, after, what, pointer)
        self._compare_alternatives(before, after, what, pointer)
        self._compare_inside_alternatives(before, after, name, pointer, above)
        self._compare_bounds(before, after, what, pointer)
        self._compare_limits(before, after, what, pointer)
        self._compare_texts(before, after, what, pointer)
        self._compare_properties(before, after, name, pointer, above)
        if "items" in before or "items" in after:
            inner = f"{name}[]" if name else "[]"
            self._compare_pair(
                before.get("items", _EMPTY_SCHEMA), after.get("items", _EMPTY_SCHEMA), inner, f"{pointer}/items", above
            )

    def _compare_types(self, old: Any, new: Any, before: Schema, after: Schema, what: str, pointer: str) -> None:
        if list_choices(before) is not None and list_choices(after) is not None:
            return
        had, has = find_types(old, self.old), find_types(new, self.new)
        if had != has:
            effect: Effect = "replaced" if had - has and has - had else "narrower" if had - has else "wider"
            self._add(
                f"{pointer}/type", effect, f"Type of {what} changed from {_format_types(had)} to {_format_types(has)}"
            )

    def _compare_choices(self, before: Schema, after: Schema, what: str, pointer: str) -> None:
        had, has = list_choices(before), list_choices(after)
        place = f"{pointer}/enum"
        if had is None and has is not None:
            self._add(place, "narrower", f"{_capitalize(what)} now accepts only {_format_values(has)}")
        elif had is not None and has is None:
            self._add(place, "wider", f"{_capitalize(what)} is no longer limited to {_format_values(had)}")
        elif had is not None and has is not None:
            old, new = (
                {encode_canonical_json(one): one for one in had},
                {encode_canonical_json(one): one for one in has},
            )
            gone = [old[key] for key in old if key not in new]
            added = [new[key] for key in new if key not in old]
            if gone:
                self._add(place, "narrower", f"{_capitalize(what)} no longer accepts {_format_values(gone)}")
            if added:
                self._add(place, "wider", f"{_capitalize(what)} now also accepts {_format_values(added)}")

    def _compare_alternatives(self, before: Schema, after: Schema, what: str, pointer: str) -> None:
        for word in ("anyOf", "oneOf", "allOf"):
            old = {encode_canonical_json(_strip_texts(part)) for part in list_branches(before, word)}
            new = {encode_canonical_json(_strip_texts(part)) for part in list_branches(after, word)}
            if old == new:
                continue
            gone, added = bool(old - new), bool(new - old)
            effect: Effect = "changed"
            if gone != added and word != "allOf" and old and new:
                effect = "narrower" if gone else "wider"
            self._add(f"{pointer}/{word}", effect, f"The alternatives ({word}) of {what} changed")

    def _compare_inside_alternatives(
        self, before: Schema, after: Schema, name: str, pointer: str, above: Ancestors
    ) -> None:
        """Compare alternatives with equal text, whose references may lead to different schemas."""
        for word in ("anyOf", "oneOf"):
            new = {encode_canonical_json(_strip_texts(part)): part for part in list_branches(after, word)}
            for number, part in enumerate(list_branches(before, word)):
                same = new.get(encode_canonical_json(_strip_texts(part)))
                if same is not None:
                    self._compare_pair(part, same, name, f"{pointer}/{word}/{number}", above)

    def _compare_bounds(self, before: Schema, after: Schema, what: str, pointer: str) -> None:
        for word in (*_LOWER_BOUNDS, *_UPPER_BOUNDS):
            had, has = before.get(word), after.get(word)
            if _is_equal(had, has):
                continue
            effect: Effect = "narrower" if has is not None else "wider"
            if isinstance(had, int | float) and isinstance(has, int | float):
                effect = "narrower" if (has > had) == (word in _LOWER_BOUNDS) else "wider"
            elif had is not None and has is not None:
                effect = "changed"
            self._add_keyword(word, effect, what, pointer, had, has)

    def _compare_limits(self, before: Schema, after: Schema, what: str, pointer: str) -> None:
        for word in (*_LIMIT_KEYWORDS, *sorted((before.keys() | after.keys()) - _COMPARED_KEYWORDS)):
            had, has = _get_keyword(before, word), _get_keyword(after, word)
            if not _is_equal(had, has):
                effect: Effect = "narrower" if had is None else "wider" if has is None else "changed"
                if word not in _LIMIT_KEYWORDS:
                    effect = "changed"
                self._add_keyword(word, effect, what, pointer, had, has)

    def _add_keyword(self, word: str, effect: Effect, what: str, pointer: str, had: Any, has: Any) -> None:
        sentence = f"{word} of {what} changed from {_format_value(had)} to {_format_value(has)}"
        self._add(f"{pointer}/{word}", effect, sentence)

    def _compare_texts(self, before: Schema, after: Schema, what: str, pointer: str) -> None:
        if not _is_equal(before.get("default"), after.get("default")) or ("default" in before) != ("default" in after):
            defaults = [
                "null" if one.get("default", "") is None else _format_value(one.get("default"))
                for one in (before, after)
            ]
            self._add(f"{pointer}/default", "changed", f"Default of {what} changed from {' to '.join(defaults)}")
        had, has = before.get("description"), after.get("description")
        if had != has:
            self._add(
                f"{pointer}/description",
                "text",
                f"Description of {what} changed{warn_of_invisible_characters(had, has)}",
            )
        for word in _LABEL_KEYWORDS:
            if not _is_equal(before.get(word), after.get(word)):
                self._add(f"{pointer}/{word}", "label", f"{_capitalize(word)} of {what} changed")

    def _compare_properties(self, before: Schema, after: Schema, name: str, pointer: str, above: Ancestors) -> None:
        old, new = collect_properties(before, self.old), collect_properties(after, self.new)
        needed, needs = set(collect_required(before, self.old)), set(collect_required(after, self.new))
        gone = {key: old[key] for key in old if key not in new}
        added = {key: new[key] for key in new if key not in old}
        names = self._find_renames(gone, added, needed, needs)
        dot = f"{name}." if name else ""
        for key in gone:
            self._report_removed(key, names.get(key), key in needed, dot, pointer)
        for key in added:
            if key not in names.values():
                kind = "required" if key in needs else "optional"
                effect: Effect = "narrower" if key in needs else "wider"
                self._add(
                    f"{pointer}/properties/{key}",
                    effect,
                    f"New {kind} {self.noun} '{dot}{key}' added",
                    "" if name else key,
                    key in needs,
                )
        for key in old:
            if key in new:
                self._compare_required(key, key in needed, key in needs, dot, pointer)
                self._compare_pair(old[key], new[key], dot + key, f"{pointer}/properties/{key}", above)
        for key in [*sorted(needs - needed - new.keys()), *sorted(needed - needs - old.keys())]:
            self._compare_required(key, key in needed, key in needs, dot, pointer)

    def _report_removed(self, key: str, renamed: str | None, needed: bool, dot: str, pointer: str) -> None:
        kind = "Required" if needed else "Optional"
        end = f"renamed to '{dot}{renamed}'" if renamed else "removed"
        sentence = f"{kind} {self.noun} '{dot}{key}' {end}"
        self._add(f"{pointer}/properties/{key}", "lost", sentence, "" if dot else key, needed)

    def _compare_required(self, key: str, needed: bool, needs: bool, dot: str, pointer: str) -> None:
        if needed != needs:
            effect: Effect = "narrower" if needs else "wider"
            end = "is now required" if needs else "is no longer required"
            self._add(f"{pointer}/required", effect, f"{_capitalize(self.noun)} '{dot}{key}' {end}")

    def _find_renames(
        self, gone: Mapping[str, Any], added: Mapping[str, Any], needed: set[str], needs: set[str]
    ) -> dict[str, str]:
        """Match removed properties with added ones of the same shape, and return old to new name."""
        self.renames_left -= len(gone) * len(added)
        if self.renames_left < 0:
            return {}
        shape = {
            **{(0, key): (_encode_shape(one, self.old), key in needed) for key, one in gone.items()},
            **{(1, key): (_encode_shape(one, self.new), key in needs) for key, one in added.items()},
        }
        found = [
            (
                _score_similarity(old, gone[old], new, added[new], list(shape.values()).count(shape[0, old]) == 2),
                old,
                new,
            )
            for old in gone
            for new in added
            if shape[0, old] == shape[1, new]
        ]
        return match_names(found)


def match_names(scores: Sequence[tuple[float, str, str]]) -> dict[str, str]:
    """Match old with new names by (score, old, new), the best score first, each name once. Low scores do not match."""
    names: dict[str, str] = {}
    for score, old, new in sorted(scores, key=lambda row: -row[0]):
        if score >= _MIN_NAME_SIMILARITY and old not in names and new not in names.values():
            names[old] = new
    return names


def _score_similarity(old: str, before: Any, new: str, after: Any, only: bool) -> float:
    """Score how likely two properties of one shape are the same one: by name, by description, or as the only pair."""
    words = [one.get("description") if isinstance(one, dict) else None for one in (before, after)]
    same_words = 2.0 if words[0] and words[0] == words[1] else 0.0
    return compute_name_similarity(old, new) + same_words + (_MIN_NAME_SIMILARITY if only else 0.0)


def compute_name_similarity(old: str, new: str) -> float:
    """Compute how similar two names are, 0 to 1."""
    return SequenceMatcher(None, old.lower(), new.lower()).ratio()


def warn_of_invisible_characters(before: Any, after: Any) -> str:
    """Return a warning when the new text has invisible characters that the old one had not, else ""."""
    new, old = (str(text or "") for text in (after, before))
    unseen = [sign for sign in new if unicodedata.category(sign) in ("Cf", "Co", "Cn") and sign not in old]
    return f" and now has invisible characters (U+{ord(unseen[0]):04X})" if unseen else ""


def _resolve_nullable(schema: Any, root: Any) -> dict[str, Any]:
    """Resolve a schema's reference, and replace "this or null" by "this"."""
    found = dict(resolve_reference(schema, root))
    for word in ("anyOf", "oneOf"):
        parts = list_branches(found, word)
        real = [part for part in parts if find_types(part, root) != {"null"}]
        if len(real) == 1:
            rest = {key: value for key, value in found.items() if key != word}
            found = {**resolve_reference(real[0], root), **rest}
    return found


def _strip_texts(schema: Any) -> Any:
    """Remove the keywords that hold texts. Property names stay, also those that are spelled like such keywords."""
    if not isinstance(schema, dict):
        return schema
    return {key: value for key, value in schema.items() if key not in _TEXT_KEYWORDS}


def _encode_shape(schema: Any, root: Any) -> bytes:
    found = resolve_reference(schema, root)
    values = list_choices(found)
    return encode_canonical_json([sorted(find_types(schema, root)), values, sorted(collect_properties(found, root))])


def _get_keyword(schema: Mapping[str, Any], word: str) -> Any:
    """Get the value of a keyword, None when it allows everything."""
    value = schema.get(word)
    if word in ("additionalProperties", "unevaluatedProperties", "unevaluatedItems") and value in (True, {}):
        return None
    return None if word == "uniqueItems" and value is False else value


def _is_equal(one: Any, other: Any) -> bool:
    return encode_canonical_json(one) == encode_canonical_json(other)


def _format_types(types: frozenset[str]) -> str:
    if types == ALL_TYPES:
        return "any"
    shown = types - {"integer"} if "number" in types else types
    return " or ".join(sorted(shown, key=lambda word: (word == "null", word))) or "no type"


def _format_values(values: list[Any]) -> str:
    shown = [_format_value(value) for value in values[:8]]
    return ", ".join(shown) + (", ..." if len(values) > len(shown) else "")


def _format_value(value: Any) -> str:
    if value is None:
        return "not set"
    text = encode_canonical_json(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def _capitalize(text: str) -> str:
    return text[:1].upper() + text[1:]


def compare_schemas(old: Any, new: Any, noun: str) -> Iterator[SchemaDifference]:
    """Find every difference between two schemas. Raises ContractError for values that JSON does not have."""
    yield from Comparison(old, new, noun).run()

"""Schemas of an OpenAPI document as standalone JSON Schema: references become `#/$defs/...`, with the schemas they
need.

A schema is rewritten for requests, without what only answers have (`readOnly`), or for answers, without what only
requests have (`writeOnly`). `nullable` of OpenAPI 3.0 becomes a type. `oneOf` becomes `anyOf`, because values of real
APIs fit several branches by accident; a discriminator says which branch a value has to fit.

Only references inside the document are followed; one that leads to nothing describes any value, and is listed in
`lost`.

Sources: OpenAPI 3.0.4, 3.1.1, Schema Object, Discriminator Object; OpenAPI 2.0; JSON Schema 2020-12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from patchbay.client.openapi.polymorphism import describe_branches
from patchbay.client.openapi.property_access import PropertyAccess
from patchbay.client.openapi.references import LostReference, References, get_reference, split_pointer
from patchbay.client.openapi.remote_parts import PARTS

SCHEMA_SECTIONS = ("#/components/schemas/", "#/definitions/", f"#/{PARTS}/")
"""The sections of a document that hold its schemas: OpenAPI 3, Swagger 2, parts of other documents."""

DATA_KEYWORDS = frozenset({"example", "examples", "enum", "default", "const"})
"""Keywords whose values are data, not schemas."""

OMITTED_KEYWORDS = frozenset({"example", "examples", "xml", "externalDocs", "discriminator"})
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_SAME_PLACE = ("allOf", "anyOf", "oneOf", "if", "then", "else", "not")
"""Keywords whose schemas describe the same value."""

MAX_REFERENCE_DEPTH = 24
MAX_INLINED_REFERENCES = 20_000
"""References to other places than named schemas, which are replaced by their targets; later ones are left out."""

MAX_INLINED_CHARACTERS = 16 * 1024 * 1024
"""Characters of the targets of these references as JSON, each time that one is inserted; later ones are left out."""


class Schemas:
    """The schemas of one document, each rewritten once. `left_out` marks properties that are left out: `readOnly` in
    requests, `writeOnly` in answers.
    """

    def __init__(self, document: Mapping[str, Any], references: References, left_out: str) -> None:
        self.lost: dict[str, str] = {}
        """The references that lead to nothing, each with the reason."""
        self._document, self._references = document, references
        self._access = PropertyAccess(references, left_out)
        self._known: dict[str, tuple[Any, frozenset[str]]] = {}
        self._inlined = self._inlined_characters = 0

    def make_standalone(self, schema: Any) -> dict[str, Any]:
        """Rewrite a schema with its own `$defs`."""
        needed: set[str] = set()
        found = self.rewrite(schema, needed)
        whole = found if isinstance(found, dict) else {}
        return whole | self.collect_definitions(needed)

    def rewrite(self, schema: Any, needed: set[str]) -> Any:
        """Rewrite a schema without its `$defs`; the names of the schemas that it needs are added to `needed`."""
        return self._rewrite(schema, needed, 0)

    def collect_left_out(self, schema: dict[str, Any]) -> frozenset[str]:
        """Collect the properties of a schema of the document that are left out."""
        return self._access.collect_left_out(schema)

    def collect_definitions(self, needed: set[str]) -> dict[str, Any]:
        """Collect `{"$defs": {...}}` with these schemas and all that they need; empty without schemas."""
        found: dict[str, Any] = {}
        left = sorted(needed)
        while left:
            name = left.pop()
            if name not in found:
                found[name], more = self._get_definition(name)
                left += sorted(more - found.keys())
        return {"$defs": {_decode_word(name): found[name] for name in sorted(found)}} if found else {}

    def _get_definition(self, name: str) -> tuple[Any, frozenset[str]]:
        if name not in self._known:
            target = next(one for home in SCHEMA_SECTIONS if (one := self._find(home, name)) is not None)
            needed: set[str] = set()
            schema = self._rewrite(target, needed, 0)
            self._known[name] = (schema, frozenset(needed))
        return self._known[name]

    def _find(self, home: str, name: str) -> Any:
        """Return a named schema, which may be a reference itself; None without one."""
        place: Any = self._document
        for word in split_pointer(home.rstrip("/")):
            place = self._references.find(place.get(word)) if isinstance(place, dict) else None
        return place.get(_decode_word(name)) if isinstance(place, dict) else None

    def _rewrite(self, schema: Any, needed: set[str], depth: int, gone: frozenset[str] = frozenset()) -> Any:
        """Rewrite a schema. `gone` are the properties that the schema around it, for the same value, leaves out."""
        if isinstance(schema, list):
            return [self._rewrite(one, needed, depth, gone) for one in schema]
        if not isinstance(schema, dict):
            return schema
        reference = get_reference(schema)
        if reference is not None:
            return self._rewrite_reference(schema, reference, needed, depth, gone)
        gone |= self._access.collect_left_out(schema)
        found: dict[str, Any] = {}
        for key, value in schema.items():
            if key in OMITTED_KEYWORDS:
                continue
            if key in DATA_KEYWORDS:
                found[key] = value
            elif key in _MAPS and isinstance(value, dict):
                hidden = gone if key == "properties" else frozenset()
                kept = {name: one for name, one in value.items() if name not in hidden}
                found[key] = {name: self._rewrite(one, needed, depth) for name, one in kept.items()}
            elif key == "required" and isinstance(value, list):
                required = [name for name in value if not isinstance(name, str) or name not in gone]
                found |= {key: required} if required or not value else {}
            else:
                found[key] = self._rewrite(value, needed, depth, gone if key in _SAME_PLACE else frozenset())
        describe_branches(schema, found, self._references)
        return _modernize(found)

    def _rewrite_reference(
        self, schema: dict[str, Any], reference: str, needed: set[str], depth: int, gone: frozenset[str]
    ) -> Any:
        beside = {key: value for key, value in schema.items() if key in ("description", "default")}
        home = next((home for home in SCHEMA_SECTIONS if reference.startswith(home)), "")
        name = reference.removeprefix(home)
        is_named = home and "/" not in name and self._find(home, name) is not None
        if is_named and not (gone and self._access.requires_any(schema, gone)):
            needed.add(name)
            return _allow_null(schema, {"$ref": f"#/$defs/{name}"}) | beside
        target = self._take_target(reference, depth)
        if not isinstance(target, dict):
            return beside
        inserted = self._rewrite(target, needed, depth + 1, gone)
        return _allow_null(schema, inserted) if isinstance(inserted, dict) else beside

    def _take_target(self, reference: str, depth: int) -> Any:
        """Return the target of a reference that is inserted; None for a lost one, and beyond the limits."""
        self._inlined += 1
        if depth >= MAX_REFERENCE_DEPTH or self._inlined > MAX_INLINED_REFERENCES:
            return None
        if self._inlined_characters > MAX_INLINED_CHARACTERS:
            return None
        try:
            target = self._references.follow({"$ref": reference})
        except LostReference as problem:
            self.lost.setdefault(reference, problem.message)
            return None
        self._inlined_characters += len(json.dumps(target))
        return target


def _decode_word(name: str) -> str:
    """Decode a word of a JSON pointer in a reference."""
    return split_pointer(f"#/{name}")[0]


def _modernize(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert the keywords of OpenAPI 2.0 and 3.0 to JSON Schema 2020-12."""
    plain = dict(schema)
    if plain.get("type") == "file":
        plain |= {"type": "string", "format": "binary"}
    for limit, word in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(plain.get(word), bool):
            bound = plain.pop(limit, None) if plain.pop(word) else None
            plain |= {word: bound} if bound is not None else {}
    if isinstance(plain.get("nullable"), bool):
        is_nullable = plain.pop("nullable")
        return _allow_null({"nullable": is_nullable}, plain)
    return plain


def _allow_null(schema: Mapping[str, Any], rewritten: dict[str, Any]) -> dict[str, Any]:
    """Return a rewritten schema that also allows null, if the original one is `nullable`."""
    if schema.get("nullable") is not True:
        return rewritten
    if not rewritten.keys() & {"$ref", "allOf", "anyOf"}:
        choices = rewritten.get("enum")
        more = {"enum": [*choices, None]} if isinstance(choices, list) and None not in choices else {}
        kinds = {"type": [rewritten["type"], "null"]} if isinstance(rewritten.get("type"), str) else {}
        return rewritten | kinds | more
    about = {key: value for key, value in rewritten.items() if key in ("title", "description", "default")}
    rest = {key: value for key, value in rewritten.items() if key not in about}
    return {**about, "anyOf": [rest, {"type": "null"}]}

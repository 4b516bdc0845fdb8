"""Schemas of an OpenAPI document as standalone JSON Schema: references become `#/$defs/...`, with the schemas they
need.

Only references inside the document are followed; a remote one is left as it is and never fetched. `nullable` of OpenAPI
3.0 becomes a type.

Sources: OpenAPI 3.0.4, 3.1.1, Schema Object; OpenAPI 2.0; JSON Schema 2020-12.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

from patchbay.client.contracts.schema_types import follow_pointer

SCHEMA_SECTIONS = ("#/components/schemas/", "#/definitions/")
"""The sections of a document that hold its schemas: OpenAPI 3, Swagger 2."""

DATA_KEYWORDS = frozenset({"example", "examples", "enum", "default", "const"})
"""Keywords whose values are data, not schemas."""

OMITTED_KEYWORDS = frozenset({"example", "examples", "xml", "externalDocs", "discriminator"})
MAX_REFERENCE_DEPTH = 24
MAX_INLINED_REFERENCES = 20_000
"""References to other places than named schemas, which are replaced by their targets; later ones are left out."""

MAX_INLINED_CHARACTERS = 16 * 1024 * 1024
"""Characters of the targets of these references as JSON, each time that one is inserted; later ones are left out."""


class Schemas:
    """The schemas of one document. Each is rewritten once."""

    def __init__(self, document: Any) -> None:
        self._document = document
        self._known: dict[str, tuple[Any, frozenset[str]]] = {}
        self._inlined = self._inlined_characters = 0

    def make_standalone(self, schema: Any) -> dict[str, Any]:
        """Rewrite a schema with its own `$defs`."""
        needed: set[str] = set()
        found = self._rewrite(schema, needed, 0)
        whole = found if isinstance(found, dict) else {}
        return whole | self.collect_definitions(needed)

    def rewrite(self, schema: Any, needed: set[str]) -> Any:
        """Rewrite a schema without its `$defs`; the names of the schemas that it needs are added to `needed`."""
        return self._rewrite(schema, needed, 0)

    def collect_definitions(self, needed: set[str]) -> dict[str, Any]:
        """Collect `{"$defs": {...}}` with these schemas and all that they need; empty without schemas."""
        found: dict[str, Any] = {}
        left = sorted(needed)
        while left:
            name = left.pop()
            if name not in found:
                found[name], more = self._get_definition(name)
                left += sorted(more - found.keys())
        return {"$defs": {_decode_pointer_word(name): found[name] for name in sorted(found)}} if found else {}

    def _get_definition(self, reference: str) -> tuple[Any, frozenset[str]]:
        if reference not in self._known:
            home = next(home for home in SCHEMA_SECTIONS if self._find(home, reference) is not None)
            needed: set[str] = set()
            schema = self._rewrite(self._find(home, reference), needed, 0)
            self._known[reference] = (schema, frozenset(needed))
        return self._known[reference]

    def _find(self, home: str, name: str) -> Any:
        return follow_pointer(self._document, home + name)

    def _rewrite(self, schema: Any, needed: set[str], depth: int) -> Any:
        if isinstance(schema, list):
            return [self._rewrite(one, needed, depth) for one in schema]
        if not isinstance(schema, dict):
            return schema
        reference = schema.get("$ref")
        if isinstance(reference, str):
            return self._rewrite_reference(schema, reference, needed, depth)
        found = {
            key: value if key in DATA_KEYWORDS else self._rewrite(value, needed, depth)
            for key, value in schema.items()
            if key not in OMITTED_KEYWORDS or not _is_keyword(key, value)
        }
        return _modernize(found)

    def _rewrite_reference(self, schema: dict[str, Any], reference: str, needed: set[str], depth: int) -> Any:
        beside = {key: value for key, value in schema.items() if key in ("description", "default")}
        home = next((home for home in SCHEMA_SECTIONS if reference.startswith(home)), None)
        if (
            home is not None
            and "/" not in reference[len(home) :]
            and follow_pointer(self._document, reference) is not None
        ):
            name = reference[len(home) :]
            needed.add(name)
            return {"$ref": f"#/$defs/{name}", **beside}
        self._inlined += 1
        may_follow = depth < MAX_REFERENCE_DEPTH and self._inlined <= MAX_INLINED_REFERENCES
        may_follow = may_follow and self._inlined_characters <= MAX_INLINED_CHARACTERS
        target = follow_pointer(self._document, reference) if may_follow else None
        if not isinstance(target, dict):
            return beside
        self._inlined_characters += len(json.dumps(target))
        return self._rewrite(target, needed, depth + 1)


def _decode_pointer_word(name: str) -> str:
    """Decode a word of a JSON pointer in a reference."""
    return unquote(name).replace("~1", "/").replace("~0", "~")


def _is_keyword(key: str, value: Any) -> bool:
    """Whether a key is the keyword: a property may also be called `example`, and then has a schema of its own."""
    return not (isinstance(value, dict) and ("type" in value or "$ref" in value) and key != "discriminator")


def _modernize(schema: dict[str, Any]) -> dict[str, Any]:
    """Convert the keywords of OpenAPI 2.0 and 3.0 to JSON Schema 2020-12."""
    plain = dict(schema)
    if plain.get("type") == "file":
        plain |= {"type": "string", "format": "binary"}
    for limit, word in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if isinstance(plain.get(word), bool):
            bound = plain.pop(limit, None) if plain.pop(word) else None
            plain |= {word: bound} if bound is not None else {}
    if isinstance(plain.get("nullable"), bool) and plain.pop("nullable") and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
        if isinstance(plain.get("enum"), list) and None not in plain["enum"]:
            plain["enum"] = [*plain["enum"], None]
    return plain

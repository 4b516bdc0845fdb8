"""Which properties of an object only answers have (`readOnly`), or only requests (`writeOnly`).

The mark stands in the schema of the property, in the schema that it refers to, or in a part of its `allOf`.

Sources: OpenAPI 3.0.4, Schema Object ("should not be sent as part of the request ... if the property is in the required
list, the required will take effect on the response only"); JSON Schema 2020-12 validation, section 9.4.
"""

from __future__ import annotations

from typing import Any

from patchbay.client.openapi.references import References, get_reference

MAX_DEPTH = 32
"""Depth of references and compositions that are read; deeper ones have no mark."""

_NONE: frozenset[str] = frozenset()


class PropertyAccess:
    """The properties with one mark, `readOnly` or `writeOnly`. Each schema of the document is read once."""

    def __init__(self, references: References, mark: str) -> None:
        self._references, self._mark = references, mark
        # By the identity of a schema, with the schema, which therefore exists as long as its entry.
        self._marked: dict[int, tuple[Any, bool]] = {}
        self._left_out: dict[int, tuple[Any, frozenset[str]]] = {}

    def collect_left_out(self, schema: dict[str, Any], depth: int = 0) -> frozenset[str]:
        """Collect the marked properties of a schema of the document, with those of the parts of its `allOf`."""
        if depth > MAX_DEPTH:
            return _NONE
        if id(schema) not in self._left_out:
            self._left_out[id(schema)] = schema, _NONE  # for references in a circle
            properties = schema.get("properties")
            rows = properties.items() if isinstance(properties, dict) else ()
            found = {name for name, one in rows if self._is_marked(one, 0)}
            for part in self._list_parts(schema):
                found |= self.collect_left_out(part, depth + 1)
            self._left_out[id(schema)] = schema, frozenset(found)
        return self._left_out[id(schema)][1]

    def requires_any(self, schema: Any, names: frozenset[str], depth: int = 0) -> bool:
        """Whether a schema, or a part of its `allOf`, requires a property of these names that it does not mark."""
        found = self._references.find(schema)
        if not isinstance(found, dict) or depth > MAX_DEPTH:
            return False
        required = found.get("required")
        own = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
        if own & (names - self.collect_left_out(found)):
            return True
        return any(self.requires_any(part, names, depth + 8) for part in self._list_parts(found))

    def _is_marked(self, schema: Any, depth: int) -> bool:
        if not isinstance(schema, dict) or depth > MAX_DEPTH:
            return False
        if id(schema) not in self._marked:
            self._marked[id(schema)] = schema, False  # for references in a circle
            parts = self._list_parts(schema)
            if get_reference(schema) is not None:
                parts.append(self._references.find(schema))
            is_marked = schema.get(self._mark) is True or any(self._is_marked(one, depth + 1) for one in parts)
            self._marked[id(schema)] = schema, is_marked
        return self._marked[id(schema)][1]

    def _list_parts(self, schema: dict[str, Any]) -> list[Any]:
        parts = schema.get("allOf")
        found = [self._references.find(one) for one in parts] if isinstance(parts, list) else []
        return [one for one in found if isinstance(one, dict)]

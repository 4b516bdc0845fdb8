"""Branches of a schema: `oneOf` becomes `anyOf`, and a discriminator says which branch a value has to fit.

"Exactly one" refuses values that fit two branches by accident, such as 5 for an integer and a number; the API decides
about them. With a discriminator, each branch names the values of that property that belong to it.

Sources: OpenAPI 3.0.4, 3.1.1, Discriminator Object; JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.client.openapi.references import References, get_reference

MAX_DEPTH = 8
"""Depth of the compositions in which the property of a discriminator is searched."""


def describe_branches(schema: Mapping[str, Any], rewritten: dict[str, Any], references: References) -> None:
    """Change the branches of a rewritten schema in place. `schema` is the original one."""
    discriminator = schema.get("discriminator")
    name = discriminator.get("propertyName") if isinstance(discriminator, dict) else None
    if isinstance(name, str):
        mapping = discriminator.get("mapping") if isinstance(discriminator, dict) else None
        for word in ("oneOf", "anyOf"):
            if isinstance(rewritten.get(word), list) and isinstance(schema.get(word), list):
                branches = zip(schema[word], rewritten[word], strict=True)
                rewritten[word] = [
                    _name_values(one, found, name, mapping if isinstance(mapping, dict) else {}, references)
                    for one, found in branches
                ]
    if isinstance(rewritten.get("oneOf"), list):
        branches = rewritten.pop("oneOf")
        if "anyOf" not in rewritten:
            rewritten["anyOf"] = branches
        else:
            rewritten["allOf"] = [*rewritten.get("allOf", ()), {"anyOf": branches}]


def _name_values(schema: Any, rewritten: Any, name: str, mapping: Mapping[str, Any], references: References) -> Any:
    """Return a branch with the values of the discriminator that belong to it, if its schema does not name them."""
    reference = get_reference(schema)
    if reference is None or _names_values(schema, name, references, 0):
        return rewritten
    last = reference.rpartition("/")[2]
    values = [value for value, target in mapping.items() if target in (reference, last)]
    return {"allOf": [rewritten, {"properties": {name: {"enum": values or [last]}}}]}


def _names_values(schema: Any, name: str, references: References, depth: int) -> bool:
    found = references.find(schema)
    if not isinstance(found, dict) or depth > MAX_DEPTH:
        return False
    properties = found.get("properties")
    one = references.find(properties.get(name)) if isinstance(properties, dict) else None
    if isinstance(one, dict) and ("const" in one or len(one.get("enum") or ()) == 1):
        return True
    parts = found.get("allOf")
    return isinstance(parts, list) and any(_names_values(part, name, references, depth + 2) for part in parts)

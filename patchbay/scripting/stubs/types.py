"""Makes Python types of JSON Schemas: annotations, and the TypedDicts that they need.

A schema comes from a stranger. So each part has a limit, and what goes beyond it, or says something that Python has no
type for, is `Any`: the call is checked against the whole schema all the same when it is made.
Source: JSON Schema 2020-12; PEP 589, PEP 655.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from patchbay.scripting.stubs.names import TYPE_NAMES, FreeNames, camel_case, identifier

ANY = "Any"

MAX_DEPTH = 8
"""Schemas inside each other; deeper ones are `Any`."""

MAX_TYPES = 60
"""TypedDicts of one tool."""

MAX_MEMBERS = 120
"""Members of an object with types; one with more is a `dict`."""

MAX_CHOICES = 24
"""Alternatives of a union, or values of a Literal."""

MAX_LITERAL_CHARACTERS = 60

MAX_REFERENCES = 20
"""References that lead to each other."""

_NOT_PLAIN = frozenset(("$ref", "const", "enum", "anyOf", "oneOf", "allOf"))
"""Members of a schema that say more than the members of an object."""

_KINDS = ((bool, "bool"), (int, "int"), (float, "float"), (str, "str"))

_PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class TypeWriter:
    """Writes the types of one tool. `prefix` begins the name of each type; `taken` are names that none may have.

    `declarations` are the TypedDicts so far, each as lines of Python.
    """

    def __init__(self, prefix: str, taken: Collection[str]) -> None:
        self.declarations: list[str] = []
        self._prefix = prefix
        self._names = FreeNames(taken)
        self._by_reference: dict[tuple[str, int, bool], str] = {}
        self._open: set[tuple[str, int, bool]] = set()
        self._begun = 0

    def write(self, schema: Any, name: str, *, root: Any = None, is_given: bool = False) -> str:
        """Return the annotation of a schema. `name` is for the types that it needs, `root` what its references are in.

        `is_given` says that a script gives the value, and does not get it.
        """
        return self._write(schema, name, schema if root is None else root, is_given, 0)

    def _write(self, schema: Any, name: str, root: Any, is_given: bool, depth: int) -> str:
        if not isinstance(schema, Mapping) or depth > MAX_DEPTH:
            return ANY
        if isinstance(reference := schema.get("$ref"), str):
            return self._write_reference(reference, root, is_given, depth)
        if "const" in schema:
            return _literal([schema["const"]]) or _of_value(schema["const"])
        if isinstance(choices := schema.get("enum"), Sequence) and not isinstance(choices, str):
            return _literal(choices) or _union([_of_value(one) for one in choices])
        for member in ("anyOf", "oneOf"):
            if isinstance(options := schema.get(member), Sequence) and "properties" not in schema:
                return self._write_union(options, name, root, is_given, depth)
        if isinstance(parts := schema.get("allOf"), Sequence):
            return self._write_all(schema, parts, name, root, is_given, depth)
        return self._write_type(schema, name, root, is_given, depth)

    def _write_type(self, schema: Mapping[str, Any], name: str, root: Any, is_given: bool, depth: int) -> str:
        kind = schema.get("type")
        if isinstance(kind, list):
            options = [{**schema, "type": one} for one in kind if isinstance(one, str)]
            return self._write_union(options, name, root, is_given, depth)
        if kind == "array":
            return self._write_list(schema, name, root, is_given, depth)
        if kind == "object" or (kind is None and isinstance(schema.get("properties"), Mapping)):
            return self._write_object(schema, name, root, is_given, depth)
        return _PLAIN.get(kind, ANY) if isinstance(kind, str) else ANY

    def _write_union(self, options: Sequence[Any], name: str, root: Any, is_given: bool, depth: int) -> str:
        if not 0 < len(options) <= MAX_CHOICES:
            return ANY
        return _union([self._write(one, name, root, is_given, depth + 1) for one in options])

    def _write_all(
        self, schema: Mapping[str, Any], parts: Sequence[Any], name: str, root: Any, is_given: bool, depth: int
    ) -> str:
        """Return the type of what fits all parts: that of the only part, or of the members of all objects."""
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        if len(parts) == 1 and not rest.keys() & {"type", "properties"}:
            return self._write(parts[0], name, root, is_given, depth + 1)
        members: dict[str, Any] = {}
        required: list[Any] = []
        for part in (*parts[:MAX_CHOICES], rest):
            found = resolve(part, root)
            if not isinstance(found, Mapping) or not isinstance(found.get("properties", {}), Mapping):
                return ANY
            members |= found.get("properties", {})
            required += found["required"] if isinstance(found.get("required"), list) else []
        whole = {"type": "object", "properties": members, "required": required}
        return self._write_object(whole, name, root, is_given, depth) if members else ANY

    def _write_list(self, schema: Mapping[str, Any], name: str, root: Any, is_given: bool, depth: int) -> str:
        items = schema.get("items") if "prefixItems" not in schema else None
        inner = self._write(items, f"{name}Item", root, is_given, depth + 1)
        # A list of a wider type takes no list of a narrower one; a sequence does.
        is_wide = is_given and " | " in inner
        return f"{'Sequence' if is_wide else 'list'}[{inner}]"

    def _write_object(self, schema: Mapping[str, Any], name: str, root: Any, is_given: bool, depth: int) -> str:
        if _has_members(schema, is_given) and self._begun < MAX_TYPES:
            known = self._new_name(name)
            self._declare(known, schema, name, root, is_given, depth)
            return known
        if _members_of(schema):
            return "dict[str, Any]"
        values = self._write(schema.get("additionalProperties"), f"{name}Value", root, is_given, depth + 1)
        return f"dict[str, {values}]"

    def _declare(self, known: str, schema: Mapping[str, Any], name: str, root: Any, is_given: bool, depth: int) -> None:
        """Declare the TypedDict of this name for an object with members; `name` begins those of its members."""
        given = schema.get("required")
        required = {one for one in given if isinstance(one, str)} if isinstance(given, list) else set()
        members: dict[str, str] = {}
        for key, inner in _members_of(schema).items():
            kind = self._write(inner, f"{name}{camel_case(key)}", root, is_given, depth + 1)
            members[key] = kind if key in required else f"NotRequired[{kind}]"
        self.declarations.append(_typed_dict(known, members))

    def _write_reference(self, reference: str, root: Any, is_given: bool, depth: int) -> str:
        """Return the type of a reference: a TypedDict that is declared once, however often something refers to it."""
        key = (reference, id(root), is_given)
        if key in self._by_reference:
            return self._by_reference[key]
        target, name = resolve({"$ref": reference}, root), reference.rpartition("/")[2] or "Root"
        if not isinstance(target, Mapping) or key in self._open or len(self._open) >= MAX_DEPTH:
            return ANY
        if _has_members(target, is_given) and self._begun < MAX_TYPES:
            # Its name is known before its members are written: one of them may refer to it.
            known = self._by_reference[key] = self._new_name(name)
            self._declare(known, target, name, root, is_given, depth)
            return known
        self._open.add(key)
        kind = self._by_reference[key] = self._write(target, name, root, is_given, depth + 1)
        self._open.discard(key)
        return kind

    def _new_name(self, name: str) -> str:
        self._begun += 1
        return self._names.take(f"{self._prefix}_{camel_case(name)}")


def resolve(schema: Any, root: Any) -> Any:
    """Return what the reference of a schema leads to inside `root`; a schema without one itself, None for no place.

    Source: RFC 6901 (JSON Pointer).
    """
    for _ in range(MAX_REFERENCES):
        if not isinstance(schema, Mapping) or not isinstance(reference := schema.get("$ref"), str):
            return schema
        if not reference.startswith("#"):
            return None
        schema = root
        for part in reference[1:].split("/")[1:]:
            word = part.replace("~1", "/").replace("~0", "~")
            schema = schema.get(word) if isinstance(schema, Mapping) else None
    return None


def _members_of(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    members = schema.get("properties")
    return members if isinstance(members, Mapping) else {}


def _has_members(schema: Mapping[str, Any], is_given: bool) -> bool:
    """Whether a schema is an object with a TypedDict: with a few members, and for a value that is given no others."""
    further = schema.get("additionalProperties")
    is_open = is_given and (further is True or isinstance(further, Mapping))
    is_plain = schema.get("type", "object") == "object" and not schema.keys() & _NOT_PLAIN
    return is_plain and not is_open and 0 < len(_members_of(schema)) <= MAX_MEMBERS


def _typed_dict(name: str, members: Mapping[str, str]) -> str:
    """Return the declaration of a TypedDict; keys that a class cannot have are written as texts."""
    if all(_is_attribute(key) for key in members):
        lines = [f"    {key}: {kind}" for key, kind in members.items()]
        return "\n".join([f"class {name}(TypedDict):", *lines])
    inner = ", ".join(f"{key!a}: {kind}" for key, kind in members.items())
    return f'{name} = TypedDict("{name}", {{{inner}}})'


def _is_attribute(key: str) -> bool:
    # A name of a type would hide the type in the lines below it.
    return identifier(key) == key and key not in TYPE_NAMES


def _literal(values: Sequence[Any]) -> str:
    """Return the Literal of these values; "" where one of them, or their number, does not suit."""
    if not 0 < len(values) <= MAX_CHOICES or not all(_suits_literal(one) for one in values):
        return ""
    texts = dict.fromkeys(ascii(one) for one in values)
    return f"Literal[{', '.join(texts)}]"


def _suits_literal(value: Any) -> bool:
    if isinstance(value, str):
        return len(value) <= MAX_LITERAL_CHARACTERS and value.isprintable()
    return value is None or (isinstance(value, int) and abs(value) < 2**63)


def _of_value(value: Any) -> str:
    """Return the type of one value."""
    if value is None:
        return "None"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), ANY)


def _union(kinds: Sequence[str]) -> str:
    """Return the union of some types; `Any` if one of them is."""
    found = list(dict.fromkeys(kinds))
    return ANY if ANY in found or not found or len(found) > MAX_CHOICES else " | ".join(found)

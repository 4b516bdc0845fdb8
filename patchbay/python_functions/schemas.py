"""Convert annotations to JSON Schema 2020-12, from syntax alone.

Classes and aliases of the module become `$defs`; definitions that are used once, and small ones, are inlined, so that
only recursive and repeated ones remain. An unknown type allows any value (`{}`).

Source: https://json-schema.org/draft/2020-12.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from patchbay.errors import TooLarge
from patchbay.python_functions.classes import documentation, enum_values, kind_of, members
from patchbay.python_functions.constraints import keywords, with_constraints
from patchbay.python_functions.known_types import (
    ARRAYS,
    COUNTERS,
    MAPS,
    RESULT_TYPES,
    SETS,
    TUPLES,
    TYPES,
    WRAPPERS,
)
from patchbay.python_functions.literals import ABSENT, json_value
from patchbay.python_functions.schema_definitions import alternatives_of, collect_definitions, with_default
from patchbay.python_functions.schema_shapes import Schema, choice, fixed_array, object_schema, union
from patchbay.python_functions.scope import Scope
from patchbay.python_functions.syntax import parse_expression

MAX_ANNOTATION_DEPTH = 64
"""Maximum nesting of annotations, through classes and aliases; a deeper one allows any value."""

MAX_ANNOTATIONS = 200_000
"""Maximum number of annotations in the schemas of one definition, counted at each use."""


class Types:
    """The schemas of one definition."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._left = MAX_ANNOTATIONS
        self._depth = 0
        self._closed = False
        self._definitions: dict[str, Schema] = {}
        self._open: set[str] = set()

    def schema(self, parts: Mapping[str, ast.expr | None], closed: bool = True) -> tuple[dict[str, Schema], Schema]:
        """Return the schemas of some annotations by name, and the `$defs` they share.

        `closed` is for arguments: it refuses unknown fields of dataclasses, which is too strict for results, and names
        formats that a result does not always have. Raises TooLarge
        when the definition's schemas are too large together.
        """
        self._definitions, self._closed, self._open = {}, closed, set()
        built = {name: self.of(node) for name, node in parts.items()}
        return collect_definitions(built, self._definitions)

    def of(self, node: ast.expr | None) -> Schema:
        """Return the schema of one annotation, which may refer to `$defs`."""
        self._charge(1)
        if node is None or self._depth >= MAX_ANNOTATION_DEPTH:
            return {}
        self._depth += 1
        try:
            return self._of(node)
        finally:
            self._depth -= 1

    def _charge(self, size: int) -> None:
        self._left -= size
        if self._left < 0:
            raise TooLarge(f"the types of this definition are too large together; expected at most {MAX_ANNOTATIONS}")

    def member_value(self, node: ast.expr | None) -> Any:
        """Return the JSON value of a literal or enumeration member (`Colour.RED`, `Colour.RED.value`), or ABSENT."""
        value = json_value(node)
        if value is not ABSENT or not isinstance(node, ast.Attribute):
            return value
        if node.attr == "value" and isinstance(node.value, ast.Attribute):
            node = node.value
        found = self._scope.local(node.value)
        if isinstance(found, ast.ClassDef) and kind_of(found, self._scope) == "enum":
            return enum_values(found, self._scope).get(node.attr, ABSENT)
        return ABSENT

    def _of(self, node: ast.expr) -> Schema:
        match node:
            case ast.Constant(value=None):
                return {"type": "null"}
            case ast.Constant(value=str(text)):
                return self.of(expression_in(text))
            case ast.BinOp(op=ast.BitOr()):
                return self._union(alternatives(node))
            case ast.Subscript(value=head, slice=inside):
                arguments = inside.elts if isinstance(inside, ast.Tuple) and inside.elts else [inside]
                return self._generic(head, arguments)
            case ast.Call():
                return self._called(node)
            case ast.Name() | ast.Attribute():
                return self._schema_of_name(node)
            case _:
                return {}

    def _schema_of_name(self, node: ast.expr) -> Schema:
        path = self._scope.path(node)
        if path in TYPES:
            return dict(TYPES[path] if self._closed else RESULT_TYPES.get(path, TYPES[path]))
        found = self._scope.local(node)
        if isinstance(found, ast.ClassDef | ast.expr):
            return self._definition(path.removeprefix("."), found)
        return self._container(path, [])

    def _definition(self, name: str, found: ast.ClassDef | ast.expr) -> Schema:
        """Return a reference to a class or alias of the module, which is described once in `$defs`."""
        if name not in self._definitions:
            self._definitions[name] = {}
            self._open.add(name)
            self._definitions[name] = self._class(found) if isinstance(found, ast.ClassDef) else self.of(found)
            self._open.discard(name)
        if not self._definitions[name] and name not in self._open:
            return {}
        return {"$ref": f"#/$defs/{quote(name)}"}

    def _generic(self, head: ast.expr, arguments: Sequence[ast.expr]) -> Schema:
        path = self._scope.path(head)
        match path:
            case "typing.Optional":
                return self._union([*arguments[:1], ast.Constant(None)])
            case "typing.Union":
                return self._union(arguments)
            case "typing.Literal":
                return self._literal(arguments)
            case "typing.Annotated":
                return self._annotated(arguments)
        if path in WRAPPERS:
            return self.of(arguments[0])
        if path in TYPES or path.startswith("."):
            return self._schema_of_name(head)
        return self._container(path, arguments)

    def _container(self, path: str, arguments: Sequence[ast.expr]) -> Schema:
        if path in TUPLES:
            return self._tuple(arguments)
        if path in COUNTERS:
            return {"type": "object", "additionalProperties": {"type": "integer"}}
        if path in MAPS:
            return self._mapping(arguments)
        items = self.of(arguments[0]) if arguments else {}
        filled = {"items": items} if items else {}
        if path in ARRAYS:
            return {"type": "array", **filled}
        return {"type": "array", **filled, "uniqueItems": True} if path in SETS else {}

    def _mapping(self, arguments: Sequence[ast.expr]) -> Schema:
        key = self.of(arguments[0]) if arguments else {}
        value = self.of(arguments[1]) if len(arguments) > 1 else {}
        keys = list(alternatives_of(key, self._definitions))
        limited = all(leaf.get("type") == "string" for leaf in keys) and any(len(leaf) > 1 for leaf in keys)
        named = {"propertyNames": key} if limited else {}
        return {"type": "object", **named, **({"additionalProperties": value} if value else {})}

    def _tuple(self, arguments: Sequence[ast.expr]) -> Schema:
        match arguments:
            case []:
                return {"type": "array"}
            case [ast.Tuple(elts=[])]:
                return {"type": "array", "maxItems": 0}
            case [item, ast.Constant(value=value)] if value is ...:
                items = self.of(item)
                return {"type": "array", "items": items} if items else {"type": "array"}
        if any(isinstance(item, ast.Starred) for item in arguments):
            return {"type": "array"}
        return fixed_array([self.of(item) for item in arguments], len(arguments))

    def _union(self, nodes: Sequence[ast.expr]) -> Schema:
        return union([self.of(node) for node in nodes])

    def _literal(self, arguments: Sequence[ast.expr]) -> Schema:
        values: list[Any] = []
        self._charge(len(arguments))
        for node in arguments:
            found = self._scope.local(node)
            nested = self.of(found) if isinstance(found, ast.expr) else {}
            more = nested.get("enum", [nested["const"]] if "const" in nested else [self.member_value(node)])
            values.extend(more)
        return {} if ABSENT in values else choice(values)

    def _annotated(self, arguments: Sequence[ast.expr]) -> Schema:
        given: dict[str, Any] = {}
        for node in arguments[1:]:
            given.update({name: value for name, value in keywords(node, self._scope).items() if name not in given})
        return with_constraints(self.of(arguments[0]), given)

    def _called(self, node: ast.Call) -> Schema:
        """Handle the calls that make types: `NewType("UserId", int)` and `TypedDict("Place", {"name": str})`."""
        match self._scope.path(node.func), node.args:
            case "typing.NewType", [_, base]:
                return self.of(base)
            case "typing.TypedDict", [_, ast.Dict(keys=keys, values=values)]:
                names = [json_value(key) for key in keys]
                if not all(isinstance(name, str) for name in names):
                    return {}
                total = not any(word.arg == "total" and json_value(word.value) is False for word in node.keywords)
                properties = {name: self.of(value) for name, value in zip(names, values, strict=True)}
                return object_schema(properties, [name for name in properties if total])
            case _:
                return {}

    def _class(self, node: ast.ClassDef) -> Schema:
        kind = kind_of(node, self._scope)
        self._charge(len(node.body))
        if kind == "unknown":
            return {}
        first = documentation(node).first
        described = {"description": first} if first else {}
        if kind == "enum":
            values = list(enum_values(node, self._scope).values())
            return {**choice(values), **described} if values else {}
        fields = members(node, kind, self._scope)
        properties: dict[str, Schema] = {}
        for field in fields:
            words = {"description": field.doc, **field.extra} if field.doc else field.extra
            schema = with_constraints(self.of(field.annotation), words)
            properties[field.name] = with_default(schema, field.default, self._definitions)
        required = [field.name for field in fields if field.required]
        if kind == "named_tuple":
            return {**fixed_array(list(properties.values()), len(required)), **described}
        closed = {"additionalProperties": False} if kind == "dataclass" and self._closed else {}
        return {**object_schema(properties, required), **closed, **described}


def expression_in(text: str) -> ast.expr | None:
    """Parse the expression in a forward reference; None when it is not an expression."""
    try:
        return parse_expression(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def alternatives(node: ast.expr) -> list[ast.expr]:
    """Return the members of `A | B | C`, without recursion, because such chains can be long."""
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]

"""Classes of a definition as data: their kinds, their fields, the values of an enumeration. Without schemas.

Inheritance is followed inside the module.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from patchbay.python_functions.constraints import FIELD_CALLS, keywords
from patchbay.python_functions.docstrings import Doc, read_docstring
from patchbay.python_functions.literals import ABSENT, json_value
from patchbay.python_functions.scope import Scope

ClassKind = Literal["enum", "typed_dict", "named_tuple", "model", "dataclass", "unknown"]

BASES: Mapping[str, ClassKind] = {
    "enum.Enum": "enum",
    "enum.IntEnum": "enum",
    "enum.StrEnum": "enum",
    "typing.TypedDict": "typed_dict",
    "typing.NamedTuple": "named_tuple",
    "pydantic.BaseModel": "model",
    "msgspec.Struct": "dataclass",
}
DECORATORS = frozenset(
    (
        "dataclasses.dataclass",
        "pydantic.dataclasses.dataclass",
        "attrs.define",
        "attrs.frozen",
        "attrs.mutable",
        "attr.define",
        "attr.frozen",
        "attr.mutable",
        "attr.s",
        "attr.dataclass",
    )
)
MAX_ANCESTORS = 32
"""Maximum number of ancestors of a class that are read."""


@dataclass(frozen=True, slots=True)
class ClassField:
    """One field of a class. `default` is a JSON value or ABSENT; `extra` are the keywords of its `Field(...)`."""

    name: str
    annotation: ast.expr
    required: bool
    default: Any
    doc: str
    extra: Mapping[str, Any]


def kind_of(node: ast.ClassDef, scope: Scope) -> ClassKind:
    """Return the kind of a class, by its bases and decorators and those of its ancestors in the module."""
    family = ancestry(node, scope)
    for ancestor in family:
        for base in ancestor.bases:
            if (kind := BASES.get(scope.path(_head(base)))) is not None:
                return kind
    decorated = any(scope.path(_head(mark)) in DECORATORS for each in family for mark in each.decorator_list)
    return "dataclass" if decorated else "unknown"


def ancestry(node: ast.ClassDef, scope: Scope) -> list[ast.ClassDef]:
    """Return a class and its ancestors in the module, oldest first."""
    family: list[ast.ClassDef] = []
    waiting = [node]
    while waiting and len(family) < MAX_ANCESTORS:
        current = waiting.pop(0)
        if current in family:
            continue
        family.append(current)
        bases = (scope.local(_head(base)) for base in current.bases)
        waiting.extend(base for base in bases if isinstance(base, ast.ClassDef))
    return family[::-1]


def documentation(node: ast.ClassDef) -> Doc:
    """Return a class's own docstring."""
    return read_docstring(ast.get_docstring(node, clean=False))


def members(node: ast.ClassDef, kind: ClassKind, scope: Scope) -> list[ClassField]:
    """Return the fields of an instance, in order, those of ancestors first."""
    found: dict[str, ClassField] = {}
    for ancestor in ancestry(node, scope):
        total = not any(word.arg == "total" and json_value(word.value) is False for word in ancestor.keywords)
        docs = documentation(ancestor).parameters
        for statement, note in _annotated(ancestor):
            name = statement.target.id if isinstance(statement.target, ast.Name) else ""
            if _is_field(name, statement, kind, scope):
                doc = docs.get(name) or read_docstring(note).first
                found[name] = _member(name, statement, total or kind != "typed_dict", doc, scope)
    return list(found.values())


def _annotated(node: ast.ClassDef) -> Iterator[tuple[ast.AnnAssign, str | None]]:
    """Yield annotated assignments, each with the string that follows it."""
    for statement, following in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign):
            match following:
                case ast.Expr(value=ast.Constant(value=str(note))):
                    yield statement, note
                case _:
                    yield statement, None


def _is_field(name: str, statement: ast.AnnAssign, kind: ClassKind, scope: Scope) -> bool:
    if not name or (kind == "model" and name.startswith("_")):
        return False
    if scope.path(_head(statement.annotation)) in ("typing.ClassVar", "dataclasses.KW_ONLY"):
        return False
    return _call_keywords(statement.value, scope).get("init", True) is not False


def _member(name: str, statement: ast.AnnAssign, total: bool, doc: str, scope: Scope) -> ClassField:
    value, extra = statement.value, _call_keywords(statement.value, scope)
    if isinstance(value, ast.Call) and scope.path(value.func) in FIELD_CALLS:
        default = extra.get("default", ABSENT)
        required = not gives_default(value)
    else:
        default = json_value(value)
        required = value is None
    match scope.path(_head(statement.annotation)):
        case "typing.Required":
            total = True
        case "typing.NotRequired":
            total = False
    alias = extra.get("alias")
    return ClassField(
        alias if isinstance(alias, str) else name, statement.annotation, required and total, default, doc, extra
    )


def _call_keywords(value: ast.expr | None, scope: Scope) -> Mapping[str, Any]:
    return keywords(value, scope) if isinstance(value, ast.Call) else {}


def gives_default(call: ast.Call) -> bool:
    """Whether `Field(...)` or `field(...)` has a default; an Ellipsis means required."""
    given = [
        *call.args[:1],
        *(word.value for word in call.keywords if word.arg in ("default", "default_factory", "factory")),
    ]
    return any(not (isinstance(value, ast.Constant) and value.value is ...) for value in given)


def enum_values(node: ast.ClassDef, scope: Scope) -> dict[str, Any]:
    """Return an enumeration's members with their JSON values; empty when one of them cannot be read."""
    named = {scope.path(_head(base)) for ancestor in ancestry(node, scope) for base in ancestor.bases}
    as_text = "enum.StrEnum" in named
    values: dict[str, Any] = {}
    highest = 0
    for ancestor in ancestry(node, scope):
        for name, value in _assigned(ancestor):
            if isinstance(value, ast.Call) and scope.path(value.func) == "enum.auto":
                # Like the enum module: one more than the highest value so far; for StrEnum the name in lower case.
                values[name] = name.lower() if as_text else highest + 1
            else:
                values[name] = json_value(value)
            if isinstance(values[name], int):
                highest = max(highest, values[name])
    return {} if ABSENT in values.values() else values


def _assigned(node: ast.ClassDef) -> Iterator[tuple[str, ast.expr]]:
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if not name.startswith("_"):
                yield name, value


def _head(node: ast.expr) -> ast.expr:
    """Return the name at the front of `Name[...]` or `Name(...)`."""
    while isinstance(node, ast.Subscript | ast.Call):
        node = node.value if isinstance(node, ast.Subscript) else node.func
    return node

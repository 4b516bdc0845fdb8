"""Schemas of tools as strangers write them, for tests of stubs, and what a checker says about the stubs."""

from __future__ import annotations

import ast
import keyword
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st
from pydantic_monty import ExternalModule, FunctionSnapshot, Monty, MontyComplete, MontyTypingError

from patchbay.scripting.stubs.names import TYPE_NAMES

HOSTILE_NAMES = (
    *("class", "__class__", "__debug__", "None", "self", "list", "dict", "Any", "Literal", "TypedDict", "print"),
    *("content-type", "@id", "1st", "", " ", "a.b", "a\nb", "\u202etxt", "é", "\ud800", "x" * 500, "_private"),
    *("import os", '"""', "'); evil(", "arguments", "more", "async", "match", "$ref", "#"),
)

names = st.sampled_from(HOSTILE_NAMES) | st.text(max_size=12)
values = st.none() | st.booleans() | st.integers() | st.floats() | names | st.lists(st.integers(), max_size=2)
references = st.sampled_from(
    ["#", "#/$defs/a", "#/$defs/b", "#/properties/class", "#/nowhere", "https://x/y", "#/a~1b"]
)


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = {
        "type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null", "odd"])
        | st.lists(st.sampled_from(["string", "null", "object"]), max_size=3)
        | values,
        "properties": st.dictionaries(names, inner, max_size=4) | values,
        "required": st.lists(names, max_size=3) | values,
        "additionalProperties": inner | values,
        "items": inner,
        "prefixItems": st.lists(inner, max_size=2),
        "enum": st.lists(values, max_size=4) | values,
        "const": values,
        "default": values,
        "anyOf": st.lists(inner, max_size=3) | values,
        "oneOf": st.lists(inner, max_size=3),
        "allOf": st.lists(inner, max_size=3) | values,
        "$ref": references | values,
        "$defs": st.dictionaries(st.sampled_from(["a", "b"]), inner, max_size=2),
        "x-fastmcp-wrap-result": values,
    }
    return st.fixed_dictionaries({}, optional=members)


schemas: st.SearchStrategy[Any] = st.recursive(values | st.builds(dict), _extend, max_leaves=12)
wires = st.fixed_dictionaries(
    {"name": names, "inputSchema": schemas},
    optional={
        "outputSchema": schemas,
        "description": names | values,
    },
)


def undefined_names(text: str) -> set[str]:
    """The names in a stub that it neither imports, declares nor takes as a parameter; it raises SyntaxError."""
    tree = ast.parse(text)
    known = {*TYPE_NAMES, "None", "True", "False"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.AsyncFunctionDef):
            known.add(node.name)
        elif isinstance(node, ast.Assign):
            known |= {one.id for one in node.targets if isinstance(one, ast.Name)}
    found = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    return found - known


def is_name(name: str) -> bool:
    return name.isidentifier() and name.isascii() and not keyword.iskeyword(name) and not name.startswith("_")


class Checker:
    """The type checker of the interpreter, for scripts that import the module `m`."""

    def __init__(self, pool: Monty) -> None:
        self._pool = pool

    def problems(self, stubs: str, functions: list[str], code: str) -> str:
        """Return what the checker says about a script; "" if nothing. The script is not run."""
        module = ExternalModule(dict.fromkeys(functions, print), stubs=stubs)
        options: Any = {"type_check": True, "type_check_format": "concise", "external_modules": {"m": module}}
        with self._pool.checkout(**options) as session:
            try:
                snapshot = session.feed_start(code)
                while isinstance(snapshot, FunctionSnapshot) and snapshot.is_os_function:
                    snapshot = snapshot.resume_auto()
                assert isinstance(snapshot, FunctionSnapshot | MontyComplete)
            except MontyTypingError as problem:
                return str(problem)
        return ""


def checkers() -> Iterator[Checker]:
    """Give a checker, for a fixture."""
    with Monty(min_processes=1, max_processes=1) as pool:
        yield Checker(pool)

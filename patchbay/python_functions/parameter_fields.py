"""What `Field(...)` of pydantic says about a parameter, as its default or in `Annotated`, from syntax alone.

    limit: int = Field(10, ge=1, le=100, description="...")
    limit: Annotated[int, Field(alias="max")] = 10

`kinds/python/arguments.py` does the same with the values, when the function is called.
Source: https://docs.pydantic.dev/latest/concepts/fields/.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.python_functions.classes import gives_default
from patchbay.python_functions.constraints import keywords
from patchbay.python_functions.scope import Scope

FIELDS = frozenset(("pydantic.Field", "pydantic.fields.Field"))


@dataclass(frozen=True, slots=True)
class ParameterField:
    """One parameter as its caller sees it: its name or alias, its default (None without one that is known), and the
    keywords of its `Field(...)`.
    """

    name: str
    default: ast.expr | None
    is_required: bool
    keywords: Mapping[str, Any]


def field_of(parameter: ast.arg, default: ast.expr | None, scope: Scope) -> ParameterField:
    """Return what a parameter and its default say to a caller. The default wins over `Annotated`."""
    in_default = _field_call(default, scope)
    notes = [call for node in _metadata(parameter.annotation, scope) if (call := _field_call(node, scope)) is not None]
    calls = [*notes, *([in_default] if in_default is not None else [])]
    words: dict[str, Any] = {}
    for call in calls:
        words |= keywords(call, scope)
    aliases = [words.get("validation_alias"), words.get("alias")]
    name = next((alias for alias in aliases if isinstance(alias, str) and alias), parameter.arg)
    if default is not None and in_default is None:
        return ParameterField(name, default, False, words)
    given = [call for call in calls if gives_default(call)]
    return ParameterField(name, _default_in(given[-1]) if given else None, not given, words)


def _field_call(node: ast.expr | None, scope: Scope) -> ast.Call | None:
    """Return the call of `Field(...)` in an expression or behind a name of the module; None for another one."""
    bound = scope.local(node) if node is not None else None
    node = bound if isinstance(bound, ast.expr) else node
    return node if isinstance(node, ast.Call) and scope.path(node.func) in FIELDS else None


def _metadata(annotation: ast.expr | None, scope: Scope) -> Iterator[ast.expr]:
    """Yield the metadata of `Annotated[...]` at the root of an annotation."""
    bound = scope.local(annotation) if annotation is not None else None
    annotation = bound if isinstance(bound, ast.expr) else annotation
    if isinstance(annotation, ast.Subscript) and scope.path(annotation.value) == "typing.Annotated":
        inside = annotation.slice
        yield from inside.elts[1:] if isinstance(inside, ast.Tuple) else ()


def _default_in(call: ast.Call) -> ast.expr | None:
    """Return the default of `Field(...)`; None where a function makes it."""
    named = {word.arg: word.value for word in call.keywords}
    return call.args[0] if call.args else named.get("default")

"""Names in annotations that a definition does not have: `rows: lst[dict]`, found without running anything.

Python evaluates the annotations of a module when it loads the module, so that one wrong name breaks every tool. An
annotation in quotes, or with `from __future__ import annotations`, is a text; a wrong name in it leaves its type open.
A module whose names the syntax does not show (`from x import *`, `globals()`) is not checked.
Sources: Python language reference, "Naming and binding"; PEP 563; PEP 649.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from unicodedata import normalize

from patchbay.descriptors import Problem
from patchbay.python_functions.schemas import expression_in
from patchbay.python_functions.scope import FunctionNode, Scope

OPAQUE_NAMES = frozenset(("globals", "exec", "vars", "setattr"))
"""Functions that bind names which the syntax does not show."""

OPAQUE_WORDS = re.compile(rf"\b(?:{'|'.join(sorted(OPAQUE_NAMES))})\b")

INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
ALWAYS_BOUND = frozenset(("__name__", "__file__", "__doc__", "__builtins__", *dir(builtins)))

LAZY_SINCE = (3, 14)
"""The version of Python from which annotations are evaluated only where they are needed (PEP 649)."""


@dataclass(frozen=True, slots=True)
class UsedName:
    """A name in an annotation. `is_text` says that it stands in quotes."""

    name: str
    line: int
    is_text: bool


def find_unresolved_names(module: ast.Module, scope: Scope, text: str) -> tuple[Problem, ...]:
    """Return a problem for each annotation with a name that the module does not bind, in source order.

    It is a fault where the module cannot be loaded for it. `text` is the source of the module.
    """
    if _is_opaque(module, text):
        return ()
    return tuple(_Check(module, scope).problems(module.body, {}))


def _is_opaque(module: ast.Module, text: str) -> bool:
    imports = (node for node in _statements_below(module) if isinstance(node, ast.ImportFrom))
    if any(alias.name == "*" for node in imports for alias in node.names):
        return True
    # Python reads names in this form. Few sources have such a word, and to visit all expressions takes longest.
    if OPAQUE_WORDS.search(normalize("NFKC", text)) is None:
        return False
    return any(isinstance(node, ast.Name) and node.id in OPAQUE_NAMES for node in ast.walk(module))


def _statements_below(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes below a node that are not part of an expression: most nodes are."""
    waiting = [node]
    while waiting:
        below = [each for each in ast.iter_child_nodes(waiting.pop()) if not isinstance(each, ast.expr)]
        yield from below
        waiting += below


class _Check:
    def __init__(self, module: ast.Module, scope: Scope) -> None:
        self._scope = scope
        self._bound = _bound_names(module)
        self._is_lazy = sys.version_info >= LAZY_SINCE or any(
            isinstance(one, ast.ImportFrom) and one.module == "__future__" and _imports(one, "annotations")
            for one in module.body
        )

    def problems(self, body: Iterable[ast.stmt], inner: Mapping[str, int]) -> Iterator[Problem]:
        """Yield the problems of statements that run when the module is loaded; `inner` are the names of a class."""
        for statement in body:
            known = {**inner, **dict.fromkeys(_type_parameters(statement), 0)}
            match statement:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    yield from self._of_function(statement, known)
                case ast.ClassDef():
                    yield from self.problems(statement.body, known | _bound_names(statement))
                case ast.AnnAssign(annotation=annotation, target=target):
                    yield from self._of_annotation(annotation, ast.unparse(target), "", known)
                case ast.If() if self._is_for_types(statement):
                    yield from self.problems(statement.orelse, inner)
                case _:
                    blocks = [getattr(statement, name, ()) for name in ("body", "orelse", "finalbody")]
                    blocks += [each.body for each in getattr(statement, "handlers", ())]
                    for block in blocks:
                        yield from self.problems(block, inner)

    def _is_for_types(self, statement: ast.If) -> bool:
        return any(
            isinstance(each, (ast.Name, ast.Attribute)) and self._scope.path(each) == "typing.TYPE_CHECKING"
            for each in ast.walk(statement.test)
        )

    def _of_function(self, function: FunctionNode, inner: Mapping[str, int]) -> Iterator[Problem]:
        taken = function.args
        arguments = [*taken.posonlyargs, *taken.args, *taken.kwonlyargs, taken.vararg, taken.kwarg]
        for each in arguments:
            if each is not None and each.annotation is not None:
                yield from self._of_annotation(each.annotation, each.arg, function.name, inner)
        if function.returns is not None:
            yield from self._of_annotation(function.returns, "the result", function.name, inner)

    def _of_annotation(
        self, annotation: ast.expr, what: str, function: str, inner: Mapping[str, int]
    ) -> Iterator[Problem]:
        for used in _names_in(annotation, self._scope):
            reason, is_fault = self._reason(used, inner)
            if reason:
                of = f"{what} in {function}" if function else what
                effect = "the file cannot be loaded" if is_fault else "every value is allowed"
                sentence = f"the annotation of {of} names {used.name!r}, {reason}, so {effect}"
                yield Problem(function or what, sentence, used.line, is_fault=is_fault)

    def _reason(self, used: UsedName, inner: Mapping[str, int]) -> tuple[str, bool]:
        """Return why a name cannot be resolved, empty if it can, and whether the module cannot be loaded for it."""
        is_evaluated = not used.is_text and not self._is_lazy
        if used.name in inner or used.name in ALWAYS_BOUND:
            return "", False
        line = self._bound.get(used.name)
        if line is None:
            return f"which is not defined{self._suggest(used.name)}", is_evaluated
        if is_evaluated and used.name in self._scope.typing_only:
            return "which only a type checker imports (import it, or write the annotation in quotes)", True
        if is_evaluated and line > used.line:
            return f"which is defined later, in line {line} (write the annotation in quotes)", True
        return "", False

    def _suggest(self, name: str) -> str:
        if hasattr(typing, name):
            return f" (add the line `from typing import {name}`)"
        known = [*self._bound, *(one for one in dir(builtins) if isinstance(getattr(builtins, one), type))]
        close = get_close_matches(name, known, n=1)
        return f" (did you mean {close[0]!r}?)" if close else ""


def _imports(statement: ast.ImportFrom, name: str) -> bool:
    return any(alias.name == name for alias in statement.names)


def _type_parameters(statement: ast.stmt) -> list[str]:
    """Return the names in `def f[T](...)` and `class C[T]` (PEP 695)."""
    return [each.name for each in getattr(statement, "type_params", ())]


def _bound_names(holder: ast.Module | ast.ClassDef) -> dict[str, int]:
    """Return the names that a module or a class binds, also in its blocks, each with its first line."""
    found: dict[str, int] = {}
    waiting: list[ast.AST] = list(holder.body)
    while waiting:
        node = waiting.pop()
        for name in _binds(node):
            line = getattr(node, "lineno", 0)
            found[name] = min(line, found.get(name, line))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += [each for each in _statements_below(node) if isinstance(each, ast.Global)]
        elif not isinstance(node, (ast.Lambda, *COMPREHENSIONS)):
            waiting += ast.iter_child_nodes(node)
    return found


def _binds(node: ast.AST) -> list[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Name(id=name, ctx=ast.Store()):
            return [name]
        case ast.Import(names=names):
            return [alias.asname or alias.name.partition(".")[0] for alias in names]
        case ast.ImportFrom(names=names):
            return [alias.asname or alias.name for alias in names]
        case ast.Global(names=names):
            return names
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            return [name]
        case ast.MatchMapping(rest=str(name)):
            return [name]
        case _:
            return []


def _names_in(node: ast.expr | None, scope: Scope, is_text: bool = False, line: int = 0) -> Iterator[UsedName]:
    """Yield the names of an annotation. A text in it is an annotation too, except in `Literal` and in metadata."""
    match node:
        case ast.Constant(value=str(text)):
            yield from _names_in(expression_in(text), scope, True, line or node.lineno)
        case ast.Name(id=name):
            yield UsedName(name, line or node.lineno, is_text)
        case ast.Attribute(value=base):
            yield from _names_in(base, scope, is_text, line)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            yield from _names_in(left, scope, is_text, line)
            yield from _names_in(right, scope, is_text, line)
        case ast.Subscript(value=head, slice=inner):
            yield from _names_in(head, scope, is_text, line)
            path = scope.path(head)
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            read = () if path == "typing.Literal" else parts[:1] if path == "typing.Annotated" else parts
            for part in read:
                yield from _names_in(part, scope, is_text, line)
        case ast.List(elts=parts) | ast.Tuple(elts=parts):
            for part in parts:
                yield from _names_in(part, scope, is_text, line)
        case ast.Starred(value=inner):
            yield from _names_in(inner, scope, is_text, line)
        case _:
            return

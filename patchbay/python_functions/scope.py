"""Resolve a module's names from its syntax tree, without importing it.

Only statements at module level bind names, also inside `if`, `try`, `with` and loops. A later binding wins. Of two
branches the first wins (the body of `if`, the body of `try`), because it is usually meant for this platform. A name
that only a type checker binds is a type and not a tool; a name that only a script binds (`__name__ == "__main__"`) is
neither.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Imported:
    """A name that an import binds; `path` is its full dotted name."""

    path: str


@dataclass(frozen=True, slots=True)
class UnreadableName:
    """A name bound to a value that the syntax does not show."""


Binding = FunctionNode | ast.ClassDef | Imported | ast.expr | UnreadableName


@dataclass(slots=True)
class Scope:
    """A module's names. `typing_only` are those that only a type checker binds."""

    names: dict[str, Binding] = field(default_factory=dict)
    typing_only: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, module: ast.Module) -> Scope:
        """Return the names bound in a module. Raises RecursionError when it is nested too deeply."""
        scope = cls()
        scope._read(module.body, runtime=True)
        return scope

    def functions(self) -> list[FunctionNode]:
        """Return the functions that a call can reach, in source order."""
        found = [
            bound
            for name, bound in self.names.items()
            if isinstance(bound, FunctionNode) and name not in self.typing_only
        ]
        return sorted(found, key=lambda function: function.lineno)

    def decorators(self) -> frozenset[str]:
        """Return the names that decorate functions and classes of the module, as in `@cached` and `@cached(60)`."""
        marks = [
            mark.func if isinstance(mark, ast.Call) else mark
            for bound in self.names.values()
            if isinstance(bound, FunctionNode | ast.ClassDef)
            for mark in bound.decorator_list
        ]
        return frozenset(mark.id for mark in marks if isinstance(mark, ast.Name))

    def path(self, node: ast.expr) -> str:
        """Return the full dotted name that an expression refers to: `typing.Optional`, `int`, `datetime.date`.

        A name of this module begins with a dot (`.Colour.RED`); any other expression gives an empty string. An unbound
        name is taken as one of `typing`, which definitions may use without importing.
        """
        if isinstance(node, ast.Attribute):
            base = self.path(node.value)
            return canonical(f"{base}.{node.attr}") if base else ""
        if not isinstance(node, ast.Name):
            return ""
        bound = self.names.get(node.id)
        if isinstance(bound, Imported):
            return canonical(bound.path)
        if bound is not None:
            return f".{node.id}"
        return node.id if hasattr(builtins, node.id) else f"typing.{node.id}"

    def local(self, node: ast.expr) -> Binding | None:
        """Return the binding of a plain name of this module; None for any other expression."""
        return self.names.get(node.id) if isinstance(node, ast.Name) else None

    def _read(self, body: Sequence[ast.stmt], runtime: bool) -> None:
        for statement in body:
            if isinstance(statement, ast.If):
                self._branches(statement, runtime)
            elif isinstance(statement, ast.Delete):
                for target in statement.targets:
                    self.names.pop(getattr(target, "id", ""), None)
            else:
                for name, bound in bindings(statement):
                    self._bind(name, bound, runtime)
                for block in blocks(statement):
                    self._read(block, runtime)

    def _branches(self, statement: ast.If, runtime: bool) -> None:
        body, otherwise = _when(statement.test)
        # The branch that wins is read last.
        if otherwise != "never":
            self._read(statement.orelse, runtime and otherwise == "run")
        if body != "never":
            self._read(statement.body, runtime and body == "run")

    def _bind(self, name: str, bound: Binding, runtime: bool) -> None:
        if not runtime and name in self.names and name not in self.typing_only:
            return
        self.names[name] = bound
        (self.typing_only.discard if runtime else self.typing_only.add)(name)


def canonical(path: str) -> str:
    """Return one spelling for names in several modules: `typing` where possible, and no prefix for built-ins."""
    for prefix in ("typing_extensions.", "collections.abc."):
        if path.startswith(prefix):
            return "typing." + path.removeprefix(prefix)
    return path.removeprefix("builtins.")


def bindings(statement: ast.stmt) -> Iterator[tuple[str, Binding]]:
    """Yield the names a statement binds itself, without those in blocks inside it."""
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield statement.name, statement
        case ast.Import():
            for alias in statement.names:
                top = alias.name.partition(".")[0]
                yield (alias.asname, Imported(alias.name)) if alias.asname else (top, Imported(top))
        case ast.ImportFrom():
            module = statement.module if statement.module and not statement.level else "<relative>"
            for alias in statement.names:
                yield alias.asname or alias.name, Imported(f"{module}.{alias.name}")
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            yield name, value
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            if value is not None:
                yield name, value
        case _:
            for name in _targets(statement):
                yield name, UnreadableName()


def blocks(statement: ast.stmt) -> Iterator[Sequence[ast.stmt]]:
    """Yield the blocks inside a statement that bind in the same scope; the one that wins comes last."""
    match statement:
        case ast.Try() | ast.TryStar():
            yield from (handler.body for handler in statement.handlers)
            yield from (statement.body, statement.orelse, statement.finalbody)
        case ast.For() | ast.AsyncFor() | ast.While():
            yield from (statement.orelse, statement.body)
        case ast.With() | ast.AsyncWith():
            yield statement.body
        case ast.Match():
            yield from (case.body for case in reversed(statement.cases))
        case _:
            return


def _targets(statement: ast.stmt) -> Iterator[str]:
    places: list[ast.expr | None] = []
    match statement:
        case ast.Assign():
            places.extend(statement.targets)
        case ast.AugAssign() | ast.For() | ast.AsyncFor():
            places.append(statement.target)
        case ast.With() | ast.AsyncWith():
            places.extend(item.optional_vars for item in statement.items)
        case _:
            return
    for place in places:
        for node in ast.walk(place) if place is not None else ():
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                yield node.id


def _when(test: ast.expr) -> tuple[str, str]:
    """Return when the body and the other branch of an `if` run: `run`, `types` (a type checker only) or `never`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        body, otherwise = _when(test.operand)
        return otherwise, body
    name = test.attr if isinstance(test, ast.Attribute) else getattr(test, "id", "")
    if name == "TYPE_CHECKING":
        return "types", "run"
    if isinstance(test, ast.Constant):
        return ("run", "never") if test.value else ("never", "run")
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return "never", "run"
        case _:
            return "run", "run"

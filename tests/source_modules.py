"""The source files of the project with their syntax trees and imports, for the tests that read the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from tests.checkout import ROOT


class Import(NamedTuple):
    """One imported module or name in full, its line, and the innermost function around it, or an empty text."""

    line: int
    name: str
    function: str


@dataclass(frozen=True)
class Module:
    """One source file: its path from the root with forward slashes, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text, self.path)

    @cached_property
    def place(self) -> tuple[str, ...]:
        """`patchbay/stores/memory.py` -> `("stores", "memory")`; `app.py` -> `("app",)`."""
        parts = self.path.removesuffix(".py").split("/")
        return tuple(parts[1:] if parts[0] == "patchbay" else parts)

    def imports(self) -> tuple[Import, ...]:
        """Every imported module or name, in full: `from patchbay.stores import bus` gives both.

        The imports of a file are kept, because several rules read them and its syntax tree is too large to keep.
        """
        if (found := _IMPORTS.get(self)) is None:
            parsed = self if "tree" in vars(self) else Module(self.path, self.text)
            found = _IMPORTS[Module(self.path, self.text)] = tuple(parsed._read_imports())
        return found

    def _read_imports(self) -> Iterator[Import]:
        for node, function in statements(self.tree):
            if isinstance(node, ast.Import):
                yield from (Import(node.lineno, alias.name, function) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: relative import; write the whole name"
                yield from (Import(node.lineno, f"{node.module}.{alias.name}", function) for alias in node.names)

    def functions(self) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
        """Every function, nested ones too."""
        return (node for node, _ in statements(self.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))

    def inside(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Imports of our own modules as places: `patchbay.stores.bus.X` -> `("stores", "bus", "X")`."""
        for line, name, _ in self.imports():
            parts = tuple(name.split("."))
            if parts[0] == "patchbay":
                yield line, parts[1:]
            elif parts[0] in ("app", "generate_boot_image"):
                yield line, parts


_IMPORTS: dict[Module, tuple[Import, ...]] = {}


def statements(root: ast.AST, function: str = "") -> Iterator[tuple[ast.stmt, str]]:
    """Yield each statement below a node, nested ones too, with the name of the innermost function around it.

    `ast.walk` visits expressions too, and takes about ten times as long.
    """
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for node in getattr(root, field, ()):
            if isinstance(node, ast.stmt):
                yield node, function
            own = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
            yield from statements(node, node.name if own else function)


def read(*patterns: str) -> list[Module]:
    """The source files under these patterns."""
    found = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return [Module(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in found]

"""The source files of the project with their syntax trees and imports, for the tests that read the code itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from tests.checkout import ROOT


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

    def imports(self) -> Iterator[tuple[int, str]]:
        """Every imported module or name with its line, in full: `from patchbay.stores import bus` gives both."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from ((node.lineno, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0, f"{self.path}:{node.lineno}: relative import; write the whole name"
                yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)

    def inside(self) -> Iterator[tuple[int, tuple[str, ...]]]:
        """Imports of our own modules as places: `patchbay.stores.bus.X` -> `("stores", "bus", "X")`."""
        for line, name in self.imports():
            parts = tuple(name.split("."))
            if parts[0] == "patchbay":
                yield line, parts[1:]
            elif parts[0] in ("app", "generate_boot_image"):
                yield line, parts


def read(*patterns: str) -> list[Module]:
    """The source files under these patterns."""
    found = sorted(path for pattern in patterns for path in ROOT.glob(pattern))
    return [Module(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in found]

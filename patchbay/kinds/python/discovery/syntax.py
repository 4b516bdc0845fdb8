"""Python text as a syntax tree, from any thread.

CPython before 3.11.8 and 3.12.1 counts the depth of the trees that it builds in one place for all threads: two that
build at once disturb each other, and one of them raises SystemError although its text is right. So this hub builds
one at a time, and builds again where somebody else's code came between.
Source: python/cpython issue 106905.
"""

from __future__ import annotations

import ast
import threading
from contextlib import suppress
from typing import Any

TRIES = 5
"""How often a text is read whose reading was disturbed."""

_ONE_AT_A_TIME = threading.RLock()  # a finalizer that runs while a tree is built may build one too


def module_of(text: str | bytes, name: str = "<unknown>") -> ast.Module:
    """The tree of a module called `name`. Raises what `ast.parse` raises for text that is no Python."""
    tree: ast.Module = _parsed(text, name, "exec")
    return tree


def expression_of(text: str) -> ast.expr:
    """The tree of one expression. Raises what `ast.parse` raises for text that is none."""
    tree: ast.Expression = _parsed(text, "<unknown>", "eval")
    return tree.body


def _parsed(text: str | bytes, name: str, mode: str) -> Any:
    for _ in range(TRIES - 1):
        with _ONE_AT_A_TIME, suppress(SystemError):
            return ast.parse(text, name, mode)
    with _ONE_AT_A_TIME:
        return ast.parse(text, name, mode)

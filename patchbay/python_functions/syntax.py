"""Parse Python text to a syntax tree, from any thread.

CPython before 3.11.8 and 3.12.1 has one depth counter for the trees of all threads: two threads that parse at the same
time disturb each other, and one raises SystemError for valid text. So this hub parses one text at a time, and retries
when code outside the hub interfered. https://github.com/python/cpython/issues/106905
"""

from __future__ import annotations

import ast
import threading
from contextlib import suppress
from typing import Any

MAX_PARSE_ATTEMPTS = 5
"""Maximum number of attempts to parse one text."""

SYNTAX_LOCK = threading.RLock()  # reentrant, because a finalizer that runs during parsing may parse too
"""Held while a tree is built, and while a library builds trees, as Werkzeug does to build the URL of a route."""


def parse_source(text: str | bytes, name: str = "<unknown>") -> ast.Module:
    """Return the tree of a module called `name`. Raises the errors of `ast.parse`."""
    tree: ast.Module = _parsed(text, name, "exec")
    return tree


def parse_expression(text: str) -> ast.expr:
    """Return the tree of one expression. Raises the errors of `ast.parse`."""
    tree: ast.Expression = _parsed(text, "<unknown>", "eval")
    return tree.body


def _parsed(text: str | bytes, name: str, mode: str) -> Any:
    for _ in range(MAX_PARSE_ATTEMPTS - 1):
        with SYNTAX_LOCK, suppress(SystemError):
            return ast.parse(text, name, mode)
    with SYNTAX_LOCK:
        return ast.parse(text, name, mode)

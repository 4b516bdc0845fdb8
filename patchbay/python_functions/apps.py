"""The apps of a Python definition: the dictionary `UI` at its top level, name of a function to HTML file.

    UI = {"show": "card.html"}

The file is below the folder of the definition; the hub serves it as `ui://card.html`. Nothing is imported or run.
Source: SEP-1865 (MCP Apps), resource discovery.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import replace

from patchbay.descriptors import APP_PATH, Descriptor, Problem, app_uri
from patchbay.python_functions.scope import Scope
from patchbay.python_functions.syntax import parse_source

DECLARATION = "UI"
"""The name of the dictionary."""

_MENTIONED = re.compile(rb"^\s*UI\b", re.MULTILINE)


def read_apps(scope: Scope, tools: Sequence[Descriptor]) -> tuple[list[Descriptor], list[Problem]]:
    """Return the tools of a definition, each with its app, and the reasons why apps are left out."""
    declared = scope.names.get(DECLARATION)
    if not isinstance(declared, ast.Dict):
        return list(tools), []
    files, problems = _read_files(declared)
    known = {tool.target.get("function") for tool in tools}
    for name, (_, line) in files.items():
        if name not in known:
            problems.append(Problem(DECLARATION, f"there is no tool of the function {name!r:.140}", line))
    found = []
    for tool in tools:
        named = files.get(str(tool.target.get("function")))
        ui = {"_meta": {"ui": {"resourceUri": app_uri(named[0])}}} if named is not None else {}
        found.append(replace(tool, wire={**tool.wire, **ui}) if ui else tool)
    return found, problems


def app_files(source: bytes) -> tuple[str, ...]:
    """Return the paths of the HTML files that a definition names, each once; none for one that cannot be read."""
    if not _MENTIONED.search(source):
        return ()
    try:
        declared = Scope.of(parse_source(source)).names.get(DECLARATION)
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError):
        return ()
    files, _ = _read_files(declared) if isinstance(declared, ast.Dict) else ({}, [])
    return tuple(dict.fromkeys(path for path, _ in files.values()))


def _read_files(declared: ast.Dict) -> tuple[dict[str, tuple[str, int]], list[Problem]]:
    """Return the path and the line of each function with an app, and the problems of other entries."""
    files: dict[str, tuple[str, int]] = {}
    problems: list[Problem] = []
    for key, node in zip(declared.keys, declared.values, strict=True):
        name = key.value if isinstance(key, ast.Constant) else None
        path = node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str) and isinstance(path, str) and APP_PATH.fullmatch(path):
            files[name] = (path, node.lineno)
        else:
            problems.append(
                Problem(
                    DECLARATION,
                    "an entry is the name of a function and the path of an HTML file beside the definition, such as"
                    ' "card.html"',
                    node.lineno,
                )
            )
    return files, problems

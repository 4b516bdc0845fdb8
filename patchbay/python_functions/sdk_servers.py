"""Definitions that make an MCP server of their own, with FastMCP or the official SDK: `mcp = FastMCP("Demo")`.

Such a file is a program. The hub does not run it as one: it reads the functions with `@mcp.tool` as tools. Problems say
why the others are no tools, and how to serve the whole file.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from patchbay.descriptors import Problem
from patchbay.python_functions.scope import FunctionNode, Scope
from patchbay.python_functions.syntax import parse_source

_CLASS = re.compile(r"(fastmcp|mcp\.server)\.(?:\w+\.)*(FastMCP|MCPServer)")
_CONTEXT = re.compile(r"(fastmcp|mcp\.server)\.(?:\w+\.)*Context")
_OLD_SDK = "mcp.server.fastmcp."
"""The module of the class FastMCP in the official SDK, which version 2 renamed."""


def find_run_command(source: str) -> str:
    """Return the command line, without the file, that runs a file with such a server; empty for another file."""
    try:
        servers = SdkServers(Scope.of(parse_source(source)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    return servers.run_command


class SdkServers:
    """The MCP servers that a module makes at its top level, and what its functions are to them."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._made = {
            name: (scope.path(bound.func), bound.lineno)
            for name, bound in scope.names.items()
            if isinstance(bound, ast.Call) and _CLASS.fullmatch(scope.path(bound.func))
        }
        self._decorates = any(self._marks(one) for one in scope.functions()) if self._made else False

    @property
    def run_command(self) -> str:
        """The command line that runs the file, without the file; empty for a module without such a server."""
        return next((_run_command(path) for path, _ in self._made.values()), "")

    def is_private(self, function: FunctionNode) -> bool:
        """Whether other functions of the file are entries of such a server, and this one is not."""
        return self._decorates and not self._marks(function)

    def explain(self, function: FunctionNode) -> str:
        """Return why a function is no tool; empty for a tool, and in a module without such a server."""
        if not self._made:
            return ""
        marks = self._marks(function)
        if marks and "tool" not in marks:
            return f"@{marks[0]} makes it a part of the program's own server, and no tool"
        taken = next((each.arg for each in _all_parameters(function) if self._is_context(each.annotation)), None)
        return (
            f"its parameter {taken} is the Context of another program: call it context, without a type" if taken else ""
        )

    def problems(self, server: str) -> Iterator[Problem]:
        """Yield the notice about the file, with the commands that serve it whole.

        `server` is the name of the file, empty for a text without one.
        """
        server = server or "NAME"
        for path, line in list(self._made.values())[:1]:
            library = path.rpartition(".")[2]
            yield Problem(
                f"{server}.py",
                f"it is a program with an MCP server of its own ({library}). The hub reads only its functions with"
                " @tool as tools: resources, prompts and settings of that server are not served. To serve all of it,"
                " move it out of the servers folder and mount it as a program",
                line,
                f"mkdir -p ~/mcp && mv servers/{server}.py ~/mcp/\n"
                f"patchbay mount {server} -- {self.run_command} ~/mcp/{server}.py",
            )

    def _marks(self, function: FunctionNode) -> list[str]:
        """Return the methods of such servers that decorate a function: `tool`, `resource`, `prompt`."""
        heads = [mark.func if isinstance(mark, ast.Call) else mark for mark in function.decorator_list]
        return [
            head.attr
            for head in heads
            if isinstance(head, ast.Attribute) and isinstance(head.value, ast.Name) and head.value.id in self._made
        ]

    def _is_context(self, annotation: ast.expr | None) -> bool:
        return annotation is not None and any(
            _CONTEXT.fullmatch(self._scope.path(node))
            for node in ast.walk(annotation)
            if isinstance(node, ast.Name | ast.Attribute)
        )


def _all_parameters(function: FunctionNode) -> list[ast.arg]:
    return [*function.args.args, *function.args.kwonlyargs]


def _run_command(path: str) -> str:
    """Return the command line that runs a file with a server of this class, without the file."""
    if path.startswith("fastmcp."):
        return "uv run --with fastmcp fastmcp run"
    return f'uv run --with "mcp[cli]{"<2" if path.startswith(_OLD_SDK) else ""}" mcp run'

"""The kind of Python definitions: their functions, and the process in which they run."""

from __future__ import annotations

import ast
from typing import Any

from patchbay.activation import Handler
from patchbay.kind import Confinement, EntryContext, Fields, Kind
from patchbay.kinds.confinement_description import confine_inline, confine_process
from patchbay.kinds.python.discovery.functions import discover_functions
from patchbay.kinds.python.discovery.syntax import parse_source
from patchbay.kinds.python.inline import python_handler
from patchbay.kinds.python.workers.handler import hosted_handler
from patchbay.kinds.registry import INLINE, Handlers


def _make_handler(source: bytes, cid: str, name: str, config: Fields, using: Handlers) -> Handler:
    inline = using.hosts is None or _is_inline(config, using.isolation)
    limits = using.limits(config, inline, name)
    own = using.folder(config, name)
    if inline or using.hosts is None:
        return python_handler(source, cid, name)
    return hosted_handler(using.hosts, source, cid, name, limits, config.get("environment", {}), own)


def _is_inline(config: Fields, isolation: str) -> bool:
    """Whether a server runs inside the hub process. One with its own environment needs its own processes."""
    return bool(config.get("isolation", "process" if config.get("environment") else isolation) == INLINE)


def _functions(source: bytes) -> dict[str, tuple[str, ...]]:
    """Return every top-level function of a definition, with the names of its parameters in order."""
    body = parse_source(source).body
    functions = [one for one in body if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {one.name: tuple(arg.arg for arg in (*one.args.args, *one.args.kwonlyargs)) for one in functions}


def _tool_target(ground: EntryContext, name: str, entry: Fields) -> dict[str, Any]:
    same = name if name in ground.functions else None
    chosen = entry.get("function") or same or ground.config.get("function") or "main"
    function = ground.function(str(chosen), f"tools.{name}")
    return {"function": function} | ({"streams": True} if function in ground.streaming else {})


def _confine(config: Fields, isolation: str, memory: int, upstream: Any) -> Confinement:
    if _is_inline(config, isolation):
        return confine_inline(config)
    return confine_process("in a process of its own", config, memory)


KIND = Kind(
    "python",
    "Python",
    language="python",
    endings=(".py",),
    discover=discover_functions,
    functions=_functions,
    tool_target=_tool_target,
    make_handler=_make_handler,
    confine=_confine,
)

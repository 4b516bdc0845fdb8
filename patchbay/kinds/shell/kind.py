"""The kind of shell definitions, and the command of their tools."""

from __future__ import annotations

from typing import Any

from patchbay.activation import Handler
from patchbay.kind import Confinement, EntryContext, Fields, Kind
from patchbay.kinds.confinement_description import confine_process
from patchbay.kinds.registry import Handlers
from patchbay.kinds.shell.discovery import discover_tool, is_shell
from patchbay.kinds.shell.handler import shell_handler
from patchbay.processes.confinement.protections import NAMESPACES


def _make_handler(source: bytes, cid: str, name: str, config: Fields, using: Handlers) -> Handler:
    environment, limits = config.get("environment", {}), using.limits(config, False, name)
    if using.worker_pool is None:
        return shell_handler(source, name, environment, limits, find_variables=using.find_variables)
    around = (using.worker_pool.hidden, using.worker_pool.wanted, using.worker_pool.kept)
    return shell_handler(source, name, environment, limits, *around, find_variables=using.find_variables)


def _tool_target(ground: EntryContext, name: str, entry: Fields) -> dict[str, Any]:
    target: dict[str, Any] = {"argv": entry["argv"]} if "argv" in entry else {"takes": _text_property(entry)}
    contents = _content_properties(entry)
    return {**target, "contents": contents} if contents else target


def _content_properties(entry: Fields) -> dict[str, bool]:
    """Return the properties whose content callers may give by a link, and whether their value is its base64."""
    properties = entry.get("inputSchema", {}).get("properties", {})
    return {
        name: one.get("contentEncoding") == "base64" for name, one in properties.items() if one.get("format") == "cid"
    }


def _text_property(entry: Fields) -> str | None:
    """Return the one text property that a shell tool without argv passes to its command; None without one."""
    if "inputSchema" not in entry:
        return "args"
    properties = entry["inputSchema"].get("properties", {})
    texts = [name for name, one in properties.items() if name != "input" and one.get("type", "string") == "string"]
    return texts[0] if len(texts) == 1 else None


def _confine(config: Fields, isolation: str, memory: int, upstream: Any) -> Confinement:
    return confine_process("in a process of its own for each call", config, memory)


KIND = Kind(
    "shell",
    "Shell script",
    language="shell",
    endings=(".sh",),
    recognizes=is_shell,
    discover=discover_tool,
    tool_target=_tool_target,
    make_handler=_make_handler,
    confine=_confine,
    lacks=frozenset({NAMESPACES}),
)

"""The modules that a script may import: one for each server, with a function for each tool that its caller may call."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.descriptors import ACTIVITY, ACTIVITY_MODES, Descriptor
from patchbay.scripting.stubs.functions import HEADER, FunctionStub, function_stub
from patchbay.scripting.stubs.names import TYPE_NAMES, FreeNames, camel_case, module_name, unique_names

MAX_WHOLE_MODULE = 200
"""Functions up to which a script sees the whole module; of a larger one, those whose names its text has."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True)
class ScriptTool:
    """A tool that a script may call, by the server that has it; `public` is its name in the list that it is from.

    `pinned` is that server for an endpoint of one version, None for the moving one.
    """

    server: str
    descriptor: Descriptor
    public: str
    pinned: Server | None = None

    @property
    def title(self) -> str:
        """The server and the tool, for people and in records."""
        return f"{self.server}.{self.descriptor.name}"

    @property
    def only_reads(self) -> bool:
        """Whether the tool says that it changes nothing. A toolset may only be stricter about it than the origin."""
        hints = self.descriptor.wire.get("annotations")
        return isinstance(hints, Mapping) and hints.get("readOnlyHint") is True


class ScriptModule:
    """The module of one server: its name, and its tools by the names of their functions."""

    def __init__(self, name: str, tools: Iterable[ScriptTool]) -> None:
        self.name = name
        by_name = {tool.descriptor.name: tool for tool in tools}
        names = unique_names(by_name, TYPE_NAMES)
        self.tools = {names[key]: tool for key, tool in by_name.items()}
        self._stubs: dict[str, FunctionStub] = {}

    @cached_property
    def _prefixes(self) -> dict[str, str]:
        """What begins the names of the types of each function; no two functions have the same."""
        free = FreeNames()
        return {name: free.take(camel_case(name)) for name in self.tools}

    def stub(self, function: str) -> FunctionStub:
        """Return the typed function of a tool."""
        known = self._stubs.get(function)
        if known is None:
            wire, prefix = self.tools[function].descriptor.wire, self._prefixes[function]
            known = self._stubs[function] = function_stub(function, wire, prefix, self.tools)
        return known

    def stubs(self, functions: Iterable[str]) -> str:
        """Return the text of a module with these functions."""
        return "\n\n".join([HEADER, *(self.stub(name).text for name in functions)]) + "\n"

    def seen_by(self, words: Collection[str]) -> list[str]:
        """Return the functions that a script with these words in its text may use."""
        return [name for name in self.tools if len(self.tools) <= MAX_WHOLE_MODULE or name in words]


@dataclass(frozen=True, slots=True)
class ScriptModules:
    """The modules by name, and the module and the function of each tool by the name that a list shows."""

    modules: Mapping[str, ScriptModule]
    functions: Mapping[str, tuple[str, str]]


_MODULES: ServerCache[str, ScriptModules] = ServerCache()


def modules_of(server: Server) -> ScriptModules:
    """Return the modules for the scripts of a server, or of all servers; made once for each version."""
    return _MODULES.get(server, "", lambda: _make_modules(server))


def words_of(code: str) -> frozenset[str]:
    """Return all names in the text of a script."""
    return frozenset(_WORD.findall(code))


def _make_modules(server: Server) -> ScriptModules:
    by_server: dict[str, list[ScriptTool]] = {}
    for tool in _tools_of(server):
        if tool.descriptor.is_for_models:
            by_server.setdefault(tool.server, []).append(tool)
    names = _module_names(by_server)
    modules = {names[name]: ScriptModule(names[name], tools) for name, tools in by_server.items()}
    functions = {
        tool.public: (module.name, function) for module in modules.values() for function, tool in module.tools.items()
    }
    return ScriptModules(modules, functions)


def _tools_of(server: Server) -> Iterable[ScriptTool]:
    pinned = server if server.pinned else None
    for public, one in server.found_tools.items():
        if isinstance(server, Aggregate):
            owner, key = server.owners["tools"][public]
            yield ScriptTool(owner.name, owner.tools[key], public)
        else:
            yield ScriptTool(server.name, one, public, pinned)


def recorded_mode(server: Server) -> str:
    """Return what records keep of a script (`ACTIVITY_MODES`): no more than of any tool that it may call.

    Its text and its inputs may have the arguments of a tool whose arguments are not recorded.
    """
    modes = []
    for public, one in server.found_tools.items():
        owner = server.owners["tools"][public][0] if isinstance(server, Aggregate) else server
        said = [str(place[ACTIVITY]) for place in (owner.config, one.target) if ACTIVITY in place]
        modes += ["none"] if one.has_secret_arguments else said
    return min(modes, key=ACTIVITY_MODES.index, default=ACTIVITY_MODES[-1])


def _module_names(servers: Iterable[str]) -> dict[str, str]:
    """Return the module of each server; where two would have one name, the later one by name gets a number."""
    free = FreeNames()
    in_order = sorted(servers, key=lambda one: (module_name(one) != one, one))
    return {server: free.take(module_name(server)) for server in in_order}


def find_function(modules: ScriptModules, name: str) -> tuple[ScriptTool, Mapping[str, str]] | None:
    """Return the tool of `module.function`, and its arguments with other names; None for an unknown tool."""
    module, _, function = name.partition(".")
    found = modules.modules.get(module)
    if found is None or function not in found.tools:
        return None
    return found.tools[function], found.stub(function).renamed


def describe_tools(modules: ScriptModules, names: Iterable[str]) -> str:
    """Return the typed functions of these tools, by the names that a list shows, as Python with a line per module."""
    chosen: dict[str, list[str]] = {}
    for name in names:
        module, function = modules.functions[name]
        chosen.setdefault(module, []).append(function)
    parts = [
        "\n\n".join([f"# import {name}", *(modules.modules[name].stub(one).text for one in functions)])
        for name, functions in chosen.items()
    ]
    return "\n\n\n".join(parts)


def plain_arguments(given: Mapping[str, Any], renamed: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of a tool for those of its function."""
    return {renamed.get(name, name): value for name, value in given.items()}

"""Chooses the tools of a toolset, and names them.

A tool that the configuration names has that name. An included tool keeps the name that it has at its origin; where two
have one name, each is called `server__tool`. Toolsets are origins only where a pattern names them without wildcards.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from patchbay.descriptors import Descriptor, Problem
from patchbay.kind import Composed, OriginServer
from patchbay.kinds.toolset.configuration import NamedTool, Toolset, is_uri_pattern
from patchbay.patterns.entries import EVERYTHING, covers, names_server, splits
from patchbay.suggestions import did_you_mean, find_similar_names

SEPARATOR = "__"

_WILDCARDS = "*?["


class Choice(NamedTuple):
    """A chosen tool: its origin, and what the configuration says about it (None for an included one)."""

    server: OriginServer
    tool: Descriptor
    named: NamedTool | None = None


def choose_tools(composed: Composed, toolset: Toolset) -> tuple[dict[str, Choice], list[Problem]]:
    """Return the chosen tools by name, and a problem for each pattern and each name that chooses nothing."""
    problems: list[Problem] = []
    chosen: dict[str, Choice] = {}
    for name, named in toolset.tools.items():
        if named.script:
            continue
        found = _find_origin(composed, named.origin)
        if isinstance(found, str):
            problems.append(Problem(f"tools.{name}", found))
        else:
            chosen[name] = Choice(*found, named)
    taken = {(one.server.name, one.tool.name) for one in chosen.values()}
    included = [one for one in _included(composed, toolset) if (one.server.name, one.tool.name) not in taken]
    scripts = frozenset(name for name, named in toolset.tools.items() if named.script)
    names, refused = _name_included(included, frozenset(chosen) | scripts)
    problems += [*refused, *_unmatched(composed, toolset)]
    return chosen | names, problems


def _included(composed: Composed, toolset: Toolset) -> list[Choice]:
    """Return the tools that the patterns include and do not exclude."""
    return [
        Choice(server, tool)
        for server in composed.servers.values()
        for name, tool in server.tools.items()
        if any(chooses(composed, pattern, server.name, name) for pattern in toolset.include)
        and not any(covers(pattern, server.name, name) for pattern in toolset.exclude)
    ]


def chooses(composed: Composed, pattern: str, server: str, entry: str) -> bool:
    """Whether a pattern chooses an entry; one of a toolset only where the pattern has the name of that toolset."""
    if server in composed.named_only and not names_server(pattern, server):
        return False
    return covers(pattern, server, entry)


def _name_included(included: Sequence[Choice], named: frozenset[str]) -> tuple[dict[str, Choice], list[Problem]]:
    """Return the included tools by name, and a problem for those whose names cannot be told apart.

    A tool keeps its name unless another one has it, by its own name or as `server__tool`: no server can take the name
    under which a tool of another server is listed.
    """
    counts = Counter(one.tool.name for one in included)
    long = {id(one) for one in included if counts[one.tool.name] > 1 or one.tool.name in named}
    while True:
        whole = {_whole_name(one) for one in included if id(one) in long}
        more = {id(one) for one in included if id(one) not in long and one.tool.name in whole}
        if not more:
            break
        long |= more
    found: dict[str, list[Choice]] = {}
    for one in included:
        found.setdefault(_whole_name(one) if id(one) in long else one.tool.name, []).append(one)
    problems = [
        Problem("include", f"{name} is not listed: {_describe_choices(those)} would have this name")
        for name, those in found.items()
        if len(those) > 1 or name in named
    ]
    return {name: those[0] for name, those in found.items() if len(those) == 1 and name not in named}, problems


def _whole_name(one: Choice) -> str:
    return f"{one.server.name}{SEPARATOR}{one.tool.name}"


def _describe_choices(those: Sequence[Choice]) -> str:
    origins = " and ".join(f"{one.server.name}.{one.tool.name}" for one in those[:3])
    return origins if len(those) > 1 else f"{origins} and a tool of the field tools"


def _find_origin(composed: Composed, origin: str) -> tuple[OriginServer, Descriptor] | str:
    """Return the server and the tool that `server.tool` names, or a sentence that names the nearest ones."""
    nearest: list[str] = []
    known = None
    for of_server, of_tool in splits(origin):
        server = composed.servers.get(of_server)
        if server is None:
            continue
        known = server.name
        tool = server.tools.get(of_tool)
        if tool is not None:
            return server, tool
        nearest += [f"{known}.{one}" for one in find_similar_names(of_tool, list(server.tools))]
    if known is not None:
        return f"not listed: {known} has no tool {origin[len(known) + 1 :]!r:.80}{did_you_mean(nearest)}"
    return f"not listed: there is no server {origin.partition('.')[0]!r:.80}{_suggest_servers(composed, origin)}"


def _unmatched(composed: Composed, toolset: Toolset) -> Iterator[Problem]:
    """Yield a problem for each pattern that matches no tool, with the nearest name."""
    for member, patterns in (("include", toolset.include), ("exclude", toolset.exclude)):
        for number, pattern in enumerate(patterns):
            if pattern == EVERYTHING or _matches_something(composed, pattern, member == "exclude"):
                continue
            names = {server.name: list(server.tools) for server in composed.servers.values()}
            nearest = nearest_to_pattern(composed, pattern, names)
            yield Problem(f"{member}.{number}", f"{pattern} matches no tool{nearest}")


def _matches_something(composed: Composed, pattern: str, is_about_all: bool) -> bool:
    """Whether a pattern chooses a tool or, if it is about all entries, a resource, template or prompt."""
    if is_about_all and is_uri_pattern(pattern):
        return True
    for server in composed.servers.values():
        others = (*server.resources, *server.templates, *server.prompts) if is_about_all else ()
        if any(chooses(composed, pattern, server.name, name) for name in (*server.tools, *others)):
            return True
    return False


def nearest_to_pattern(composed: Composed, pattern: str, names: Mapping[str, Sequence[str]]) -> str:
    """Return the end of a sentence that names what is nearest to a pattern; empty if nothing is.

    `names` are those of the entries of each server that the pattern may mean.
    """
    server, dot, entry = pattern.partition(".")
    if server not in composed.servers and not any(sign in server for sign in _WILDCARDS):
        return f": there is no server {server}{_suggest_servers(composed, pattern)}"
    fitting = [one for one in composed.servers if chooses(composed, f"{server}.*", one, "x")]
    if not dot:
        return f": {server} has none" if server in composed.servers else ""
    literal = entry.strip("*?")
    close = [f"{one}.{name}" for one in fitting for name in find_similar_names(literal, names.get(one, ()))]
    return did_you_mean(close)


def _suggest_servers(composed: Composed, pattern: str) -> str:
    server, dot, entry = pattern.partition(".")
    return did_you_mean([f"{name}{dot}{entry}" for name in find_similar_names(server, list(composed.servers))])

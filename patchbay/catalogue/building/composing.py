"""Servers that are made of entries of others (toolsets): made after all others, and again when one of those changes.

A toolset may choose entries of toolsets that its configuration names: at most MAX_TOOLSETS_IN_ROW, and never its own.
One that leads back to itself is broken, and so is one that is too deep; the sentence names the way.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from patchbay.catalogue.reading.uri_owners import UriOwners
from patchbay.catalogue.servers.server import Server
from patchbay.kind import Composed, Configuration, ServerParts, kind_named
from patchbay.patterns.entries import fits, names_server, splits

log = logging.getLogger(__name__)

MAX_TOOLSETS_IN_ROW = 4
"""Limit on toolsets of which each one chooses entries of the next."""

CANNOT_BE_MADE = "its entries cannot be made of those of other servers; the log of the hub has the reason"
"""Why a server is broken whose entries lead to an error of the hub."""


@dataclass(frozen=True, slots=True)
class _Made:
    """A server as it was built, the servers that it was made of, whether only reading was allowed, and the result."""

    base: Server
    inputs: Mapping[str, Server]
    readonly: bool
    server: Server


class Composer:
    """Makes the servers of one catalogue that are made of others. One thread at a time may use it."""

    def __init__(self) -> None:
        self._made: dict[str, _Made] = {}

    def compose(self, every: Mapping[str, Server], readonly: bool) -> Mapping[str, Server]:
        """Return all servers by name, those that are made of others with the entries that they have now.

        A server for which nothing has changed stays the same object.
        """
        bases = {
            name: base
            for name, one in every.items()
            if (one.is_composed or name in self._made) and _composes(base := self._base(one))
        }
        self._made = {name: made for name, made in self._made.items() if name in bases}
        if not bases:
            return every
        plain = {name: one for name, one in every.items() if name not in bases and one.enabled and not one.broken}
        ways = {name: _named_toolsets(base, bases) for name, base in bases.items()}
        wrong = _wrong_ways(ways)
        found = dict(every) | {name: self._break(bases[name], sentence, readonly) for name, sentence in wrong.items()}
        straight = _without(ways, wrong)
        for name in sorted(straight, key=lambda one: (_depth(one, straight), one)):
            named = {each: found[each] for each in straight[name] if not found[each].broken}
            found[name] = self._make(bases[name], plain, named, readonly)
        return found

    def inputs(self) -> dict[str, list[str]]:
        """Return the names of the servers that each server is made of, for those that are made of others."""
        return {name: list(made.inputs) for name, made in self._made.items()}

    def _base(self, server: Server) -> Server:
        """Return a server as it was built."""
        made = self._made.get(server.name)
        return made.base if made is not None and made.server is server else server

    def _make(self, base: Server, plain: Mapping[str, Server], named: Mapping[str, Server], readonly: bool) -> Server:
        patterns = _patterns(base)
        inputs = {**{name: one for name, one in plain.items() if _concerns(patterns, name)}, **named}
        made = self._made.get(base.name)
        if made is not None and made.base is base and made.readonly == readonly and _are_same(made.inputs, inputs):
            return made.server
        server = compose_server(base, inputs, frozenset(named), readonly)
        self._made[base.name] = _Made(base, inputs, readonly, server)
        return server

    def _break(self, base: Server, sentence: str, readonly: bool) -> Server:
        made = self._made.get(base.name)
        if made is not None and made.base is base and made.server.broken == sentence:
            return made.server
        log.warning("the server %s is not served: %s", base.name, sentence)
        server = replace(base, broken=sentence)
        self._made[base.name] = _Made(base, {}, readonly, server)
        return server


def compose_server(
    base: Server,
    servers: Mapping[str, Server],
    named_only: frozenset[str],
    readonly: bool,
    is_past: bool = False,
) -> Server:
    """Return a server that is made of others with its entries; the server itself if it is not made of others.

    `servers` are those that it may choose from, and `named_only` the toolsets among them; `is_past` as in `Composed`.
    One whose entries cannot be made is broken, alone: a mounted server decides what its entries look like, and must
    not end the start of the hub.
    """
    compose = _configuration(base).compose if _composes(base) else None
    if compose is None:
        return base
    try:
        find_owners = partial(_find_uri_owners, servers)
        composed = Composed(base.name, base.config, servers, named_only, is_past, find_owners)
        return _with_parts(base, compose(composed), readonly)
    except Exception:
        log.exception("the server %s is not served: %s", base.name, CANNOT_BE_MADE)
        return replace(base, broken=CANNOT_BE_MADE)


def _find_uri_owners(
    servers: Mapping[str, Server], resources: Mapping[str, Sequence[str]], templates: Mapping[str, Sequence[str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the server of each URI and template, as `patchbay.kind.FindUriOwners` describes it."""
    parts = [
        replace(
            servers[name],
            resources={uri: servers[name].resources[uri] for uri in resources.get(name, ())},
            templates={key: servers[name].templates[key] for key in templates.get(name, ())},
        )
        for name in dict.fromkeys((*resources, *templates))
    ]
    owners = UriOwners.of(parts)
    return (
        {uri: owner.name for uri, (owner, _) in owners.resources.items()},
        {key: owner.name for key, (owner, _) in owners.templates.items()},
    )


def _with_parts(base: Server, parts: ServerParts, readonly: bool) -> Server:
    """Return a server that is made of others with its parts."""
    tools = base.listing.select(parts.tools)
    made = replace(
        base,
        tools={name: one for name, one in tools.items() if one.read_only or not readonly},
        resources=parts.resources,
        templates=parts.templates,
        prompts=parts.prompts,
        skills=parts.skills,
        problems=(*parts.problems, *base.listing.problems(parts.tools)),
        handler=parts.handler,
        streams=any(one.target.get("streams") for one in tools.values()),
        via=parts.via,
        audience=parts.audience,
    )
    return made if parts.handler_of is None else replace(made, handler=parts.handler_of(made))


def compose_version(base: Server, every: Mapping[str, Server], readonly: bool) -> Server:
    """Return one version of a server, made of the servers of now if it is made of others.

    `every` are the servers of now. Another version than that of now gives no rights of its own: its callers need the
    right on what is behind each entry, because the operator may have taken an entry back.
    """
    if not _composes(base):
        return base
    served = {name: one for name, one in every.items() if one.enabled and not one.broken and name != base.name}
    toolsets = {name: one for name, one in served.items() if _composes(one)} | {base.name: base}
    ways = {name: _named_toolsets(one, toolsets) for name, one in toolsets.items()}
    if sentence := _wrong_ways(ways).get(base.name):
        return replace(base, broken=sentence)
    named = ways[base.name]
    chosen = {name: one for name, one in served.items() if name not in toolsets or name in named}
    now = every.get(base.name)
    is_past = now is None or now.version != base.version
    return compose_server(base, chosen, frozenset(named), readonly, is_past)


def _configuration(server: Server) -> Configuration:
    configuration = kind_named(server.kind).configuration
    assert configuration is not None
    return configuration


def _patterns(server: Server) -> Sequence[str]:
    return _configuration(server).patterns(server.config)


def _composes(server: Server) -> bool:
    """Whether a server is made of others, and is served."""
    return server.is_composed and server.enabled and not server.broken


def _named_toolsets(base: Server, toolsets: Mapping[str, Server]) -> list[str]:
    """Return the toolsets that the patterns of a server name without wildcards, itself included."""
    patterns = _patterns(base)
    return [name for name in toolsets if any(names_server(one, name) for one in patterns)]


def _concerns(patterns: Sequence[str], name: str) -> bool:
    """Whether a pattern may cover an entry of a server."""
    return any(fits(beginning, name) for one in patterns for beginning in _server_parts(one))


def _server_parts(pattern: str) -> list[str]:
    """Return what may be the server part of a pattern: all of it, and what stands before each of its dots."""
    return [pattern, *(of_server for of_server, _ in splits(pattern))]


def _are_same(before: Mapping[str, Server], now: Mapping[str, Server]) -> bool:
    return before.keys() == now.keys() and all(before[name] is one for name, one in now.items())


def _wrong_ways(ways: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return the toolsets that cannot be made, each with the reason; `ways` are the toolsets that each one names."""
    found = {}
    for name in ways:
        if circle := _way_back(name, ways):
            found[name] = f"its entries lead back to itself: {' -> '.join(circle)}"
    straight = _without(ways, found)
    for name in straight:
        if _depth(name, straight) > MAX_TOOLSETS_IN_ROW:
            row = [name]
            while following := straight[row[-1]]:
                row.append(max(following, key=lambda one: _depth(one, straight)))
            found[name] = f"more than {MAX_TOOLSETS_IN_ROW} toolsets choose from each other: {' -> '.join(row)}"
    return found


def _without(ways: Mapping[str, Sequence[str]], wrong: Container[str]) -> dict[str, list[str]]:
    """Return the ways of the other toolsets to each other; without those that lead to a circle, each depth is whole."""
    return {name: [one for one in those if one not in wrong] for name, those in ways.items() if name not in wrong}


def _way_back(name: str, ways: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the shortest way from a toolset back to itself; empty if there is none."""
    before: dict[str, str] = {}
    waiting = deque([name])
    while waiting:
        here = waiting.popleft()
        for each in ways[here]:
            if each == name:
                row = [here]
                while row[-1] != name:
                    row.append(before[row[-1]])
                return [*reversed(row), name]
            if each not in before:
                before[each] = here
                waiting.append(each)
    return []


def _depth(name: str, ways: Mapping[str, Sequence[str]]) -> int:
    """Return the number of toolsets in the longest row that begins with a toolset; a row that is too long is cut."""
    level, depth = {name}, 0
    while level and depth <= MAX_TOOLSETS_IN_ROW:
        level = {each for one in level for each in ways[one]}
        depth += 1
    return depth

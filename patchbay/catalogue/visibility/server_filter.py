"""A server as a caller may see it: the entries that it may use, and no others.

A tool needs the action `call`; a resource, template, prompt, event type or skill needs `read`; the server itself is
there when one of its entries is, or when the caller may `see` it. A denial of an origin hides the entry of a toolset
too, and where the toolset says so, its caller needs the right on the origin as well. A denial of the name that a
tool has at a mounted server hides it also under the name that the mount gives it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from patchbay.boot.grants import CALL, READ, SEE
from patchbay.catalogue.servers.server import Server
from patchbay.catalogue.visible_catalogue import Visibility, is_denied_by_older_name
from patchbay.descriptors import Descriptor

Entry = TypeVar("Entry")


def visible_part(server: Server, rights: Visibility, hidden: frozenset[str] = frozenset()) -> Server | None:
    """Return the part of a server that these rights make visible: the server itself if they hide nothing of it, None
    if they hide all of it. `hidden` are names and URIs that the server itself hides from the caller.
    """
    own = rights.only_about(server.name)
    tools = _allowed(server.name, server.tools, own, CALL, hidden)
    tools = {name: one for name, one in tools.items() if not is_denied_by_older_name(rights, one)}
    resources, templates, prompts, events = (
        _allowed(server.name, group, own, READ, hidden)
        for group in (server.resources, server.templates, server.prompts, server.events)
    )
    skills = {name: one for name, one in server.skills.items() if own.allows(READ, server.name, one.uri)}
    if server.is_composed:
        tools = {name: one for name, one in tools.items() if _allows_origins(rights, one, CALL)}
        resources, templates, prompts = (
            {name: one for name, one in group.items() if _allows_origins(rights, one, READ)}
            for group in (resources, templates, prompts)
        )
        skills = {name: one for name, one in skills.items() if one.uri in resources}
    visible = (tools, resources, templates, prompts, events, skills)
    if not (any(visible) or own.allows(SEE, server.name)):
        return None
    whole = (server.tools, server.resources, server.templates, server.prompts, server.events, server.skills)
    is_whole = [len(group) for group in visible] == [len(group) for group in whole]
    # The problems of a toolset name origins, which are for readers of its configuration.
    if is_whole and (not server.is_composed or own.allows(SEE, server.name)):
        return server
    # Problems and pins name entries, which may be hidden ones.
    return replace(
        server,
        tools=tools,
        resources=resources,
        templates=templates,
        prompts=prompts,
        events=events,
        skills=skills,
        problems=(),
        pins=None,
    )


def _allowed(
    server: str, entries: Mapping[str, Entry], rights: Visibility, action: str, hidden: frozenset[str]
) -> dict[str, Entry]:
    return {name: one for name, one in entries.items() if name not in hidden and rights.allows(action, server, name)}


def _allows_origins(rights: Visibility, one: Descriptor, action: str) -> bool:
    """Whether no origin of an entry is denied, and the caller has the right on each for which it is needed."""
    return all(
        not rights.forbids(origin.server, origin.name)
        and (not origin.needs_right or rights.allows(action, origin.server, origin.name))
        for origin in one.origins
    )

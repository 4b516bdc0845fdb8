"""The kind of toolsets: `"kind": "toolset"` with the entries of other servers that it chooses.

Its tools are made anew whenever one of these servers changes. A call goes to the origin through the hub
(`patchbay.activation.Hub.pass_on`).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from patchbay.activation import Call, Events, Handler
from patchbay.descriptors import Descriptor
from patchbay.kind import (
    Composed,
    Configuration,
    ConfiguredServer,
    Confinement,
    Fields,
    Kind,
    OriginServer,
    ServerParts,
)
from patchbay.kinds.toolset.app_links import is_app, with_public_links
from patchbay.kinds.toolset.audience import audience_of
from patchbay.kinds.toolset.configuration import check_fields, parse_fields, patterns_of
from patchbay.kinds.toolset.entries import ENTRY, make_tools
from patchbay.kinds.toolset.readable_entries import make_readable, origins_of
from patchbay.kinds.toolset.saved_scripts import MadeScripts, make_script_tools
from patchbay.kinds.toolset.selection import choose_tools
from patchbay.shaping.tools import ShapedTool

OWN_FIELDS = ("include", "exclude", "rights", "search", "scripts")
"""The fields that no other kind has, or that mean something else there."""

FIELDS = frozenset(
    [
        *OWN_FIELDS,
        *("$schema", "kind", "title", "description", "instructions", "icons", "enabled", "mcp_enabled", "timeout"),
        *("tools", "resources", "prompts", "listing", "activity", "limits"),
    ]
)


def _make_parts(server: ConfiguredServer) -> ServerParts:
    """Return the parts of a toolset before it has any entry."""
    return ServerParts(_toolset_handler({}), {})


def _compose(composed: Composed) -> ServerParts:
    """Return the parts of a toolset that chooses from these servers. Each problem is about one entry."""
    toolset = parse_fields(composed.fields)
    chosen, problems = choose_tools(composed, toolset)
    made = make_tools(composed, toolset, chosen)
    saved = make_script_tools(toolset.tools, made.tools)
    readable = make_readable(composed, toolset, made.apps)
    entries = [*made.tools.values(), *origins_of(readable).values()]
    used = dict.fromkeys([one.origins[0].server for one in entries])
    servers = [composed.servers[name] for name in used]
    run = _toolset_handler(made.tools, made.shaped, _may_link(composed, made.tools))
    return ServerParts(
        run,
        made.tools | saved.tools,
        readable.resources,
        readable.templates,
        readable.prompts,
        problems=(*problems, *made.problems, *saved.problems, *readable.problems),
        via=tuple(dict.fromkeys(way for server in servers for way in server.via)),
        audience=audience_of(servers, entries),
        skills=readable.skills,
        handler_of=partial(_with_scripts, run, saved) if saved.tools else None,
    )


def _with_scripts(run: Handler, saved: MadeScripts, server: OriginServer) -> Handler:
    """Return the handler of a toolset with scripts, which call the tools of `server`, the toolset itself."""

    def run_script(call: Call) -> Events:
        name = call.target[ENTRY]
        script, hub = saved.scripts.get(name), call.hub
        if script is None:
            return run(call)
        assert hub is not None, "a toolset is served by a hub"
        begin = partial(hub.run_saved_script, server, script, call=call)
        return saved.shaped[name].run(call, begin) if name in saved.shaped else begin(call.arguments)

    return run_script


def _may_link(composed: Composed, tools: Mapping[str, Descriptor]) -> frozenset[str]:
    """Return the names of the tools whose results may have links to apps: those of servers that have some."""
    with_apps = {name for name, one in composed.servers.items() if any(map(is_app, one.resources))}
    return frozenset(name for name, one in tools.items() if one.origins[0].server in with_apps)


def _toolset_handler(
    tools: Mapping[str, Descriptor],
    shaped: Mapping[str, ShapedTool] = MappingProxyType({}),
    linked: frozenset[str] = frozenset(),
) -> Handler:
    """Return the handler of targets `{"entry": NAME}`: each call goes to the origin of the tool.

    Links to apps in the results of the tools `linked` get the URIs that the apps have in the toolset.
    """

    def run(call: Call) -> Events:
        hub = call.hub
        assert hub is not None, "a toolset is served by a hub"
        name = call.target[ENTRY]
        one = shaped.get(name)
        tool = tools[name]
        if one is not None:
            events = one.run(call, lambda given: hub.pass_on(tool, given, call))
        else:
            events = hub.pass_on(tool, call.arguments, call)
        return with_public_links(events, tool.origins[0].server) if name in linked else events

    return run


def _confine(config: Fields, isolation: str, memory: int, upstream: object) -> Confinement:
    return Confinement("none", None, False, False, "where the servers run whose tools it has; it runs nothing itself")


KIND = Kind(
    "toolset",
    "Definition as JSON",
    language="json",
    is_configuration=True,
    confine=_confine,
    configuration=Configuration(
        OWN_FIELDS,
        FIELDS,
        "a toolset",
        check_fields,
        _make_parts,
        reaches="it gives its callers tools of other servers",
        by_variable=True,
        is_changing=True,
        compose=_compose,
        patterns=patterns_of,
    ),
)

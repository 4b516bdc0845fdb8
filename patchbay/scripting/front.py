"""The server that answers `find_tools` and `run_script` for another one; the first script loads the interpreter."""

from __future__ import annotations

from typing import Any

from patchbay.activation import Call, Events
from patchbay.catalogue.search.tool_search import ToolSearch
from patchbay.catalogue.servers.listing import name_owners
from patchbay.catalogue.servers.script_tools import (
    DEFAULT_FOUND_TOOLS,
    FIND,
    NOT_INSTALLED,
    is_installed,
    script_descriptors,
)
from patchbay.catalogue.servers.server import Server, ServerCache
from patchbay.descriptors import ACTIVITY
from patchbay.errors import ToolFailed
from patchbay.events import Text
from patchbay.python_functions.script_function import RUN_SECONDS
from patchbay.scripting.modules import describe_tools, modules_of, recorded_mode

KEPT_AS = "/scripts"
"""The name under which the hub holds its runs, to close them when it stops; no server can have it."""

NOTHING_FOUND = "No tool has any of these words. Try other words, or an empty query for the first tools."

_FRONTS: ServerCache[str, Server] = ServerCache()


def script_server(server: Server) -> Server:
    """Return the server that answers `find_tools` and `run_script` for another one; made once for each version."""
    return _FRONTS.get(server, "", lambda: _build_front(server))


def _build_front(server: Server) -> Server:
    search = ToolSearch({name: one for name, one in server.found_tools.items() if one.is_for_models})

    def handle(call: Call) -> Events:
        if not is_installed():
            raise ToolFailed(NOT_INSTALLED)
        if call.target["script"] == FIND:
            yield Text(_find(server, search, call.arguments))
        else:
            yield from runs_of(call).run(server, call)

    return Server(
        server.name,
        server.version,
        "static",
        config={ACTIVITY: recorded_mode(server)},
        tools=script_descriptors(server.found_tools, name_owners(server.found_tools)),
        handler=handle,
        pinned=server.pinned,
        timeout=RUN_SECONDS,
    )


def _find(server: Server, search: ToolSearch, arguments: dict[str, Any]) -> str:
    names = search.names(arguments["query"], arguments.get("limit", DEFAULT_FOUND_TOOLS))
    return describe_tools(modules_of(server), names) if names else NOTHING_FOUND


def runs_of(call: Call) -> Any:
    """Return the runs of this process, which begin with its first script."""
    from patchbay.scripting.runs import ScriptRuns

    assert call.hub is not None, "scripts are served by a hub"
    return call.hub.kept(KEPT_AS, ScriptRuns)

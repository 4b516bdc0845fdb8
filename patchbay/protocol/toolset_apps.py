"""Requests of apps in a toolset, which may have other names for the tools and pages of the server of the app.

An app reaches the entries that the toolset has of the server of the app, and nothing else.
Source: SEP-1865 (MCP Apps), visibility and resource discovery.
"""

from __future__ import annotations

from patchbay.app_uris import APP_SCHEME
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import RENAMED_FROM, Descriptor
from patchbay.protocol.streams.subscriptions import find_readable


def find_tool_of_app(toolset: Server, app: str, name: str) -> str | None:
    """Return the name in the toolset of a tool that an app calls: the one of this name at the server of the app.

    Where that server has no such tool here, the name in the toolset of one of its tools. None for every other one, and
    for one that the toolset has several times.
    """
    owner = _owner_of_app(toolset, app)
    mine = {key: one for key, one in toolset.tools.items() if owner is not None and _server_of(one) == owner}
    found = [key for key, one in mine.items() if name in _names_at_origin(one)]
    if len(found) == 1:
        return found[0]
    return name if name in (found or mine) else None


def find_resource_of_app(toolset: Server, app: str, uri: str) -> str | None:
    """Return the URI in the toolset of what an app reads by a URI of its own server; None for every other one."""
    owner = _owner_of_app(toolset, app)
    if owner is None:
        return None
    own = (key for key, one in toolset.resources.items() if _server_of(one) == owner and one.origins[-1].name == uri)
    public = next(own, uri)
    found = find_readable(toolset, public)
    return public if found is not None and _server_of(found) == owner else None


def find_only_tool(toolset: Server, name: str) -> str | None:
    """Return the name in the toolset of the only tool that a server with an app calls so, if apps may call it.

    Most clients that show apps do not say which app calls.
    """
    owners = {_server_of(one) for key, one in toolset.resources.items() if key.startswith(APP_SCHEME)}
    found = [
        key
        for key, one in toolset.tools.items()
        if _server_of(one) in owners and name in _names_at_origin(one) and one.is_for_apps
    ]
    return found[0] if len(found) == 1 else None


def find_only_app(toolset: Server, uri: str) -> str | None:
    """Return the URI in the toolset of the only app that its own server has under a URI."""
    found = [
        key
        for key, one in toolset.resources.items()
        if key.startswith(APP_SCHEME) and one.origins and one.origins[-1].name == uri
    ]
    return found[0] if len(found) == 1 else None


def _owner_of_app(toolset: Server, app: str) -> str | None:
    """Return the name of the server whose app has a URI in the toolset; None if the toolset does not have it."""
    found = toolset.resources.get(app)
    return _server_of(found) if found is not None else None


def _server_of(entry: Descriptor) -> str | None:
    return entry.origins[-1].server if entry.origins else None


def _names_at_origin(tool: Descriptor) -> tuple[str, ...]:
    """Return the name of a tool at its own server, and the one that it has behind a mount that renames it."""
    _, older = tool.target.get(RENAMED_FROM, ("", None))
    return (tool.origins[-1].name, *((str(older),) if older is not None else ()))

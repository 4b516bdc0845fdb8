"""The URIs of apps (`ui://rest`, SEP-1865) where several servers meet: at `/mcp`, and in a toolset.

There the URI gets the name of its server as first part. A server's name has no slash, so that two servers never share a
URI, and a URI names the server that reads it even where no list has it.
Source: SEP-1865 (MCP Apps), resource discovery.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

APP_SCHEME = "ui://"
"""The scheme of the resources that are apps (SEP-1865)."""

OLD_APP_MEMBER = "ui/resourceUri"
"""The earlier member of a tool's `_meta` for the URI of its app (SEP-1865, deprecated)."""

_LINKS = frozenset(("resource_link", "resource"))


def public_uri(server: str, uri: str) -> str:
    """Return the public URI of a server's resource or template: that of an app names the server, others stay."""
    return f"{APP_SCHEME}{server}/{uri[len(APP_SCHEME) :]}" if uri.startswith(APP_SCHEME) else uri


def split_app_uri(uri: str) -> tuple[str, str] | None:
    """Return the server of the public URI of an app, and the URI on that server; None for any other URI."""
    server, slash, rest = uri[len(APP_SCHEME) :].partition("/")
    return (server, APP_SCHEME + rest) if uri.startswith(APP_SCHEME) and server and slash and rest else None


def names_app(wire: Mapping[str, Any]) -> bool:
    """Whether a tool, in its wire form, has an app that shows its results."""
    meta = wire.get("_meta")
    if not isinstance(meta, Mapping):
        return False
    ui = meta.get("ui")
    return OLD_APP_MEMBER in meta or (isinstance(ui, Mapping) and "resourceUri" in ui)


def find_app(wire: Mapping[str, Any]) -> str | None:
    """Return the URI of the app that shows the results of a tool; None for a tool without one."""
    meta = wire.get("_meta")
    if not isinstance(meta, Mapping):
        return None
    ui = meta.get("ui")
    found = ui.get("resourceUri") if isinstance(ui, Mapping) else None
    uri = found if isinstance(found, str) else meta.get(OLD_APP_MEMBER)
    return uri if isinstance(uri, str) and uri.startswith(APP_SCHEME) else None


def without_app(wire: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's wire form without the URI of an app; who may call it stays (SEP-1865, visibility)."""
    meta = wire.get("_meta")
    if not isinstance(meta, Mapping) or not names_app(wire):
        return wire
    kept = {key: value for key, value in meta.items() if key not in ("ui", OLD_APP_MEMBER)}
    ui = meta.get("ui")
    if isinstance(ui, Mapping) and "visibility" in ui:
        kept["ui"] = {"visibility": ui["visibility"]}
    return {**{key: value for key, value in wire.items() if key != "_meta"}, **({"_meta": kept} if kept else {})}


def with_public_app(server: str, wire: dict[str, Any]) -> dict[str, Any]:
    """Return a tool's wire form with the public URI of its app; every other member of `_meta` stays (SEP-1865)."""
    meta = wire.get("_meta")
    if not isinstance(meta, Mapping):
        return wire
    fresh, ui = dict(meta), meta.get("ui")
    if isinstance(ui, Mapping) and isinstance(ui.get("resourceUri"), str):
        fresh["ui"] = {**ui, "resourceUri": public_uri(server, ui["resourceUri"])}
    if isinstance(meta.get(OLD_APP_MEMBER), str):
        fresh[OLD_APP_MEMBER] = public_uri(server, meta[OLD_APP_MEMBER])
    return {**wire, "_meta": fresh}


def public_links(blocks: list[dict[str, Any]], server: str) -> list[dict[str, Any]]:
    """Return the content of a result of a server with the public URIs of its apps.

    Where several servers meet, `ui://page` leads nowhere, and `ui://NAME/page` to the server NAME. Other URIs stay.
    """
    return [_with_public_uri(one, server) if one.get("type") in _LINKS else one for one in blocks]


def _with_public_uri(block: dict[str, Any], server: str) -> dict[str, Any]:
    """Return a link or an embedded resource with its public URI."""
    inner = block.get("resource")
    if isinstance(inner, dict):
        return {**block, "resource": _with_public_uri(inner, server)}
    uri = block.get("uri")
    return {**block, "uri": public_uri(server, uri)} if isinstance(uri, str) else block

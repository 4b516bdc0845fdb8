"""The apps that drop-ins name by a path: the HTML file becomes a resource of the configuration, by its CID.

A configuration names one with `"ui"` in the entry of a tool, a Python definition in `UI`. The stored configuration has
the resource `ui://<path>` with the CID of the file, so that its own CID covers what is served.
Source: SEP-1865 (MCP Apps), UI resource format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.config import SOURCES
from patchbay.descriptors import APP_PATH, app_uri
from patchbay.errors import ConfigError

MIME_TYPE = "text/html;profile=mcp-app"


def find_apps(fields: Mapping[str, Any], config: str) -> dict[str, str]:
    """Return the paths that the tools of a configuration name, by tool. Raises ConfigError for one that is no path."""
    tools = fields.get("tools")
    found = {
        name: entry["ui"]
        for name, entry in (tools.items() if isinstance(tools, Mapping) else ())
        if isinstance(entry, Mapping) and "ui" in entry
    }
    for name, path in found.items():
        if not isinstance(path, str) or not APP_PATH.fullmatch(path):
            raise ConfigError(
                config, f"tools.{name}.ui", f"expected the path of an HTML file, such as card.html; not {path!r:.140}"
            )
    return found


def with_apps(fields: Mapping[str, Any], tools: Mapping[str, str], cids: Mapping[str, str]) -> dict[str, Any]:
    """Return a configuration with a resource for each file and with `_meta.ui` in each tool that names one.

    `tools` maps tools to paths, `cids` paths to contents. The name of the resource is the path, with a dot for each
    slash. A resource keeps other members of its entry, such as `_meta` with the policy of the app.
    """
    given = fields.get("resources")
    resources = dict(given) if isinstance(given, Mapping) else {}
    for path, cid in cids.items():
        name = path.replace("/", ".")
        entry = resources.get(name)
        more = {key: value for key, value in entry.items() if key not in SOURCES} if isinstance(entry, Mapping) else {}
        resources[name] = {"name": name, "mimeType": MIME_TYPE, **more, "uri": app_uri(path), "cid": cid}
    found = {**fields, "resources": resources}
    if tools:
        found["tools"] = {
            name: _with_app(entry, tools[name]) if name in tools else entry for name, entry in fields["tools"].items()
        }
    return found


def _with_app(entry: Mapping[str, Any], path: str) -> dict[str, Any]:
    meta = entry.get("_meta") if isinstance(entry.get("_meta"), Mapping) else {}
    assert meta is not None
    ui = meta.get("ui") if isinstance(meta.get("ui"), Mapping) else {}
    kept = {key: value for key, value in entry.items() if key != "ui"}
    return {**kept, "_meta": {**meta, "ui": {**(ui or {}), "resourceUri": app_uri(path)}}}

"""The kind of folders of documents. What makes the parts of such a server is imported when there is one."""

from __future__ import annotations

from importlib import import_module

from patchbay.errors import ConfigError
from patchbay.kind import Configuration, ConfiguredServer, Fields, Kind, ServerParts
from patchbay.shaping.own_tools import check_own_tools

PARTS = "patchbay.kinds.documents.parts"
"""The module that makes the parts of a server; with it come the index, the search and front matter."""

FIELDS = frozenset(
    [
        *("$schema", "kind", "title", "description", "instructions", "icons", "enabled", "mcp_enabled", "timeout"),
        *("tools", "limits", "listing", "activity", "mask_errors", "root", "server_info"),
    ]
)


def _check(fields: Fields, where: str) -> None:
    root = fields.get("root", "")
    if not root.startswith(("/", "~/")):
        raise ConfigError(where, "root", f"expected the folder of the documents as /... or ~/...; this is {root!r}")
    check_own_tools(fields, where)


def _make_parts(server: ConfiguredServer) -> ServerParts:
    """Return the parts of a folder's server; its hub supplies the library whose documents are listed."""
    parts: ServerParts = import_module(PARTS).make_parts(server)
    return parts


KIND = Kind(
    "documents",
    "Definition as JSON",
    language="json",
    is_configuration=True,
    configuration=Configuration(
        ("root",),
        FIELDS,
        "a folder of documents",
        _check,
        _make_parts,
        reaches="it serves a folder",
        required="root",
        is_changing=True,
    ),
)

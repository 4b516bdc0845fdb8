"""The kind of mounted HTTP APIs: `"kind": "openapi"` with its `document`.

Its tools are the operations that the configuration selects, without those that its pins hold.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from patchbay.caller_accounts.ways import WAY_FIELDS
from patchbay.client.addresses.targets import mask_url
from patchbay.descriptors import Descriptor
from patchbay.errors import ConfigError
from patchbay.kind import Configuration, ConfiguredServer, Confinement, Fields, Kind, ServerParts
from patchbay.kinds.openapi.configuration import check_fields, parse_fields
from patchbay.kinds.openapi.type_alternatives import split_types
from patchbay.pins.documents import INTRODUCTION
from patchbay.shaping.own_tools import check_own_tools, shape_own_tools
from patchbay.upstreams.configuration import OPENAPI

OWN_FIELDS = (
    *("document", "base", "headers", "query", "credentials", "include", "exclude", "max_tools", "pages", "refresh"),
    *("changes", "account", *WAY_FIELDS),
)
FIELDS = frozenset(
    [
        *OWN_FIELDS,
        *("$schema", "kind", "title", "description", "instructions", "icons", "enabled", "mcp_enabled", "timeout"),
        *("tools", "limits", "listing", "activity", "mask_errors"),
    ]
)


def _make_parts(server: ConfiguredServer) -> ServerParts:
    """Return the parts of an API. Raises ConfigError for an invalid configuration."""
    if server.connections is None:
        raise ConfigError(server.origin, "kind", "expected no API here: this hub connects to no other server")
    from patchbay.kinds.openapi.handler import api_handler
    from patchbay.kinds.openapi.standing_api import ApiMount, StandingApi, list_entries
    from patchbay.kinds.openapi.tools import ApiTools

    mount = ApiMount(**parse_fields(server.name, server.fields, server.origin))
    standing: StandingApi = server.connections.of(mount)
    found = standing.build()
    if found is None:
        return ServerParts(_refuse_early_calls, {}, api=standing)
    pins = standing.check_pins(list_entries(found))
    introduction = standing.approved_introduction() if INTRODUCTION in pins.held else found.introduction
    tools = {name: one for name, one in found.tools.items() if ("tool", name) not in pins.held}
    shown = {name: _for_all_clients(one.descriptor) for name, one in tools.items()}
    own = shape_own_tools(server.name, server.fields, shown, api_handler(standing, ApiTools(found.api, tools)))
    return ServerParts(
        own.handler,
        own.tools,
        problems=(*found.problems, *own.problems),
        title=introduction.get("title"),
        description=introduction.get("description", ""),
        api=standing,
        pins=pins,
    )


def _check(fields: Fields, where: str) -> None:
    check_fields(fields, where)
    check_own_tools(fields, where)


def _for_all_clients(tool: Descriptor) -> Descriptor:
    """Return a tool whose schemas have one type each. Its pin stays that of the document's own form."""
    schemas = {key: split_types(tool.wire[key]) for key in ("inputSchema", "outputSchema") if key in tool.wire}
    return replace(tool, wire={**tool.wire, **schemas})


def _refuse_early_calls(call: Any) -> Any:
    raise AssertionError("an API without a document has no tools")


def _confine(config: Fields, isolation: str, memory: int, standing: Any) -> Confinement:
    place = str(config.get("base") or config.get("document") or "")
    parts = urlsplit(mask_url(place.removeprefix("openapi+")))
    where = f"at {parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else "where its document says"
    return Confinement("none", None, False, False, f"{where}, over HTTP; the hub starts nothing")


KIND = Kind(
    OPENAPI,
    "Definition as JSON",
    language="json",
    is_configuration=True,
    confine=_confine,
    configuration=Configuration(
        OWN_FIELDS,
        FIELDS,
        "a mounted HTTP API",
        _check,
        _make_parts,
        reaches="it mounts an API",
        required="document",
        by_variable=True,
        is_changing=True,
    ),
)

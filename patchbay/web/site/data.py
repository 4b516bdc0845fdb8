"""Servers and descriptors as plain values for templates.

These functions read no request and no store. Texts of servers stay text; hidden characters are replaced by their code
points. Source: MCP specification, server/tools; JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields
from itertools import islice
from typing import Any
from urllib.parse import quote

from patchbay.app_uris import APP_SCHEME
from patchbay.caller_accounts.credentials import PAGE
from patchbay.caller_accounts.ways import WAYS
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.servers.script_tools import NOT_INSTALLED, is_installed
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor, Problem
from patchbay.kind import Confinement
from patchbay.kinds.confinement_description import confinement
from patchbay.pins.documents import describe_key
from patchbay.settings import Settings
from patchbay.upstreams.connections.description import describe_sessions
from patchbay.views.hidden_characters import show_hidden_characters
from patchbay.web.rendering.icons import find_icon

_CONFINEMENT_FIELDS = tuple(field.name for field in fields(Confinement))
"""The members of `runs` of a server."""

HINTS = {
    "readOnlyHint": ("reads only", "may change things"),
    "destructiveHint": ("may delete or overwrite", "not destructive"),
    "idempotentHint": ("safe to repeat", "not safe to repeat"),
    "openWorldHint": ("outside access", "no outside access"),
}
"""Tool annotations in words: (when true, when false)."""

LIMITS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "length {} or more"),
    ("maxLength", "length {} or less"),
    ("pattern", "matches {}"),
    ("minItems", "{} entries or more"),
    ("maxItems", "{} entries or fewer"),
)

OPERATION_META = "io.patchbay/operation"
"""Key in the `_meta` of a tool: the operation of an HTTP API behind it."""

ITEMS_PER_PAGE = 60
"""Tools, resources and prompts on one page of a server, together: a page has at most 84 KB."""

MAX_OBJECT_DEPTH = 4
"""Nested objects are shown as rows up to this depth."""

MAX_SCHEMA_ROWS = 500
"""Rows of one schema; a short schema with references can expand to millions of rows."""

PLURALS = {"string": "strings", "number": "numbers", "integer": "integers", "boolean": "booleans", "object": "objects"}


def endpoint_path(name: str, version: str | None = None) -> str:
    """The path of a server's endpoint, or of the endpoint of one version."""
    return f"/mcp/{quote(name, safe='')}" + (f"@{version}" if version else "")


def page_path(address: str) -> str:
    """The path of the page of a server, or of one version (`name@cid`)."""
    name, at, cid = address.partition("@")
    return f"/servers/{quote(name, safe='')}{at}{quote(cid, safe='')}"


def server_status(server: Server) -> str:
    """The status of a server: `on`, `off` or `broken`."""
    if server.broken:
        return "broken"
    return "on" if server.enabled else "off"


def summarize_server(server: Server, settings: Settings) -> dict[str, Any]:
    """A server as a JSON object for one card or row. `runs` describes the process that runs its code."""
    groups = (
        (len(server.tools), "tool"),
        (len(server.resources) + len(server.templates), "resource"),
        (len(server.prompts), "prompt"),
    )
    runs = describe_isolation(server, settings)
    return {
        "name": server.name,
        "title": _show_hidden(server.title or server.name),
        "description": _show_hidden(server.description),
        "kind": server.kind,
        "origin": server.origin,
        "status": server_status(server),
        "enabled": server.enabled,
        "broken": server.broken,
        "trouble": _show_hidden(server.trouble),
        "replaces": server.replaces,
        "upstream": _describe_upstream(server),
        "problems": len(server.problems),
        "changed": len(server.pins.reported) if server.pins is not None else 0,
        "version": server.version,
        "runs": {name: getattr(runs, name) for name in _CONFINEMENT_FIELDS},
        "tools": len(server.tools),
        "counts": [f"{many} {word}" + ("" if many == 1 else "s") for many, word in groups if many],
        "endpoint": endpoint_path(server.name),
        "meta": f"/mcp/meta/{quote(server.name, safe='')}",
        "page": page_path(server.name),
        "icon": f"{page_path(server.name)}/icon" if find_icon(server.icons) else None,
    }


def _describe_upstream(server: Server) -> dict[str, Any] | None:
    """The health of a mounted server, and where a caller connects an account; None for another server."""
    if server.standing is None:
        return None
    standing = server.standing
    way = standing.accounts.way if standing.accounts is not None else None
    return standing.health.data() | {
        "connect": f"{PAGE}/{quote(server.name, safe='')}" if way is not None and way.is_stored else "",
        "callers": WAYS[standing.mount.way.name].sentence if standing.accounts is not None else "",
        "sessions": describe_sessions(server.upstream) if server.upstream is not None else "",
    }


def describe_isolation(server: Server, settings: Settings) -> Confinement:
    """Describe the process that runs the code of a server."""
    # A definition with requirements, in its text or its configuration, always has its own processes.
    required = {"requirements": True} if server.packages is not None else {}
    config = {**server.config, **required}
    return confinement(server.kind, config, settings.isolation, settings.memory, server.standing)


def describe_server(server: Server, settings: Settings) -> dict[str, Any]:
    """All values of a server for its meta page."""
    row = summarize_server(server, settings)
    if server.standing is not None:
        output = [_show_hidden(line) for line in server.standing.health.output]
        row |= {"upstream": row["upstream"] | {"output": output}}
    return row | {
        "instructions": _show_hidden(server.instructions),
        "definition": server.definition,
        "config_cid": server.config_cid,
        "config": dict(server.config),
        "pinned": endpoint_path(server.name, server.version),
        "tools": [describe_tool(server.name, each, place) for place, each in enumerate(server.tools.values(), 1)],
        "resources": [describe_descriptor(each) for each in server.resources.values()],
        "templates": [describe_descriptor(each) for each in server.templates.values()],
        "prompts": [describe_descriptor(each) for each in server.prompts.values()],
        "unapproved": sorted(map(describe_key, server.pins.reported)) if server.pins is not None else [],
        "problems": [describe_problem(each) for each in server.problems],
        "packages": server.packages.data() if server.packages is not None else None,
    }


def describe_problem(problem: Problem) -> dict[str, Any]:
    """A problem as a JSON object; `fix` is text to add to the definition, or None."""
    return {"where": problem.where, "reason": problem.reason, "line": problem.line, "fix": problem.fix}


def describe_descriptor(descriptor: Descriptor) -> dict[str, Any]:
    """A resource, resource template or prompt as a JSON object."""
    wire = descriptor.wire
    return {
        "name": descriptor.name,
        "title": _show_hidden(wire.get("title") or wire.get("name") or descriptor.name),
        "description": _show_hidden(wire.get("description", "")),
        "gist": _show_hidden(first_line(wire.get("description") or "")),
        "uri": wire.get("uri") or wire.get("uriTemplate"),
        "mime": _show_hidden(wire.get("mimeType")),
        "rows": [property_row(each["name"], each, bool(each.get("required"))) for each in wire.get("arguments") or []],
        "source": descriptor.source,
        "digest": descriptor.digest,
        "wire": dict(wire),
    }


def describe_tool(server: str, descriptor: Descriptor, place: int = 1) -> dict[str, Any]:
    """A tool as a JSON object, with its arguments as rows. `place` is its number on its server, from 1."""
    wire = descriptor.wire
    plain = f"/{quote(server, safe='')}"
    if descriptor.name != server:
        plain += f"/{quote(descriptor.name, safe='')}"
    picture = find_icon(wire.get("icons"))
    return describe_descriptor(descriptor) | {
        "place": place,
        "title": _show_hidden(wire.get("title")),
        "annotations": dict(wire.get("annotations") or {}),
        "warning": describe_warning(wire.get("annotations") or {}),
        "hints": describe_hints(wire.get("annotations") or {}),
        "operation": describe_operation(wire.get("_meta") or {}),
        "rows": schema_rows(wire.get("inputSchema")),
        "input": wire.get("inputSchema"),
        "output": wire.get("outputSchema"),
        "plain": plain,
        "icon": f"{page_path(server)}/icon?tool={quote(descriptor.name, safe='')}" if picture else None,
        "read_only": descriptor.read_only,
        "app": describe_app(wire.get("_meta") or {}),
    }


def describe_app(meta: Mapping[str, Any]) -> str:
    """The URI of the app that shows the results of a tool (SEP-1865); empty for other tools."""
    ui = meta.get("ui")
    uri = ui.get("resourceUri") if isinstance(ui, Mapping) else None
    found = uri if isinstance(uri, str) else meta.get("ui/resourceUri")
    return found if isinstance(found, str) and found.startswith(APP_SCHEME) else ""


def describe_operation(meta: Mapping[str, Any]) -> str:
    """The method and the path of the operation behind a tool of an HTTP API; empty for other tools."""
    found = meta.get(OPERATION_META)
    return _show_hidden(f"{found.get('method', '')} {found.get('path', '')}") if isinstance(found, Mapping) else ""


def describe_hints(annotations: Mapping[str, Any]) -> list[str]:
    """Tool annotations as words."""
    return [words[0] if annotations[key] else words[1] for key, words in HINTS.items() if key in annotations]


def describe_warning(annotations: Mapping[str, Any]) -> str:
    """The hint that matters before a call: `reads only` or `may destroy`; empty for other tools."""
    if annotations.get("readOnlyHint"):
        return HINTS["readOnlyHint"][0]
    return HINTS["destructiveHint"][0] if annotations.get("destructiveHint") else ""


def first_line(text: str) -> str:
    """The first line of a description."""
    return text.strip().partition("\n")[0]


def schema_rows(schema: Any) -> list[dict[str, Any]]:
    """The properties of an object schema as rows: name, type, required, description, default, limits.

    Nested properties follow their parent, as `address.city` and `points[].x`. A `$ref` to a definition of the same
    schema is resolved. At most MAX_SCHEMA_ROWS rows.
    """
    return (
        list(islice(_rows(schema, schema, "", MAX_OBJECT_DEPTH), MAX_SCHEMA_ROWS))
        if isinstance(schema, Mapping)
        else []
    )


def _rows(schema: Mapping[str, Any], root: Mapping[str, Any], above: str, depth: int) -> Iterator[dict[str, Any]]:
    properties = schema.get("properties")
    if depth == 0 or not isinstance(properties, Mapping):
        return
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else []
    for name, each in properties.items():
        yield property_row(above + name, each, name in required)
        inner = _follow_reference(each, root)
        if "properties" in inner:
            yield from _rows(inner, root, f"{above}{name}.", depth - 1)
        items = _follow_reference(inner.get("items"), root)
        if "properties" in items:
            yield from _rows(items, root, f"{above}{name}[].", depth - 1)


def _follow_reference(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Resolve the `$ref` of a schema; empty when it does not name a schema."""
    if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, Mapping) else None
        schema = found
    return schema if isinstance(schema, Mapping) else {}


def property_row(name: str, schema: Any, required: bool) -> dict[str, Any]:
    """One property as a row. The schema may be `true` or `false`; then the type is `any`."""
    known: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    return {
        "name": _show_hidden(name),
        "type": _show_hidden(describe_type(known)),
        "required": required,
        "description": _show_hidden(known.get("description", "")),
        "has_default": "default" in known,
        "default": known.get("default"),
        "limits": [_show_hidden(words.format(known[key])) for key, words in LIMITS if key in known],
    }


def _show_hidden(value: Any) -> Any:
    """Replace hidden characters of a text by their code points; other values stay as they are."""
    return show_hidden_characters(value) if isinstance(value, str) else value


def describe_type(schema: Any, depth: int = 3) -> str:
    """The type of a schema in words: `list of strings`, `one of "a", "b"`, `integer or null`."""
    if not isinstance(schema, Mapping) or depth == 0:
        return "any"
    if "enum" in schema and isinstance(schema["enum"], list):
        return "one of " + ", ".join(repr(each) if isinstance(each, str) else str(each) for each in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return " or ".join(dict.fromkeys(describe_type(each, depth - 1) for each in schema[key]))
    if isinstance(schema.get("$ref"), str):
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if kind == "array":
        inner = describe_type(schema.get("items"), depth - 1)
        return "list" if inner == "any" else f"list of {PLURALS.get(inner, inner)}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)


def explain_no_scripts(server: Server) -> str:
    """Return why a server, or all servers together, run no scripts, and how they do; empty where scripts run."""
    if not is_installed():
        return NOT_INSTALLED
    if server.has_scripts:
        return ""
    if server.listing.scripts != "off":
        return "one of its tools has the name of a tool by which the hub runs scripts, or it has no tools"
    if isinstance(server, Aggregate):
        return 'write "scripts": "also" into the variable listing'
    return 'write "listing": {"scripts": "also"} into the configuration of the server'

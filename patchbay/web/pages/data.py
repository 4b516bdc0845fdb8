"""What pages show: servers and descriptors as plain values, ready for a template.

Nothing here reads a request or a store; what a stranger wrote stays text, and characters that a reader does not see are
shown by code point.
Sources: REQUIREMENTS VWR-5, VWR-6; MCP specification, server/tools and JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any
from urllib.parse import quote

from patchbay.catalogue.servers import Server
from patchbay.descriptors import Descriptor
from patchbay.kind import Confinement
from patchbay.kinds.confinement_description import confinement
from patchbay.settings import Settings
from patchbay.views.hidden_characters import show_hidden_characters

HINTS = {
    "readOnlyHint": ("reads only", "may change things"),
    "destructiveHint": ("may destroy", "destroys nothing"),
    "idempotentHint": ("safe to repeat", "not safe to repeat"),
    "openWorldHint": ("reaches outside", "stays inside"),
}
"""Tool annotations in words: said true, said false."""

LIMITS = (
    ("minimum", "at least {}"),
    ("maximum", "at most {}"),
    ("minLength", "length {} or more"),
    ("maxLength", "length {} or less"),
    ("pattern", "matches {}"),
    ("minItems", "{} entries or more"),
    ("maxItems", "{} entries or fewer"),
)

SHOWN = 100
"""Tools on one page of a server, and as many resources and prompts."""

MAX_OBJECT_DEPTH = 4
"""How many objects inside each other are shown as rows."""

MOST_ROWS = 500
"""Rows of one schema; definitions that name each other make millions of a few lines."""

PLURALS = {"string": "strings", "number": "numbers", "integer": "integers", "boolean": "booleans", "object": "objects"}


def endpoint(name: str, version: str | None = None) -> str:
    """The path of a server's endpoint, of exactly one version when it is given."""
    return f"/mcp/{quote(name, safe='')}" + (f"@{version}" if version else "")


def status(server: Server) -> str:
    """`on`, `off` or `broken`."""
    if server.broken:
        return "broken"
    return "on" if server.enabled else "off"


def summary(server: Server, settings: Settings) -> dict[str, Any]:
    """A server as one card or row: a JSON object of plain values. `runs` says where its code runs."""
    groups = (
        (len(server.tools), "tool"),
        (len(server.resources) + len(server.templates), "resource"),
        (len(server.prompts), "prompt"),
    )
    return {
        "name": server.name,
        "title": _shown(server.title or server.name),
        "description": _shown(server.description),
        "kind": server.kind,
        "origin": server.origin,
        "status": status(server),
        "broken": server.broken,
        "replaces": server.replaces,
        "upstream": server.upstream.health.data() if server.upstream is not None else None,
        "problems": len(server.problems),
        "version": server.version,
        "runs": asdict(runs(server, settings)),
        "tools": len(server.tools),
        "counts": [f"{many} {word}" + ("" if many == 1 else "s") for many, word in groups if many],
        "endpoint": endpoint(server.name),
        "meta": f"/mcp/meta/{quote(server.name, safe='')}",
        "page": f"/servers/{quote(server.name, safe='')}",
    }


def runs(server: Server, settings: Settings) -> Confinement:
    """Where the code of a server runs."""
    return confinement(server.kind, server.config, settings.isolation, settings.memory, server.upstream)


def detail(server: Server, settings: Settings) -> dict[str, Any]:
    """Everything the meta page shows of a server."""
    return summary(server, settings) | {
        "instructions": _shown(server.instructions),
        "definition": server.definition,
        "config_cid": server.config_cid,
        "config": dict(server.config),
        "pinned": endpoint(server.name, server.version),
        "tools": [tool(server.name, each, place) for place, each in enumerate(server.tools.values(), 1)],
        "resources": [listed(each) for each in server.resources.values()],
        "templates": [listed(each) for each in server.templates.values()],
        "prompts": [listed(each) for each in server.prompts.values()],
        "problems": [{"where": each.where, "reason": each.reason, "line": each.line} for each in server.problems],
    }


def listed(descriptor: Descriptor) -> dict[str, Any]:
    """A resource, resource template or prompt."""
    wire = descriptor.wire
    return {
        "name": descriptor.name,
        "title": _shown(wire.get("title") or wire.get("name") or descriptor.name),
        "description": _shown(wire.get("description", "")),
        "gist": _shown(first_line(wire.get("description") or "")),
        "uri": wire.get("uri") or wire.get("uriTemplate"),
        "mime": _shown(wire.get("mimeType")),
        "rows": [row(each["name"], each, bool(each.get("required"))) for each in wire.get("arguments") or []],
        "source": descriptor.source,
        "digest": descriptor.digest,
        "wire": dict(wire),
    }


def tool(server: str, descriptor: Descriptor, place: int = 1) -> dict[str, Any]:
    """A tool, with its input as rows for a table and its schemas as JSON. `place` is its number on its server."""
    wire = descriptor.wire
    plain = f"/{quote(server, safe='')}"
    if descriptor.name != server:
        plain += f"/{quote(descriptor.name, safe='')}"
    return listed(descriptor) | {
        "place": place,
        "title": _shown(wire.get("title")),
        "annotations": dict(wire.get("annotations") or {}),
        "warning": warning(wire.get("annotations") or {}),
        "hints": hints(wire.get("annotations") or {}),
        "rows": rows(wire.get("inputSchema")),
        "input": wire.get("inputSchema"),
        "output": wire.get("outputSchema"),
        "plain": plain,
        "read_only": descriptor.read_only,
    }


def hints(annotations: Mapping[str, Any]) -> list[str]:
    """Tool annotations as words."""
    return [words[0] if annotations[key] else words[1] for key, words in HINTS.items() if key in annotations]


def warning(annotations: Mapping[str, Any]) -> str:
    """The one hint that matters before a tool is called: that it reads only, or that it may destroy; else empty."""
    if annotations.get("readOnlyHint"):
        return HINTS["readOnlyHint"][0]
    return HINTS["destructiveHint"][0] if annotations.get("destructiveHint") else ""


def first_line(text: str) -> str:
    """The first line of a description."""
    return text.strip().partition("\n")[0]


def rows(schema: Any) -> list[dict[str, Any]]:
    """The properties of an object schema as rows: name, type, required, description, default, limits.

    Properties of objects and of lists of objects inside it follow theirs, as `address.city` and `points[].x`;
    a `$ref` is followed where it names a definition of the same schema. At most MOST_ROWS.
    """
    return list(islice(_rows(schema, schema, "", MAX_OBJECT_DEPTH), MOST_ROWS)) if isinstance(schema, Mapping) else []


def _rows(schema: Mapping[str, Any], root: Mapping[str, Any], above: str, depth: int) -> Iterator[dict[str, Any]]:
    properties = schema.get("properties")
    if depth == 0 or not isinstance(properties, Mapping):
        return
    said = schema.get("required")
    required = said if isinstance(said, list) else []
    for name, each in properties.items():
        yield row(above + name, each, name in required)
        inner = _followed(each, root)
        if "properties" in inner:
            yield from _rows(inner, root, f"{above}{name}.", depth - 1)
        items = _followed(inner.get("items"), root)
        if "properties" in items:
            yield from _rows(items, root, f"{above}{name}[].", depth - 1)


def _followed(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """A schema, or the one that its `$ref` names; empty when there is none to look into."""
    if isinstance(schema, Mapping) and isinstance(schema.get("$ref"), str):
        found: Any = root
        for step in schema["$ref"].removeprefix("#/").split("/"):
            found = found.get(step) if isinstance(found, Mapping) else None
        schema = found
    return schema if isinstance(schema, Mapping) else {}


def row(name: str, schema: Any, required: bool) -> dict[str, Any]:
    """One property. A schema may be `true` or `false`, which say nothing about the type."""
    known: Mapping[str, Any] = schema if isinstance(schema, Mapping) else {}
    return {
        "name": _shown(name),
        "type": _shown(type_of(known)),
        "required": required,
        "description": _shown(known.get("description", "")),
        "has_default": "default" in known,
        "default": known.get("default"),
        "limits": [_shown(words.format(known[key])) for key, words in LIMITS if key in known],
    }


def _shown(value: Any) -> Any:
    """A text with its hidden characters shown; every other value as it is."""
    return show_hidden_characters(value) if isinstance(value, str) else value


def type_of(schema: Any, depth: int = 3) -> str:
    """A schema's type in words: `list of strings`, `one of "a", "b"`, `integer or null`."""
    if not isinstance(schema, Mapping) or depth == 0:
        return "any"
    if "enum" in schema and isinstance(schema["enum"], list):
        return "one of " + ", ".join(repr(each) if isinstance(each, str) else str(each) for each in schema["enum"])
    for key in ("anyOf", "oneOf"):
        if isinstance(schema.get(key), list):
            return " or ".join(dict.fromkeys(type_of(each, depth - 1) for each in schema[key]))
    if isinstance(schema.get("$ref"), str):
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    kind = schema.get("type", "any")
    if isinstance(kind, list):
        return " or ".join(map(str, kind))
    if kind == "array":
        inner = type_of(schema.get("items"), depth - 1)
        return "list" if inner == "any" else f"list of {PLURALS.get(inner, inner)}"
    return f"{kind} ({schema['format']})" if "format" in schema else str(kind)

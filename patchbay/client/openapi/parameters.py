"""The parameters of an operation: those that its document describes, and those that only its path names.

Sources: OpenAPI 3.0.4, 3.1.1 and 3.2.0, Parameter Object; OpenAPI 2.0, Parameter Object; RFC 6570.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from patchbay.client.openapi.schemas import Schemas
from patchbay.client.openapi.styles import Style, parse_collection_format, parse_style

Row = dict[str, Any]

PLACES = ("path", "query", "querystring", "header", "cookie")
SWAGGER_PLACES = ("path", "query", "header", "formData", "body")

_SWAGGER_TYPE_KEYWORDS = frozenset(
    {"type", "format", "items", "enum", "default", "pattern", "multipleOf", "minimum", "maximum"}
) | {*("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems")}
"""The keywords of a Swagger 2 parameter that describe its type."""

_EXPANSION = re.compile(r"\{[?&]([^{}]*)\}")
"""The parameters of a query in a path, `{?page,limit}`."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `name` in the request, `argument` in a call, `style` says how its value is written."""

    name: str
    place: str
    argument: str
    required: bool
    schema: Any
    style: Style


def split_path(path: str) -> tuple[str, list[str]]:
    """Return the path of a template, and the pairs of its query. A fragment and `{?...}` are not part of them.

    Real documents tell operations of one path apart by a query or a fragment.
    """
    plain, _, query = _EXPANSION.sub("", path.partition("#")[0]).partition("?")
    return plain, [pair for pair in query.split("&") if pair]


def list_missing_parameters(path: str, rows: list[Row]) -> list[Row]:
    """List the parameters of a path template that the document does not describe: they are text."""
    known = {(row["name"], row["in"]) for row in rows}
    text = {"type": "string", "schema": {"type": "string"}}
    found: list[Row] = []
    plain, _ = split_path(path)
    for name in dict.fromkeys(re.findall(r"\{([^{}?&]+)\}", path.partition("#")[0])):
        is_query = (name, "query") in known and "{" + name + "}" not in plain
        if (name, "path") not in known and not is_query:
            found.append({"name": name, "in": "path", "required": True, **text})
    for names in _EXPANSION.findall(path):
        for name in (one.strip().rstrip("*") for one in names.split(",")):
            if name and (name, "query") not in known:
                found.append({"name": name, "in": "query", **text})
    return found


def parse_parameter(
    row: Mapping[str, Any], argument: str, is_swagger: bool, schemas: Schemas, needed: set[str]
) -> Parameter:
    """Parse a parameter. The names of the schemas that it needs are added to `needed`."""
    place, content = row["in"], row.get("content")
    default = "form" if place in ("query", "querystring", "cookie", "formData") else "simple"
    schema: Any = row.get("schema", {})
    style = parse_collection_format(row, default) if is_swagger else parse_style(row, default)
    if isinstance(content, dict) and content:
        media_type, media = next(iter(content.items()))
        schema = media.get("schema", {}) if isinstance(media, dict) else {}
        style = Style(style.kind, ",", media_type)
    elif is_swagger:
        schema = {key: value for key, value in row.items() if key in _SWAGGER_TYPE_KEYWORDS}
    found = schemas.rewrite(schema, needed)
    if isinstance(found, dict) and isinstance(row.get("description"), str):
        found = {"description": row["description"], **found}
    required = row.get("required") is True or place == "path"
    return Parameter(row["name"], place, argument, required, found, style)


IGNORED_HEADERS = frozenset({"accept", "authorization"})
"""Header parameters that OpenAPI 3.1.1 (Parameter Object) says to ignore, beside `Content-Type`."""

FRAMING_HEADERS = frozenset(
    {"connection", "content-length", "expect", "host", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade"}
)
"""Headers of the HTTP client: a value of a caller breaks the request or the connection (RFC 9110, RFC 9112)."""


def is_ignored(row: Mapping[str, Any], has_body: bool) -> bool:
    """Whether a parameter is not sent, because the client has the header: the media type of a body is chosen."""
    name = str(row["name"]).strip().lower()
    if row["in"] != "header":
        return False
    return name in IGNORED_HEADERS or name in FRAMING_HEADERS or (has_body and name == "content-type")

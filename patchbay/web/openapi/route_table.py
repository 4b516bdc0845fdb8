"""The type of a row of the table of routes, and short forms for JSON Schemas.

Source: OpenAPI 3.1.1 (https://spec.openapis.org/oas/v3.1.1.html); JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
INTEGER: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}
LINK: Schema = {"type": "string", "format": "uri-reference", "description": "A path on the host of the hub."}
UNIX: Schema = {"type": "number", "description": "Unix time in seconds."}
MS: Schema = {"type": "number", "description": "Milliseconds."}


def nullable(schema: Schema) -> Schema:
    """The schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def array_of(schema: Schema) -> Schema:
    """An array of values of the schema."""
    return {"type": "array", "items": schema}


def one_of(*values: str) -> Schema:
    """One of these strings."""
    return {"enum": list(values)}


def object_of(**properties: Schema) -> Schema:
    """An object with exactly these properties, all required."""
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def with_optional(schema: Schema, **properties: Schema) -> Schema:
    """The schema of an object with further properties that it may have."""
    return {**schema, "properties": {**schema["properties"], **properties}}


def schema_ref(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


FORM = "application/x-www-form-urlencoded"


def form_body(*required: str, **more: str) -> dict[str, Schema]:
    """The body of a form with these fields; those in `more` are not required."""
    return {FORM: form_fields(*required, *more) | {"required": list(required)}}


def form_fields(*names: str) -> dict[str, Any]:
    """An object with a text for each of these names."""
    return {"type": "object", "properties": dict.fromkeys(names, TEXT)}


@dataclass(frozen=True, slots=True)
class Query:
    """One query parameter."""

    name: str
    says: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `path` is in the form of Flask; `json` is the schema of its JSON response, None when it has no JSON.

    `page` means that the route also has HTML; with GET, it has JSON at `twin`, or else at the path with `.json` at the
    end.
    `body` maps media types of requests to schemas. `status` lists the status codes of success. `other` is the media
    type of a response that is neither JSON nor HTML.
    """

    method: str
    path: str
    says: str
    json: Schema | None = None
    page: bool = False
    twin: str = ""
    query: Sequence[Query] = ()
    body: Mapping[str, Schema] | None = None
    status: Sequence[int] = (200,)
    other: str = ""
    operator: bool = False

    @property
    def suffixed(self) -> str:
        """The path of its JSON in the form of Flask; empty when the JSON has no path of its own."""
        if not self.page or self.json is None or self.method != "GET":
            return ""
        return self.twin or ("/index.json" if self.path == "/" else f"{self.path}.json")

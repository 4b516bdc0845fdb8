"""What one row of the table of routes says, and the JSON Schemas that rows are made of, written short.

Source: OpenAPI 3.1.1 (https://spec.openapis.org/oas/v3.1.1.html); JSON Schema 2020-12.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
ANY: Schema = {}
UNIX: Schema = {"type": "number", "description": "Unix time in seconds."}
MS: Schema = {"type": "number", "description": "Milliseconds."}


def maybe(schema: Schema) -> Schema:
    """The schema, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def many(schema: Schema) -> Schema:
    """An array."""
    return {"type": "array", "items": schema}


def one_of(*values: str) -> Schema:
    """One of some strings."""
    return {"enum": list(values)}


def record(**properties: Schema) -> Schema:
    """An object that always has these properties, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": sorted(properties),
        "additionalProperties": False,
    }


def named(name: str) -> Schema:
    """A schema of the document, by its name."""
    return {"$ref": f"#/components/schemas/{name}"}


@dataclass(frozen=True, slots=True)
class Query:
    """One parameter of a query. `required` says that nothing is answered without it."""

    name: str
    says: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False


@dataclass(frozen=True, slots=True)
class Route:
    """One route. `path` is as Flask has it; `json` the schema of what it answers as JSON, None where it has no JSON.

    `page` says that it has HTML too and, unless `twin` names another address, the same as JSON at the path with `.json`
    behind it. `body` are media types that a request may have. `status` are those of an answer that worked; `other` is
    the media type of one that is neither JSON nor HTML.
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
        """The address of its JSON, as Flask has it; empty where it has none of its own."""
        if not self.page or self.json is None:
            return ""
        return self.twin or ("/index.json" if self.path == "/" else f"{self.path}.json")

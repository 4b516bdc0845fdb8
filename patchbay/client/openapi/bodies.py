"""The body of an operation: its media type, the arguments that it has, and how each field is written.

The fields of a JSON object, of a form and of a multipart body are arguments; any other body is one argument.

Sources: OpenAPI 3.0.4 and 3.1.1, Request Body, Media Type and Encoding Objects; OpenAPI 2.0, `formData`, `consumes`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.client.openapi.references import References
from patchbay.client.openapi.styles import (
    FORM_MEDIA_TYPE,
    Style,
    get_bare_media_type,
    is_json_media_type,
    parse_collection_format,
    parse_style,
)

JSON_MEDIA_TYPE = "application/json"
MULTIPART_MEDIA_TYPE = "multipart/form-data"
FORM_MEDIA_TYPES = (FORM_MEDIA_TYPE, MULTIPART_MEDIA_TYPE)

NO_STYLE = Style(kind="")
"""The style of a field that is written by its type: text, numbers, JSON for an object."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How one field of a form is written: in a style, else by its type. `media_types` are those of its parts."""

    style: Style = NO_STYLE
    media_types: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request.

    `fields` maps arguments to fields of an object; None when the whole body is the argument `argument`. `schema` is
    rewritten for requests, `described` as the document has it, `encodings` are those of fields, `files` the arguments
    that are files.
    """

    media_type: str
    required: bool
    schema: Any
    fields: Mapping[str, str] | None
    allows_other_fields: bool = False
    argument: str = "body"
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    files: frozenset[str] = frozenset()
    described: Any = None
    references: References | None = None

    @property
    def bare_media_type(self) -> str:
        """The media type without its parameters, in lower case."""
        return get_bare_media_type(self.media_type)


@dataclass(frozen=True, slots=True)
class DescribedBody:
    """The body as the document describes it. `parameters` are the fields that are parameters (Swagger 2)."""

    media_type: str
    required: bool
    schema: Any
    encoding: Mapping[str, Any] = field(default_factory=dict)
    parameters: tuple[Mapping[str, Any], ...] = ()


def find_openapi_body(raw: Mapping[str, Any], follow: Callable[[Any], Any]) -> DescribedBody | None:
    """Find the body of an operation of OpenAPI 3. Raises what `follow` raises."""
    body = follow(raw.get("requestBody"))
    content = follow(body.get("content")) if isinstance(body, dict) else None
    if not isinstance(content, dict) or not content:
        return None
    name = choose_media_type(list(content))
    media = follow(content[name])
    media = media if isinstance(media, dict) else {}
    encoding = media.get("encoding")
    schema = media.get("schema", media.get("itemSchema", {}))
    name = _resolve_range(name, follow(schema))
    return DescribedBody(name, body.get("required") is True, schema, encoding if isinstance(encoding, dict) else {})


def _resolve_range(media_type: str, schema: Any) -> str:
    """Return JSON for a range of media types that has it, where the schema describes an object or an array."""
    bare = get_bare_media_type(media_type)
    if "*" not in bare:
        return media_type
    has_structure = isinstance(schema, Mapping) and (
        bool(
            {"object", "array"} & set(schema["type"] if isinstance(schema.get("type"), list) else [schema.get("type")])
        )
        or any(key in schema for key in ("properties", "additionalProperties", "items", "allOf", "oneOf", "anyOf"))
    )
    is_json = bare.endswith("+json") or (has_structure and bare in ("*/*", "*", "application/*"))
    return JSON_MEDIA_TYPE if is_json else media_type


def find_swagger_body(
    raw: Mapping[str, Any], document: Mapping[str, Any], rows: list[dict[str, Any]]
) -> DescribedBody | None:
    """Find the body of an operation of Swagger 2 among its parameters."""
    consumes = raw.get("consumes") or document.get("consumes") or [JSON_MEDIA_TYPE]
    whole = next((row for row in rows if row["in"] == "body"), None)
    if whole is not None:
        return DescribedBody(choose_media_type(consumes), whole.get("required") is True, whole.get("schema", {}))
    forms = tuple(row for row in rows if row["in"] == "formData")
    has_files = any(row.get("type") == "file" for row in forms)
    media = MULTIPART_MEDIA_TYPE if has_files or MULTIPART_MEDIA_TYPE in consumes else FORM_MEDIA_TYPE
    is_required = any(row.get("required") is True for row in forms)
    return DescribedBody(media, is_required, {}, parameters=forms) if forms else None


def parse_encodings(described: DescribedBody, version: str) -> dict[str, Encoding]:
    """Parse how the fields of a form are written. `version` is that of OpenAPI; "2.0" for Swagger."""
    if described.parameters:
        rows = ((str(row["name"]), row) for row in described.parameters if row.get("type") == "array")
        return {name: Encoding(parse_collection_format(row, "form")) for name, row in rows}
    bare = get_bare_media_type(described.media_type)
    has_styles = bare == FORM_MEDIA_TYPE or (bare == MULTIPART_MEDIA_TYPE and not version.startswith("3.0"))
    found = {}
    for name, row in described.encoding.items():
        if isinstance(row, Mapping):
            is_styled = has_styles and any(key in row for key in ("style", "explode", "allowReserved"))
            media_types = tuple(one.strip() for one in str(row.get("contentType") or "").split(",") if one.strip())
            found[name] = Encoding(parse_style(row, "form") if is_styled else NO_STYLE, media_types)
    return found


def has_fields(media_type: str, schema: Any) -> bool:
    """Whether the fields of a body are arguments. `schema` is the one that the body's schema refers to."""
    names = schema.get("properties") if isinstance(schema, dict) else None
    is_object = is_json_media_type(media_type) or get_bare_media_type(media_type) in FORM_MEDIA_TYPES
    is_composed = isinstance(schema, dict) and any(key in schema for key in ("oneOf", "anyOf", "allOf"))
    return is_object and isinstance(names, dict) and bool(names) and not is_composed


def choose_media_type(media_types: list[str]) -> str:
    """Choose the media type in which a body is sent: JSON, a form, multipart, else the first one."""
    order: tuple[Callable[[str], bool], ...] = (
        is_json_media_type,
        lambda one: one.startswith(FORM_MEDIA_TYPE),
        lambda one: one.startswith(MULTIPART_MEDIA_TYPE),
        lambda one: True,
    )
    return next(one for test in order for one in media_types if test(one))


def is_xml_media_type(media_type: str) -> bool:
    """Whether a media type is XML."""
    bare = get_bare_media_type(media_type)
    return bare in ("application/xml", "text/xml") or bare.endswith("+xml")

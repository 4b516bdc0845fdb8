"""The operations of an OpenAPI 3.x or Swagger 2 document, each also as a tool: name, description, inputSchema.

An operation has the name of its `operationId`, or `METHOD_path` without one. Its arguments are its parameters by name;
the fields of a JSON object or form body are arguments beside them, any other body is the argument `body`. When two have
the same name, the later one is called `NAME_PLACE` (`id_query`). So the contract of an API is compared like that of a
server.

Sources: OpenAPI 2.0, 3.0.4, 3.1.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from patchbay.client.contracts.schema_types import follow_pointer
from patchbay.client.openapi.schemas import Schemas
from patchbay.errors import InvalidParams

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
PARAMETER_PLACES = ("path", "query", "header", "cookie", "formData")
JSON_MEDIA_TYPE = "application/json"
FORM_MEDIA_TYPE = "application/x-www-form-urlencoded"
MULTIPART_MEDIA_TYPE = "multipart/form-data"
MAX_OPERATIONS = 20_000
"""Operations of one document."""

_COLLECTION_SEPARATORS = {"csv": ",", "ssv": " ", "tsv": "\t", "pipes": "|", "multi": "&"}
_STYLE_SEPARATORS = {"spaceDelimited": " ", "pipeDelimited": "|"}


class DocumentError(InvalidParams):
    """A document that does not describe an API. The message says where and what was expected."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `name` in the request, `argument` in a call. `separator` joins list items; "&" repeats the key.

    `style` is that of OpenAPI 3 (`simple`, `label`, `matrix`, `form`, `deepObject`); `is_json` sends the value as JSON;
    `allows_reserved` sends reserved characters as they are, where they cannot change the query.
    """

    name: str
    place: str
    argument: str
    required: bool
    schema: Any
    style: str
    separator: str
    is_json: bool = False
    allows_reserved: bool = False


@dataclass(frozen=True, slots=True)
class Body:
    """The body of a request.

    `fields` maps arguments to fields of an object; None when the whole body is the argument `body`.
    """

    media_type: str
    required: bool
    schema: Any
    fields: Mapping[str, str] | None
    allows_other_fields: bool = False


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation. `servers` are URLs, also relative ones, or empty; `extra` holds the fields that a profile adds.

    `raw` is the operation's object in the document.
    """

    name: str
    method: str
    path: str
    tool: Mapping[str, Any]
    parameters: tuple[Parameter, ...]
    body: Body | None
    servers: tuple[str, ...]
    extra: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)

    @property
    def endpoint(self) -> dict[str, Any]:
        """The operation as `explores` lists it."""
        found = {"name": self.name, "method": self.method.upper(), "path": self.path}
        required = self.tool["inputSchema"].get("required", ())
        rows: dict[str, Any] = {}
        for name, schema in self.tool["inputSchema"].get("properties", {}).items():
            place = next((one.place for one in self.parameters if one.argument == name), "body")
            rows[name] = {**(schema if isinstance(schema, dict) else {}), "in": place, "required": name in required}
        about = {"description": self.tool["description"]} if self.tool.get("description") else {}
        return {**found, **about, "parameters": rows}


class Api:
    """A parsed document. Raises DocumentError for a value that is not an OpenAPI or Swagger document."""

    def __init__(self, document: Any, where: str) -> None:
        if not isinstance(document, dict):
            raise DocumentError(f"{where}: expected an OpenAPI document, a JSON or YAML object")
        self.document = document
        self.where = where
        self.is_swagger = document.get("swagger") == "2.0"
        version = document.get("openapi")
        if not self.is_swagger and not (isinstance(version, str) and re.fullmatch(r"3\.\d+(\.\d+)?.*", version)):
            raise DocumentError(f'{where}: expected "openapi": "3.x" or "swagger": "2.0", got {version!r:.80}')
        if not isinstance(document.get("paths", {}), dict):
            raise DocumentError(f"{where}: paths: expected an object")
        self.schemas = Schemas(document)

    @property
    def title(self) -> str:
        """The title of the API in the document."""
        info = self.document.get("info")
        return str(info.get("title", "")) if isinstance(info, dict) else ""

    @property
    def component_schemas(self) -> dict[str, Any]:
        """The schemas that the document names."""
        found = follow_pointer(self.document, "#/definitions" if self.is_swagger else "#/components/schemas")
        return found if isinstance(found, dict) else {}

    @property
    def authentication(self) -> dict[str, Any]:
        """The security schemes that the document names: the headers that a caller has to send."""
        found = follow_pointer(
            self.document, "#/securityDefinitions" if self.is_swagger else "#/components/securitySchemes"
        )
        return found if isinstance(found, dict) else {}

    def list_operations(self) -> dict[str, Operation]:
        """List every operation by name. Raises DocumentError when two have the same name."""
        found: dict[str, Operation] = {}
        for path, item in self.document.get("paths", {}).items():
            for method, raw, shared in self._list_path_operations(path, item):
                one = self._parse_operation(path, method, raw, shared)
                if one.name in found:
                    raise DocumentError(f"{self.where}: paths.{path}.{method}: the operationId {one.name!r} is taken")
                found[one.name] = one
                if len(found) > MAX_OPERATIONS:
                    raise DocumentError(f"{self.where}: more than {MAX_OPERATIONS} operations")
        return found

    def read_operations(self) -> tuple[list[Operation], dict[str, str]]:
        """Read every operation that can be called, and the reasons for the others by their places; names may repeat."""
        found: list[Operation] = []
        problems: dict[str, str] = {}
        for path, item in self.document.get("paths", {}).items():
            try:
                rows = list(self._list_path_operations(path, item))
            except DocumentError as problem:
                problems[path] = problem.message
                continue
            for method, raw, shared in rows:
                try:
                    found.append(self._parse_operation(path, method, raw, shared))
                except (DocumentError, AttributeError, KeyError, TypeError, ValueError) as problem:
                    reason = problem.message if isinstance(problem, DocumentError) else repr(problem)[:200]
                    problems[f"{method.upper()} {path}"] = reason
                if len(found) == MAX_OPERATIONS:
                    return found, problems | {"more": f"more than {MAX_OPERATIONS} operations"}
        return found, problems

    def _list_path_operations(self, path: str, item: Any) -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
        item = self._follow_reference(item)
        if not path.startswith("/"):
            return  # an extension (x-...)
        if not isinstance(item, dict):
            raise DocumentError(f"{self.where}: paths.{path}: expected an object")
        for method in METHODS:
            if isinstance(item.get(method), dict):
                yield method, item[method], item

    def _parse_operation(self, path: str, method: str, raw: dict[str, Any], shared: dict[str, Any]) -> Operation:
        place = f"{self.where}: paths.{path}.{method}"
        rows = [*(rows := self._list_parameters(raw, shared, place)), *_list_missing_parameters(path, rows)]
        taken: set[str] = set()
        needed: set[str] = set()
        parameters = tuple(self._parse_parameter(row, taken, needed) for row in rows if row["in"] != "body")
        raw_body = self._find_body(raw, rows, parameters)
        body = self._parse_body(*raw_body, taken, needed) if raw_body else None
        plain = tuple(one for one in parameters if one.place != "formData")
        tool = self._build_tool(_make_operation_name(raw, method, path), method, raw, parameters, body, needed)
        return Operation(tool["name"], method, path, tool, plain, body, self._list_servers(raw, shared), raw=raw)

    def _list_parameters(self, raw: dict[str, Any], shared: dict[str, Any], place: str) -> list[dict[str, Any]]:
        rows: dict[tuple[str, str], dict[str, Any]] = {}
        for source in (shared, raw):
            for number, row in enumerate(source.get("parameters") or ()):
                row = self._follow_reference(row)
                known = (*PARAMETER_PLACES, "body") if self.is_swagger else PARAMETER_PLACES[:-1]
                if not isinstance(row, dict) or not isinstance(row.get("name"), str) or row.get("in") not in known:
                    raise DocumentError(
                        f"{place}.parameters[{number}]: expected name, and in: one of {', '.join(known)}"
                    )
                rows[row["name"], row["in"]] = row
        return list(rows.values())

    def _parse_parameter(self, row: dict[str, Any], taken: set[str], needed: set[str]) -> Parameter:
        place, content = row["in"], row.get("content")
        schema: Any = row.get("schema", {})
        if isinstance(content, dict) and content:
            media = next(iter(content.values()))
            schema = media.get("schema", {}) if isinstance(media, dict) else {}
        elif self.is_swagger:
            schema = {key: value for key, value in row.items() if key in _SWAGGER_TYPE_KEYWORDS}
        found = self.schemas.rewrite(schema, needed)
        if isinstance(found, dict) and "description" in row:
            found = {"description": row["description"], **found}
        style = row.get("style") or ("form" if place in ("query", "cookie", "formData") else "simple")
        explode = row.get("explode", style == "form")
        joint = (
            _COLLECTION_SEPARATORS.get(row.get("collectionFormat", "csv"), ",")
            if self.is_swagger
            else _STYLE_SEPARATORS.get(style, ",")
        )
        joint = "&" if explode is True and not self.is_swagger else joint
        argument = _claim_name(row["name"], place, taken)
        required = row.get("required") is True or place == "path"
        return Parameter(
            *(row["name"], place, argument, required, found, style, joint, isinstance(content, dict)),
            allows_reserved=row.get("allowReserved") is True,
        )

    def _find_body(
        self, raw: dict[str, Any], rows: list[dict[str, Any]], parameters: tuple[Parameter, ...]
    ) -> tuple[str, bool, Any, dict[str, str] | None] | None:
        """Find media type, required, schema, and the fields where those are parameters (Swagger 2)."""
        consumes = raw.get("consumes") or self.document.get("consumes") or [JSON_MEDIA_TYPE]
        if self.is_swagger:
            whole = next((row for row in rows if row["in"] == "body"), None)
            if whole is not None:
                return _choose_media_type(consumes), whole.get("required") is True, whole.get("schema", {}), None
            forms = {one.argument: one.name for one in parameters if one.place == "formData"}
            media = MULTIPART_MEDIA_TYPE if MULTIPART_MEDIA_TYPE in consumes else FORM_MEDIA_TYPE
            return (media, False, {}, forms) if forms else None
        body = self._follow_reference(raw.get("requestBody"))
        content = body.get("content") if isinstance(body, dict) else None
        if not isinstance(content, dict) or not content:
            return None
        media = _choose_media_type(list(content))
        schema = content[media].get("schema", {}) if isinstance(content[media], dict) else {}
        return media, body.get("required") is True, schema, None

    def _parse_body(
        self, media: str, required: bool, schema: Any, forms: dict[str, str] | None, taken: set[str], needed: set[str]
    ) -> Body:
        if forms is not None:
            return Body(media, required, {}, forms)
        target = self._follow_reference(schema)
        names = target.get("properties") if isinstance(target, dict) else None
        is_fields = _is_json(media) or media in (FORM_MEDIA_TYPE, MULTIPART_MEDIA_TYPE)
        if (
            is_fields
            and isinstance(names, dict)
            and names
            and not any(key in target for key in ("oneOf", "anyOf", "allOf"))
        ):
            return Body(
                media,
                required,
                self.schemas.rewrite(target, needed),
                {_claim_name(name, "body", taken): name for name in names},
                target.get("additionalProperties", True) is not False,
            )
        return Body(media, required, self.schemas.rewrite(schema, needed), None)

    def _build_tool(
        self,
        name: str,
        method: str,
        raw: dict[str, Any],
        parameters: tuple[Parameter, ...],
        body: Body | None,
        needed: set[str],
    ) -> dict[str, Any]:
        properties = {one.argument: one.schema for one in parameters}
        required = [one.argument for one in parameters if one.required]
        if body is not None and body.fields is None:
            properties["body"] = body.schema
            required += ["body"] if body.required else []
        elif body is not None and body.schema:
            inner = body.schema.get("properties", {})
            properties |= {argument: inner[field] for argument, field in (body.fields or {}).items()}
            wanted = body.schema.get("required", ()) if body.required else ()
            required += [argument for argument, field in (body.fields or {}).items() if field in wanted]
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        schema |= {"required": required} if required else {}
        texts = [str(raw[key]) for key in ("summary", "description") if raw.get(key)]
        tool: dict[str, Any] = {"name": name, "description": "\n\n".join(dict.fromkeys(texts))}
        tool |= {
            "inputSchema": schema | self.schemas.collect_definitions(needed),
            "annotations": _make_annotations(method),
        }
        output = self._build_output_schema(raw)
        return tool | ({"outputSchema": output} if output else {})

    def _build_output_schema(self, raw: dict[str, Any]) -> dict[str, Any]:
        responses = raw.get("responses")
        good = {str(code): one for code, one in responses.items()} if isinstance(responses, dict) else {}
        answer = self._follow_reference(next((good[code] for code in sorted(good) if code.startswith("2")), None))
        if not isinstance(answer, dict):
            return {}
        if self.is_swagger:
            return self.schemas.make_standalone(answer.get("schema", {}))
        content = answer.get("content")
        content = content if isinstance(content, dict) else {}
        media: Any = next((content[kind] for kind in content if _is_json(kind)), {})
        return self.schemas.make_standalone(media.get("schema", {})) if isinstance(media, dict) else {}

    def _list_servers(self, raw: dict[str, Any], shared: dict[str, Any]) -> tuple[str, ...]:
        if self.is_swagger:
            host, base = self.document.get("host"), str(self.document.get("basePath") or "/")
            schemes = self.document.get("schemes") or [""]
            ordered = sorted((str(one) for one in schemes), key=lambda one: one != "https")
            return tuple(f"{one}:{f'//{host}{base}'}".lstrip(":") for one in ordered) if host else (base,)
        for source in (raw, shared, self.document):
            if source.get("servers"):
                return tuple(_format_server_url(one) for one in source["servers"] if isinstance(one, dict))
        return ("/",)

    def _follow_reference(self, value: Any) -> Any:
        for _ in range(16):
            reference = value.get("$ref") if isinstance(value, dict) else None
            if not isinstance(reference, str):
                return value
            value = follow_pointer(self.document, reference)
        raise DocumentError(f"{self.where}: expected references that end; some refer to each other")


_SWAGGER_TYPE_KEYWORDS = frozenset(
    {"type", "format", "items", "enum", "default", "pattern", "multipleOf", "minimum", "maximum"}
) | {*("exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems")}
"""The keywords of a Swagger 2 parameter that describe its type."""


def _list_missing_parameters(path: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """List the parameters of a path template that the document does not describe: they are text."""
    known = {row["name"] for row in rows if row["in"] == "path"}
    names = dict.fromkeys(re.findall(r"\{([^{}]+)\}", path))
    text = {"in": "path", "required": True, "type": "string", "schema": {"type": "string"}}
    return [{"name": name, **text} for name in names if name not in known]


def _make_operation_name(raw: dict[str, Any], method: str, path: str) -> str:
    given = raw.get("operationId")
    return given if isinstance(given, str) and given else f"{method}_{re.sub(r'[^A-Za-z0-9]+', '_', path).strip('_')}"


def _claim_name(name: str, place: str, taken: set[str]) -> str:
    argument = name if name not in taken else f"{name}_{place}"
    taken.add(argument)
    return argument


def _is_json(media_type: str) -> bool:
    bare = media_type.partition(";")[0].strip().lower()
    return bare == JSON_MEDIA_TYPE or bare.endswith("+json")


def _choose_media_type(media_types: list[str]) -> str:
    order = (
        _is_json,
        lambda one: one.startswith(FORM_MEDIA_TYPE),
        lambda one: one.startswith(MULTIPART_MEDIA_TYPE),
        lambda one: True,
    )
    return next(one for test in order for one in media_types if test(one))


def _make_annotations(method: str) -> dict[str, bool]:
    """Make the annotations of a tool from the method's properties in RFC 9110 section 9.2."""
    if method in ("get", "head", "options", "trace", "query"):
        return {"readOnlyHint": True}
    return {"destructiveHint": method in ("delete", "put", "patch"), "idempotentHint": method in ("put", "delete")}


def _format_server_url(server: dict[str, Any]) -> str:
    url = str(server.get("url", "/"))
    for name, variable in (server.get("variables") or {}).items():
        if isinstance(variable, dict):
            url = url.replace("{" + name + "}", str(variable.get("default", "")))
    return url

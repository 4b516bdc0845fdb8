"""The operations of an OpenAPI 3.x or Swagger 2 document, each also as a tool: name, description, inputSchema.

An operation has the name of its `operationId`, or `METHOD_path` without one. Its arguments are its parameters by name;
the fields of a JSON object or form body are arguments beside them, any other body is the argument `body`
(`argument_names.py` has the rule for equal names). So the contract of an API is compared like that of a server.

An operation that cannot be read costs only itself; `Api.problems` has the reason.

Sources: OpenAPI 2.0, 3.0.4, 3.1.1, 3.2.0.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from patchbay.client.contracts.schema_types import follow_pointer
from patchbay.client.openapi.argument_names import BODY_ARGUMENT, choose_argument_names
from patchbay.client.openapi.bodies import (
    FORM_MEDIA_TYPES,
    Body,
    DescribedBody,
    find_openapi_body,
    find_swagger_body,
    has_fields,
    parse_encodings,
)
from patchbay.client.openapi.files import is_binary_media_type, is_file
from patchbay.client.openapi.parameters import (
    PLACES,
    SWAGGER_PLACES,
    Parameter,
    is_ignored,
    list_missing_parameters,
    parse_parameter,
)
from patchbay.client.openapi.references import LostReference, References
from patchbay.client.openapi.schemas import Schemas
from patchbay.client.openapi.styles import is_json_media_type
from patchbay.errors import InvalidParams

METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace", "query")
MAX_OPERATIONS = 20_000
"""Operations of one document."""

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A method (RFC 9110 section 9.1)."""


class DocumentError(InvalidParams):
    """A document that does not describe an API. The message says where and what was expected."""


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


def _describe_value(value: Any) -> str:
    """Return in words what stands where a document was expected."""
    if value is None:
        return "empty"
    if isinstance(value, str):
        return "a page or a document with tags (HTML, XML)" if value.startswith("<") else "plain text"
    return "a list" if isinstance(value, list) else "a single value"


class Api:
    """A parsed document. Raises DocumentError for a value that is not an OpenAPI or Swagger document."""

    def __init__(self, document: Any, where: str) -> None:
        if not isinstance(document, dict):
            got = _describe_value(document)
            raise DocumentError(f"{where}: expected an OpenAPI document, a JSON or YAML object; this is {got}")
        self.document = document
        self.where = where
        self.is_swagger = _read_version(document.get("swagger")) == "2.0"
        version = _read_version(document.get("openapi"))
        if not self.is_swagger and not re.fullmatch(r"3\.\d+(\.\d+)?.*", version):
            got = " and ".join(f'"{key}": {document[key]!r:.80}' for key in ("openapi", "swagger") if key in document)
            raise DocumentError(f'{where}: expected "openapi": "3.x" or "swagger": "2.0", got {got or "neither"}')
        self.version = version or "2.0"
        self.problems: dict[str, str] = {}
        """What could not be read, by its place; complete once the operations are listed."""
        self._references = References(document)
        if not isinstance(document.get("paths", {}), dict):
            raise DocumentError(f"{where}: paths: expected an object")
        self._request_schemas = Schemas(document, self._references, "readOnly")
        self._answer_schemas = Schemas(document, self._references, "writeOnly")

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
        home = "#/securityDefinitions" if self.is_swagger else "#/components/securitySchemes"
        found = self._references.find({"$ref": home})
        rows = found.items() if isinstance(found, dict) else ()
        return {name: self._references.find(one) for name, one in rows}

    def list_operations(self) -> dict[str, Operation]:
        """List every operation that can be called by a unique name: the later one of two with an operationId has
        `METHOD_path`.
        """
        found: dict[str, Operation] = {}
        for one in self.read_operations():
            name, plain, count = one.name, _make_operation_name({}, one.method, one.path), 2
            while name in found:
                name, plain, count = plain, f"{plain}_{count}", count + 1
            found[name] = one if name == one.name else replace(one, name=name, tool={**one.tool, "name": name})
        return found

    def read_operations(self) -> list[Operation]:
        """Read every operation that can be called; names may repeat. The reasons for the others are `problems`."""
        found: list[Operation] = []
        for path, item in self._find_paths().items():
            for method, raw, shared in self._list_path_operations(path, item):
                if len(found) == MAX_OPERATIONS:
                    self.problems["more"] = f"not served: there are more than {MAX_OPERATIONS} operations"
                    return found
                try:
                    followed = self._follow(raw)
                    if not isinstance(followed, dict):
                        raise DocumentError(f"{self.where}: paths.{path}.{method}: expected an object")
                    found.append(self._parse_operation(path, method, followed, shared))
                except (InvalidParams, AttributeError, KeyError, TypeError, ValueError) as problem:
                    reason = problem.message if isinstance(problem, InvalidParams) else repr(problem)[:200]
                    self.problems[f"{method.upper()} {path}"] = f"not served: {reason}"
        for reference, reason in (self._request_schemas.lost | self._answer_schemas.lost).items():
            self.problems[reference[:200]] = f"values are not checked: {reason}"
        return found

    def _find_paths(self) -> dict[str, Any]:
        """Find the paths, which may be in a file of their own."""
        try:
            found = self._follow(self.document.get("paths", {}))
            if isinstance(found, dict):
                return found
            self.problems["paths"] = "not served: expected an object"
        except InvalidParams as problem:
            self.problems["paths"] = f"not served: {problem.message}"
        return {}

    def _list_path_operations(self, path: str, item: Any) -> Iterator[tuple[str, Any, dict[str, Any]]]:
        if not path.startswith("/"):
            return  # an extension (x-...)
        try:
            item = self._follow(item)
            if not isinstance(item, dict):
                raise DocumentError(f"{self.where}: paths.{path}: expected an object")
            others = self._follow(item.get("additionalOperations"))
        except InvalidParams as problem:
            self.problems[path] = f"not served: {problem.message}"
            return
        rows = {method: item[method] for method in METHODS if isinstance(item.get(method), dict)}
        if isinstance(others, dict):
            rows |= {method: one for method, one in others.items() if isinstance(one, dict)}
        for method, raw in rows.items():
            if _TOKEN.fullmatch(method):
                yield method, raw, item

    def _parse_operation(self, path: str, method: str, raw: dict[str, Any], shared: dict[str, Any]) -> Operation:
        place = f"{self.where}: paths.{path}.{method}"
        rows = self._list_parameters(raw, shared, place)
        described = (
            find_swagger_body(raw, self.document, rows) if self.is_swagger else find_openapi_body(raw, self._follow)
        )
        rows = [row for row in rows if not is_ignored(row, described is not None)]
        rows += list_missing_parameters(path, rows)
        plain = [row for row in rows if row["in"] not in ("body", "formData")]
        fields = self._list_fields(described) if described is not None else None
        names = [BODY_ARGUMENT] if described is not None and fields is None else list(fields or ())
        wanted = [(row["name"], row["in"]) for row in plain] + [(name, "body") for name in names]
        arguments = choose_argument_names(wanted)
        needed: set[str] = set()
        parameters = tuple(
            parse_parameter(row, argument, self.is_swagger, self._request_schemas, needed)
            for row, argument in zip(plain, arguments, strict=False)
        )
        own = arguments[len(plain) :]
        body = self._parse_body(described, fields, own, needed) if described is not None else None
        tool = self._build_tool(_make_operation_name(raw, method, path), method, raw, parameters, body, needed)
        return Operation(tool["name"], method, path, tool, parameters, body, self._list_servers(raw, shared), raw=raw)

    def _list_parameters(self, raw: dict[str, Any], shared: dict[str, Any], place: str) -> list[dict[str, Any]]:
        found: dict[tuple[str, str], dict[str, Any]] = {}
        known = SWAGGER_PLACES if self.is_swagger else PLACES
        for source in (shared, raw):
            rows = self._follow(source.get("parameters")) or ()
            for number, row in enumerate(rows.values() if isinstance(rows, dict) else rows):
                row = self._follow(row)
                for one in row if isinstance(row, list) else [row]:
                    one = self._follow(one)
                    if not isinstance(one, dict) or not isinstance(one.get("name"), str) or one.get("in") not in known:
                        expected = f"expected name, and in: one of {', '.join(known)}"
                        raise DocumentError(f"{place}.parameters[{number}]: {expected}")
                    content = self._follow(one.get("content"))
                    if isinstance(content, dict):
                        one = {**one, "content": {key: self._follow(media) for key, media in content.items()}}
                    found[one["name"], one["in"]] = one
        return list(found.values())

    def _list_fields(self, described: DescribedBody) -> dict[str, Any] | None:
        """List the fields of a body that are arguments, with their schemas; None for a body that is one argument."""
        if described.parameters:
            return {str(row["name"]): row for row in described.parameters}
        target = self._find_body_schema(described.schema)
        if not has_fields(described.media_type, target):
            return None
        left_out = self._request_schemas.collect_left_out(target)
        return {name: one for name, one in target["properties"].items() if name not in left_out}

    def _find_body_schema(self, schema: Any) -> Any:
        """Return what the schema of a body refers to; since OpenAPI 3.1, with the fields beside the reference too."""
        target = self._references.find(schema)
        beside = schema.get("properties") if isinstance(schema, dict) and target is not schema else None
        if (
            self.is_swagger
            or self.version.startswith("3.0")
            or not isinstance(target, dict)
            or not isinstance(beside, dict)
        ):
            return target
        own = target.get("properties") or {}
        both = {name: {"allOf": [own[name], one]} if name in own else one for name, one in beside.items()}
        required = dict.fromkeys([*(target.get("required") or ()), *(schema.get("required") or ())])
        return {**target, "properties": {**own, **both}, **({"required": [*required]} if required else {})}

    def _parse_body(
        self, described: DescribedBody, fields: dict[str, Any] | None, arguments: list[str], needed: set[str]
    ) -> Body:
        target = self._find_body_schema(described.schema) if fields is not None else described.schema
        schema = self._request_schemas.rewrite(target, needed)
        if described.parameters:
            rows = [parse_parameter(row, "", True, self._request_schemas, needed) for row in described.parameters]
            required = [one.name for one in rows if one.required]
            schema = {"properties": {one.name: one.schema for one in rows}, "required": required}
        body = Body(
            *(described.media_type, described.required, schema, None, False, arguments[0] if arguments else ""),
            encodings=parse_encodings(described, self.version),
            described=described.schema,
            references=self._references,
        )
        if fields is None:
            is_whole_file = is_binary_media_type(described.media_type)
            return replace(body, files=frozenset(arguments if is_whole_file else ()))
        is_form = body.bare_media_type in FORM_MEDIA_TYPES
        rows_by_argument = dict(zip(arguments, fields.items(), strict=True))
        return replace(
            body,
            fields={argument: name for argument, (name, _) in rows_by_argument.items()},
            allows_other_fields=not described.parameters and target.get("additionalProperties", True) is not False,
            files=frozenset(key for key, (_, one) in rows_by_argument.items() if is_form and self._is_file(one)),
        )

    def _is_file(self, schema: Any) -> bool:
        """Whether a field is a file, or a list of files."""
        found = self._references.find(schema)
        items = found.get("items") if isinstance(found, dict) else None
        return is_file(found) or is_file(self._references.find(items))

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
            properties[body.argument] = body.schema
            required += [body.argument] if body.required else []
        elif body is not None and body.fields is not None:
            inner = body.schema.get("properties", {})
            properties |= {argument: inner[field] for argument, field in body.fields.items()}
            wanted = body.schema.get("required", ()) if body.required else ()
            required += [argument for argument, field in body.fields.items() if field in wanted]
        schema: dict[str, Any] = {"type": "object", "properties": properties}
        schema |= {"required": required} if required else {}
        texts = [str(raw[key]) for key in ("summary", "description") if raw.get(key)]
        tool: dict[str, Any] = {"name": name, "description": "\n\n".join(dict.fromkeys(texts))}
        definitions = self._request_schemas.collect_definitions(needed)
        tool |= {"inputSchema": schema | definitions, "annotations": _make_annotations(method)}
        output = self._build_output_schema(raw)
        return tool | ({"outputSchema": output} if output else {})

    def _build_output_schema(self, raw: dict[str, Any]) -> dict[str, Any]:
        responses = self._references.find(raw.get("responses"))
        good = {str(code): one for code, one in responses.items()} if isinstance(responses, dict) else {}
        answer = self._references.find(next((good[code] for code in sorted(good) if code.startswith("2")), None))
        if not isinstance(answer, dict):
            return {}
        if self.is_swagger:
            return self._answer_schemas.make_standalone(answer.get("schema", {}))
        content = self._references.find(answer.get("content"))
        content = content if isinstance(content, dict) else {}
        media = self._references.find(next((content[kind] for kind in content if is_json_media_type(kind)), {}))
        return self._answer_schemas.make_standalone(media.get("schema", {})) if isinstance(media, dict) else {}

    def _list_servers(self, raw: dict[str, Any], shared: dict[str, Any]) -> tuple[str, ...]:
        if self.is_swagger:
            host, base = self.document.get("host"), str(self.document.get("basePath") or "/")
            schemes = self.document.get("schemes") or [""]
            ordered = sorted((str(one) for one in schemes), key=lambda one: one != "https")
            return tuple(f"{one}:{f'//{host}{base}'}".lstrip(":") for one in ordered) if host else (base,)
        for source in (raw, shared, self.document):
            servers = self._references.find(source.get("servers"))
            if servers:
                rows = (self._references.find(one) for one in servers)
                return tuple(_format_server_url(one) for one in rows if isinstance(one, dict))
        return ("/",)

    def _follow(self, value: Any) -> Any:
        """Return what a value refers to. Raises DocumentError."""
        try:
            return self._references.follow(value)
        except LostReference as problem:
            raise DocumentError(f"{self.where}: {problem.message}") from problem


def _make_operation_name(raw: dict[str, Any], method: str, path: str) -> str:
    given = raw.get("operationId")
    return given if isinstance(given, str) and given else f"{method}_{re.sub(r'[^A-Za-z0-9]+', '_', path).strip('_')}"


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


def _read_version(value: Any) -> str:
    """Return a version as text; one without quotes in YAML is a number (`swagger: 2.0`). Empty for another value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{float(value):.1f}" if is_number else value if isinstance(value, str) else ""

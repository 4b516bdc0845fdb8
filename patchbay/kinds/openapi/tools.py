"""The operations of an API as tools: names, schemas, annotations, and what a call of one needs.

The schemas are those of the document with these differences. Names of arguments have only characters that every client
accepts. Values of the configuration (credentials, headers, query parameters) are not arguments. A file is text
(`files.py`). An operation that answers a list may have the argument `next`. An output schema requires nothing, because
answers of real APIs often lack what their document requires; an operation whose input schema is not valid is served
with a schema that only names its arguments.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from patchbay.client.contracts.schema_types import follow_pointer
from patchbay.client.openapi.operations import Api, Operation
from patchbay.client.openapi.parameters import Parameter
from patchbay.client.openapi.requests import choose_base_url
from patchbay.config import check_schema
from patchbay.descriptors import Descriptor, Problem
from patchbay.errors import ConfigError, InvalidParams
from patchbay.kinds.openapi.configuration import ApiConfiguration
from patchbay.kinds.openapi.credentials import list_hidden_parameters
from patchbay.kinds.openapi.files import ABOUT
from patchbay.kinds.openapi.next_page import reads_pages
from patchbay.kinds.openapi.tool_names import choose_names

NEXT = "next"
OPERATION_META = "io.patchbay/operation"
"""Key in the `_meta` of a tool: method, path and server of its operation, so that its pin has them too."""

MAX_TITLE_CHARACTERS = 120
MAX_DESCRIPTION_CHARACTERS = 4_000
MAX_OUTPUT_SCHEMA_BYTES = 32 * 1024
"""Bytes of an output schema; a larger one is not listed, because every client reads all of them."""

MAX_ARGUMENT_CHARACTERS = 64
_LIMITING_KEYWORDS = frozenset(
    {"required", "format", "pattern", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"}
    | {"minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "multipleOf"}
    | {"contentEncoding", "contentMediaType", "dependentRequired", "additionalProperties", "propertyNames"}
    | {"oneOf", "anyOf", "allOf", "not", "if", "then", "else"}
)
"""Keywords that an output schema does not have."""


@dataclass(frozen=True)
class LoadedApi:
    """A document that was read: its CID in the store, and the URL that its servers are relative to."""

    cid: str
    url: str
    document: Mapping[str, Any]


@dataclass(frozen=True)
class ApiTool:
    """One operation as a tool. `base` is the URL before its path."""

    descriptor: Descriptor
    operation: Operation
    base: str
    has_next: bool = False

    @property
    def files(self) -> frozenset[str]:
        """The arguments that are files."""
        return self.operation.body.files if self.operation.body is not None else frozenset()


@dataclass(frozen=True)
class ApiTools:
    """All tools of an API by name, and the reasons why other operations are not served."""

    api: Api
    tools: Mapping[str, ApiTool] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()

    @property
    def introduction(self) -> dict[str, Any]:
        """The title and the description of the API."""
        info = self.api.document.get("info")
        about = str(info.get("description") or info.get("summary") or "") if isinstance(info, dict) else ""
        found = {"title": self.api.title, "description": about.strip().partition("\n\n")[0][:1000]}
        return {key: text for key, text in found.items() if text}


def build_tools(loaded: LoadedApi, configuration: ApiConfiguration) -> ApiTools:
    """Build the tools of an API that its configuration selects. Raises DocumentError for a wrong document."""
    api = Api(dict(loaded.document), loaded.url)
    operations = api.read_operations()
    problems = [Problem(place, reason) for place, reason in api.problems.items()]
    hidden = list_hidden_parameters(api, _list_schemes(configuration))
    hidden |= configuration.way.list_places() if configuration.way is not None else set()
    hidden |= {("header", name.lower()) for name, _ in configuration.headers}
    hidden |= {("query", name.lower()) for name, _ in configuration.query}
    tools: dict[str, ApiTool] = {}
    left_out = selected = 0
    for name, operation in zip(choose_names(operations), operations, strict=True):
        if not configuration.selection.selects(operation, name):
            continue
        selected += 1
        if len(tools) >= configuration.max_tools:
            left_out += 1
            continue
        try:
            tools[name] = _ToolBuilder(api, operation, hidden).build(name, loaded.url, configuration.base)
        except (InvalidParams, ConfigError) as problem:
            reason = problem.message.replace("launch.base_url=", '"base": ')
            problems.append(Problem(name, f"not served: {reason}"))
    if left_out:
        problems.append(Problem("max_tools", _describe_rest(left_out, configuration.max_tools)))
    if not selected and not problems:
        problems.append(_describe_nothing(operations))
    problems += _list_credential_problems(api, configuration)
    return ApiTools(api, tools, tuple(problems))


def _describe_nothing(operations: Sequence[Operation]) -> Problem:
    """Say why an API has no tools though all of its document was read."""
    if not operations:
        return Problem("paths", "the document describes no operations, so that this server has no tools")
    tags = sorted({str(tag) for one in operations for tag in one.raw.get("tags", ()) if tag})
    known = f"; the tags of its operations are {', '.join(tags[:20])}" if tags else ""
    return Problem(
        "include", f"include and exclude select none of the {len(operations)} operations of the document{known}"
    )


def _describe_rest(left_out: int, limit: int) -> str:
    return (
        f"not served: {left_out} more operations than {limit}; narrow them with include and exclude (tags, paths,"
        ' methods, operations), raise max_tools, or let clients search: "listing": {"search": true}'
    )


def _list_schemes(configuration: ApiConfiguration) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(configuration.credentials)
    return found


def _list_credential_problems(api: Api, configuration: ApiConfiguration) -> Iterator[Problem]:
    for name in _list_schemes(configuration):
        if name not in api.authentication:
            known = ", ".join(api.authentication) or "no scheme"
            yield Problem(f"credentials.{name}", f"not used: the document has {known}")


class _ToolBuilder:
    def __init__(self, api: Api, operation: Operation, hidden: set[tuple[str, str]]) -> None:
        self._api = api
        self._schema: dict[str, Any] = dict(operation.tool["inputSchema"])
        self._names: dict[str, str] = {}
        self._operation = self._rename_arguments(self._hide(operation, hidden))

    def build(self, name: str, url: str, base: str) -> ApiTool:
        """Build the tool. Raises InvalidParams when its operation has no server, ConfigError for its schema."""
        operation, raw = self._operation, self._operation.raw
        found_base = base or choose_base_url(operation, url)
        self._describe_files()
        has_next = self._add_next()
        summary, about = (str(raw.get(key) or "").strip() for key in ("summary", "description"))
        text = about or summary or f"{operation.method.upper()} {operation.path}"
        text = f"Deprecated. {text}" if raw.get("deprecated") is True else text
        wire: dict[str, Any] = {"name": name}
        wire |= {"title": summary[:MAX_TITLE_CHARACTERS]} if summary else {}
        wire |= {"description": text[:MAX_DESCRIPTION_CHARACTERS], "inputSchema": self._check_input()}
        output = self._build_output()
        wire |= {"outputSchema": output} if output else {}
        wire["annotations"] = {**operation.tool["annotations"], "openWorldHint": True}
        place = {"method": operation.method.upper(), "path": operation.path, "server": found_base}
        wire["_meta"] = {OPERATION_META: place}
        descriptor = Descriptor("tool", name, wire, {"tool": name}, "discovered")
        return ApiTool(descriptor, operation, found_base, has_next)

    def _hide(self, operation: Operation, hidden: set[tuple[str, str]]) -> Operation:
        """Remove the parameters that the configuration supplies."""
        gone = {one.argument for one in operation.parameters if _is_hidden(one, hidden)}
        properties = self._schema.get("properties", {})
        self._schema["properties"] = {name: one for name, one in properties.items() if name not in gone}
        required = [name for name in self._schema.get("required", ()) if name not in gone]
        self._schema = {key: value for key, value in self._schema.items() if key != "required"}
        self._schema |= {"required": required} if required else {}
        parameters = tuple(one for one in operation.parameters if one.argument not in gone)
        return replace(operation, parameters=parameters)

    def _follow(self, schema: Any) -> Any:
        for _ in range(16):
            reference = schema.get("$ref") if isinstance(schema, dict) else None
            if not isinstance(reference, str):
                return schema
            schema = follow_pointer(self._schema, reference)
        return {}

    def _rename_arguments(self, operation: Operation) -> Operation:
        """Give arguments names that every client accepts."""
        taken: set[str] = set()
        for name in self._schema["properties"]:
            plain = re.sub(r"[^A-Za-z0-9_.-]+", "_", name).strip("_")[:MAX_ARGUMENT_CHARACTERS] or "argument"
            safe, number = plain if plain != name else name, 2
            while safe in taken or (safe != name and safe in self._schema["properties"]):
                safe, number = f"{plain[: MAX_ARGUMENT_CHARACTERS - 4]}_{number}", number + 1
            taken.add(safe)
            self._names[name] = safe
        self._schema["properties"] = {self._names[name]: one for name, one in self._schema["properties"].items()}
        if "required" in self._schema:
            self._schema["required"] = [self._names.get(name, name) for name in self._schema["required"]]
        names = self._names
        parameters = tuple(replace(one, argument=names.get(one.argument, one.argument)) for one in operation.parameters)
        body = operation.body
        if body is not None:
            fields = body.fields and {names.get(one, one): name for one, name in body.fields.items()}
            files = frozenset(names.get(one, one) for one in body.files)
            body = replace(body, fields=fields, files=files, argument=names.get(body.argument, body.argument))
        if body is None or body.fields is None or not body.allows_other_fields:
            self._schema["additionalProperties"] = False
        return replace(operation, parameters=parameters, body=body)

    def _describe_files(self) -> None:
        """Describe the arguments that are files."""
        for name in self._operation.body.files if self._operation.body is not None else ():
            schema = self._follow(self._schema["properties"].get(name))
            described = schema.get("description") if isinstance(schema, dict) else ""
            one: dict[str, Any] = {"type": "string"}
            if isinstance(schema, dict) and schema.get("type") == "array":
                one = {"type": "array", "items": one}
            self._schema["properties"][name] = {**one, "description": " ".join(filter(None, [described, ABOUT]))}

    def _add_next(self) -> bool:
        """Add the argument `next` to an operation that reads a list; return whether it has it."""
        output = self._operation.tool.get("outputSchema")
        root = self._resolve_output(output) if output else {}
        lists = [
            name
            for name, one in root.get("properties", {}).items()
            if self._resolve_part(output, one).get("type") == "array"
        ]
        if not reads_pages(self._operation, root, lists) or NEXT in self._schema["properties"]:
            return False
        about = "The value of next in an earlier result: reads the page after it. Give the other arguments again."
        self._schema["properties"][NEXT] = {"type": "string", "description": about}
        return True

    def _check_input(self) -> dict[str, Any]:
        try:
            check_schema(self._schema, "the document", "inputSchema")
        except ConfigError:
            self._schema = _reduce_schema(self._schema)
            check_schema(self._schema, "the document", "inputSchema")
        return self._schema

    def _resolve_output(self, output: Mapping[str, Any]) -> dict[str, Any]:
        return self._resolve_part(output, dict(output))

    def _resolve_part(self, output: Any, part: Any) -> dict[str, Any]:
        for _ in range(16):
            reference = part.get("$ref") if isinstance(part, dict) else None
            if not isinstance(reference, str):
                break
            part = follow_pointer(output, reference)
        return part if isinstance(part, dict) else {}

    def _build_output(self) -> dict[str, Any]:
        """Build the output schema; empty when the operation does not answer an object."""
        output = self._operation.tool.get("outputSchema")
        if not output:
            return {}
        root = self._resolve_output(output)
        if root.get("type") != "object" and "properties" not in root:
            return {}
        whole = {**_relax(root), "type": "object"}
        definitions = {name: _relax(one) for name, one in output.get("$defs", {}).items()}
        used = _collect_used(whole, definitions)
        whole |= {"$defs": used} if used else {}
        try:
            if len(orjson.dumps(whole)) > MAX_OUTPUT_SCHEMA_BYTES:
                return {}
            check_schema(whole, "the document", "outputSchema")
        except (ConfigError, TypeError):
            return {}
        return whole


def _is_hidden(parameter: Parameter, hidden: set[tuple[str, str]]) -> bool:
    """Whether the configuration supplies a parameter. A configured header `Cookie` supplies every cookie."""
    place = parameter.place
    return (place, parameter.name.lower()) in hidden or (place == "cookie" and ("header", "cookie") in hidden)


def _reduce_schema(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Reduce an input schema to the names of its arguments and their descriptions."""
    properties = {}
    for name, one in schema.get("properties", {}).items():
        about = one.get("description") if isinstance(one, dict) else None
        properties[name] = {"description": about} if isinstance(about, str) else {}
    required = [name for name in schema.get("required", ()) if isinstance(name, str)]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def _relax(schema: Any) -> Any:
    """Remove everything from a schema that real answers may break; every value may be null."""
    if not isinstance(schema, dict):
        return {}
    found = {key: schema[key] for key in ("title", "description") if isinstance(schema.get(key), str)}
    if isinstance(schema.get("$ref"), str):
        return {**found, "anyOf": [{"$ref": schema["$ref"]}, {"type": "null"}]}
    kinds = schema.get("type")
    if isinstance(kinds, str):
        found["type"] = [kinds, "null"] if kinds != "null" else "null"
    elif isinstance(kinds, list):
        found["type"] = list(dict.fromkeys([*kinds, "null"]))
    if isinstance(schema.get("properties"), dict):
        found["properties"] = {name: _relax(one) for name, one in schema["properties"].items()}
    if isinstance(schema.get("items"), dict):
        found["items"] = _relax(schema["items"])
    return found


def _collect_used(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    used: dict[str, Any] = {}
    left = [schema]
    while left:
        one = left.pop()
        if isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            left += one.values()
            reference = one.get("$ref")
            name = reference.removeprefix("#/$defs/") if isinstance(reference, str) else ""
            if name in definitions and name not in used:
                used[name] = definitions[name]
                left.append(definitions[name])
    return used

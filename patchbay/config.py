"""Reads the mcps configuration of one server: strict JSON, checked against `mcps.schema.json`, its CIDs resolved.

Rules: an error names the file or CID, the path inside it and the expected value; one wrong configuration does not stop
another from loading. Configurations are cached by CID and never invalidated, because a CID never changes.
The schema beside this file documents every field.
Source: MCP specification 2026-07-28, server/tools (`x-mcp-header`); JSON Schema 2020-12; RFC 3986.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema_rs
import orjson

from patchbay.cid import canonical
from patchbay.errors import BadCid, ConfigError, ContentError, ParseError
from patchbay.jsonrpc import parse_file
from patchbay.kind import check_fields, check_names, configured_kind
from patchbay.settings import whole_environment
from patchbay.store import Blobs

if TYPE_CHECKING:
    import jsonschema

REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
"""A reference to a variable of the environment, with or without a default."""

SCHEMA: dict[str, Any] = orjson.loads((Path(__file__).parent / "mcps.schema.json").read_bytes())
TRANSFORMS = ("tools", "resources", "prompts")
SOURCES = ("text", "blob", "cid", "variable", "function", "last_output_of")
"""The sources of a static resource's content: each resource has exactly one."""

LISTING_MEMBERS = ("search", "scripts")
"""The members of `listing` that are fields of a toolset, whose `include` and `exclude` choose its tools."""

DIALECT = "https://json-schema.org/draft/2020-12/schema"
MAX_SCHEMA_BYTES = 256 * 1024
"""Limit on the JSON text of a tool's schema."""

MAX_SCHEMA_DEPTH = 64
"""Limit on the nesting of a tool's schema."""

MAX_CACHED_CONFIGS = 1024
"""Limit on the configurations in the memory cache."""

_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^`|~-]+")
_PCHAR = r"(?:[A-Za-z0-9\-._~!$&'()*+,;=:@]|%[0-9A-Fa-f]{2})"
_PATH = rf"(?:{_PCHAR}|/)*"
_TAIL = rf"(?:{_PCHAR}|[/?])*"
_AUTHORITY = rf"(?:\[[0-9A-Fa-f:.]+\](?::[0-9]*)?|{_PCHAR}*)"
_URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:(?://{_AUTHORITY}(?:/{_PATH})?|(?!//){_PATH})(?:\?{_TAIL})?(?:\#{_TAIL})?")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_ONES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames", "contentSchema")
_UNEVALUATED = ("unevaluatedItems", "unevaluatedProperties")


@dataclass(frozen=True)
class Config:
    """One configuration: CID, fields, and the source of its transforms under `tools`, `resources`, `prompts`."""

    cid: str
    fields: Mapping[str, Any]
    transforms: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True)
class Mcps:
    """The `mcps` variable: the configurations by server; `broken` maps a server to the error in its configuration."""

    configs: Mapping[str, Config] = field(default_factory=dict)
    broken: Mapping[str, str] = field(default_factory=dict)

    def fields(self, server: str) -> Mapping[str, Any]:
        """Return the fields of a server's configuration; an empty mapping for a server without an entry."""
        found = self.configs.get(server)
        return found.fields if found else {}


class Configs:
    """Reads configurations from blobs and caches them by CID. Safe for many threads."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs
        self._cache: OrderedDict[str, Config] = OrderedDict()

    def load_mcps(self, text: bytes | None, where: str = "variables/mcps") -> Mcps:
        """Load every configuration that the `mcps` variable names; an empty variable names none.

        `text` is the content of the variable, after a CID in it was resolved. Raises ConfigError for a text that is not
        an object of server names. An entry with an error goes into `broken`.
        """
        if text is None or not text.strip():
            return Mcps()
        value = _json(text, where)
        if not isinstance(value, dict):
            raise ConfigError(where, "", f"expected an object of server names; this is {_kind(value)}")
        configs: dict[str, Config] = {}
        broken: dict[str, str] = {}
        for name, row in value.items():
            try:
                configs[name] = self.config(_config_cid(row, name, where))
            except ContentError as problem:
                broken[name] = f"its mcps configuration cannot be used: {problem.message}"
        return Mcps(configs, broken)

    def config(self, cid: str) -> Config:
        """Return the configuration with this CID, its transforms resolved. Raises ContentError."""
        cid = canonical(cid)
        found = self._cache.get(cid)
        if found is None:
            fields = parse_config(self._blobs.get(cid), cid)
            found = Config(cid, fields, dict(self._transforms(fields, cid)))
            self._cache[cid] = found
            while len(self._cache) > MAX_CACHED_CONFIGS:
                self._cache.popitem(last=False)
        return found

    def _transforms(self, fields: Mapping[str, Any], where: str) -> Iterator[tuple[str, bytes]]:
        for kind in TRANSFORMS:
            key = f"{kind}_transform_cid"
            if key in fields:
                try:
                    yield kind, self._blobs.get(fields[key])
                except BadCid as problem:
                    raise ConfigError(where, key, f"expected a CID; {problem.message}") from problem


def _config_cid(row: Any, name: str, where: str) -> str:
    if not isinstance(row, dict) or not isinstance(row.get("config_cid"), str):
        further = ""
        if name == "mcpServers" or configured_kind(row) is not None:
            further = (
                "; save a configuration of an MCP client as a file in servers/, or store it at /cid and name its CID"
            )
        raise ConfigError(where, name, 'expected an object such as {"config_cid": "bafkrei..."}' + further)
    return str(row["config_cid"])


def parse_config(data: bytes, where: str) -> dict[str, Any]:
    """Return one configuration from its bytes; `where` is a file name or CID. Raises ConfigError.

    The form of another program is translated; the field `unused` then has the members without a meaning here.
    """
    value = _json(data, where)
    found, unused = configured_kind(value), {}
    if found is not None and found[1].translate is not None and found[1].recognizes(value):
        value = found[1].translate(value, where)
        unused = {"unused": value.pop("unused")} if "unused" in value else {}
    check_names(value, frozenset(SCHEMA["properties"]), where)
    check(value, where)
    check_fields(value, where)
    if value.get("isolation") == "inline" and "environment" in value:
        raise ConfigError(
            where, "environment", "expected this field only with isolation process; this server has isolation inline"
        )
    is_composed = found is not None and found[1].compose is not None  # its entries are those of other servers
    for name, tool in () if is_composed else value.get("tools", {}).items():
        check_tool(tool, where, f"tools.{name}")
    for name, resource in () if is_composed else value.get("resources", {}).items():
        check_uri(resource["uri"], where, f"resources.{name}.uri")
    return {**value, **unused}


def parse_listing(data: bytes | None, where: str) -> dict[str, Any]:
    """Return the field `listing` for the list of all servers' tools, from its bytes. Raises ConfigError."""
    if data is None or not data.strip():
        return {}
    value = _json(data, where)
    check(value, where, kind="hub_listing")
    return dict(value)


def lists_tools(fields: Mapping[str, Any]) -> bool:
    """Whether a configuration lists the tools itself, by name or by a transform."""
    return bool(fields.get("tools")) or "tools_transform_cid" in fields


def check(value: Any, where: str, path: str = "", kind: str = "") -> None:
    """Check a configuration, or one entry of it. Raises ConfigError.

    `kind` is tool, resource, template, prompt or hub_listing; an empty text stands for a whole configuration.
    """
    if _FAST_VALIDATORS[kind].is_valid(value):
        return
    found = list(_get_explaining_validator(kind).iter_errors(value))
    worst = min(found, key=lambda one: (one.validator in ("required", "oneOf"), [str(part) for part in one.path]))
    inside = ".".join([*filter(None, [path]), *(str(part) for part in worst.absolute_path)])
    raise ConfigError(where, inside, _expected(worst))


def find_errors(data: bytes, where: str) -> list[ConfigError]:
    """Return the errors of one configuration; an empty list for a valid one. `where` is its name in messages.

    Every field that breaks the schema has its error. The other rules are asked only where the schema is obeyed, and
    stop at their first error.
    """
    try:
        parse_config(data, where)
    except ConfigError as problem:
        first = problem
    else:
        return []
    try:
        value = _json(data, where)
    except ConfigError as problem:
        return [problem]
    found = list(_get_explaining_validator("").iter_errors(value))
    found.sort(key=lambda one: [str(part) for part in one.absolute_path])
    errors = [ConfigError(where, ".".join(map(str, one.absolute_path)), _expected(one)) for one in found]
    return errors if any(one.path == first.path for one in errors) else [first, *errors]


def check_tool(tool: Mapping[str, Any], where: str, path: str) -> None:
    """Check a tool's schemas. Raises ConfigError."""
    for key in ("inputSchema", "outputSchema"):
        if key in tool:
            check_schema(tool[key], where, f"{path}.{key}")


def check_uri(uri: str, where: str, path: str) -> None:
    """Check that a resource's address is an absolute URI. Raises ConfigError."""
    if not _URI.fullmatch(uri):
        raise ConfigError(
            where,
            path,
            f"expected an absolute URI as in RFC 3986, such as echo://last or file:///a%20b; this is {uri!r}",
        )


def check_schema(schema: Mapping[str, Any], where: str, path: str) -> None:
    """Check that a tool's schema is bounded JSON Schema 2020-12 with internal references only. Raises ConfigError."""
    if schema.get("type") != "object":
        raise ConfigError(
            where, path, f'expected "type": "object" at the root of the schema, not {schema.get("type")!r}'
        )
    if schema.get("$schema", DIALECT).rstrip("#") != DIALECT:
        raise ConfigError(where, f"{path}.$schema", f"expected {DIALECT}, which is also the default")
    if len(orjson.dumps(schema)) > MAX_SCHEMA_BYTES:
        raise ConfigError(where, path, f"expected a schema of at most {MAX_SCHEMA_BYTES} bytes")
    headers: dict[str, str] = {}
    for place, part, reachable in _parts(schema, path, True, where):
        for key in ("$ref", "$dynamicRef"):
            if not str(part.get(key, "#")).startswith("#"):
                found = f"{part[key]!r} is not followed"
                raise ConfigError(where, f"{place}.{key}", f'expected a reference that begins with "#"; {found}')
        if "x-mcp-header" in part:
            _check_header(part, reachable, headers, where, f"{place}.x-mcp-header")
    try:
        jsonschema_rs.Draft202012Validator(dict(schema), retriever=_refuse)
    except (ValueError, jsonschema_rs.ReferencingError) as problem:
        inside = ".".join(str(part) for part in getattr(problem, "instance_path", None) or ())
        reason = str(problem).partition("\n")[0]
        raise ConfigError(
            where, f"{path}.{inside}".rstrip("."), f"expected valid JSON Schema 2020-12, but {reason}"
        ) from problem


def _refuse(uri: str) -> Any:
    raise ValueError(f"{uri} is not fetched")


def _parts(
    schema: Any, path: str, reachable: bool, where: str, depth: int = 0
) -> Iterator[tuple[str, Mapping[str, Any], bool]]:
    """Yield each schema in a schema, its place, and whether only `properties` lead to it from the root."""
    if not isinstance(schema, Mapping):
        return
    if depth > MAX_SCHEMA_DEPTH:
        raise ConfigError(where, path, f"expected a schema that nests at most {MAX_SCHEMA_DEPTH} levels")
    yield path, schema, reachable
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, Mapping):
            inner = [(str(name), part) for name, part in value.items()]
        elif key in _LISTS and isinstance(value, list):
            inner = [(str(number), part) for number, part in enumerate(value)]
        elif key in _ONES or key in _UNEVALUATED:
            inner = [("", value)]
        else:
            continue
        for name, part in inner:
            place = f"{path}.{key}.{name}".rstrip(".")
            yield from _parts(part, place, reachable and key == "properties", where, depth + 1)


def _check_header(part: Mapping[str, Any], reachable: bool, headers: dict[str, str], where: str, place: str) -> None:
    """Check the rules of `x-mcp-header` (MCP 2026-07-28); `headers` collects the names in one schema."""
    name = part["x-mcp-header"]
    if not isinstance(name, str) or "_" in name or not _HEADER.fullmatch(name):
        hint = " (servers drop request headers with _; use -)" if isinstance(name, str) and "_" in name else ""
        raise ConfigError(
            where, place, f"expected a header name of letters, digits and hyphens{hint}; this is {name!r}"
        )
    if part.get("type") not in ("string", "integer", "boolean"):
        raise ConfigError(where, place, 'expected it on a property whose "type" is string, integer or boolean')
    if not reachable:
        raise ConfigError(where, place, 'expected it where only "properties" lead to it from the root of the schema')
    if name.lower() in headers:
        raise ConfigError(where, place, f"expected a unique header name; {headers[name.lower()]} has the same name")
    headers[name.lower()] = place


def _json(data: bytes, where: str) -> Any:
    try:
        return parse_file(data)
    except ParseError as problem:
        raise ConfigError(where, "", f"expected JSON, but it {problem.message.removeprefix('the body ')}") from problem


def _expected(error: jsonschema.ValidationError) -> str:
    """Return the expectation of one failed rule of the schema, as a sentence."""
    value: Any = error.instance
    rule: Any = error.validator_value
    schema: Any = error.schema
    match error.validator:
        case "additionalProperties":
            known = sorted(schema["properties"])
            extra = [_suggested(name, known) for name in sorted(set(value) - set(known))]
            return f"unknown field {', '.join(extra)}; expected only {', '.join(known)}"
        case "required":
            return f"expected the field {', '.join(name for name in rule if name not in value)}"
        case "oneOf":
            names = [one["required"][0] for one in rule if "required" in one]
            given = " and ".join(name for name in names if name in value)
            return f"expected exactly one of {', '.join(names)}; found {given or 'none'}"
        case "type":
            wanted = " or ".join(_TYPES[one] for one in ([rule] if isinstance(rule, str) else rule))
        case "enum" | "const":
            wanted = " or ".join(orjson.dumps(one).decode() for one in (rule if isinstance(rule, list) else [rule]))
        case "minimum" | "exclusiveMinimum" | "maximum":
            sign = {"minimum": "of at least", "exclusiveMinimum": "above", "maximum": "of at most"}[error.validator]
            wanted = f"a number {sign} {rule}"
        case "minItems":
            wanted = f"at least {rule} entry"
        case _:
            about = str(schema.get("description", error.message)).rstrip(".")
            wanted = about[:1].lower() + about[1:]
    return f"expected {wanted}; this is {_kind(value)}"


def _suggested(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, 1)
    return f"{name} (did you mean {close[0]}?)" if close else name


_TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
}


def _kind(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return ("an " if value else "an empty ") + ("object" if isinstance(value, dict) else "array")
    return orjson.dumps(value).decode()[:80]


_SCHEMAS = {"": SCHEMA} | {
    kind: {"$schema": DIALECT, "$ref": f"#/$defs/{kind}", "$defs": SCHEMA["$defs"]}
    for kind in ("tool", "resource", "template", "prompt", "hub_listing")
}
"""The whole schema under "", and the schema of each kind of entry."""

_FAST_VALIDATORS = {
    kind: jsonschema_rs.Draft202012Validator(schema, retriever=_refuse) for kind, schema in _SCHEMAS.items()
}


@cache
def _get_explaining_validator(kind: str) -> Any:
    """Return the slower validator of a kind, whose errors have their places and rules."""
    import jsonschema

    return jsonschema.Draft202012Validator(_SCHEMAS[kind])


FindVariables = Callable[[str], Mapping[str, str]]
"""Returns what the configuration of a server, by its name, may name as `${NAME}`. A lookup may raise ConfigError."""


def advise_to_set(name: str) -> str:
    """Return what the operator does about a variable that a configuration names and that has no value."""
    return f"store {name} with `patchbay secret set {name}`, or set it in the environment of the hub and start it again"


def resolved(given: Mapping[str, str], where: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the variables for a child process from a configuration; `where` is the name of its server.

    `${NAME}` stands for a variable of the hub, `${NAME:-text}` for `text` if that variable is not set or empty;
    `environ` has these variables, by default those of the environment. The result leaves empty values out. Raises
    ConfigError with the name of a variable that is not set.
    """
    environ = whole_environment() if environ is None else environ
    values = {key: _expanded(text, f"environment.{key}", where, environ) for key, text in given.items()}
    return {key: value for key, value in values.items() if value}


def _expanded(text: str, path: str, where: str, environ: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        name, instead = found.groups()
        if instead is not None:
            return environ.get(name) or str(instead)
        if name not in environ:
            raise ConfigError(where, path, advise_to_set(name))
        return environ[name]

    return REFERENCE.sub(value, text)

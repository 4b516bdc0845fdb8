"""Parse a profile from its JSON, in any of the three layouts of JN, and format it in the canonical one.

    flat      _meta.json has `command`, `args`, ... ; one `{tool}.json` beside it per tool
    one file  the same with a `tools` object inside _meta.json
    nested    the launch data stands under `connection`

All three are read, also mixed. Written are _meta.json (launch and universal fields) and one file per tool. Parameters
in JN's own form (`{"gene": {"type": "string", "required": true}}`) become JSON Schema. Unknown fields are kept. Every
error names the file, the path inside it and what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, unquote

from patchbay.client.addresses.launchers import check_issuer, check_url
from patchbay.client.addresses.sign_in import SignInError, SignInFields, has_literal_secret, make_sign_in_fields
from patchbay.client.addresses.targets import AddressError, Http, Stdio, Target, Transport
from patchbay.client.addresses.variables import ProfileError, substitute_env_vars_recursive

META_STEM = "_meta"
LAUNCH_FIELDS = ("command", "args", "env", "cwd", "url", "headers", "issuer", "sign_in", "transport", "timeout")
"""The fields that start or connect to an MCP server; `timeout` is in seconds."""

SCHEMA_VALIDATIONS = ("warn", "error", "ignore")
TRANSPORTS: Mapping[str, str] = {
    "stdio": "stdio",
    "auto": "auto",
    "http": "auto",
    "streamable-http": "streamable-http",
    "sse": "sse",
}
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d+)?)?(Z|[+-]\d{2}:\d{2})?)?")


@dataclass(frozen=True, slots=True)
class Profile:
    """How to connect to a server, and the contract expected of it.

    `launch` starts or connects to the server, with `${VAR}`s as written (for plugins other than `mcp`: their
    `connection`). `fields` are the universal fields (`description`, `schema_hash`, `schema_validation`, `notes`, ...)
    and every other field of the file. `tools` has, per tool, `description`, `inputSchema`, `output_format`, `notes` and
    more. `directory` is the profile's folder, `overlays` the files of other folders that replace fields of its tools.
    """

    name: str
    plugin: str = "mcp"
    launch: Mapping[str, Any] = field(default_factory=dict)
    fields: Mapping[str, Any] = field(default_factory=dict)
    tools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    directory: Path | None = field(default=None, compare=False)
    overlays: tuple[Path, ...] = field(default=(), compare=False)

    @property
    def schema_hash(self) -> str | None:
        """The contract hash written when the profile was made; None in a minimal profile."""
        return self.fields.get("schema_hash")

    @property
    def schema_cid(self) -> str | None:
        """The CID of the snapshot of all tools taken at that time, None when there is no snapshot."""
        return self.fields.get("schema_cid")

    @property
    def schema_validation(self) -> str:
        """The reaction to a changed contract: `warn` (default), `error` or `ignore`."""
        return str(self.fields.get("schema_validation", SCHEMA_VALIDATIONS[0]))

    @property
    def is_minimal(self) -> bool:
        """Whether the profile has launch data only, so that the server is asked for its tools every time."""
        return not self.tools and self.schema_hash is None and self.schema_cid is None


def parse_profile(name: str, meta: Any, tools: Mapping[str, Any], where: str) -> Profile:
    """Parse a profile from the content of its _meta.json and of its tool files by tool name.

    `where` names the directory (or the source) for errors; tool files win over `tools` inside _meta. Raises
    ProfileError.
    """
    place = f"{where}/{META_STEM}.json" if where else f"{META_STEM}.json"
    if not isinstance(meta, dict):
        raise ProfileError(place, "", "expected a JSON object")
    plugin = _get_typed(meta, "plugin", str, "a string", place, "mcp")
    inside = _get_typed(meta, "tools", dict, "an object of tools by name", place, {})
    launch, rest = _split_launch(meta, plugin, place)
    fields = {key: value for key, value in rest.items() if key not in ("plugin", "tools")}
    _check_fields(fields, place)
    found = {key: parse_tool(key, value, place, f"tools.{key}") for key, value in inside.items()}
    for key, value in tools.items():
        found[key] = {**found.get(key, {}), **parse_tool(key, value, f"{where}/{get_tool_file(key)}", "")}
    profile = Profile(name, plugin, launch, fields, {key: found[key] for key in sorted(found)})
    if plugin == "mcp":
        get_target(profile, None)
        get_timeout(profile)
    return profile


def _split_launch(meta: Mapping[str, Any], plugin: str, place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    connection = _get_typed(meta, "connection", dict, "an object", place, {})
    rest = {key: value for key, value in meta.items() if key != "connection"}
    if plugin != "mcp":
        return dict(connection), rest
    unknown = sorted(set(connection) - set(LAUNCH_FIELDS))
    if unknown:
        raise ProfileError(place, f"connection.{unknown[0]}", f"expected only {', '.join(LAUNCH_FIELDS)}")
    flat = {key: rest.pop(key) for key in LAUNCH_FIELDS if key in rest}
    both = [key for key in flat if key in connection and connection[key] != flat[key]]
    if both:
        raise ProfileError(
            place, f"connection.{both[0]}", f"expected the same as {both[0]} beside it, or one of the two"
        )
    return {key: {**connection, **flat}[key] for key in LAUNCH_FIELDS if key in connection or key in flat}, rest


def _get_typed(source: Mapping[str, Any], key: str, kind: type, expected: str, place: str, default: Any) -> Any:
    value = source.get(key, default)
    if not isinstance(value, kind):
        raise ProfileError(place, key, f"expected {expected}")
    return value


def _check_fields(fields: Mapping[str, Any], place: str) -> None:
    for key in ("server", "description", "notes"):
        _get_typed(fields, key, str, "a string", place, "")
    tested = _get_typed(fields, "tested_with", list, "a list of strings", place, [])
    if not all(isinstance(one, str) for one in tested):
        raise ProfileError(place, "tested_with", "expected a list of strings")
    if fields.get("schema_validation", "warn") not in SCHEMA_VALIDATIONS:
        raise ProfileError(place, "schema_validation", f"expected one of {', '.join(SCHEMA_VALIDATIONS)}")
    for key, expected in (("schema_hash", "a hash"), ("schema_cid", "a CID")):
        if not isinstance(fields.get(key, ""), str | None):
            raise ProfileError(place, key, f"expected {expected} as a string, or null")
    when = fields.get("schema_updated")
    if when is not None and not (isinstance(when, str) and _DATE.fullmatch(when)):
        raise ProfileError(place, "schema_updated", "expected an ISO 8601 date or date-time")


def parse_tool(name: str, value: Any, place: str, path: str) -> dict[str, Any]:
    """Parse one tool as a profile keeps it: `parameters` become `inputSchema`. Raises ProfileError."""
    if not isinstance(value, dict):
        raise ProfileError(place, path, "expected a JSON object")
    prefix = f"{path}." if path else ""
    for key in ("description", "output_format", "notes"):
        _get_typed(value, key, str, "a string", place if not path else f"{place}: {path}", "")
    if value.get("tool", name) != name:
        raise ProfileError(place, f"{prefix}tool", f"expected {name!r}, the key of this tool")
    if not isinstance(value.get("examples", []), list):
        raise ProfileError(place, f"{prefix}examples", "expected a list of objects with input and output_sample")
    found = {key: one for key, one in value.items() if key not in ("tool", "parameters")}
    if "parameters" in value and "inputSchema" in value:
        raise ProfileError(place, f"{prefix}parameters", "expected parameters or inputSchema, not both")
    for key in ("parameters", "inputSchema"):
        if key in value:
            found["inputSchema"] = _parse_input_schema(value[key], place, f"{prefix}{key}")
    return found


def _parse_input_schema(value: Any, place: str, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ProfileError(place, path, "expected an object of parameters by name, or a JSON Schema of an object")
    is_schema = value.get("type") == "object" or path.endswith("inputSchema")
    whole = dict(value) if is_schema else {"type": "object", "properties": value}
    properties = whole.get("properties", {})
    required = whole.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        raise ProfileError(place, path, "expected properties to be an object and required a list of names")
    plain: dict[str, Any] = {}
    for name, one in properties.items():
        if not isinstance(one, dict | bool):
            raise ProfileError(place, f"{path}.{name}", 'expected an object such as {"type": "string"}')
        if isinstance(one, dict) and isinstance(one.get("required"), bool):
            plain[name] = {key: inner for key, inner in one.items() if key != "required"}
        else:
            plain[name] = one
    marks = [name for name, one in properties.items() if isinstance(one, dict) and one.get("required") is True]
    names = [*required, *(name for name in marks if name not in required)]
    return whole | ({"properties": plain} if "properties" in whole else {}) | ({"required": names} if names else {})


def get_target(profile: Profile, environ: Mapping[str, str] | None, tool: str = "") -> Target:
    """Get the target of the profile's server. A tool's own launch fields win for calls of that tool.

    With an environment the `${VAR}`s are replaced, after the merge; without one they stay as written. Raises
    ProfileError.
    """
    place = f"{profile.directory or profile.name}/{META_STEM}.json"
    over = {key: value for key, value in profile.tools.get(tool, {}).items() if key in LAUNCH_FIELDS}
    data = {**profile.launch, **over}
    if environ is not None:
        data = substitute_env_vars_recursive(data, environ, place)
    command, url = data.get("command"), data.get("url")
    kind = data.get("transport", "stdio" if url is None else "auto")
    if not isinstance(kind, str) or kind not in TRANSPORTS:
        raise ProfileError(place, "transport", f"expected one of {', '.join(TRANSPORTS)}")
    if (command is None) == (url is None) or (kind == "stdio") != (url is None):
        raise ProfileError(
            place, "", "expected command (transport stdio) or url (transport auto, streamable-http, sse)"
        )
    if url is not None:
        return _parse_http(data, TRANSPORTS[kind], place, environ is None)
    args, env, cwd = data.get("args", []), data.get("env", {}), data.get("cwd")
    if not isinstance(command, str) or not command or not isinstance(cwd, str | None):
        raise ProfileError(place, "command", "expected a program; cwd, when there is one, is a directory")
    if not isinstance(args, list) or not all(isinstance(word, str) for word in args):
        raise ProfileError(place, "args", "expected a list of strings")
    return Stdio(command, tuple(args), _check_strings(env, "env", place), cwd)


def get_timeout(profile: Profile, tool: str = "") -> float | None:
    """Get the seconds for one request to the profile's server; a tool's own timeout wins. Raises ProfileError."""
    seconds = profile.tools.get(tool, {}).get("timeout", profile.launch.get("timeout"))
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds <= 0:
        raise ProfileError(f"{profile.directory or profile.name}/{META_STEM}.json", "timeout", "expected seconds")
    return float(seconds)


def _parse_http(data: Mapping[str, Any], transport: str, place: str, unresolved: bool) -> Http:
    url = data["url"]
    try:
        if not isinstance(url, str) or not (unresolved and "${" in url):
            check_url(url if isinstance(url, str) else "", place)
    except AddressError as problem:
        raise ProfileError(place, "url", "expected http(s)://HOST[:PORT][/PATH]") from problem
    issuer = data.get("issuer", "")
    try:
        if issuer != "":
            check_issuer(issuer if isinstance(issuer, str) else "", place)
    except AddressError as problem:
        raise ProfileError(place, "issuer", "expected the http(s) URL of an authorization server, or any") from problem
    headers = _check_strings(data.get("headers", {}), "headers", place)
    found = Http(url, headers, cast(Transport, transport), issuer=issuer)
    return replace(found, sign_in=_parse_sign_in(data, found, place, unresolved)) if "sign_in" in data else found


def _parse_sign_in(data: Mapping[str, Any], target: Http, place: str, unresolved: bool) -> SignInFields:
    given = _check_strings(data["sign_in"], "sign_in", place)
    if unresolved and has_literal_secret(given):
        raise ProfileError(place, "sign_in.client_secret", "expected a variable such as ${NAME}, not a secret")
    try:
        return make_sign_in_fields(given, target.issuer, target.has_authorization)
    except SignInError as problem:
        path = problem.key if problem.key == "issuer" else ".".join(filter(None, ("sign_in", problem.key)))
        raise ProfileError(place, path, problem.message) from problem


def _check_strings(value: Any, path: str, place: str) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(one, str) for one in value.values()):
        raise ProfileError(place, path, "expected an object of strings")
    return value


def get_tool_file(tool: str) -> str:
    """Get the file name of a tool: its name, with the characters that a file name cannot have percent-encoded."""
    safe = quote(tool, safe="")
    return ("%5F" + safe[1:] if safe == META_STEM else "%2E" + safe[1:] if safe.startswith(".") else safe) + ".json"


def get_tool_name(stem: str) -> str:
    """Get the tool whose file has this stem."""
    return unquote(stem)


def format_files(profile: Profile) -> Iterator[tuple[str, dict[str, Any]]]:
    """Give the files of a profile in canonical form: tools first, `_meta.json` last."""
    for name, tool in profile.tools.items():
        yield get_tool_file(name), {"tool": name, **tool}
    launch = profile.launch if profile.plugin == "mcp" else {"connection": profile.launch}
    yield f"{META_STEM}.json", {"plugin": profile.plugin, **launch, **profile.fields}

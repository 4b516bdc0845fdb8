"""Addresses: one string that names a server, an operation on it, and the arguments.

    mcp+LAUNCHER://PLACE[?QUERY]      a naked URI, no configuration needed (launchers.py)
    mcp+stdio:COMMAND LINE[?QUERY]    any command line
    http://..., https://...           a URL, taken whole: its query is the URL's own
    mcp://PRESET[?QUERY]              a launch named in `.jn/mcp-launchers.json`
    @PROFILE[/TOOL][?QUERY]           a profile
    /mcp/SERVER[@CID][/TOOL][?QUERY]  a server of this hub; `/mcp` is all of them

Parsing starts nothing, reads no file and looks up no variable (`${VAR}` stays as written until the address is
resolved). Starting a program from an address is for the local command line and the operator's configuration only.
docs/addresses.md describes the grammar; a test runs its examples.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from patchbay.client.addresses.launchers import PROGRAMS, URLS, build_target, check_url, encode_package, parse_preset
from patchbay.client.addresses.mistakes import describe_mistake
from patchbay.client.addresses.query import Pair, Query, check_text, decode_percent, parse_pairs, sort_pairs
from patchbay.client.addresses.targets import AddressError, Http, Local, Stdio, Target
from patchbay.client.contracts.coercion import coerce_arguments
from patchbay.client.contracts.file_arguments import Upload, resolve_files

Operation = Literal["none", "list", "call", "read", "prompt"]

LISTABLE = ("tools", "resources", "templates", "prompts", "skills", "all")
"""Values of `list=`."""

_NAME = re.compile(r"(?!\.)[A-Za-z0-9_.-]{1,128}")
_ENDPOINT = re.compile(r"[A-Za-z0-9_.-]{1,128}(@b[a-z2-7]{10,510})?")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9.-]*(?:\+[A-Za-z0-9.-]*)?):")
_LOCAL = "/mcp"


@dataclass(frozen=True, slots=True)
class NamedServer:
    """A server whose launch stands in a file: a profile (`@name`) or a preset (`mcp://name`)."""

    kind: Literal["profile", "preset"]
    name: str

    @property
    def label(self) -> str:
        """The reference as it is written in an address."""
        return f"@{self.name}" if self.kind == "profile" else f"mcp://{self.name}"


@dataclass(frozen=True, slots=True)
class Address:
    """A parsed address.

    `target` is the server, or the name under which a file describes it. `name` is the tool, the resource's URI, the
    prompt, or the list (one of LISTABLE); empty for the operation "none". `arguments` are as written, strings or lists
    of strings; `exact` are JSON values. `schema` is the CID of the expected contract, or "".
    """

    target: Target | NamedServer
    operation: Operation = "none"
    name: str = ""
    arguments: Mapping[str, str | list[str]] = field(default_factory=dict)
    exact: Mapping[str, Any] = field(default_factory=dict)
    schema: str = ""

    def with_arguments(
        self, text: Mapping[str, str | list[str]] | None = None, exact: Mapping[str, Any] | None = None
    ) -> Address:
        """Return the same address with a caller's arguments, which replace arguments of the same names."""
        text, exact = text or {}, exact or {}
        remaining = {key: value for key, value in self.arguments.items() if key not in exact}
        remaining_exact = {key: value for key, value in self.exact.items() if key not in text}
        return replace(self, arguments={**remaining, **text}, exact={**remaining_exact, **exact})

    def make_call_arguments(
        self, input_schema: Mapping[str, Any] | bool | None, upload: Upload | None = None
    ) -> dict[str, Any]:
        """Make the JSON arguments of the call: text arguments take the types that the schema asks for.

        `upload` uploads a file whose argument takes a link, as `resolve_files` says.
        """
        files = resolve_files(self.exact, input_schema, upload=upload)
        return {**coerce_arguments(self.arguments, input_schema), **files}


def parse_address(text: str) -> Address:
    """Parse an address. Raises AddressError, which says what is wrong, where, and what was expected."""
    check_text(text, "the address")
    if text.startswith("@"):
        return _parse_profile_reference(text[1:])
    if text == _LOCAL or text.startswith((f"{_LOCAL}/", f"{_LOCAL}?")):
        return _parse_local(text[len(_LOCAL) :])
    scheme = _SCHEME.match(text)
    kind = scheme[1].lower() if scheme else ""
    rest = text[scheme.end() :] if scheme else ""
    if kind in URLS:
        return _parse_plain_url(text)
    if kind == "mcp" or kind.startswith("mcp+"):
        return _parse_naked_uri(kind, rest)
    raise AddressError(describe_mistake(text))


def parse_naked_mcp_uri(uri: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse a naked URI to the pair that JN uses: the server's configuration, and every other parameter with control
    keys.

    The configuration has `command`, `args` and `transport`, or `url` and `transport`; repeated keys are lists. Raises
    AddressError.
    """
    scheme = _SCHEME.match(uri)
    if not scheme or not scheme[1].lower().startswith("mcp+"):
        raise AddressError(describe_mistake(uri, "an address such as mcp+uvx://PACKAGE or mcp+npx://PACKAGE"))
    address = parse_address(uri)
    reach_words = _list_launch_keys(scheme[1].lower())
    params: dict[str, Any] = {}
    for key, value in parse_pairs(uri.partition("?")[2]):
        if key not in reach_words and not key.startswith(("env.", "header.", "query.", "launch.")):
            before = params.get(key)
            several = [*(before if isinstance(before, list) else [before]), value]
            params[key] = value if before is None else several
    return to_profile_fields(address.target), params


def to_profile_fields(target: Target | NamedServer) -> dict[str, Any]:
    """Convert a target to fields of a profile.

    The fields are `command`, `args`, `env`, `cwd` or `url`, `headers`, `issuer`, `sign_in`, `transport`.
    """
    if isinstance(target, Stdio):
        found: dict[str, Any] = {"command": target.command, "args": list(target.args), "transport": "stdio"}
        return found | ({"env": dict(target.env)} if target.env else {}) | ({"cwd": target.cwd} if target.cwd else {})
    if isinstance(target, Http):
        found = {"url": target.url, "transport": target.transport}
        found |= {"headers": dict(target.headers)} if target.headers else {}
        found |= {"issuer": target.issuer} if target.issuer else {}
        return found | ({"sign_in": target.sign_in.to_fields()} if target.sign_in is not None else {})
    raise AddressError(f"{target.label}: expected a program or a URL")


def find_preset(name: str, rows: Mapping[str, Any], where: str) -> Stdio:
    """Find the launch of `mcp://name` in a presets file. Raises AddressError with the names in it."""
    if name not in rows:
        known = ", ".join(sorted(rows)) or "no presets"
        raise AddressError(f"mcp://{name}: no such preset in {where}; it has {known}")
    return parse_preset(name, rows[name], where)


def _list_launch_keys(kind: str) -> frozenset[str]:
    return frozenset({"command"}) if kind == "mcp+uvx" else frozenset()


def _parse_naked_uri(kind: str, rest: str) -> Address:
    place, _, query_text = rest.partition("?")
    launcher = kind.removeprefix("mcp").removeprefix("+")
    if place.startswith("//"):
        place = place[2:]
    elif launcher != "stdio":
        raise AddressError(f"{kind}: expected {kind}://")
    rows = parse_pairs(query_text)
    if kind == "mcp":
        return _parse_preset(decode_percent(place, "mcp"), rows)
    query = sort_pairs(rows, False, _list_launch_keys(kind))
    return _build_address(build_target(launcher, place, query.launch), query, "")


def _parse_preset(name: str, rows: Sequence[Pair]) -> Address:
    """Parse `mcp://name`, or `mcp://name?launcher=uvx&package=...`, which needs no presets file.

    In the second form the name is the executable for `uvx`; for other launchers it is only a label.
    """
    _check_name(name, "mcp://", "the name of a preset")
    if not any(key == "launcher" for key, _ in rows):
        query = sort_pairs(rows, False)
        _refuse_launch_options(query, f"mcp://{name}", "its row of the presets file")
        return _build_address(NamedServer("preset", name), query, "")
    query = sort_pairs(rows, False, frozenset({"launcher", "package", "command"}))
    given = {key: value for key, value in query.launch if key in ("launcher", "package")}
    options = [pair for pair in query.launch if pair[0] not in ("launcher", "package", "command")]
    words = [("launch.arg", value) for key, value in query.launch if key == "command"]
    if not given.get("package") or given["launcher"] not in PROGRAMS or len(query.launch) != 2 + len(words + options):
        raise AddressError(f"mcp://{name}: expected launcher= (one of {', '.join(PROGRAMS)}) and package=, each once")
    package = encode_package(given["launcher"], given["package"])
    if given["launcher"] == "uvx":
        package = f"{package}/{name}"
    return _build_address(build_target(given["launcher"], package, [*words, *options]), query, "")


def _parse_profile_reference(rest: str) -> Address:
    place, _, query_text = rest.partition("?")
    name, slash, tool = place.partition("/")
    _check_name(name, "@", "the name of a profile")
    tool = _parse_path_tool(tool, slash, f"@{name}")
    query = sort_pairs(parse_pairs(query_text), bool(tool))
    _refuse_launch_options(query, f"@{name}", "the profile's _meta.json")
    return _build_address(NamedServer("profile", name), query, tool)


def _parse_local(rest: str) -> Address:
    place, _, query_text = rest.partition("?")
    endpoint, slash, tool = place.removeprefix("/").partition("/")
    endpoint = decode_percent(endpoint, _LOCAL)
    if endpoint and not _ENDPOINT.fullmatch(endpoint):
        raise AddressError(f"{_LOCAL}/: expected SERVER or SERVER@CID, got {endpoint[:200]!r}")
    if slash and not endpoint:
        raise AddressError(f"{_LOCAL}/: expected the name of a server before /{tool[:80]}")
    tool = _parse_path_tool(tool, slash, f"{_LOCAL}/{endpoint}")
    query = sort_pairs(parse_pairs(query_text), bool(tool))
    _refuse_launch_options(query, f"{_LOCAL}/{endpoint}", "the hub's own configuration")
    return _build_address(Local(endpoint), query, tool)


def _parse_path_tool(tool: str, slash: str, place: str) -> str:
    if slash and (not tool or "/" in tool):
        raise AddressError(f"{place}/{tool}: expected one tool after the slash (a slash in its name is written %2F)")
    return decode_percent(tool, place)


def _parse_plain_url(text: str) -> Address:
    url = check_url(text, "the URL")
    for piece in url.partition("?")[2].split("&"):
        if piece.partition("=")[0] in ("tool", "resource", "list", "prompt"):
            raise AddressError(
                f"the URL: a plain URL is taken whole, so {piece[:80]!r} would go to the server's own address;"
                f" expected mcp+{url} (and query.NAME= for the URL's own query)"
            )
    return Address(Http(url))


def _check_name(name: str, prefix: str, what: str) -> None:
    if not _NAME.fullmatch(name):
        raise AddressError(f"{prefix}: expected {what} (letters, digits, _ . -), got {name[:200]!r}")


def _refuse_launch_options(query: Query, place: str, home: str) -> None:
    if query.launch:
        key = query.launch[0][0]
        raise AddressError(
            f"{place}: {key}= says how to start or connect to a server, which belongs in {home};"
            f" an argument of this name is written arg.{key}="
        )


def _build_address(target: Target | NamedServer, query: Query, path_tool: str) -> Address:
    operation, name = _parse_operation(query.control, path_tool)
    if operation in ("list", "read") and (query.text or query.exact):
        extra = next(iter({**query.text, **query.exact}))
        raise AddressError(f"{extra}=: expected no arguments beside {'list' if operation == 'list' else 'resource'}=")
    return Address(target, operation, name, query.text, query.exact, query.control.get("schema", ""))


def _parse_operation(control: Mapping[str, str], path_tool: str) -> tuple[Operation, str]:
    """Read the operation: exactly one. A tool may stand in the path and in the query when both name the same one."""
    asked = [key for key in ("tool", "resource", "list", "prompt") if key in control]
    if path_tool and asked == ["tool"] and control["tool"] != path_tool:
        raise AddressError(f"the path names the tool {path_tool!r} and tool= names {control['tool']!r}; expected one")
    if len(asked) > 1 or (path_tool and asked not in ([], ["tool"])):
        both = " and ".join(f"{key}=" for key in asked)
        also = f"the path names the tool {path_tool!r}, beside " if path_tool else ""
        raise AddressError(f"{also}{both}: expected one thing to do; an argument of a tool is written arg.NAME=")
    if control.get("list", LISTABLE[0]) not in LISTABLE:
        raise AddressError(f"list={control['list']}: expected one of {', '.join(LISTABLE)}")
    if path_tool or "tool" in control:
        return "call", path_tool or control["tool"]
    verbs: dict[str, Operation] = {"resource": "read", "list": "list", "prompt": "prompt"}
    return (verbs[asked[0]], control[asked[0]]) if asked else ("none", "")

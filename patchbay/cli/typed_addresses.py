"""Addresses on the command line: short forms, and operations and arguments beside the address.

`jn call ADDRESS TOOL NAME=VALUE` is the address with `tool=TOOL&arg.NAME=VALUE`, so that the command line and the
address have one grammar. Values beside an address replace values in it.

A bare name, `git` or `git/log`, is a server of the hub; without such a server it is a profile or a preset. A profile is
always `@git`, and a file of this name is `./git`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import wraps
from typing import Any
from urllib.parse import quote, unquote_plus

import click

from patchbay.client.addresses.launchers import API_DOCUMENT_PATH, is_header_name
from patchbay.client.addresses.targets import AddressError, check_headers, mask_url
from patchbay.client.profiles.files import PROFILE_NAME
from patchbay.client.source import SourceContext, Sources
from patchbay.errors import ConfigError, InvalidParams
from patchbay.suggestions import find_similar_names

Pair = tuple[str, str]
API_SCHEME = "openapi+"
"""The prefix of addresses of HTTP APIs."""

_OPERATIONS = ("tool", "resource", "prompt", "list")
_API_OPERATIONS = ("operation", *_OPERATIONS)


ListServers = Callable[[], Collection[str]]
"""Returns the names of the servers of the hub; it may have to ask the running one."""

BARE = re.compile(r"(?![./~-])([A-Za-z0-9_.-]{1,128})((?:@[a-z2-7]+)?(?:[/?].*)?)", re.DOTALL)
"""A name that may be that of a server, and what follows it: a version, a tool, a query."""

MCP = "mcp/"
"""The beginning of an address of the hub without its slash; the tool X of the built-in server mcp is /mcp/mcp/X."""


def complete_reference(text: str, list_servers: ListServers | None = None) -> str:
    """Complete a bare name to the address of a server of the hub, else to a profile; other addresses stay as they are.

    Without `list_servers` no name is one of a server. Raises AddressError for `NAME/TOOL` where no server has the name
    and some have a similar one.
    """
    found = BARE.fullmatch(text.removeprefix(MCP))
    if found is not None and list_servers is not None:
        name, rest = found[1], found[2]
        known = list_servers()
        if name in known:
            return f"/mcp/{name}{rest}"
        server, dot, tool = name.partition(".")
        if dot and server in known and not rest:
            raise AddressError(
                f"{mask_url(text)}: there is no server {name!r}; for its tool {tool}, write {server}/{tool}"
            )
        close = find_similar_names(name, list(known)) if rest else []
        if close:
            meant = " or ".join(f"{one}{rest}" for one in close[:2])
            raise AddressError(f"{mask_url(text)}: there is no server {name!r}; did you mean {meant}?")
    return f"@{text}" if PROFILE_NAME.fullmatch(text) else text


def resolve_explored(text: str, sources: Sources, context: SourceContext, is_server: bool = True) -> str:
    """Resolve the address to explore; the name of an unknown profile can name a preset.

    Without `is_server` a bare name is not one of a server of the hub.
    """
    address = complete_reference(text, context.list_servers if is_server else None)
    name = address[1:]
    if not address.startswith("@") or not PROFILE_NAME.fullmatch(name):
        return address
    known = any(name in context.get_profiles(plugin).find_directories() for plugin in sources.list_names())
    return address if known or name not in context.get_profiles().load_presets()[0] else f"mcp://{name}"


def add_operation(address: str, kind: str = "", name: str = "", arguments: Iterable[Pair] = ()) -> str:
    """Add an operation (`tool`, `resource` or `prompt`, with a name) and arguments to an address."""
    arguments = list(arguments)
    if not kind and not arguments:
        return address
    place, _, query = _to_extended_form(address).partition("?")
    pieces = [piece for piece in query.split("&") if piece]
    operations = _API_OPERATIONS if place.lower().startswith(API_SCHEME) else _OPERATIONS
    if kind:
        pieces = [piece for piece in pieces if _key(piece) not in operations] + [f"{kind}={quote(name, safe=':/@')}"]
    given = {key for key, _ in arguments}
    pieces = [piece for piece in pieces if _key(piece).removeprefix("arg.") not in given or _key(piece) in operations]
    pieces += [f"arg.{quote(key, safe='')}={quote(value, safe='')}" for key, value in arguments]
    return f"{place}?{'&'.join(pieces)}"


def has_operation(address: str) -> bool:
    """Whether the address of an API names an operation."""
    return any(_key(piece) in ("operation", "tool") for piece in address.partition("?")[2].split("&"))


def _key(piece: str) -> str:
    return unquote_plus(piece.partition("=")[0])


def _to_extended_form(address: str) -> str:
    """Convert a plain URL of a server or an API to the form with a scheme, which can hold options."""
    if not re.match(r"(?i)https?://", address):
        return address
    url, _, query = address.partition("?")
    kind = "openapi" if API_DOCUMENT_PATH.search(url) else "mcp"
    return f"{kind}+{url}?launch.query={quote(query, safe='')}" if query else f"{kind}+{url}"


class HeaderType(click.ParamType[Pair]):
    """A click type for `NAME: VALUE`, a header of HTTP. Its errors do not show the value, which can be a secret."""

    name = "'NAME: VALUE'"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Pair:
        """Split the text into name and value, and check both."""
        if isinstance(value, tuple):
            return value
        name, colon, text = str(value).partition(":")
        if not colon:
            self.fail("expected 'NAME: VALUE', such as 'Authorization: Bearer ${KEY}'", param, ctx)
        if not is_header_name(name):
            self.fail(f"{name!r} is not the name of a header: expected letters, digits and - only", param, ctx)
        if name.lower() in PROTOCOL_HEADERS:
            self.fail(f"{name}: the client itself sends this header: leave it out", param, ctx)
        try:
            check_headers({name: text.strip(" \t")}, "--header")
        except InvalidParams:
            self.fail(f"{name}: expected a value of printable ASCII without a line break", param, ctx)
        return name, text.strip(" \t")


PROTOCOL_HEADERS = frozenset(
    {
        *("accept", "accept-encoding", "connection", "content-length", "content-type", "transfer-encoding"),
        *("mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id"),
    }
)
"""Headers that carry the protocol (RFC 9110; MCP specification, basic/transports), in lower case."""

HEADER = HeaderType()


def with_headers(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option `--header` to a command; its parameter `address` then contains the headers."""

    @click.option(
        "--header",
        "headers",
        type=HEADER,
        multiple=True,
        help="Send this HTTP header to the server at ADDRESS, a URL; write secrets as ${NAME}. Repeatable.",
    )
    @wraps(command)
    def run(*arguments: Any, address: str | None, headers: tuple[Pair, ...], **options: Any) -> Any:
        if headers and address is None:  # of a command that takes an address or the name of a server of this hub
            raise ConfigError("--header", "", "expected --at with a URL too: headers go to a server elsewhere")
        return command(*arguments, address=address and add_headers(address, headers), **options)

    return run


def add_headers(address: str, headers: Iterable[Pair]) -> str:
    """Add headers to the address of a URL; they replace headers of the same names in it. Raises AddressError."""
    given = {name.lower(): (name, value) for name, value in headers}
    if not given:
        return address
    place, _, query = _to_extended_form(complete_reference(address)).partition("?")
    if not re.match(r"(?i)(mcp\+https?|openapi\+[a-z]+):", place):
        raise AddressError(
            f"--header: {mask_url(place)} is not a URL; expected http(s)://...; a profile has headers in its _meta.json"
        )
    replaced = {f"header.{name}" for name in given}
    pieces = [piece for piece in query.split("&") if piece and _key(piece).lower() not in replaced]
    pieces += [f"header.{quote(name, safe='')}={quote(value, safe='')}" for name, value in given.values()]
    return f"{place}?{'&'.join(pieces)}"

"""Addresses as they are typed: a bare name for a profile or preset, and what is to be done given beside the address.

`jn call ADDRESS TOOL NAME=VALUE` is the address with `tool=TOOL&arg.NAME=VALUE`, so that everything said on the command
line goes through the one grammar of addresses. What stands beside an address wins (JN-31, JN-C12).
Sources: JN-46 (`mcp explore biomcp`), JN-55, JN-59.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import quote, unquote_plus

from patchbay.client.addresses.launchers import API_DOCUMENT_PATH
from patchbay.client.profiles.files import PROFILE_NAME
from patchbay.client.source import SourceContext, Sources

Pair = tuple[str, str]
API = "openapi+"
"""How the addresses of HTTP APIs begin."""

_OPERATIONS = ("tool", "resource", "prompt", "list")
_API_OPERATIONS = ("operation", *_OPERATIONS)


def full(text: str) -> str:
    """The address itself; a bare name is that of a profile."""
    return f"@{text}" if PROFILE_NAME.fullmatch(text) else text


def explored(text: str, sources: Sources, context: SourceContext) -> str:
    """The address to explore: a profile that is not found is tried as a preset (JN-55)."""
    address = full(text)
    name = address[1:]
    if not address.startswith("@") or not PROFILE_NAME.fullmatch(name):
        return address
    known = any(name in context.get_profiles(plugin).find_directories() for plugin in sources.list_names())
    return address if known or name not in context.get_profiles().load_presets()[0] else f"mcp://{name}"


def with_operation(address: str, kind: str = "", name: str = "", arguments: Iterable[Pair] = ()) -> str:
    """The address with an operation (`tool`, `resource`, `prompt` and its name) and arguments said beside it."""
    arguments = list(arguments)
    if not kind and not arguments:
        return address
    place, _, query = _mcp(address).partition("?")
    pieces = [piece for piece in query.split("&") if piece]
    operations = _API_OPERATIONS if place.lower().startswith(API) else _OPERATIONS
    if kind:
        pieces = [piece for piece in pieces if _key(piece) not in operations] + [f"{kind}={quote(name, safe=':/@')}"]
    said = {key for key, _ in arguments}
    pieces = [piece for piece in pieces if _key(piece).removeprefix("arg.") not in said or _key(piece) in operations]
    pieces += [f"arg.{quote(key, safe='')}={quote(value, safe='')}" for key, value in arguments]
    return f"{place}?{'&'.join(pieces)}"


def names_operation(address: str) -> bool:
    """Whether the address of an API says which operation is called."""
    return any(_key(piece) in ("operation", "tool") for piece in address.partition("?")[2].split("&"))


def _key(piece: str) -> str:
    return unquote_plus(piece.partition("=")[0])


def _mcp(address: str) -> str:
    """A plain URL, of a server or of an API's description, in the form that can say more."""
    if not re.match(r"(?i)https?://", address):
        return address
    url, _, query = address.partition("?")
    kind = "openapi" if API_DOCUMENT_PATH.search(url) else "mcp"
    return f"{kind}+{url}?launch.query={quote(query, safe='')}" if query else f"{kind}+{url}"

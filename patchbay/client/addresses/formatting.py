"""Format an address as text that parses to the same address.

A program is written as `mcp+stdio:`, which can express every command line, whichever launcher it came from.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from urllib.parse import parse_qsl, quote, urlencode

import orjson

from patchbay.client.addresses.address import Address, NamedServer
from patchbay.client.addresses.query import CONTROL_KEYS, LAUNCH_PREFIXES, Pair
from patchbay.client.addresses.targets import Http, Stdio

_SAFE_IN_COMMAND = " /@:,;=+!*'()[]~\"$&|<>"
_SAFE_IN_QUERY = "/:@,$!*'()~{}"
_CONTROL_OF = {"call": "tool", "read": "resource", "list": "list", "prompt": "prompt"}
_ESCAPED_KEYS = frozenset({*CONTROL_KEYS, "prompt", "args"})


def format_address(address: Address) -> str:
    """Format an address as one line that `parse_address` reads as the same address."""
    target = address.target
    if isinstance(target, Http) and address == Address(Http(target.url)) and not _has_operation_key(target.url):
        return target.url
    tool_in_path = isinstance(target, NamedServer) and target.kind == "profile" and address.operation == "call"
    path = "/" + quote(address.name, safe="@:+,;=!*'()[]~$") if tool_in_path else ""
    pairs = [*_list_launch_pairs(address), *_list_operation_pairs(address, tool_in_path)]
    query = "&".join(f"{quote(key, safe=_SAFE_IN_QUERY)}={quote(value, safe=_SAFE_IN_QUERY)}" for key, value in pairs)
    return _format_target(address) + path + (f"?{query}" if query else "")


def _format_target(address: Address) -> str:
    target = address.target
    if isinstance(target, Stdio):
        return "mcp+stdio:" + quote(shlex.join((target.command, *target.args)), safe=_SAFE_IN_COMMAND)
    if isinstance(target, Http):
        return "mcp+" + target.url.partition("?")[0]
    return target.label


def _list_launch_pairs(address: Address) -> Iterator[Pair]:
    target = address.target
    if isinstance(target, Stdio):
        yield from ((f"env.{name}", value) for name, value in target.env.items())
        if target.cwd is not None:
            yield "launch.cwd", target.cwd
    elif isinstance(target, Http):
        yield from ((f"header.{name}", value) for name, value in target.headers.items())
        raw = target.url.partition("?")[2]
        pairs = parse_qsl(raw, keep_blank_values=True)
        if raw and urlencode(pairs, quote_via=quote) == raw:
            yield from ((f"query.{name}", value) for name, value in pairs)
        elif raw:
            yield "launch.query", raw
        if target.transport != "auto":
            yield "launch.transport", target.transport
        if target.issuer:
            yield "launch.issuer", target.issuer


def _list_operation_pairs(address: Address, tool_in_path: bool) -> Iterator[Pair]:
    if address.operation != "none" and not tool_in_path:
        yield _CONTROL_OF[address.operation], address.name
    if address.schema:
        yield "schema", address.schema
    for key, value in address.arguments.items():
        name = (
            f"arg.{key}"
            if key in _ESCAPED_KEYS or key.startswith((*LAUNCH_PREFIXES, "arg.")) or _is_launch_key(key)
            else key
        )
        yield from ((name, one) for one in ([value] if isinstance(value, str) else value))
    if address.exact:
        yield "args", orjson.dumps(address.exact).decode()


def _is_launch_key(key: str) -> bool:
    return key in ("command", "launcher", "package")


def _has_operation_key(url: str) -> bool:
    """Whether `parse_address` refuses a plain URL: its query has a key that looks like an operation."""
    keys = (piece.partition("=")[0] for piece in url.partition("?")[2].split("&"))
    return any(key in ("tool", "resource", "list", "prompt") for key in keys)

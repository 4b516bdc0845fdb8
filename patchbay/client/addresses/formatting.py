"""A target as an address: the string from which `parse_address` makes the same target.

Environment variables and headers are not part of the string; the files of mounts have fields for them.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import replace
from urllib.parse import quote

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.sign_in import WAY
from patchbay.client.addresses.targets import AddressError, Http, Stdio

_READABLE = " /:@,=+'\"${}()[]~!*;<>|^`\\-"
"""Characters that a command line keeps in an address; `%`, `?`, `&` and `#` are percent-encoded."""


def format_address(target: Stdio | Http) -> str:
    """Return the address of a program or a URL, without its environment and headers.

    Raises AddressError for a target that no address can name, such as a URL with a fragment.
    """
    bare = replace(target, env={}) if isinstance(target, Stdio) else replace(target, headers={})
    found = _format_program(bare) if isinstance(bare, Stdio) else _format_url(bare)
    if parse_address(found).target != bare:
        raise AddressError(f"expected a server that an address can name, got {bare.label}")
    return found


def _format_program(target: Stdio) -> str:
    words = (target.command, *target.args)
    options = [f"launch.cwd={_encode_option(target.cwd)}"] if target.cwd else []
    if words[:2] == ("npx", "-y") and len(words) > 2 and _is_npm_package(words[2]):
        options = [*(f"launch.arg={_encode_option(word)}" for word in words[3:]), *options]
        return _with_query(f"mcp+npx://{words[2]}", options)
    return _with_query(f"mcp+stdio:{quote(shlex.join(words), safe=_READABLE)}", options)


def _is_npm_package(word: str) -> bool:
    scope, slash, name = word.rpartition("/")
    plain = all(character.isalnum() or character in "._@-" for character in scope + name)
    return bool(name) and plain and not word.startswith("-") and (scope.startswith("@") if slash else name[0] != "@")


def _format_url(target: Http) -> str:
    if target.transport == "auto" and not target.issuer and target.sign_in is None:
        try:
            if parse_address(target.url).target == target:
                return target.url
        except AddressError:
            pass
    place, _, query = target.url.partition("?")
    options = [f"launch.query={_encode_option(query)}"] if query else []
    options += [f"launch.transport={target.transport}"] if target.transport != "auto" else []
    options += [f"launch.issuer={_encode_option(target.issuer)}"] if target.issuer else []
    given = target.sign_in.to_fields() if target.sign_in is not None else {}
    options += [f"launch.{'sign_in' if key == WAY else key}={_encode_option(value)}" for key, value in given.items()]
    return _with_query(f"mcp+{place}", options)


def _with_query(place: str, options: Sequence[str]) -> str:
    return place + ("?" + "&".join(options) if options else "")


def _encode_option(text: str) -> str:
    return quote(text, safe="/:@,${}")

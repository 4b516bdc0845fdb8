"""Makes Python names of any names: of tools, arguments and servers, which others choose."""

from __future__ import annotations

import keyword
import re
import sys
from collections.abc import Collection, Iterable

MAX_NAME_CHARACTERS = 80
"""Characters of a Python name; a longer one is cut."""

TYPE_NAMES = frozenset(
    ("Any", "Literal", "NotRequired", "Sequence", "TypedDict", "bool", "dict", "float", "int", "list", "str")
)
"""The names by which stubs write types."""

_OTHER = re.compile(r"[^A-Za-z0-9_]")


def identifier(name: str) -> str:
    """Return a Python identifier for a name: ASCII letters, digits and `_`, no keyword, no `_` or digit first."""
    plain = _OTHER.sub("_", name[:MAX_NAME_CHARACTERS]).lstrip("_")
    if not plain or plain[0].isdigit():
        plain = f"x{plain}"
    return f"{plain}_" if keyword.iskeyword(plain) else plain


def module_name(server: str) -> str:
    """Return the name of the module of a server. One with the name of a standard module gets a `_` at its end.

    The interpreter has some standard modules of its own, which would hide the server.
    """
    plain = identifier(server)
    return f"{plain}_" if plain in sys.stdlib_module_names else plain


def unique_names(names: Iterable[str], taken: Collection[str] = ()) -> dict[str, str]:
    """Return a Python name for each name, no two of them equal and none of them in `taken`.

    A name that is an identifier keeps it, whatever the order; others get a number where their names are equal.
    """
    wanted = list(dict.fromkeys(names))
    used, found = set(taken), {}
    for name in wanted:
        if identifier(name) == name and name not in used:
            found[name] = name
            used.add(name)
    for name in wanted:
        if name not in found:
            found[name] = unused_name(identifier(name), used)
            used.add(found[name])
    return {name: found[name] for name in wanted}


def unused_name(name: str, *used: Collection[str]) -> str:
    """Return a name, with a number at its end if one of these collections has it already."""
    number, free = 1, name
    while any(free in one for one in used):
        number += 1
        free = f"{name}_{number}"
    return free


def camel_case(name: str) -> str:
    """Return the name of a type for a name, such as `GitLog` for `git_log`."""
    words = [word for word in _OTHER.sub("_", name).split("_") if word]
    joined = "".join(word[0].upper() + word[1:] for word in words)[:MAX_NAME_CHARACTERS]
    return joined if joined and not joined[0].isdigit() else f"X{joined}"

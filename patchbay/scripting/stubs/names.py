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
    """Return a Python name for each name. All of them differ from each other and from those in `taken`.

    A name that is an identifier keeps it, whatever the order; others get a number where their names are equal.
    """
    wanted = list(dict.fromkeys(names))
    free = FreeNames(taken)
    found = {name: free.take(name) for name in wanted if identifier(name) == name and name not in taken}
    for name in wanted:
        if name not in found:
            found[name] = free.take(identifier(name))
    return {name: found[name] for name in wanted}


class FreeNames:
    """Gives names that differ from each other and from those in `taken`, a collection that finds a name at once.

    It keeps the next number of each name: others choose the names, and may choose many that are cut to the same one.
    """

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._taken = taken
        self._given: set[str] = set()
        self._next: dict[str, int] = {}

    def take(self, name: str) -> str:
        """Return a name, with a number at its end if it is taken or was given already."""
        number = self._next.get(name, 1)
        free = _numbered(name, number)
        while free in self._taken or free in self._given:
            number += 1
            free = _numbered(name, number)
        self._next[name] = number + 1
        self._given.add(free)
        return free


def camel_case(name: str) -> str:
    """Return the name of a type for a name, such as `GitLog` for `git_log`."""
    words = [word for word in _OTHER.sub("_", name).split("_") if word]
    joined = "".join(word[0].upper() + word[1:] for word in words)[:MAX_NAME_CHARACTERS]
    return joined if joined and not joined[0].isdigit() else f"X{joined}"


def _numbered(name: str, number: int) -> str:
    return name if number == 1 else f"{name}_{number}"

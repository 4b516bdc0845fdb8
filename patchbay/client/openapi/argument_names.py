"""The names of a tool's arguments: those of the parameters and of the fields of the body.

One rule for equal names: the first in the order path, query, header, cookie, body has the name; each other one is
`NAME_PLACE`, such as `id_query` or `id_body`. When that is the name of another one too, a number follows.
"""

from __future__ import annotations

from collections.abc import Sequence

ORDER = ("path", "query", "querystring", "header", "cookie", "body")
"""The places of arguments; the first of equal names keeps it."""

BODY_ARGUMENT = "body"
"""The name of an argument that is the whole body."""

Wanted = tuple[str, str]
"""A name and its place."""


def choose_argument_names(wanted: Sequence[Wanted]) -> list[str]:
    """Return a unique argument for each of these, in their order."""
    ranks = sorted(range(len(wanted)), key=lambda number: (ORDER.index(wanted[number][1]), number))
    found: dict[int, str] = {}
    taken: set[str] = set()
    for number in ranks:
        if wanted[number][0] not in taken:
            found[number] = wanted[number][0]
            taken.add(found[number])
    for number in ranks:
        if number not in found:
            found[number] = _claim("_".join(wanted[number]), taken)
    return [found[number] for number in range(len(wanted))]


def _claim(name: str, taken: set[str]) -> str:
    unique, count = name, 2
    while unique in taken:
        unique, count = f"{name}_{count}", count + 1
    taken.add(unique)
    return unique

"""References inside a document: `{"$ref": "#/components/parameters/limit"}`, wherever a document has one.

Real documents have references to operations, path items, lists of parameters and whole sections, although the
specification names only some of these places. A pointer may lead through other references. Fields beside a reference
replace those of its target.

Sources: OpenAPI 3.1.1, Reference Object; RFC 6901 (JSON Pointer).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

from patchbay.errors import InvalidParams

MAX_HOPS = 64
"""References that are followed for one value."""

LOST_REFERENCES = "x-patchbay-lost-references"
"""Key of a document: the references to other documents that were not followed, each with the reason."""


class LostReference(InvalidParams):
    """A reference that leads to nothing, or in a circle. `reference` is its text."""

    def __init__(self, reference: str, reason: str) -> None:
        super().__init__(f"the reference {reference[:200]!r} cannot be followed: {reason}")
        self.reference = reference


class References:
    """The references of one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        reasons = document.get(LOST_REFERENCES)
        self._reasons: Mapping[str, Any] = reasons if isinstance(reasons, dict) else {}

    def follow(self, value: Any) -> Any:
        """Return what a value refers to, with the fields beside the reference; other values as they are.

        Raises LostReference.
        """
        return self._follow(value, [MAX_HOPS])

    def find(self, value: Any) -> Any:
        """Return what a value refers to, without the fields beside the reference; None for a lost reference."""
        hops = [MAX_HOPS]
        try:
            while (reference := get_reference(value)) is not None:
                value = self._locate(reference, hops)
            return value
        except LostReference:
            return None

    def _follow(self, value: Any, hops: list[int]) -> Any:
        reference = get_reference(value)
        if reference is None:
            return value
        target = self._follow(self._locate(reference, hops), hops)
        beside = {key: one for key, one in value.items() if key != "$ref"}
        return {**target, **beside} if isinstance(target, dict) else target

    def _locate(self, reference: str, hops: list[int]) -> Any:
        hops[0] -= 1
        if hops[0] < 0:
            raise LostReference(reference, "references lead in a circle")
        if reference != "#" and not reference.startswith("#/"):
            raise LostReference(reference, str(self._reasons.get(reference, "it leads to another document")))
        place: Any = self._document
        for word in split_pointer(reference):
            place = self._follow(place, hops) if word != "$ref" else place
            place = descend(place, word)
            if place is None:
                raise LostReference(reference, f"the document has no {word[:100]!r} there")
        return place


def get_reference(value: Any) -> str | None:
    """Return the reference of a value; None without one."""
    found = value.get("$ref") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


def split_pointer(reference: str) -> list[str]:
    """Return the decoded words of the JSON pointer in a reference `#/a/b`."""
    return [unquote(word).replace("~1", "/").replace("~0", "~") for word in reference.removeprefix("#").split("/")[1:]]


def descend(place: Any, word: str) -> Any:
    """Return the member of an object, or the item of a list, with this name; None without one."""
    if isinstance(place, list) and word.isascii() and word.isdigit() and int(word) < len(place):
        return place[int(word)]
    return place.get(word) if isinstance(place, dict) else None

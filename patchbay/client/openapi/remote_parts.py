"""Parts of a document that other documents of the same origin hold: they are read, and become parts of the document.

A reference leads to a URL of the document's own origin only; with a document in a file, to files of its folder and
below. The number of documents and of parts, and their size, are limited. A reference that is not followed stays as it
is, and the document has the reason under LOST_REFERENCES.

Source: OpenAPI 3.1.1, Reference Object, Discriminator Object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urldefrag, urljoin

from patchbay.client.openapi.references import LOST_REFERENCES, descend, get_reference, split_pointer
from patchbay.errors import PatchbayError

PARTS = "x-patchbay-parts"
"""Key of a document: the parts of other documents by name."""

MAX_DOCUMENTS = 4_000
"""Number of documents that the references of one document may lead to: one file for each operation and schema."""

MAX_PARTS = 20_000
"""Number of parts that are taken from them."""

MAX_PART_CHARACTERS = 16 * 1024 * 1024
"""Characters of all these parts as JSON. References can name one large part in many ways, and parts of parts."""

MAX_LOST_REFERENCES = 200
"""Number of references that are not followed whose reasons are kept."""

MAX_HOPS = 64
"""References that are followed on the way to one part."""

Read = Callable[[str], Any]
"""Reads the document at a URL. Raises PatchbayError for one that may not, or cannot, be read."""


def include_remote_parts(document: dict[str, Any], url: str, read: Read) -> dict[str, Any]:
    """Return a document whose references to other documents are references to its own parts."""
    return _Collector(document, url, read).collect()


class _Collector:
    def __init__(self, document: dict[str, Any], url: str, read: Read) -> None:
        self._document, self._url, self._read = document, url, read
        self._documents: dict[str, Any] = {url: document}
        self._failures: dict[str, str] = {}
        self._lost: dict[str, str] = {}
        self._names: dict[tuple[str, str], str] = {}
        self._taken: set[str] = set()
        self._left: list[tuple[str, str, Any]] = []
        self._characters = 0

    def collect(self) -> dict[str, Any]:
        known = {key: one for key, one in self._document.items() if key not in (PARTS, LOST_REFERENCES)}
        whole: dict[str, Any] = self._rewrite(known, self._url)
        parts: dict[str, Any] = {}
        while self._left:
            name, url, value = self._left.pop()
            parts[name] = self._rewrite(value, url)
        if not parts and not self._lost:
            return known if len(known) < len(self._document) else self._document
        return whole | ({PARTS: parts} if parts else {}) | ({LOST_REFERENCES: self._lost} if self._lost else {})

    def _rewrite(self, value: Any, url: str) -> Any:
        if isinstance(value, list):
            return [self._rewrite(one, url) for one in value]
        if not isinstance(value, dict):
            return value
        found = {key: self._rewrite(one, url) for key, one in value.items()}
        reference = get_reference(value)
        if reference is not None:
            found["$ref"] = self._rewrite_reference(reference, url)
        discriminator = value.get("discriminator")
        mapping = discriminator.get("mapping") if isinstance(discriminator, dict) else None
        if isinstance(mapping, dict):
            found["discriminator"]["mapping"] = {
                key: self._rewrite_reference(one, url) if isinstance(one, str) and re.search(r"[#/.]", one) else one
                for key, one in mapping.items()
            }
        return found

    def _rewrite_reference(self, reference: str, url: str) -> str:
        """Return the reference to a part of this document; the same reference when it is not followed."""
        if url == self._url and reference.startswith("#"):
            return reference
        try:
            target, pointer = urldefrag(urljoin(url, reference))
            if target == self._url:
                return f"#{pointer}"
            return f"#/{PARTS}/{self._claim_part(target, pointer)}"
        except (PatchbayError, ValueError) as problem:
            reason = problem.message if isinstance(problem, PatchbayError) else str(problem)
            if len(self._lost) < MAX_LOST_REFERENCES:
                self._lost.setdefault(reference, reason[:300])
            return reference

    def _claim_part(self, url: str, pointer: str) -> str:
        """Return the name of the part at a URL. Raises PatchbayError when it cannot be read."""
        if (url, pointer) in self._names:
            return self._names[url, pointer]
        if self._characters > MAX_PART_CHARACTERS or len(self._names) >= MAX_PARTS:
            raise PatchbayError(f"other documents have more than {MAX_PARTS} parts or {MAX_PART_CHARACTERS} characters")
        home, value = self._locate(url, pointer)
        self._characters += len(json.dumps(value))
        if self._characters > MAX_PART_CHARACTERS:
            raise PatchbayError(f"the parts of other documents have more than {MAX_PART_CHARACTERS} characters")
        name = self._names[url, pointer] = self._choose_name(url, pointer)
        self._left.append((name, home, value))
        return name

    def _choose_name(self, url: str, pointer: str) -> str:
        """Return a name made from the last word of the pointer, or from the name of the file."""
        file = url.partition("?")[0].rpartition("/")[2]
        words = [re.sub(r"\W+", "_", one).strip("_") for one in (pointer.rpartition("/")[2], file.partition(".")[0])]
        word = next(filter(None, words), "part")
        name, number = word, 2
        while name in self._taken:
            name, number = f"{word}_{len(self._names) + number}", number + 1
        self._taken.add(name)
        return name

    def _locate(self, url: str, pointer: str) -> tuple[str, Any]:
        """Return the part at a pointer with the URL of its document. References on the way are followed."""
        place, left = self._open(url), split_pointer(pointer)
        for _ in range(MAX_HOPS + len(left)):
            if not left:
                return url, place
            reference = get_reference(place)
            if reference is not None and left[0] not in place:
                url, further = urldefrag(urljoin(url, reference))
                place, left = self._open(url), [*split_pointer(further), *left]
                continue
            place = descend(place, left[0])
            if place is None:
                raise PatchbayError(f"that document has no {left[0][:100]!r} there")
            left = left[1:]
        raise PatchbayError("references lead in a circle")

    def _open(self, url: str) -> Any:
        """Return the document at a URL, which is read once. Raises PatchbayError."""
        if url in self._failures:
            raise PatchbayError(self._failures[url])
        if url not in self._documents:
            if len(self._documents) > MAX_DOCUMENTS:
                raise PatchbayError(f"the document refers to more than {MAX_DOCUMENTS} other documents")
            try:
                self._documents[url] = self._read(url)
            except PatchbayError as problem:
                self._failures[url] = problem.message
                raise
        return self._documents[url]

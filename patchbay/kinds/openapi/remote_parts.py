"""Parts of a document that other documents of the same origin hold: they are fetched, and become parts of the document.

A reference leads to a URL of the document's own origin only; with a document in a file, to files of its folder. The
number of documents and of parts, and their size, are limited. Other references stay as they are, and what they describe
is not checked.

Source: OpenAPI 3.1.1, Reference Object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urldefrag, urljoin

from patchbay.client.contracts.schema_types import follow_pointer

MAX_DOCUMENTS = 50
"""Number of documents that the references of one document may lead to."""

MAX_PARTS = 2_000
"""Number of parts that are taken from them."""

MAX_PART_CHARACTERS = 16 * 1024 * 1024
"""Characters of all these parts as JSON. References can name one large part in many ways, and parts of parts."""

Read = Callable[[str], Any]
"""Reads the document at a URL; None for one that may not, or cannot, be read."""


def include_remote_parts(document: dict[str, Any], url: str, read: Read) -> dict[str, Any]:
    """Return a document whose references to other documents are references to its own parts."""
    return _Collector(document, url, read).collect()


class _Collector:
    def __init__(self, document: dict[str, Any], url: str, read: Read) -> None:
        self._document, self._url, self._read = document, url, read
        self._is_swagger = "swagger" in document
        self._documents: dict[str, Any] = {url: document}
        self._names: dict[str, str] = {}
        self._left: list[tuple[str, str, Any]] = []
        self._characters = 0

    def collect(self) -> dict[str, Any]:
        whole: dict[str, Any] = self._rewrite(self._document, self._url)
        parts: dict[str, Any] = {}
        while self._left:
            name, url, value = self._left.pop()
            parts[name] = self._rewrite(value, url)
        if not parts:
            return self._document
        home: dict[str, Any] = whole
        for key in ["definitions"] if self._is_swagger else ["components", "schemas"]:
            home = home.setdefault(key, {})
        home |= parts
        return whole

    def _rewrite(self, value: Any, url: str) -> Any:
        if isinstance(value, list):
            return [self._rewrite(one, url) for one in value]
        if not isinstance(value, dict):
            return value
        found = {key: self._rewrite(one, url) for key, one in value.items()}
        reference = value.get("$ref")
        if isinstance(reference, str) and (url != self._url or not reference.startswith("#")):
            name = self._claim_part(urljoin(url, reference))
            if name:
                found["$ref"] = f"#/{'definitions' if self._is_swagger else 'components/schemas'}/{name}"
        return found

    def _claim_part(self, target: str) -> str:
        """Return the name of the part at a URL; "" when it cannot be read."""
        if target in self._names:
            return self._names[target]
        url, pointer = urldefrag(target)
        if self._characters > MAX_PART_CHARACTERS or len(self._names) >= MAX_PARTS:
            return ""
        if url not in self._documents and len(self._documents) > MAX_DOCUMENTS:
            return ""
        if url not in self._documents:
            self._documents[url] = self._read(url)
        value = follow_pointer(self._documents[url], f"#{pointer}")
        if value is None:
            return ""
        self._characters += len(json.dumps(value))
        if self._characters > MAX_PART_CHARACTERS:
            return ""
        word = re.sub(r"\W+", "_", pointer.rpartition("/")[2] or url.rpartition("/")[2]).strip("_") or "part"
        name = self._names[target] = f"{word}_{len(self._names) + 1}"
        self._left.append((name, url, value))
        return name

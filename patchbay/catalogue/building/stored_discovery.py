"""Discoveries that earlier starts of the hub made, so that a known definition is not parsed again.

The journal topic `discovered/<version of the code>` holds batches of discoveries as JSON, by kind, server and CID of
the definition. Another version of the code, of Python or of the schema validator has another topic, and its discoveries
are made again. An entry that cannot be read counts as absent. The journal writes these entries without waiting for
the disk and deletes them after `KEPT_SECONDS`; a name would keep every former value.
"""

from __future__ import annotations

import logging
import sys
import threading
import zlib
from collections import OrderedDict
from dataclasses import fields
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any

import orjson

from patchbay import descriptors
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.descriptors import Descriptor, Discovery, Problem
from patchbay.errors import PatchbayError
from patchbay.kind import kind_named
from patchbay.kinds.discovery import discover
from patchbay.store import Store
from patchbay.topics import DISCOVERED

log = logging.getLogger(__name__)

KEPT_SECONDS = 90 * 24 * 3600.0
"""Lifetime of a stored discovery. One that is used in the second half of its life is stored again."""

MAX_STORED_BYTES = 32 * 1024 * 1024
"""Limit on the bytes of the stored discoveries; the oldest are deleted."""

MAX_RECENT = 256
"""Discoveries that a process remembers, in every hub that it runs."""

SHIPPED_KINDS = ("patchbay.kinds.", "patchbay.python_functions.")
"""Prefixes of the modules whose discoveries are stored; the version covers no others."""


DISCOVERING_CODE = ("kinds/**/*.py", "python_functions/*.py", "environments/*.py", "occurrences/event_types.py")
"""The modules, as patterns below the package, on which the result of a discovery depends, besides the descriptors."""


def read_definition(row: ServerRow, source: bytes) -> Discovery:
    """Read the definition of a row. Raises ConfigError for one that cannot be read."""
    return discover(row.kind, row.name, source)


class StoredDiscoveries:
    """The discoveries in one store. They are loaded at the first use; `release` frees their memory."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[float, Any]] | None = None
        self._new: dict[str, Any] = {}

    def read(self, row: ServerRow, source: bytes) -> Discovery:
        """Read the definition of a row, from the store if possible. Raises ConfigError for one that cannot be read."""
        reader = kind_named(row.kind).discover
        topic = discovery_topic()
        if reader is None or topic is None or not reader.__module__.startswith(SHIPPED_KINDS):
            return read_definition(row, source)
        if self._known is None:
            self._known = self._load(topic)
        key = f"{row.kind} {row.name} {row.definition_cid}"
        at, stored = self._known.pop(key, (0.0, None))
        found = _parse(stored)
        if found is None:
            found = RECENT.read(row, source)
            self._new[key] = _stored_form(found)
        elif at < self._store.now() - KEPT_SECONDS / 2:
            self._new[key] = stored
        return found

    def save(self) -> None:
        """Store the discoveries that were made since the last call. A failure of the store is logged."""
        new, self._new = self._new, {}
        topic = discovery_topic()
        if not new or topic is None:
            return
        try:
            self._store.journal.append(topic, zlib.compress(orjson.dumps(new), 1), KEPT_SECONDS)
        except (PatchbayError, TypeError) as problem:
            log.warning("discoveries could not be stored; the next start makes them again: %s", problem)

    def release(self) -> None:
        """Free the memory of stored discoveries that no definition has used."""
        self._known = {}

    def _load(self, topic: str) -> dict[str, tuple[float, Any]]:
        found: dict[str, tuple[float, Any]] = {}
        after = size = 0
        while entries := self._store.journal.read(topic, after):
            for entry in entries:
                size += len(entry.data)
                try:
                    batch = orjson.loads(zlib.decompress(entry.data))
                    found |= {key: (entry.at, value) for key, value in batch.items()}
                except (zlib.error, ValueError, AttributeError):
                    log.warning("stored discoveries cannot be read; they are made again")
            after = entries[-1].seq
        if size > MAX_STORED_BYTES:
            self._store.journal.trim(topic, MAX_STORED_BYTES)
        return found


class RecentDiscoveries:
    """The last discoveries of this process, by kind, name and CID: a changed configuration reads no definition again.

    A discovery is never changed. Safe to use from many threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[tuple[str, str, str], Discovery] = OrderedDict()

    def read(self, row: ServerRow, source: bytes) -> Discovery:
        """Read the definition of a row, unless it was read recently. Raises ConfigError for an unreadable one."""
        key = (row.kind, row.name, row.definition_cid)
        with self._lock:
            found = self._found.get(key)
        if found is None:
            found = read_definition(row, source)
            with self._lock:
                self._found[key] = found
                if len(self._found) > MAX_RECENT:
                    self._found.popitem(last=False)
        return found

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._found.clear()


RECENT = RecentDiscoveries()


@cache
def discovery_topic() -> str | None:
    """Return the topic for this version of the code; None when the source files are not there to identify it."""
    package = Path(__file__).parents[2]
    code = [Path(descriptors.__file__), *(file for one in DISCOVERING_CODE for file in sorted(package.glob(one)))]
    digest = sha256(f"{sys.version} {version('jsonschema-rs')}".encode())
    try:
        for file in code:
            digest.update(file.read_bytes() + b"\0")
    except OSError:
        return None
    return DISCOVERED + digest.hexdigest()[:32] if len(code) > 1 else None


def _stored_form(found: Discovery) -> dict[str, Any]:
    """Return a discovery as values for JSON. It is never changed, so that nothing in it is copied (`asdict` would)."""
    lists = {"descriptors": map(_fields_of, found.descriptors), "problems": map(_fields_of, found.problems)}
    return _fields_of(found) | {name: list(values) for name, values in lists.items()}


def _fields_of(value: Discovery | Descriptor | Problem) -> dict[str, Any]:
    """Return the fields of a dataclass by name, without its cached properties."""
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _parse(stored: Any) -> Discovery | None:
    """Return the stored form as a value; None for one that is absent or not of this form."""
    try:
        return Discovery(
            tuple(
                Descriptor(**{**one, "other_names": tuple(one["other_names"]), "origins": ()})  # of toolsets only
                for one in stored["descriptors"]
            ),
            tuple(Problem(**one) for one in stored["problems"]),
            stored["description"],
            {str(name): int(line) for name, line in stored["imports"].items()},
            {name: tuple(parameters) for name, parameters in stored["functions"].items()},
        )
    except (TypeError, KeyError, AttributeError):
        return None

"""The state of a server: the catalogue implements `activation.Memory`.

Each key is a name in the store and each value a blob, so the history of the key has every change. A swap is one move of
names: all processes of the hub see it completely or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, unquote

import orjson

from patchbay.activation import Memory
from patchbay.cid import cid_of
from patchbay.errors import ReadOnly, StaleUpdate, ToolFailed
from patchbay.store import Store
from patchbay.topics import STATE

MAX_VALUE_BYTES = 1024 * 1024
"""Maximum bytes of a value as JSON."""


COUNTED_SECONDS = 24 * 3600.0
"""How long a change counts for its caller."""

CHANGE_BYTES = 256
"""What a change of a key counts beside its value: its row in the history."""


class ServerState(Memory):
    """The state of one server in a store. `count` counts the bytes of a change before it is made."""

    def __init__(
        self, store: Store, server: str, readonly: bool, count: Callable[[int], None] = lambda size: None
    ) -> None:
        self._store = store
        self._server = server
        self._prefix = f"{STATE}{server}/"
        self._readonly = readonly
        self._count = count

    def __getitem__(self, key: str) -> Any:
        cid = self._store.names.get(self._name(key))
        if cid is None:
            raise KeyError(key)
        return self._value(cid)

    def __setitem__(self, key: str, value: Any) -> None:
        self._check_writable()
        data = _encode(key, value)
        self._count(CHANGE_BYTES + len(data))
        self._move({self._name(key): self._store.blobs.put(data)}, f"set {key}")

    def __delitem__(self, key: str) -> None:
        if self._store.names.get(self._name(key)) is None:
            raise KeyError(key)
        self._move({self._name(key): None}, f"deleted {key}")

    def __iter__(self) -> Iterator[str]:
        return iter(self.starting(""))

    def __len__(self) -> int:
        return len(self._store.names.all(self._prefix))

    def starting(self, prefix: str) -> list[str]:
        """Return the keys with this prefix, sorted."""
        start = len(self._prefix)
        return sorted(unquote(name[start:]) for name in self._store.names.all(self._name(prefix)))

    def several(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of the keys that exist."""
        found = {key: self._store.names.get(self._name(key)) for key in keys}
        return {key: self._value(cid) for key, cid in found.items() if cid is not None}

    def swap(self, changes: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
        """Set or remove all these keys if each expected one still has its value. Raises ToolFailed, ReadOnly."""
        self._check_writable()
        seen = {
            self._name(key): None if value is None else cid_of(_encode(key, value)) for key, value in expected.items()
        }
        data = {key: None if value is None else _encode(key, value) for key, value in changes.items()}
        self._count(sum(CHANGE_BYTES + len(one or b"") for one in data.values()))
        moves = {self._name(key): None if one is None else self._store.blobs.put(one) for key, one in data.items()}
        try:
            self._move(moves, f"swapped {', '.join(changes)}"[:1000], seen)
        except StaleUpdate:
            return False
        return True

    def _name(self, key: str) -> str:
        return self._prefix + quote(key, safe="")

    def _value(self, cid: str) -> Any:
        return orjson.loads(self._store.blobs.get(cid))

    def _check_writable(self) -> None:
        if self._readonly:
            raise ReadOnly("state cannot be changed: the hub runs a read-only boot image")

    def _move(
        self, changes: Mapping[str, str | None], why: str, expected: Mapping[str, str | None] | None = None
    ) -> None:
        self._check_writable()
        self._store.names.move(changes, self._server, why, expected)


def _encode(key: str, value: Any) -> bytes:
    """Return a value as JSON, the same bytes for the same value. Raises ToolFailed."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except TypeError as problem:
        raise ToolFailed(f"state holds JSON values: {key}: {problem}") from problem
    if len(data) > MAX_VALUE_BYTES:
        raise ToolFailed(f"state holds values of at most {MAX_VALUE_BYTES} bytes; {key} has {len(data)}")
    return data

"""A bounded cache of checked tokens, by the SHA-256 digest of their bytes. The cache never holds a token itself."""

from __future__ import annotations

import threading
from collections import OrderedDict
from hashlib import sha256
from typing import Generic, TypeVar

MAX_CACHED_TOKENS = 10_000

Value = TypeVar("Value")


def digest_token(token: str) -> bytes:
    """Return the key of a token in a cache."""
    return sha256(token.encode("utf-8", "surrogatepass")).digest()


class TokenCache(Generic[Value]):
    """Values by digest, each until its end (a time of the caller). Beyond `limit`, the one unused longest goes."""

    def __init__(self, limit: int = MAX_CACHED_TOKENS) -> None:
        self._limit = limit
        self._rows: OrderedDict[bytes, tuple[float, Value]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, digest: bytes, now: float) -> Value | None:
        """Return the value of a digest; None when it is absent or its end has passed."""
        with self._lock:
            row = self._rows.get(digest)
            if row is None:
                return None
            if now >= row[0]:
                del self._rows[digest]
                return None
            self._rows.move_to_end(digest)
            return row[1]

    def put(self, digest: bytes, value: Value, end: float) -> None:
        """Keep a value until `end`."""
        with self._lock:
            self._rows[digest] = (end, value)
            self._rows.move_to_end(digest)
            while len(self._rows) > self._limit:
                self._rows.popitem(last=False)

    def drop(self, digest: bytes) -> None:
        """Remove a value."""
        with self._lock:
            self._rows.pop(digest, None)

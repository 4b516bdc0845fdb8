"""Signed values that expire, by the clock of the store: a value that one machine signed is valid on every other.

The signer of itsdangerous takes the machine's clock, and refuses a value "of the future" of a machine whose clock is
ahead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from itsdangerous import TimestampSigner, URLSafeTimedSerializer

SHA256: Mapping[str, Any] = {"digest_method": sha256, "key_derivation": "hmac"}
"""The options of a signature with SHA-256; sessions of MCP have those of the library."""


def timed_serializer(
    key: bytes, salt: str, now: Callable[[], float], options: Mapping[str, Any] | None = None
) -> URLSafeTimedSerializer:
    """Return a serializer for values of one purpose (`salt`); `now` returns the store's time, Unix time in seconds."""

    class StoreTimeSigner(TimestampSigner):
        def get_timestamp(self) -> int:
            return int(now())

    return URLSafeTimedSerializer(key, salt=salt, signer=StoreTimeSigner, signer_kwargs=dict(options or {}))

"""Encrypts data with the key of the hub for one purpose, bound to what it is about (AES-256-GCM).

What was sealed about one thing cannot be opened as if it were about another one: the words about it are authenticated
(the associated data). Sources: NIST SP 800-38D; RFC 5869 (HKDF).
"""

from __future__ import annotations

import secrets
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES = 12


class Sealing:
    """Seals and opens data. `key` is the secret key of the hub; each `purpose` has a key of its own, made from it."""

    def __init__(self, key: bytes, purpose: bytes) -> None:
        self._key = key
        self._purpose = purpose

    @cached_property
    def _cipher(self) -> AESGCM:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return AESGCM(HKDF(SHA256(), 32, salt=None, info=self._purpose).derive(self._key))

    def seal(self, data: bytes, about: bytes) -> bytes:
        """Return the nonce and the ciphertext of data."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, about)

    def open(self, sealed: bytes, about: bytes) -> bytes | None:
        """Return what `seal` got; None if it was changed, is about something else, or is of another key."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], about)
        except (InvalidTag, ValueError):
            return None

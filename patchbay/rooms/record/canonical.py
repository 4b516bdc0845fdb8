"""Canonical JSON of rooms (RFC 8785): the bytes that CIDs and signatures are made of. Ed25519 keys (RFC 8032).

A number that a double cannot hold exactly has no canonical form here, so that every reader gets the same bytes.
"""

from __future__ import annotations

import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping
from functools import cached_property, lru_cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import orjson
import rfc8785

from patchbay.cid import cid_of
from patchbay.rooms.record.errors import BadFrame

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

MAX_EXACT = 2**53 - 1
"""The largest integer up to which a double holds every integer exactly."""

KEY_BYTES, SIGNATURE_BYTES = 32, 64


def canonical_bytes(value: Any) -> bytes:
    """Return the canonical JSON (RFC 8785) of a value. Raises BadFrame for a value without one."""
    try:
        if _is_plain(value) and (data := orjson.dumps(value, option=orjson.OPT_SORT_KEYS)).isascii():
            return data
        return rfc8785.dumps(value)
    except (ValueError, OverflowError, TypeError, RecursionError) as problem:
        raise BadFrame(f"a value has no canonical JSON (RFC 8785): {problem}") from problem


def _is_plain(value: Any) -> bool:
    """Whether a value has no fractions and no large integers: JSON writers with sorted ASCII keys write it alike."""
    stack = [value]
    while stack:
        one = stack.pop()
        kind = type(one)
        if kind is dict:
            if not all(type(key) is str for key in one):
                return False
            stack.extend(one.values())
        elif kind is list:
            stack.extend(one)
        elif kind is int:
            if not -MAX_EXACT <= one <= MAX_EXACT:
                return False
        elif kind is not str and kind is not bool and one is not None:
            return False
    return True


def cid_of_value(value: Any) -> str:
    """Return the CID of the canonical JSON of a value."""
    return cid_of(canonical_bytes(value))


class Signer:
    """The hub's signing key of rooms, derived from the hub's own key: every process of one hub signs alike."""

    def __init__(self, key: bytes) -> None:
        self._seed = hmac.new(key, b"the signing key of the rooms", sha256).digest()
        self._alias_key = hmac.new(key, b"the names of the members of rooms", sha256).digest()

    @cached_property
    def _key(self) -> Ed25519PrivateKey:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(self._seed)

    @cached_property
    def public(self) -> str:
        """The public key as base64 of its 32 bytes."""
        from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

        return b64encode(self._key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)).decode()

    def sign(self, data: bytes) -> str:
        """Return the Ed25519 signature of some bytes as base64."""
        return b64encode(self._key.sign(data)).decode()

    def pseudonym(self, salt: str, principal: str) -> str:
        """Return the pseudonym of a principal for a salt: always the same for one salt, different for other salts."""
        digest = hmac.new(self._alias_key, f"{salt}\n{principal}".encode(), sha256).hexdigest()
        return f"member-{digest[:24]}"


def signed_bytes(envelope: Mapping[str, Any]) -> bytes:
    """Return the bytes that a participant signs: the canonical JSON of its envelope without `sig`."""
    return canonical_bytes({key: value for key, value in envelope.items() if key != "sig"})


def decode_key(text: Any) -> bytes | None:
    """Return the 32 bytes of a public key in base64; None for another text."""
    return _decoded(text, KEY_BYTES)


def is_signed(data: bytes, signature: Any, key: str) -> bool:
    """Whether `signature` (base64) is the Ed25519 signature of `data` by the public key `key` (base64)."""
    found, public = _decoded(signature, SIGNATURE_BYTES), decode_key(key)
    if found is None or public is None:
        return False
    from cryptography.exceptions import InvalidSignature

    try:
        _public_key(public).verify(found, data)
    except (InvalidSignature, ValueError):
        return False
    return True


@lru_cache(maxsize=256)
def _public_key(data: bytes) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    return Ed25519PublicKey.from_public_bytes(data)


def _decoded(text: Any, size: int) -> bytes | None:
    # The spelling is checked too: base64 has spare bits, and one signature is one text.
    if not isinstance(text, str):
        return None
    try:
        data = b64decode(text, validate=True)
    except (Base64Error, ValueError):
        return None
    return data if len(data) == size and b64encode(data).decode() == text else None

"""A compact JSON Web Signature: parsed strictly, its signature verified with one key and one algorithm.

Access tokens and DPoP proofs share it. Only signatures with a public key are accepted: never `none`, never a shared
secret. The algorithm has to fit the type and the curve of the key, so that a token cannot choose how its key is used.
Sources: RFC 7515 (JWS); RFC 7517 (JWK); RFC 7638 (thumbprints); RFC 8725 (best practices for JWT).
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode
from binascii import Error as Base64Error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from joserfc.errors import JoseError
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey, import_key
from joserfc.jws import JWSRegistry

from patchbay.access.tokens.algorithms import ALGORITHMS, CURVES
from patchbay.errors import ParseError
from patchbay.jsonrpc import parse

MAX_COMPACT_CHARACTERS = 16 * 1024
MIN_RSA_BITS, MAX_RSA_BITS = 2048, 8192

_SEGMENT = re.compile(r"[A-Za-z0-9_-]+")
_PUBLIC_MEMBERS = {"RSA": ("n", "e"), "EC": ("crv", "x", "y"), "OKP": ("crv", "x")}
_PRIVATE_MEMBERS = frozenset(("d", "p", "q", "dp", "dq", "qi", "oth", "k"))


class Malformed(ValueError):
    """The text is not a signed JSON object, or the key is not usable; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class SignedJson:
    """A parsed signature that is not verified yet: header, payload, and the bytes that are signed."""

    header: Mapping[str, Any]
    payload: Mapping[str, Any]
    signed: bytes
    signature: bytes

    @property
    def algorithm(self) -> str:
        """The algorithm that the header names; empty without one."""
        found = self.header.get("alg")
        return found if isinstance(found, str) else ""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key: its id (empty without one), the algorithms it verifies, and its RFC 7638 thumbprint (SHA-256)."""

    id: str
    algorithms: frozenset[str]
    thumbprint: str
    key: RSAKey | ECKey | OKPKey

    def verifies(self, token: SignedJson) -> bool:
        """Whether this key made the signature, with the algorithm that the header names."""
        if token.algorithm not in self.algorithms:
            return False
        try:
            return bool(JWSRegistry.algorithms[token.algorithm].verify(token.signed, token.signature, self.key))
        except (JoseError, ValueError):
            return False


def parse_signed_json(text: str) -> SignedJson:
    """Parse a compact signature. Raises Malformed for other text, and for extensions that this hub does not know."""
    if len(text) > MAX_COMPACT_CHARACTERS:
        raise Malformed(f"it has more than {MAX_COMPACT_CHARACTERS} characters")
    parts = text.split(".")
    if len(parts) != 3:
        raise Malformed("it does not have three parts separated by dots")
    header, payload, signature = (_decode(part) for part in parts)
    head = _parse_object(header, "header")
    for extension in ("crit", "b64"):
        if extension in head:
            raise Malformed(f"its header has the extension {extension}, which this hub does not support")
    signed = text.rpartition(".")[0].encode("ascii")
    return SignedJson(head, _parse_object(payload, "payload"), signed, signature)


def is_signed_json(text: str) -> bool:
    """Whether a token has the form of a signed JSON object; other tokens are opaque."""
    parts = text.split(".")
    if len(parts) != 3:
        return False
    try:
        return "alg" in _parse_object(_decode(parts[0]), "header")
    except Malformed:
        return False


def load_public_key(jwk: Any) -> PublicKey:
    """Make a key from the public members of a JWK. Raises Malformed for a key that verifies no accepted algorithm."""
    if not isinstance(jwk, dict):
        raise Malformed("the key is not a JSON object")
    kind = jwk.get("kty")
    members = _PUBLIC_MEMBERS.get(kind) if isinstance(kind, str) else None
    if members is None:
        raise Malformed("the key has no type of the list RSA, EC, OKP")
    if not all(isinstance(jwk.get(member), str) for member in members):
        raise Malformed(f"the key does not have the members {', '.join(members)}")
    if kind == "RSA" and not MIN_RSA_BITS <= int.from_bytes(_decode(jwk["n"])).bit_length() <= MAX_RSA_BITS:
        raise Malformed(f"the RSA key does not have {MIN_RSA_BITS} to {MAX_RSA_BITS} bits")
    try:
        key = import_key({"kty": str(kind), **{member: str(jwk[member]) for member in members}})
        thumbprint = key.thumbprint()
        algorithms = frozenset(_list_algorithms(key))
    except (JoseError, ValueError, TypeError, KeyError) as problem:
        raise Malformed("the key cannot be read") from problem
    named = jwk.get("alg")
    if named is not None:
        algorithms &= {str(named)}
    if not algorithms:
        raise Malformed("the key verifies no algorithm that this hub accepts")
    assert isinstance(key, (RSAKey, ECKey, OKPKey))
    id = jwk.get("kid")
    return PublicKey(id if isinstance(id, str) else "", algorithms, thumbprint, key)


def has_private_members(jwk: Mapping[str, Any]) -> bool:
    """Whether a JWK contains secret members."""
    return not _PRIVATE_MEMBERS.isdisjoint(jwk)


def _list_algorithms(key: Key) -> list[str]:
    if isinstance(key, RSAKey):
        return [name for name in ALGORITHMS if name[:2] in ("RS", "PS")]
    if isinstance(key, (ECKey, OKPKey)):
        return [name for name in ALGORITHMS if CURVES.get(name) == key.curve_name]
    return []


def _decode(segment: str) -> bytes:
    if not _SEGMENT.fullmatch(segment):
        raise Malformed("one of its parts is not base64url")
    try:
        return urlsafe_b64decode(segment + "=" * (-len(segment) % 4))
    except (Base64Error, ValueError) as problem:
        raise Malformed("one of its parts is not base64url") from problem


def _parse_object(data: bytes, part: str) -> dict[str, Any]:
    try:
        found = parse(data)
    except ParseError as problem:
        raise Malformed(f"its {part} is not JSON") from problem
    if not isinstance(found, dict):
        raise Malformed(f"its {part} is not a JSON object")
    return found

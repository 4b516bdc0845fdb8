"""Public keys of programs, as the operator gives them: PEM, a JWK, or a JWK set.

Sources: RFC 7517 (JWK); RFC 7518, section 3.1 (algorithms); RFC 7468 (PEM).
"""

from __future__ import annotations

import warnings
from typing import Any

import orjson
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, Key, OKPKey, RSAKey

from patchbay.errors import InvalidParams

MAX_PUBLIC_KEYS = 10
MAX_PUBLIC_KEY_BYTES = 64 * 1024

_KINDS: dict[str, type[Any]] = {"RSA": RSAKey, "EC": ECKey, "OKP": OKPKey}


def parse_public_keys(data: bytes) -> str:
    """Return the JWK set of public keys in a file, as JSON. Raises InvalidParams for anything else."""
    if len(data) > MAX_PUBLIC_KEY_BYTES:
        raise InvalidParams(f"the file has more than {MAX_PUBLIC_KEY_BYTES} bytes: expected one public key")
    keys = [_parse_pem(data)] if data.lstrip().startswith(b"-----BEGIN") else _parse_set(data)
    for key in keys:
        if key.is_private:
            raise InvalidParams("this is a private key: give the public key only, and keep the private one secret")
    return orjson.dumps({"keys": [key.as_dict(private=False) for key in keys]}).decode()


def _parse_pem(data: bytes) -> Key:
    for kind in _KINDS.values():
        try:
            return _import(kind, data)
        except (JoseError, ValueError, TypeError, AttributeError):  # a key of another kind
            continue
    raise InvalidParams("the PEM text is no public key of RSA (2048 bits or more), of an elliptic curve, or of Ed25519")


def _parse_set(data: bytes) -> list[Key]:
    try:
        found = orjson.loads(data)
    except orjson.JSONDecodeError as problem:
        raise InvalidParams(f"expected a public key as PEM or as a JWK (JSON): {problem}") from problem
    rows = found.get("keys", [found]) if isinstance(found, dict) else None
    if not isinstance(rows, list) or not 0 < len(rows) <= MAX_PUBLIC_KEYS:
        raise InvalidParams(f"expected a JWK, or a JWK set of 1 to {MAX_PUBLIC_KEYS} keys")
    return [_parse_jwk(row) for row in rows]


def _parse_jwk(row: Any) -> Key:
    kind = _KINDS.get(row.get("kty", "")) if isinstance(row, dict) and isinstance(row.get("kty"), str) else None
    if kind is None:
        raise InvalidParams("a JWK needs kty: expected RSA, EC or OKP; a shared secret (oct) is no public key")
    try:
        return _import(kind, row)
    except (JoseError, ValueError, TypeError, KeyError) as problem:
        raise InvalidParams(f"the JWK cannot be read: {problem}") from problem


def _import(kind: type[Any], value: Any) -> Key:
    """Return the key of a text or a JWK. Raises InvalidParams for a short RSA key, about which the library warns."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", SecurityWarning)
        try:
            key: Key = kind.import_key(value)
        except SecurityWarning as problem:
            raise InvalidParams("this RSA key is too short: expected 2048 bits or more") from problem
    return key

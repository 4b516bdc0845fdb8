"""The access token with which a caller came to this hub, for servers that are meant to get it, or one made of it.

The hub has verified the token before the call: its signature, its issuer and that it is for this hub. So its claims are
read here without another check. A token that is bound to a key (DPoP) is of no use to another server.
Sources: RFC 9068; RFC 9449, section 6; MCP specification, basic/authorization (token passthrough is forbidden, so the
token has to name the other server as its audience).
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from patchbay.activation import Call

MAX_TOKEN_CHARACTERS = 16384


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token of an outside issuer. `expires` is Unix time in seconds, 0 where the token does not say it."""

    text: str = field(repr=False)
    issuer: str
    audiences: frozenset[str]
    expires: float


def find_verified_token(call: Call) -> VerifiedToken | None:
    """Return the token with which the caller proved itself; None for another credential or an opaque token."""
    issuer = getattr(call.sender, "issuer", "")
    scheme, _, text = (call.find_header("authorization") or "").partition(" ")
    token = text.strip()
    if not issuer or scheme.lower() != "bearer" or len(token) > MAX_TOKEN_CHARACTERS:
        return None
    claims = _read_claims(token)
    if claims is None or claims.get("iss") != issuer or "cnf" in claims:
        return None
    named, end = claims.get("aud", ()), claims.get("exp", 0)
    audiences = [named] if isinstance(named, str) else named
    texts = frozenset(one for one in audiences if isinstance(one, str)) if isinstance(audiences, list) else frozenset()
    return VerifiedToken(token, issuer, texts, float(end) if isinstance(end, int | float) else 0.0)


def _read_claims(token: str) -> Mapping[str, Any] | None:
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        found = orjson.loads(urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return None
    return found if isinstance(found, dict) else None

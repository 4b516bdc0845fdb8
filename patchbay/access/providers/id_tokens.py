"""Checks the tokens with which a provider speaks to its client: ID tokens and logout tokens.

Only signatures with a public key of the provider count, as for access tokens. An ID token answers one question of one
browser (`nonce`); a logout token answers none, and says that it is one (`events`): neither passes for the other.
Sources: OpenID Connect Core 1.0, sections 2, 3.1.3.7 and 12.2; OpenID Connect Back-Channel Logout 1.0, sections 2.4
and 2.6; RFC 8725.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from authlib.oidc.core.claims import CodeIDToken
from joserfc.errors import JoseError

from patchbay.access.providers.provider import Provider
from patchbay.access.tokens.algorithms import ALGORITHMS
from patchbay.access.tokens.claims import LEEWAY_SECONDS, MAX_NAME_CHARACTERS
from patchbay.access.tokens.problems import WrongToken
from patchbay.access.tokens.signed_json import Malformed, SignedJson, parse_signed_json
from patchbay.access.tokens.signing_keys import SigningKeys

LOGOUT_EVENT = "http://schemas.openid.net/event/backchannel-logout"

LOGOUT_SECONDS = 300.0
"""Age of a logout token, in seconds, beyond which it is refused; its id is remembered for longer."""

_ID_TOKEN_TYPES = ("", "jwt")
_LOGOUT_TOKEN_TYPES = ("", "jwt", "logout+jwt")


def check_id_token(
    text: str, provider: Provider, keys: SigningKeys, now: float, access_token: str = "", nonce: str | None = None
) -> dict[str, Any]:
    """Return the claims of an ID token of a provider for this hub.

    `nonce` is the value that the sign-in sent; None for the token of a refresh, which may have none. `now` is Unix time
    in seconds. Raises WrongToken, IssuerUnavailable.
    """
    token = _verify(text, keys, _ID_TOKEN_TYPES)
    if nonce == "":
        raise WrongToken("a sign-in sends a nonce")
    # Authlib knows no hash for the algorithms that are named after a curve.
    has_known_hash = token.algorithm[-3:].isdigit()
    claims = CodeIDToken(
        dict(token.payload),
        dict(token.header),
        {
            "iss": {"essential": True, "value": provider.issuer.url},
            "aud": {"essential": True, "value": provider.client_id},
        },
        {"client_id": provider.client_id, "nonce": nonce, "access_token": access_token if has_known_hash else ""},
    )
    try:
        claims.validate(int(now), LEEWAY_SECONDS)
    except (JoseError, ValueError, TypeError) as problem:
        raise WrongToken(f"the ID token is wrong: {problem}") from problem
    if LOGOUT_EVENT in str(claims.get("events", "")):
        raise WrongToken("the token is a logout token, not an ID token")
    _read_text(claims, "sub", is_needed=True)
    _read_text(claims, "sid")
    return dict(claims)


def check_logout_token(text: str, provider: Provider, keys: SigningKeys, now: float) -> dict[str, Any]:
    """Return the claims of a logout token of a provider for this hub: `jti`, and `sub`, `sid` or both.

    Its single use is checked elsewhere. Raises WrongToken, IssuerUnavailable.
    """
    claims = _verify(text, keys, _LOGOUT_TOKEN_TYPES).payload
    audiences = claims.get("aud")
    if claims.get("iss") != provider.issuer.url:
        raise WrongToken("the issuer of the logout token is another one")
    if provider.client_id not in (audiences if isinstance(audiences, list) else [audiences]):
        raise WrongToken("the logout token is for another client")
    made, until = _read_time(claims, "iat"), _read_time(claims, "exp")
    if made is None or not now - LOGOUT_SECONDS <= made <= now + LEEWAY_SECONDS:
        raise WrongToken("the logout token is too old, or has no time (iat)")
    if until is not None and until + LEEWAY_SECONDS <= now:
        raise WrongToken("the logout token is expired")
    events = claims.get("events")
    if not isinstance(events, dict) or not isinstance(events.get(LOGOUT_EVENT), dict):
        raise WrongToken("the token is not a logout token (events)")
    if "nonce" in claims:
        raise WrongToken("a logout token has no nonce")
    _read_text(claims, "jti", is_needed=True)
    if not _read_text(claims, "sub") and not _read_text(claims, "sid"):
        raise WrongToken("the logout token names neither a person (sub) nor a session (sid)")
    return dict(claims)


def _verify(text: str, keys: SigningKeys, types: tuple[str, ...]) -> SignedJson:
    """Return a token whose signature is one of the provider."""
    try:
        token = parse_signed_json(text)
    except Malformed as problem:
        raise WrongToken(f"the token cannot be read: {problem}") from problem
    named = token.header.get("typ", "")
    if not isinstance(named, str) or named.lower().removeprefix("application/") not in types:
        raise WrongToken("the token is of another type")
    if token.algorithm not in ALGORITHMS:
        raise WrongToken("the algorithm of the token is not accepted")
    key = keys.find(token)
    if key is None or not key.verifies(token):
        raise WrongToken("the signature of the token is not one of the provider")
    return token


def _read_text(claims: Mapping[str, Any], name: str, is_needed: bool = False) -> str:
    found = claims.get(name, "")
    if not isinstance(found, str) or len(found) > MAX_NAME_CHARACTERS or not found.isprintable():
        raise WrongToken(f"the claim {name} is not a string of at most {MAX_NAME_CHARACTERS} printable characters")
    if is_needed and not found:
        raise WrongToken(f"the token has no claim {name}")
    return found


def _read_time(claims: Mapping[str, Any], name: str) -> float | None:
    found = claims.get(name)
    return float(found) if isinstance(found, (int, float)) and not isinstance(found, bool) else None

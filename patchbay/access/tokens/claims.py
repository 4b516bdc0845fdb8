"""Checks the claims of an access token, and makes a principal of them. Pure functions of header, claims and time.

Signed tokens (RFC 9068) and answers of introspection (RFC 7662) have the same claims, and share these checks. What has
the wrong type is refused, never ignored.
Sources: RFC 9068, sections 2 and 4; RFC 7519, section 4.1; RFC 7662, section 2.2; RFC 7800 (`cnf`); RFC 8693,
section 4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchbay.access.credentials.names import name_token
from patchbay.access.decisions import is_scope
from patchbay.access.principals import Principal, is_group_name
from patchbay.access.tokens.audiences import list_audiences, normalize_audience
from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.problems import WrongToken

LEEWAY_SECONDS = 30
"""Seconds that the clocks of issuer and hub may differ."""

MAX_NAME_CHARACTERS = 255
MAX_AUDIENCES = 100
MAX_GROUPS = 1000
MAX_SCOPES = 1000

SCOPE = "scope"
"""The claim whose string is a list of words (RFC 9068, section 2.2.3), also where it has the groups."""

Claims = Mapping[str, Any]

_ID_TOKEN_CLAIMS = ("nonce", "at_hash", "c_hash", "s_hash", "events")
"""Claims of ID tokens and logout tokens, which no access token has (OpenID Connect Core, section 2)."""


@dataclass(frozen=True, slots=True)
class VerifiedToken:
    """A token that was checked: principal, scopes, audiences, end (Unix time in seconds), thumbprints of two keys.

    `proof_key` is the key that the sender has to prove (`cnf.jkt`), empty for a bearer token. `signing_key` is the key
    of the issuer that signed the token, empty for an opaque token.
    """

    principal: Principal
    scopes: frozenset[str]
    audiences: frozenset[str]
    expires: float
    proof_key: str = ""
    signing_key: str = ""


def check_type(header: Claims, claims: Claims, accepted: frozenset[str]) -> None:
    """Check that a signed token is an access token and no other kind of token. Raises WrongToken.

    The type is `at+jwt`. Where the operator also accepts `JWT`, the claims have to show an access token: some issuers
    give their ID tokens the same type.
    """
    named = header.get("typ")
    kind = named.lower().removeprefix("application/") if isinstance(named, str) else ""
    if kind not in {one.lower() for one in accepted}:
        raise WrongToken(f"the type of the token is not {' or '.join(sorted(accepted))}")
    if kind != "jwt":
        return
    is_marked = str(claims.get("typ", "Bearer")).lower() in ("bearer", "dpop")
    is_for_access = any(name in claims for name in ("scope", "scp")) or claims.get("idtyp") == "app"
    if not is_marked or not is_for_access or any(name in claims for name in _ID_TOKEN_CLAIMS):
        raise WrongToken("the token is not an access token")


def check_claims(claims: Claims, issuer: Issuer, now: float, signing_key: str = "") -> VerifiedToken:
    """Check everything but the audience and the signature, and make the principal. Raises WrongToken."""
    _check_issuer(claims, issuer, is_optional=not signing_key)
    expires = _check_times(claims, now)
    audiences = frozenset(normalize_audience(one) for one in _list_texts(claims, "aud", MAX_AUDIENCES))
    principal = replace(make_principal(claims, issuer), credential=name_token(expires + LEEWAY_SECONDS))
    scopes = _read_scopes(claims)
    return VerifiedToken(principal, scopes, audiences, expires, _find_proof_key(claims), signing_key)


def check_audience(token: VerifiedToken, issuer: Issuer, resource: str, url: str, prefix: str = "") -> None:
    """Check that a token is for this resource of the hub, whose path is `prefix`. Raises WrongToken."""
    if token.audiences.isdisjoint(list_audiences(resource, url, prefix)) and token.audiences.isdisjoint(
        normalize_audience(one) for one in issuer.audiences
    ):
        raise WrongToken("the audience of the token is not this resource")


def make_principal(claims: Claims, issuer: Issuer) -> Principal:
    """Make the principal of checked claims. Raises WrongToken for claims of a wrong type."""
    subject = _read_text(claims, "sub") or _fail("the token has no subject")
    actor = claims.get("act")
    if actor is not None and not isinstance(actor, dict):
        _fail("the claim act is not a JSON object")
    agent = _read_text(actor, "sub") or _read_text(actor, "client_id") if actor else ""
    agent = agent or next((found for name in ("client_id", "azp", "appid") if (found := _read_text(claims, name))), "")
    names = ("name", "preferred_username", "username", "email")
    shown = next((found for name in names if (found := _read_text(claims, name))), subject)
    return Principal(
        subject=subject,
        issuer=issuer.url,
        name=shown,
        groups=_read_groups(claims, issuer.groups_claim),
        agent=agent,
        scopes=_narrow(_read_scopes(claims)),
        email=_read_verified_email(claims),
    )


def _read_verified_email(claims: Claims) -> str:
    """Return the e-mail address of a token whose issuer has verified it; empty for any other.

    Some issuers let people choose an address that is not theirs, and some write the mark as text.
    Source: OpenID Connect Core 1.0, section 5.1 (`email`, `email_verified`).
    """
    is_verified = claims.get("email_verified")
    return _read_text(claims, "email") if is_verified is True or is_verified == "true" else ""


def _check_issuer(claims: Claims, issuer: Issuer, is_optional: bool) -> None:
    found = claims.get("iss")
    if found is None and is_optional:
        return
    if found != issuer.url:
        _fail("the issuer of the token is not the issuer of this hub")


def _check_times(claims: Claims, now: float) -> float:
    expires = _read_time(claims, "exp")
    if expires is None:
        raise WrongToken("the token has no expiry")
    if now >= expires + LEEWAY_SECONDS:
        raise WrongToken("the token is expired")
    for name in ("nbf", "iat"):
        begins = _read_time(claims, name)
        if begins is not None and now < begins - LEEWAY_SECONDS:
            raise WrongToken("the token is not valid yet")
    return expires


def _read_time(claims: Claims, name: str) -> float | None:
    found = claims.get(name)
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, (int, float)) or not math.isfinite(found):
        raise WrongToken(f"the claim {name} is not a number")
    return float(found)


def _find_proof_key(claims: Claims) -> str:
    """Return the thumbprint in `cnf`, empty without one. A binding that this hub cannot check is refused."""
    found = claims.get("cnf")
    if found is None:
        return ""
    if not isinstance(found, dict) or set(found) != {"jkt"} or not isinstance(found["jkt"], str) or not found["jkt"]:
        raise WrongToken("the token is bound to its sender in a way that this hub cannot check; expected DPoP")
    return str(found["jkt"])


def _narrow(scopes: frozenset[str]) -> frozenset[str] | None:
    """Return the scopes that narrow what a principal may do: those of this hub, such as `call` and `read:notes.*`.

    None for a token without one: an issuer that does not know the scopes of this hub does not narrow a token.
    """
    return frozenset(scope for scope in scopes if is_scope(scope)) or None


def _read_scopes(claims: Claims) -> frozenset[str]:
    """Return the scopes, from `scope` or `scp`: a text with spaces, or a list."""
    name = next((name for name in ("scope", "scp") if name in claims), None)
    if name is None:
        return frozenset()
    found = claims[name]
    scopes = found.split() if isinstance(found, str) else _list_texts(claims, name, MAX_SCOPES, may_be_empty=True)
    return frozenset(scopes)


def has_groups(claims: Claims, name: str) -> bool:
    """Whether claims have the claim with the groups, or say that the issuer left it out."""
    elsewhere = claims.get("_claim_names")
    return (isinstance(elsewhere, dict) and name in elsewhere) or _find_groups(claims, name) is not None


def _read_groups(claims: Claims, name: str) -> frozenset[str]:
    """Return the groups. Raises WrongToken when the issuer left them out, because a denial could name one of them."""
    elsewhere = claims.get("_claim_names")
    if isinstance(elsewhere, dict) and name in elsewhere:
        raise WrongToken(f"the issuer left out the claim {name}, because it is too long; send fewer groups")
    found = _find_groups(claims, name)
    if found is None:
        return frozenset()
    if name == SCOPE and isinstance(found, str):
        found = found.split()
    # A grant to the operator, to a key or to a person of an issuer is not for a group that happens to have this name.
    texts = _list_texts({name: found}, name, MAX_GROUPS, may_be_empty=True)
    return frozenset(one for one in texts if is_group_name(one))


def _find_groups(claims: Claims, name: str) -> Any:
    """Return the value of the claim with the groups, whose name may lead into objects; None without one."""
    inner: Claims = claims
    key = name
    while key not in inner and "." in key:
        first, _, key = key.partition(".")
        below = inner.get(first)
        if not isinstance(below, dict):
            return None
        inner = below
    return inner.get(key)


def _list_texts(claims: Claims, name: str, max_texts: int, may_be_empty: bool = False) -> list[str]:
    found = claims.get(name)
    texts = [found] if isinstance(found, str) else found
    if not isinstance(texts, list) or not all(isinstance(one, str) and one for one in texts) or len(texts) > max_texts:
        raise WrongToken(f"the claim {name} is neither a string nor a list of at most {max_texts} strings")
    if not texts and not may_be_empty:
        raise WrongToken(f"the claim {name} is empty")
    return texts


def _read_text(claims: Claims, name: str) -> str:
    found = claims.get(name)
    if found is None:
        return ""
    if not isinstance(found, str) or len(found) > MAX_NAME_CHARACTERS or not found.isprintable():
        raise WrongToken(f"the claim {name} is not a string of at most {MAX_NAME_CHARACTERS} printable characters")
    return found


def _fail(reason: str) -> str:
    raise WrongToken(reason)

"""Identity assertions (ID-JAG): signed texts in which an identity provider says that a client may act for a person.

The operator names the providers. An assertion is for one client, one resource and this hub, ends soon and works once,
on all nodes together. The person is issuer and subject: the same principal as the one of an access token of that
issuer. Every check that needs no key comes first, so that a wrong assertion causes no request to the provider.
Sources: draft-ietf-oauth-identity-assertion-authz-grant; MCP extension Enterprise-Managed Authorization (SEP-990),
sections 4.3, 5.1 and 6; RFC 7523, section 3; RFC 8725, section 3.11.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from patchbay.access.oauth.scopes import names_scope
from patchbay.access.principals import Principal
from patchbay.access.tokens.access_tokens import IssuerMetadata
from patchbay.access.tokens.audiences import normalize_audience
from patchbay.access.tokens.claims import LEEWAY_SECONDS, VerifiedToken, check_claims
from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.issuer_documents import IssuerDocuments
from patchbay.access.tokens.problems import WrongToken
from patchbay.access.tokens.signed_json import Malformed, SignedJson, parse_signed_json
from patchbay.access.tokens.signing_keys import SigningKeys, check_algorithm

ASSERTION_TYPE = "oauth-id-jag+jwt"
"""The header `typ` of an identity assertion."""

MAX_ASSERTION_SECONDS = 900
"""Longest time from the issue of an assertion to its end."""

MAX_ID_CHARACTERS = 512


@dataclass(frozen=True, slots=True)
class IdentityAssertion:
    """A checked assertion. `resource` is a URL, as its claim has it, without a final slash.

    `scopes` are those of this hub in its claim `scope`; None without the claim, which leaves them to the hub.
    """

    principal: Principal
    issuer: str
    id: str
    resource: str
    scopes: frozenset[str] | None


class IdentityAssertions:
    """The assertions of the issuers that the operator trusts. Safe to use from many threads."""

    def __init__(self, issuers: Iterable[Issuer]) -> None:
        self._issuers = {issuer.url: (issuer, _find_keys(issuer)) for issuer in issuers}

    def check(self, text: str, hub: str, client: str, now: float) -> IdentityAssertion:
        """Check everything about an assertion but its single use, and return what it says.

        `hub` is the issuer identifier of this hub's authorization server, `client` the id of the client that has
        authenticated, `now` Unix time in seconds. Raises WrongToken, and IssuerUnavailable without the issuer's keys.
        """
        try:
            token = parse_signed_json(text)
        except Malformed as problem:
            raise WrongToken(f"the assertion cannot be read: {problem}") from problem
        named = token.header.get("typ")
        if not isinstance(named, str) or named.lower().removeprefix("application/") != ASSERTION_TYPE:
            raise WrongToken(f"the type of the assertion is not {ASSERTION_TYPE}")
        check_algorithm(token)
        url = token.payload.get("iss")
        if not isinstance(url, str) or url not in self._issuers:
            raise WrongToken("the hub takes no assertions of this issuer: the operator names them")
        issuer, keys = self._issuers[url]
        claims = check_claims(token.payload, issuer, now, signing_key="unverified")
        found = _read_assertion(token, claims, hub, client)
        keys.verify(token)
        return found


def _find_keys(issuer: Issuer) -> SigningKeys:
    """The keys of an issuer, which are fetched when the first assertion comes."""
    documents = IssuerDocuments(issuer)
    metadata = IssuerMetadata(documents.discover, time.monotonic)
    return SigningKeys(lambda: documents.fetch(metadata.get_url("jwks_uri")))


def _read_assertion(token: SignedJson, claims: VerifiedToken, hub: str, client: str) -> IdentityAssertion:
    """Check the claims that access tokens do not have in this way. Raises WrongToken."""
    payload = token.payload
    if claims.audiences != {normalize_audience(hub)}:
        raise WrongToken(f"the audience of the assertion is not this hub alone: expected {hub}")
    if payload.get("client_id") != client:
        raise WrongToken("the assertion is for another client than the one that sends it")
    if claims.proof_key:
        raise WrongToken("the assertion is bound to a key, which the hub does not check here")
    issued = payload.get("iat")
    if not isinstance(issued, (int, float)) or claims.expires - issued > MAX_ASSERTION_SECONDS + LEEWAY_SECONDS:
        raise WrongToken(f"expected iat, and exp at most {MAX_ASSERTION_SECONDS} seconds after it")
    id, resource = payload.get("jti"), payload.get("resource")
    if not isinstance(id, str) or not 0 < len(id) <= MAX_ID_CHARACTERS:
        raise WrongToken(f"expected a jti of at most {MAX_ID_CHARACTERS} characters")
    if not isinstance(resource, str) or not resource:
        raise WrongToken("expected a resource: the URL of the MCP endpoint for which the assertion is")
    principal = replace(claims.principal, agent="", scopes=None, credential="")
    return IdentityAssertion(principal, principal.issuer, id, normalize_audience(resource), _read_scopes(payload))


def _read_scopes(payload: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the scopes of this hub that an assertion gives; None when it does not name scopes at all."""
    found = payload.get("scope")
    if found is None:
        return None
    if not isinstance(found, str):
        raise WrongToken("the claim scope is not a string")
    return frozenset(filter(names_scope, found.split()))

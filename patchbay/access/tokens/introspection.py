"""Asks the issuer about an opaque token (introspection), with bounded caches for valid and for unknown tokens.

Source: RFC 7662.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from patchbay.access.tokens.claims import LEEWAY_SECONDS, VerifiedToken, check_claims
from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.issuer_documents import IssuerDocuments
from patchbay.access.tokens.problems import IssuerUnavailable, WrongToken
from patchbay.access.tokens.token_cache import TokenCache, digest_token
from patchbay.client.auth.client_secrets import prove_client

KEEP_SECONDS = 60.0
"""Seconds that a valid answer is used again: a token that the issuer revokes stops working within them."""

KEEP_UNKNOWN_SECONDS = 10.0
MAX_REQUESTS = 16
"""Requests to the issuer at once; a call beyond them gets 503."""


class Introspection:
    """Checks the opaque tokens of one issuer. `metadata` returns the issuer's metadata or raises IssuerUnavailable."""

    def __init__(self, issuer: Issuer, documents: IssuerDocuments, metadata: Callable[[], dict[str, Any]]) -> None:
        self._issuer = issuer
        self._documents = documents
        self._metadata = metadata
        self._known: TokenCache[VerifiedToken] = TokenCache()
        self._unknown: TokenCache[str] = TokenCache()
        self._requests = threading.Semaphore(MAX_REQUESTS)

    def verify(self, token: str, now: float) -> VerifiedToken:
        """Return a checked token. `now` is Unix time in seconds. Raises WrongToken, IssuerUnavailable."""
        digest = digest_token(token)
        known = self._known.get(digest, now)
        if known is not None:
            return known
        reason = self._unknown.get(digest, now)
        if reason is not None:
            raise WrongToken(reason)
        try:
            found = self._ask(token, now)
        except WrongToken as problem:
            self._unknown.put(digest, problem.message, now + KEEP_UNKNOWN_SECONDS)
            raise
        self._known.put(digest, found, min(now + KEEP_SECONDS, found.expires + LEEWAY_SECONDS))
        return found

    def _ask(self, token: str, now: float) -> VerifiedToken:
        if not self._requests.acquire(blocking=False):
            raise IssuerUnavailable
        try:
            url = self._metadata().get("introspection_endpoint")
            if not isinstance(url, str):
                raise IssuerUnavailable("the metadata of the issuer names no introspection_endpoint")
            form, headers = self._make_request(token)
            answer = self._documents.post(url, form, headers)
        finally:
            self._requests.release()
        if answer.get("active") is not True:
            raise WrongToken("the token is unknown to its issuer, expired or revoked")
        # Issuers answer about refresh tokens too; the type tells them apart.
        if str(answer.get("token_type")).lower() not in ("bearer", "dpop"):
            raise WrongToken("the issuer does not say that the token is an access token (token_type)")
        if "sub" not in answer and "client_id" in answer:
            answer = {**answer, "sub": answer["client_id"]}  # a client that acts for itself (RFC 9068, section 2.2)
        return check_claims(answer, self._issuer, now)

    def _make_request(self, token: str) -> tuple[bytes, dict[str, str]]:
        form = {"token": token, "token_type_hint": "access_token"}
        methods = self._metadata().get("introspection_endpoint_auth_methods_supported")
        return prove_client(form, self._issuer.client_id, self._issuer.client_secret, methods)

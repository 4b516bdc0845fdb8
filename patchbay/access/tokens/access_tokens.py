"""The scheme of access tokens from an outside issuer: signed tokens, opaque tokens, bearer tokens and DPoP.

It answers for every token that reaches it, so it is the last scheme of a hub. The principal is issuer and subject; the
bytes of a token are in no log line, no error and no principal.
Sources: RFC 6750; RFC 9068, section 4; RFC 9449, section 7; MCP specification, basic/authorization.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from typing import Any

from patchbay.access.authentication import Credentials, InsufficientScope, Unauthorized
from patchbay.access.principals import Principal
from patchbay.access.tokens.challenges import make_challenge
from patchbay.access.tokens.claims import (
    LEEWAY_SECONDS,
    VerifiedToken,
    check_audience,
    check_claims,
    check_type,
)
from patchbay.access.tokens.dpop_proofs import check_proof, use_proof
from patchbay.access.tokens.introspection import Introspection
from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.issuer_documents import IssuerDocuments
from patchbay.access.tokens.problems import IssuerUnavailable, WrongProof, WrongToken
from patchbay.access.tokens.signed_json import (
    MAX_COMPACT_CHARACTERS,
    Malformed,
    is_signed_json,
    parse_signed_json,
)
from patchbay.access.tokens.signing_keys import (
    COOL_DOWN_SECONDS,
    MAX_WAITING_CALLS,
    SigningKeys,
    check_algorithm,
)
from patchbay.access.tokens.token_cache import TokenCache, digest_token
from patchbay.store import Journal

log = logging.getLogger(__name__)

METADATA_SECONDS = 3600.0
"""Age at which the metadata of the issuer is fetched again."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")


class RefusedToken(Unauthorized):
    """An access token that is not valid here, or no longer."""

    is_guess = False


class AccessTokens:
    """A Scheme for the tokens of one issuer. `journal` is that of the store, which all workers share.

    `wall_clock` gives Unix time in seconds, `clock` seconds that never go back. `remember` gets each principal that a
    token proves.
    """

    def __init__(
        self,
        issuer: Issuer,
        journal: Journal,
        wall_clock: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        remember: Callable[[Principal], None] = lambda sender: None,
    ) -> None:
        self.issuer = issuer
        self._remember = remember
        self._journal = journal
        self._wall_clock = wall_clock
        documents = IssuerDocuments(issuer)
        self._metadata = IssuerMetadata(documents.discover, clock)
        self._keys = SigningKeys(lambda: documents.fetch(self._metadata.get_url("jwks_uri")), clock)
        self._introspection = Introspection(issuer, documents, self._metadata.get) if issuer.has_introspection else None
        self._verified: TokenCache[VerifiedToken] = TokenCache()

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the principal of an access token; None for a request without a token.

        Raises Unauthorized (401), InsufficientScope (403), IssuerUnavailable (503).
        """
        token = credentials.token
        if token is None:
            return None
        is_dpop = credentials.headers.get("authorization", "")[:5].lower() == "dpop "
        try:
            verified = self._verify(token)
            is_dpop = is_dpop or bool(verified.proof_key)
            check_audience(verified, self.issuer, credentials.resource, credentials.url, credentials.prefix)
            self._check_proof(verified, token, credentials)
        except WrongToken as problem:
            challenge = make_challenge(
                credentials, self.issuer.required_scopes, problem.error, problem.message, is_dpop
            )
            raise RefusedToken(problem.message, challenge) from None
        self._check_scopes(verified, credentials)
        self._remember(verified.principal)
        return verified.principal

    def challenge(self, credentials: Credentials) -> str:
        """Return the value of `WWW-Authenticate` for a request without a token."""
        return make_challenge(credentials, self.issuer.required_scopes)

    def find_metadata(self) -> dict[str, Any]:
        """Return the metadata of the issuer. Raises IssuerUnavailable."""
        return self._metadata.get()

    def _check_scopes(self, verified: VerifiedToken, credentials: Credentials) -> None:
        """Check the scopes that every token needs. Raises InsufficientScope (403), which names them."""
        needed = self.issuer.required_scopes
        missing = [scope for scope in needed if scope not in verified.scopes]
        if missing:
            reason = f"the token does not have the scope {' '.join(missing)}"
            challenge = make_challenge(credentials, needed, "insufficient_scope", reason, bool(verified.proof_key))
            raise InsufficientScope(reason, challenge)

    def _verify(self, token: str) -> VerifiedToken:
        if len(token) > MAX_COMPACT_CHARACTERS:
            raise WrongToken(f"the token has more than {MAX_COMPACT_CHARACTERS} characters")
        digest, now = digest_token(token), self._wall_clock()
        known = self._verified.get(digest, now)
        if known is not None and self._keys.has(known.signing_key):
            return known
        if not _TOKEN.fullmatch(token):
            raise WrongToken("the token is empty, or has characters that no token has")
        if is_signed_json(token):
            verified = self._verify_signed(token, now)
            self._verified.put(digest, verified, verified.expires + LEEWAY_SECONDS)
            return verified
        if self._introspection is None:
            raise WrongToken("the token is not a signed JSON object, and this hub does not ask its issuer about others")
        try:
            return self._introspection.verify(token, now)
        except IssuerUnavailable as problem:
            log.warning("the issuer cannot be asked about a token: %s", problem.message)
            raise IssuerUnavailable from None

    def _verify_signed(self, text: str, now: float) -> VerifiedToken:
        try:
            token = parse_signed_json(text)
        except Malformed as problem:
            raise WrongToken(f"the token cannot be read: {problem}") from problem
        # Every check that needs no key comes first, so that a wrong token causes no request to the issuer.
        check_type(token.header, token.payload, self.issuer.token_types)
        check_algorithm(token)
        check_claims(token.payload, self.issuer, now, signing_key="unverified")
        return check_claims(token.payload, self.issuer, now, signing_key=self._keys.verify(token))

    def _check_proof(self, verified: VerifiedToken, token: str, credentials: Credentials) -> None:
        is_dpop = credentials.headers.get("authorization", "")[:5].lower() == "dpop "
        if not verified.proof_key:
            if is_dpop:
                raise WrongToken("the token is not bound to a key; send it as Bearer")
            return
        if not is_dpop:
            raise WrongToken("the token is bound to a key; send it as DPoP, with a proof")
        proof = credentials.headers.get("dpop")
        if not proof:
            raise WrongProof("the request has no DPoP proof")
        now = self._wall_clock()
        name = check_proof(proof, credentials.method, credentials.url, token, verified.proof_key, now)
        use_proof(name, self._journal)


class IssuerMetadata:
    """The metadata of the issuer, fetched when it is needed and kept for `seconds`, or while the issuer is down.

    After a failure there is no other fetch for COOL_DOWN_SECONDS. At most MAX_WAITING_CALLS wait for a fetch.
    """

    def __init__(
        self, discover: Callable[[], dict[str, Any]], clock: Callable[[], float], seconds: float = METADATA_SECONDS
    ) -> None:
        self._discover = discover
        self._clock = clock
        self._seconds = seconds
        self._found: dict[str, Any] | None = None
        self._next_fetch = float("-inf")
        self._is_away = False
        self._lock = threading.Lock()
        self._waiting = threading.Semaphore(MAX_WAITING_CALLS)

    def get(self) -> dict[str, Any]:
        """Return the metadata; only the first fetch makes a call wait. Raises IssuerUnavailable until it succeeds."""
        found = self._found
        if found is not None and (self._clock() < self._next_fetch or self._lock.locked()):
            return found
        if not self._waiting.acquire(blocking=False):
            raise IssuerUnavailable("too many requests wait for the metadata of the issuer")
        try:
            with self._lock:
                self._fetch()
        finally:
            self._waiting.release()
        if self._found is None:
            raise IssuerUnavailable("there is no metadata of the issuer yet")
        return self._found

    def _fetch(self) -> None:
        """Fetch the metadata if it is time to. The caller holds the lock."""
        if self._clock() < self._next_fetch:
            return
        self._next_fetch = self._clock() + COOL_DOWN_SECONDS
        try:
            self._found = self._discover()
            self._next_fetch = self._clock() + self._seconds
            self._is_away = False
        except IssuerUnavailable as problem:
            self._is_away = True
            log.warning("the metadata of the issuer cannot be fetched: %s", problem.message)

    @property
    def is_away(self) -> bool:
        """Whether the last fetch failed."""
        return self._is_away

    def get_url(self, member: str) -> str:
        """Return a URL of the metadata. Raises IssuerUnavailable when it is missing."""
        found = self.get().get(member)
        if not isinstance(found, str):
            raise IssuerUnavailable(f"the metadata of the issuer names no {member}")
        return found

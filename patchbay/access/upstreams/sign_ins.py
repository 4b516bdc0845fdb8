"""Signing in at a mounted server, from the page of the hub to the answer of the authorization server.

The state is bound to the principal, to the person who began, and to a secret in a cookie of that browser: an answer
that another browser or another person brings connects nothing. A state works once. The redirect URI names the issuer,
so that an answer of another issuer is noticed also without `iss`.
Sources: RFC 6749, section 10.12; RFC 7636; RFC 9207; RFC 9700, sections 4.4 and 4.7.
"""

from __future__ import annotations

import hmac
import secrets
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module

from patchbay.access.upstreams.deletion import delete_record
from patchbay.access.upstreams.sealed_records import SealedRecords
from patchbay.access.upstreams.token_store import CODE_FLOW, ConnectedAccount, TokenStore
from patchbay.caller_accounts.credentials import PAGE, Upstream
from patchbay.client.auth.token_clients import IssuedTokens, RequestedSignIn, TokenClient
from patchbay.client.errors import SignInNeeded
from patchbay.errors import Refused
from patchbay.store import Journal
from patchbay.topics import UPSTREAM_CLIENTS, UPSTREAM_REQUESTS

SIGN_IN_SECONDS = 600.0
"""Seconds that a person has to sign in."""

CLIENT_SECONDS = 365 * 24 * 3600.0
"""Seconds that a registration of this hub is used for new sign-ins."""

CLIENT_NAME = "Patchbay"
MAX_STATE_CHARACTERS = 256


class SignInRefused(Refused):
    """The answer of an authorization server does not belong to a sign-in of this browser and this person."""


@dataclass(frozen=True, slots=True)
class Applicant:
    """Who connects an account, and for whom: `principal` is the one whose calls will use it.

    `browser` is a secret that only the browser of this person has; `base_url` is the hub as the browser sees it.
    """

    by: str
    principal: str
    browser: str
    base_url: str


@dataclass(frozen=True, slots=True)
class _Begun:
    """A sign-in that has begun. `browser` is the hash of the secret of the browser."""

    by: str
    principal: str
    browser: str
    server: str
    key: str
    request: RequestedSignIn
    is_used: bool = False


@dataclass(frozen=True, slots=True)
class _Registration:
    client: TokenClient


class UpstreamSignIns:
    """The sign-ins of one hub at mounted servers. `key` is the secret key of the hub."""

    def __init__(self, journal: Journal, key: bytes, tokens: TokenStore) -> None:
        self._journal = journal
        self._begun = SealedRecords(journal, _Begun, key)
        self._clients = SealedRecords(journal, _Registration, key)
        self._tokens = tokens

    def begin(self, upstream: Upstream, applicant: Applicant) -> str:
        """Begin a sign-in; return the URL of the authorization server's page. Raises Unreachable, ConfigError."""
        flow = import_module(CODE_FLOW)
        is_public = applicant.base_url.startswith("https://")
        identity = flow.ClientIdentity(
            name=CLIENT_NAME,
            redirect_uri=lambda issuer: redirect_uri(applicant.base_url, issuer),
            metadata_url=lambda issuer: metadata_url(applicant.base_url, issuer) if is_public else "",
            known=self._find_client,
            remember=self._remember_client,
            client_id=upstream.client_id,
            client_secret=upstream.client_secret,
            scope=upstream.scope,
        )
        request: RequestedSignIn = flow.begin(upstream.target, identity, upstream.described)
        begun = _Begun(
            by=applicant.by,
            principal=applicant.principal,
            browser=_hash(applicant.browser),
            server=upstream.server,
            key=upstream.key,
            request=request,
        )
        self._begun.update(_state_topic(request.state), lambda _: begun, SIGN_IN_SECONDS)
        return request.url

    def find_server(self, state: str) -> str:
        """Return the name of the mounted server that a state is for. Raises SignInRefused for an unknown state."""
        return self._find(state).server

    def find_principal(self, state: str) -> tuple[str, str]:
        """Return the principal of a state, and who began. Raises SignInRefused."""
        found = self._find(state)
        return found.principal, found.by

    def finish(
        self, upstream: Upstream, state: str, applicant: Applicant, issuer_key: str, code: str, iss: str | None
    ) -> ConnectedAccount:
        """Redeem the code of an answer, and keep the tokens for the principal of the state.

        Raises SignInRefused for an answer that does not belong to the sign-in, SignInNeeded or Unreachable if the
        authorization server gives no tokens.
        """
        flow = import_module(CODE_FLOW)
        begun = self._use(state, applicant, upstream)
        if make_issuer_key(begun.request.client.issuer) != issuer_key:
            raise SignInRefused("this answer came to the address of another authorization server: sign in again")
        flow.check_issuer(begun.request.client, iss)
        try:
            tokens: IssuedTokens = flow.redeem(upstream.target, begun.request, code)
        except SignInNeeded:
            # The registration may be gone: the next sign-in makes a new one.
            delete_record(self._journal, _client_topic(begun.request.client.issuer, begun.request.redirect_uri))
            raise
        return self._tokens.connect(begun.principal, upstream, begun.request.client, tokens, begun.by)

    def cancel(self, upstream: Upstream, state: str, applicant: Applicant) -> None:
        """End a sign-in that the authorization server refused. Raises SignInRefused."""
        self._use(state, applicant, upstream)

    def _use(self, state: str, applicant: Applicant, upstream: Upstream) -> _Begun:
        """Return what a state stands for, once, for the person and the browser that began. Raises SignInRefused."""
        begun = self._find(state)
        if not hmac.compare_digest(begun.browser, _hash(applicant.browser)):
            raise SignInRefused("this sign-in was begun in another browser: connect again, in one browser")
        if (begun.by, begun.principal) != (applicant.by, applicant.principal):
            raise SignInRefused("this sign-in was begun by another person: connect your own account")
        if begun.key != upstream.key:
            raise SignInRefused("the mounted server has another address by now: connect again")

        def mark_used(present: _Begun | None) -> _Begun | None:
            return None if present is None or present.is_used else replace(present, is_used=True)

        if not self._begun.update(_state_topic(state), mark_used, SIGN_IN_SECONDS):
            raise _unknown_state()
        return begun

    def _find(self, state: str) -> _Begun:
        begun = self._begun.load(_state_topic(state))[0] if len(state) <= MAX_STATE_CHARACTERS else None
        if begun is None or begun.is_used:
            raise _unknown_state()
        return begun

    def _find_client(self, issuer: str, redirect: str) -> TokenClient | None:
        found = self._clients.load(_client_topic(issuer, redirect))[0]
        return None if found is None else found.client

    def _remember_client(self, redirect: str, client: TokenClient) -> None:
        known = _Registration(client=client)
        self._clients.update(_client_topic(client.issuer, redirect), lambda _: known, CLIENT_SECONDS)


def make_browser_secret() -> str:
    """Make the value of the cookie that binds a sign-in to a browser."""
    return secrets.token_urlsafe(32)


def make_issuer_key(issuer: str) -> str:
    """Return the part of the redirect URI that names an issuer."""
    return sha256(issuer.encode()).hexdigest()[:16]


def redirect_uri(base_url: str, issuer: str) -> str:
    """Return the address where the authorization server sends the browser back."""
    return f"{base_url}{PAGE}/callback/{make_issuer_key(issuer)}"


def metadata_url(base_url: str, issuer: str) -> str:
    """Return the URL of the hub's client metadata document for an issuer."""
    return f"{base_url}{PAGE}/client/{make_issuer_key(issuer)}"


def client_document(base_url: str, issuer_key: str) -> dict[str, object]:
    """Return the hub's client metadata document for the issuer with this key."""
    return {
        "client_id": f"{base_url}{PAGE}/client/{issuer_key}",
        "client_name": CLIENT_NAME,
        "client_uri": base_url,
        "redirect_uris": [f"{base_url}{PAGE}/callback/{issuer_key}"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": "none",
    }


def _unknown_state() -> SignInRefused:
    return SignInRefused("this sign-in is unknown, too old, or was finished before: connect again")


def _state_topic(state: str) -> str:
    return UPSTREAM_REQUESTS + _hash(state)


def _client_topic(issuer: str, redirect: str) -> str:
    return UPSTREAM_CLIENTS + _hash(f"{issuer}\n{redirect}")


def _hash(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

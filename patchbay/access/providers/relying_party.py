"""The hub as a client of one identity provider: its addresses, its keys, and the requests that it answers.

The metadata is fetched when the first person signs in, and kept while the provider is away.
Sources: OpenID Connect Core 1.0, sections 3.1, 5.3 and 12; OpenID Connect Discovery 1.0, section 4; RFC 7636 (PKCE);
OpenID Connect RP-Initiated Logout 1.0, section 2.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from authlib.common.urls import add_params_to_uri
from authlib.oauth2.rfc6749.parameters import prepare_grant_uri
from authlib.oauth2.rfc7636 import create_s256_code_challenge

from patchbay.access.providers.id_tokens import check_id_token, check_logout_token
from patchbay.access.providers.provider import Provider
from patchbay.access.tokens.access_tokens import IssuerMetadata
from patchbay.access.tokens.claims import has_groups
from patchbay.access.tokens.issuer_documents import IssuerDocuments
from patchbay.access.tokens.problems import IssuerUnavailable, WrongToken
from patchbay.access.tokens.signing_keys import SigningKeys
from patchbay.client.auth.client_secrets import prove_client

METADATA_SECONDS = 10.0
"""Age at which the metadata is fetched again. A sign-in learns by it that the provider is away."""

MAX_HINT_CHARACTERS = 4000
"""Characters of an ID token that fit into the address of a sign-out; providers limit the length of addresses."""


@dataclass(frozen=True, slots=True)
class Question:
    """What a sign-in asks of a provider: the values that its answer has to fit.

    `proves_again` asks for a new proof of the person, also in a browser that is signed in at the provider. `began` is
    the time of the question.
    """

    state: str
    nonce: str
    verifier: str
    redirect_uri: str
    began: float
    proves_again: bool = False


@dataclass(frozen=True, slots=True)
class ProviderTokens:
    """What a provider gives for a sign-in or a refresh. `refresh` is empty where it gives none."""

    id_token: str
    refresh: str = ""


class RelyingParty:
    """The hub as a client of one provider. Thread-safe.

    `find_secret` returns the secret of the client, empty for a public one. `now` returns Unix time in seconds.
    """

    def __init__(self, provider: Provider, find_secret: Callable[[], str], now: Callable[[], float]) -> None:
        self.provider = provider
        self._find_secret = find_secret
        self._now = now
        self._documents = IssuerDocuments(provider.issuer)
        address = provider.issuer.url.rstrip("/") + "/.well-known/openid-configuration"
        self._metadata = IssuerMetadata(lambda: self._documents.discover([address]), time.monotonic, METADATA_SECONDS)
        self._keys = SigningKeys(lambda: self._documents.fetch(self._metadata.get_url("jwks_uri")))

    @property
    def is_away(self) -> bool:
        """Whether the provider did not answer at the last attempt of this process; asks nothing."""
        return self._metadata.is_away

    def ask(self, question: Question) -> str:
        """Return the address of the provider's page for a sign-in. Raises IssuerUnavailable."""
        self._metadata.get()
        if self._metadata.is_away:
            raise IssuerUnavailable("the provider does not answer; its last metadata is known")
        again = {"prompt": "login", "max_age": "0"} if question.proves_again else {}
        address: str = prepare_grant_uri(
            self._find_page("authorization_endpoint"),
            self.provider.client_id,
            "code",
            redirect_uri=question.redirect_uri,
            scope=self._list_scopes(),
            state=question.state,
            nonce=question.nonce,
            code_challenge=create_s256_code_challenge(question.verifier),
            code_challenge_method="S256",
            **again,
        )
        return address

    def names_issuer(self) -> bool:
        """Whether each answer of the provider has its issuer (RFC 9207, section 3). Raises IssuerUnavailable."""
        return self._metadata.get().get("authorization_response_iss_parameter_supported") is True

    def redeem(self, code: str, question: Question) -> tuple[dict[str, Any], ProviderTokens]:
        """Exchange a code; return the claims about the person, and the tokens.

        Raises WrongToken, IssuerRefused for a code that is not good, IssuerUnavailable.
        """
        form = {"grant_type": "authorization_code", "code": code, "redirect_uri": question.redirect_uri}
        answer = self._request_tokens({**form, "code_verifier": question.verifier})
        claims = self._check_answer(answer, question.nonce)
        return self._complete(claims, answer), _tokens_of(answer)

    def refresh(
        self, tokens: ProviderTokens, subject: str, keep: Callable[[ProviderTokens], None]
    ) -> tuple[dict[str, Any] | None, ProviderTokens]:
        """Exchange a refresh token; return the claims about the same person, and the tokens from now on.

        The claims are None where the provider said nothing more than that the sign-in goes on. `keep` gets a new
        refresh token before anything else is asked of the provider, because the old one no longer works.

        Raises WrongToken, IssuerRefused when the provider ended the sign-in, IssuerUnavailable.
        """
        answer = self._request_tokens({"grant_type": "refresh_token", "refresh_token": tokens.refresh})
        fresh = _tokens_of(answer)
        if fresh.refresh:
            keep(ProviderTokens(tokens.id_token, fresh.refresh))
        claims = self._check_answer(answer, None) if answer.get("id_token") else {"sub": subject}
        if claims["sub"] != subject:
            raise WrongToken("the refresh gave the ID token of another person")
        kept = ProviderTokens(fresh.id_token or tokens.id_token, fresh.refresh or tokens.refresh)
        claims = self._complete(claims, answer)
        says_more = fresh.id_token or has_groups(claims, self.provider.issuer.groups_claim)
        return claims if says_more else None, kept

    def check_logout_token(self, text: str) -> dict[str, Any]:
        """Return the claims of a logout token. Raises WrongToken, IssuerUnavailable."""
        return check_logout_token(text, self.provider, self._keys, self._now())

    def find_sign_out(self, id_token: str, then: str) -> str:
        """Return the address that signs the person out at the provider; empty where it has none, or is away.

        `then` is where the provider leads the browser afterwards.
        """
        try:
            page = self._find_page("end_session_endpoint")
        except IssuerUnavailable:
            return ""
        values = [("client_id", self.provider.client_id), ("post_logout_redirect_uri", then)]
        if id_token and len(id_token) <= MAX_HINT_CHARACTERS:
            values.append(("id_token_hint", id_token))
        address: str = add_params_to_uri(page, values)
        return address

    def _request_tokens(self, form: dict[str, str]) -> dict[str, Any]:
        methods = self._metadata.get().get("token_endpoint_auth_methods_supported")
        body, headers = prove_client(form, self.provider.client_id, self._find_secret(), methods)
        return self._documents.post(self._metadata.get_url("token_endpoint"), body, headers)

    def _check_answer(self, answer: dict[str, Any], nonce: str | None) -> dict[str, Any]:
        id_token, access_token = answer.get("id_token"), answer.get("access_token", "")
        if not isinstance(id_token, str) or not isinstance(access_token, str):
            raise WrongToken("the provider gave no ID token; it has to support OpenID Connect")
        return check_id_token(id_token, self.provider, self._keys, self._now(), access_token, nonce)

    def _complete(self, claims: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
        """Return the claims, with those of the userinfo endpoint where name, e-mail address or groups are missing."""
        token, address = answer.get("access_token"), self._metadata.get().get("userinfo_endpoint")
        wanted = ("name" in claims or "preferred_username" in claims, "email" in claims)
        is_complete = all(wanted) and has_groups(claims, self.provider.issuer.groups_claim)
        if is_complete or not isinstance(token, str) or not token or not isinstance(address, str):
            return claims
        found = self._documents.fetch(address, token)
        if found.get("sub") != claims["sub"]:
            raise WrongToken("the userinfo endpoint answered about another person")
        if "email" in claims:  # the mark that an address is verified is that of its own document
            found.pop("email_verified", None)
        return {**found, **claims}

    def _find_page(self, member: str) -> str:
        """Return a page of the provider to which a browser may be sent. Raises IssuerUnavailable."""
        found = self._metadata.get_url(member)
        if not self.provider.issuer.is_safe(found):
            raise IssuerUnavailable(f"the {member} of the provider is not an https URL")
        return found

    def _list_scopes(self) -> list[str]:
        supported = self._metadata.get().get("scopes_supported")
        scopes = [one for one in self.provider.scopes if not isinstance(supported, list) or one in supported]
        return ["openid", *(one for one in scopes if one != "openid")]


def _tokens_of(answer: dict[str, Any]) -> ProviderTokens:
    id_token, refresh = answer.get("id_token", ""), answer.get("refresh_token", "")
    return ProviderTokens(id_token if isinstance(id_token, str) else "", refresh if isinstance(refresh, str) else "")

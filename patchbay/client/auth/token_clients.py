"""A registered client at the token endpoint of one authorization server, as values that can be stored.

This module does not load the official client.
Sources: RFC 6749, sections 2.3 and 5.1; RFC 8707 (`resource`); RFC 9207 (`iss`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenClient:
    """The client that the authorization server `issuer` knows, and where it requests and revokes tokens.

    `resource` is the identifier of the server that the tokens are for, "" for an API that has none. `auth_method` is
    that of the token endpoint; `client_secret` is empty for a public client. `answers_with_iss` says that the issuer
    announces RFC 9207.
    """

    issuer: str
    token_url: str
    client_id: str
    resource: str
    client_secret: str = ""
    auth_method: str = "none"
    revocation_url: str = ""
    answers_with_iss: bool = False


@dataclass(frozen=True, slots=True)
class IssuedTokens:
    """Tokens of an authorization server. `expires` is Unix time in seconds, None if the server does not say."""

    access_token: str
    refresh_token: str = ""
    expires: float | None = None
    scope: str = ""


@dataclass(frozen=True, slots=True)
class RequestedSignIn:
    """A sign-in that has begun: the person is sent to `url`; `state` and `verifier` are needed to finish it."""

    url: str
    state: str
    verifier: str
    redirect_uri: str
    client: TokenClient


@dataclass(frozen=True, slots=True)
class DescribedIssuer:
    """The authorization server of an HTTP API, as its configuration or its document describes it.

    `issuer` and the endpoints are those of the configuration, "" where it has none. `metadata_url`,
    `document_authorization_url` and `document_token_url` are those of the document. `scope` are the scopes that the
    operations require, separated by spaces. `resource` is sent if it is not empty (RFC 8707).
    """

    issuer: str = ""
    authorization_url: str = ""
    token_url: str = ""
    metadata_url: str = ""
    document_authorization_url: str = ""
    document_token_url: str = ""
    scope: str = ""
    resource: str = ""

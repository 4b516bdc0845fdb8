"""Clients of the authorization server: their metadata, and the two ways in which a client makes itself known.

A client that registers (RFC 7591) gets an id that holds its own metadata, signed with the key of the hub. So a flood of
registrations stores nothing. The id ends after a year; sign-ins that were made with it go on.
A client with a metadata document has the URL of the document as its id; the hub stores the document when a person
approves the client, so that later requests of the client fetch nothing.
Sources: RFC 7591, section 2; draft-ietf-oauth-client-id-metadata-document.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from hashlib import sha256
from typing import Any
from urllib.parse import urlsplit

from itsdangerous import BadData, URLSafeSerializer
from pydantic import BaseModel, ConfigDict

from patchbay.access.oauth.redirect_uris import MAX_REDIRECT_URIS, BadRedirectUri, check_redirect_uri
from patchbay.coordination.records import Records
from patchbay.errors import InvalidParams
from patchbay.store import Journal
from patchbay.topics import APPROVED_CLIENTS

REGISTRATION_SECONDS = 365 * 24 * 3600
"""Seconds in which new sign-ins may use a registration."""

APPROVED_SECONDS = 400 * 24 * 3600
"""Seconds that the document of an approved client is stored; each approval begins them again."""

MAX_CLIENT_ID_CHARACTERS = 4096
MAX_NAME_CHARACTERS = 100
MAX_URI_CHARACTERS = 500

AUTH_METHODS = ("none", "client_secret_post", "client_secret_basic")
"""How clients that register may authenticate at the token endpoint."""

PRIVATE_KEY_JWT = "private_key_jwt"
DOCUMENT_AUTH_METHODS = ("none", PRIVATE_KEY_JWT)
"""The same for clients with a metadata document, which cannot hold a secret."""

GRANT_TYPES = ("authorization_code", "refresh_token")

_REGISTERED = "registered."


class BadClientMetadata(InvalidParams):
    """The metadata of a client are not accepted. `error` is the code of RFC 7591, section 3.2.2."""

    def __init__(self, message: str, error: str = "invalid_client_metadata") -> None:
        super().__init__(message)
        self.error = error


class Client(BaseModel):
    """A client. `has_document` says that `id` is the URL of its metadata document. `issued` is Unix time.

    A client that signs (`private_key_jwt`) has a JWK set as JSON in `public_keys`, or its URL in `keys_url`.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    redirect_uris: tuple[str, ...]
    auth_method: str = "none"
    uri: str = ""
    issued: int = 0
    public_keys: str = ""
    keys_url: str = ""

    @property
    def has_document(self) -> bool:
        return self.id.startswith("https://")

    @property
    def label(self) -> str:
        """A short name of this client that another client cannot have: the `agent` of principals."""
        return self.id if self.has_document else f"registered:{sha256(self.id.encode()).hexdigest()[:16]}"

    @property
    def host(self) -> str:
        """The host of the metadata document; empty without one. It is the only part that is proven."""
        return urlsplit(self.id).netloc if self.has_document else ""

    def is_expired(self, now: float) -> bool:
        """Whether new sign-ins may no longer use this registration at a time."""
        return not self.has_document and self.issued + REGISTRATION_SECONDS < now


class Clients:
    """The clients that the hub knows without fetching anything; `key` is the hub's secret key."""

    def __init__(self, journal: Journal, key: bytes) -> None:
        self._key = key
        self._journal = journal
        self._approved = Records(journal, Client)
        self._signer = URLSafeSerializer(
            key, salt="oauth-client", signer_kwargs={"digest_method": sha256, "key_derivation": "hmac"}
        )

    def register(self, metadata: Mapping[str, Any]) -> tuple[Client, str]:
        """Make a client of its metadata; return it with its secret (empty: public). Raises BadClientMetadata."""
        known = parse_metadata("", metadata)
        issued = int(self._journal.now())
        body = [known.name, known.redirect_uris, AUTH_METHODS.index(known.auth_method), known.uri, issued]
        id = _REGISTERED + str(self._signer.dumps([*body, secrets.token_urlsafe(9)]))
        if len(id) > MAX_CLIENT_ID_CHARACTERS:
            raise BadClientMetadata("the metadata are too long: register fewer or shorter redirect URIs")
        client = known.model_copy(update={"id": id, "issued": issued})
        return client, "" if known.auth_method == "none" else self._secret(id)

    def find(self, id: str) -> Client | None:
        """Return a registered client, or a client with a document that a person has approved."""
        if len(id) > MAX_CLIENT_ID_CHARACTERS:
            return None
        if id.startswith("https://"):
            return self._approved.load(_topic(id))[0]
        if not id.startswith(_REGISTERED):
            return None
        try:
            name, uris, method, uri, issued, _ = self._signer.loads(id.removeprefix(_REGISTERED))
        except (BadData, ValueError, TypeError):
            return None
        return Client(
            id=id, name=name, redirect_uris=tuple(uris), auth_method=AUTH_METHODS[method], uri=uri, issued=issued
        )

    def approve(self, client: Client) -> None:
        """Store the document of a client that a person approved."""
        if client.has_document:
            self._approved.update(_topic(client.id), lambda _: client, APPROVED_SECONDS)

    def has_secret(self, client: Client, secret: str) -> bool:
        """Whether this is the secret of a confidential client."""
        return client.auth_method != "none" and hmac.compare_digest(
            self._secret(client.id).encode(), secret.encode("utf-8", "surrogatepass")
        )

    def _secret(self, id: str) -> str:
        return hmac.new(self._key, b"the secret of the client " + id.encode(), sha256).hexdigest()


def parse_metadata(id: str, metadata: Mapping[str, Any]) -> Client:
    """Return the client with these metadata (RFC 7591, section 2). Unknown fields are ignored.

    Raises BadClientMetadata with the name of the field and the expected value.
    """
    uris = metadata.get("redirect_uris")
    if not isinstance(uris, list) or not 0 < len(uris) <= MAX_REDIRECT_URIS:
        raise BadClientMetadata(
            f"redirect_uris: expected an array of 1 to {MAX_REDIRECT_URIS} URIs", "invalid_redirect_uri"
        )
    for uri in uris:
        try:
            check_redirect_uri(uri)
        except BadRedirectUri as problem:
            raise BadClientMetadata(f"redirect_uris: {problem}; got {uri!r:.100}", "invalid_redirect_uri") from problem
    method = metadata.get("token_endpoint_auth_method", "none")
    if method not in AUTH_METHODS:
        raise BadClientMetadata(f"token_endpoint_auth_method: expected one of {', '.join(AUTH_METHODS)}")
    for field, known in (("grant_types", GRANT_TYPES), ("response_types", ("code",))):
        asked = metadata.get(field, [known[0]])
        if not isinstance(asked, list) or known[0] not in asked:
            raise BadClientMetadata(f"{field}: expected an array with {known[0]!r}")
    name = metadata.get("client_name", "")
    if not isinstance(name, str):
        raise BadClientMetadata("client_name: expected a string")
    uri = metadata.get("client_uri", "")
    if not isinstance(uri, str) or len(uri) > MAX_URI_CHARACTERS or not uri.startswith("https://"):
        uri = ""
    return Client(id=id, name=_clean(name), redirect_uris=tuple(uris), auth_method=method, uri=uri)


def _clean(name: str) -> str:
    """The name without characters that do not show or that change the direction of text, on one line."""
    shown = "".join(each if each.isprintable() else " " for each in name)
    return " ".join(shown.split())[:MAX_NAME_CHARACTERS] or "A client without a name"


def _topic(id: str) -> str:
    return APPROVED_CLIENTS + sha256(id.encode("utf-8", "surrogatepass")).hexdigest()

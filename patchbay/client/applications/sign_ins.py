"""The OAuth client that an application has configured for a server, as the sign-in of each caller of a mount.

    Cursor               auth: CLIENT_ID, CLIENT_SECRET, scopes
    Claude Code          oauth: clientId, scopes, authServerMetadataUrl, callbackPort
    Gemini CLI           oauth: enabled, clientId, clientSecret, scopes, issuer, authorizationUrl, tokenUrl, redirectUri
    VS Code, opencode    oauth: clientId, clientSecret, scope; `false` for none. opencode 2 writes client_id
    Kiro, Copilot CLI    oauth: clientId, redirectUri; oauthScopes; oauthClientId, oauthPublicClient
    Cline                oauth: the state of its own sign-in

The hub sends the id and the secret of a client only to an authorization server that is named (RFC 9700 section 4.4), so
that an entry that does not name one is refused with the command that does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from patchbay.client.applications.members import list_unused
from patchbay.client.applications.references import Inexpressible, References

MEMBERS = (
    *("oauth", "auth", "oauthClientId", "oauthPublicClient", "oauthScopes", "oauthGrantType", "scopes"),
    "authProviderType",
)
"""The members of an entry that are read here."""

_IDS = ("clientId", "client_id", "CLIENT_ID")
_SECRETS = ("clientSecret", "client_secret", "CLIENT_SECRET")
_SCOPES = ("scopes", "scope", "SCOPES")
_METADATA = "authServerMetadataUrl"
_TAKEN = (*_IDS, *_SECRETS, *_SCOPES, _METADATA, "issuer", "enabled")

_OWN_REDIRECT = "the hub has its own redirect URI, which its page /upstreams/NAME shows: add it to the OAuth client"
_FOUND = "the hub finds the endpoints of the authorization server itself"
_STATE = "it belongs to a sign-in of the client; callers of the hub sign in themselves"
_REASONS = {
    **dict.fromkeys(("callbackPort", "callback_port", "redirectUri", "redirect_uri", "redirectUrl"), _OWN_REDIRECT),
    **dict.fromkeys(("authorizationUrl", "tokenUrl", "registrationUrl"), _FOUND),
    **dict.fromkeys(("clientInformation", "tokens", "codeVerifier", "discoveryState", "lastError"), _STATE),
    "lastAuthenticatedAt": _STATE,
}
_WELL_KNOWN = re.compile(r"(https://[^/]+)/\.well-known/(?:oauth-authorization-server|openid-configuration)(/.*)?")
_WELL_KNOWN_LAST = re.compile(r"(https://.+)/\.well-known/openid-configuration")


@dataclass(frozen=True, slots=True)
class SignIn:
    """The sign-in of each caller at a server: the OAuth client and its authorization server, empty without them."""

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    issuer: str = ""
    notes: tuple[tuple[str, str], ...] = ()


def read_sign_in(value: Mapping[str, Any], references: References) -> SignIn | None:
    """Return the sign-in of an entry with a URL; None for an entry without one.

    Raises Inexpressible for a sign-in that the hub cannot follow.
    """
    key = next((one for one in ("oauth", "auth") if value.get(one)), "")
    given = value.get(key) or {}
    if not isinstance(given, Mapping):
        raise Inexpressible(f"{key}: only the client can sign in this way: write a header Authorization")
    if given.get("enabled") is False:
        return None
    client_id = _first(given, _IDS) or value.get("oauthClientId") or ""
    secret = _first(given, _SECRETS) or ""
    scope = _scope(_first(given, _SCOPES) or value.get("oauthScopes") or value.get("scopes"), key)
    if not (given or client_id or scope):
        return None
    if not all(isinstance(one, str) for one in (client_id, secret)):
        raise Inexpressible(f"{key}: expected the id and the secret of the OAuth client as strings")
    where = f"{key or 'oauthClientId'}: "
    found = SignIn(
        references.translate(client_id, f"{where}the client id"),
        references.translate(secret, f"{where}the client secret"),
        scope,
        _issuer(given, key),
        tuple(_notes(given, key)),
    )
    if secret and not client_id:
        raise Inexpressible(f"{key}: expected the id of the OAuth client beside its secret")
    if client_id and not found.issuer:
        raise Inexpressible(
            f"it signs in as the OAuth client {client_id[:80]}, and the file does not name the authorization server:"
            " mount it by `patchbay mount NAME 'mcp+URL?launch.issuer=ISSUER' --account caller`, and write the client"
            " into the field oauth of NAME.json"
        )
    return found


def _first(given: Mapping[str, Any], names: Sequence[str]) -> Any:
    return next((given[name] for name in names if given.get(name)), None)


def _scope(given: Any, key: str) -> str:
    if given is None or isinstance(given, str):
        return given or ""
    if isinstance(given, list) and all(isinstance(one, str) for one in given):
        return " ".join(given)
    raise Inexpressible(f"{key or 'scopes'}: expected the scopes as strings")


def _issuer(given: Mapping[str, Any], key: str) -> str:
    """Return the issuer that is named, or that published the metadata document (RFC 8414 section 3)."""
    issuer, document = given.get("issuer"), given.get(_METADATA)
    if isinstance(issuer, str) and issuer:
        return issuer
    if not document:
        return ""
    found = _WELL_KNOWN.fullmatch(document) if isinstance(document, str) else None
    if found:
        return found[1] + (found[2] or "")
    last = _WELL_KNOWN_LAST.fullmatch(document) if isinstance(document, str) else None
    if last:
        return last[1]
    raise Inexpressible(
        f"{key}.{_METADATA}: expected a URL with /.well-known/oauth-authorization-server, which says who the issuer is"
    )


def _notes(given: Mapping[str, Any], key: str) -> Iterator[tuple[str, str]]:
    yield from ((f"{key}.{name}", reason) for name, reason in list_unused(given, _TAKEN, _REASONS))

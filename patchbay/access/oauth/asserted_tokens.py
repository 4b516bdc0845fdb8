"""Access tokens for the persons of identity assertions.

A token is a signed text that names the person, the client, one resource and the end: nothing is stored. There is no
refresh token, because the client gets a new assertion, and the identity provider decides anew. A token ends with its
time, with the key of its client, and when the operator no longer trusts its issuer.
Sources: draft-ietf-oauth-identity-assertion-authz-grant, section 4.4; RFC 8707 (audience).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from hashlib import sha256

from itsdangerous import BadData, URLSafeSerializer

from patchbay.access.credentials.names import name_token
from patchbay.access.keys import Key, PersonalKeys
from patchbay.access.oauth.programs import EndedToken, RefusedScope, SignedToken, narrow_scopes, read_asked_scopes
from patchbay.access.principals import Principal
from patchbay.access.tokens.token_cache import TokenCache, digest_token

MAX_TOKEN_CHARACTERS = 8192


class TooManyGroups(ValueError):
    """The token of a person would not fit into a header, because of its groups."""


class AssertedTokens:
    """The tokens of one hub; `secret` is the hub's key, `seconds` how long a token is valid.

    `issuers` are the URLs of the issuers that are trusted now. `remember` gets each principal that a token proves.
    """

    prefix = "patchbay_person_"
    """The first characters of a token."""

    def __init__(
        self,
        keys: PersonalKeys,
        secret: bytes,
        seconds: float,
        issuers: Collection[str],
        remember: Callable[[Principal], None],
    ) -> None:
        self._keys = keys
        self._seconds = int(seconds)
        self._issuers = frozenset(issuers)
        self._remember = remember
        self._signer = URLSafeSerializer(
            secret, salt="asserted-token", signer_kwargs={"digest_method": sha256, "key_derivation": "hmac"}
        )
        self._verified: TokenCache[tuple[Principal, str, tuple[str, str]]] = TokenCache()

    def issue(
        self, person: Principal, scopes: frozenset[str] | None, resource: str, agent: str, key: Key | None
    ) -> SignedToken:
        """Return a new token for a person. `agent` is the client, `key` its key; None for a registered client.

        Raises TooManyGroups.
        """
        listed = None if scopes is None else sorted(scopes)
        who = [person.issuer, person.subject, person.name, person.email, sorted(person.groups)]
        client = [agent, "", ""] if key is None else [agent, key.name, key.digest]
        text = str(self._signer.dumps([who, client, listed, resource, int(self._keys.now()) + self._seconds]))
        if len(self.prefix + text) > MAX_TOKEN_CHARACTERS:
            raise TooManyGroups("the assertion names too many groups: let the identity provider send fewer")
        if key is not None:
            self._keys.note_use(key.name)
        return SignedToken(self.prefix + text, scopes, self._seconds)

    def verify(self, token: str) -> tuple[Principal, str] | None:
        """Return the person and the resource of a token; None for one that this hub did not sign.

        Raises EndedToken.
        """
        if len(token) > MAX_TOKEN_CHARACTERS:
            return None
        digest, now = digest_token(token), self._keys.now()
        known = self._verified.get(digest, now) or self._read(token, digest, now)
        if known is None:
            return None
        principal, resource, (name, key_digest) = known
        if name and self._keys.find_named(name, key_digest) is None:
            raise EndedToken
        self._remember(principal)
        return principal, resource

    def _read(self, token: str, digest: bytes, now: float) -> tuple[Principal, str, tuple[str, str]] | None:
        try:
            who, client, scopes, resource, expires = self._signer.loads(token.removeprefix(self.prefix))
            issuer, subject, name, email, groups = who
            agent, key_name, key_digest = client
        except (BadData, ValueError, TypeError):
            return None
        if now >= expires or issuer not in self._issuers:
            raise EndedToken
        principal = Principal(
            subject,
            issuer=issuer,
            name=name,
            groups=frozenset(groups),
            agent=agent,
            scopes=None if scopes is None else frozenset(scopes),
            credential=name_token(float(expires), key_digest),
            email=email,
        )
        found = principal, resource, (key_name, key_digest)
        self._verified.put(digest, found, expires)
        return found


def choose_scopes(held: frozenset[str] | None, given: frozenset[str] | None, named: str) -> frozenset[str] | None:
    """Return what is in all three: what the client has, what the assertion gives (None: all), and what is asked for.

    `named` is the parameter `scope` of the request, empty for all. Raises RefusedScope when nothing is in all.
    """
    if given is not None and not given:
        raise RefusedScope("the assertion gives no scope of this hub: expected see, call or read in its claim scope")
    return narrow_scopes(narrow_scopes(held, given or frozenset()), read_asked_scopes(named))

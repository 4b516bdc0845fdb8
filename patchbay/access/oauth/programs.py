"""Programs as clients of the authorization server: they get access tokens for themselves, without a person.

The client is a personal key (`access/keys.py`): its name is the client id, and the client secret is the key itself, or
the program signs with its own key, of which the operator registered the public half. A token is a signed text that
names the key, one resource and the end: nothing is stored, and it ends with the key. Its principal is `key:NAME`.
Sources: RFC 6749, section 4.4 (client credentials); RFC 7523, section 3 (signed assertions); RFC 8707 (audience).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from itsdangerous import BadData, URLSafeSerializer

from patchbay.access.keys import Key, PersonalKeys, is_key
from patchbay.access.oauth.scopes import names_scope
from patchbay.access.principals import Principal
from patchbay.errors import StaleUpdate
from patchbay.store import Journal
from patchbay.topics import CLIENT_ASSERTIONS

MAX_TOKEN_CHARACTERS = 8192

MAX_ASSERTION_SECONDS = 3600
"""Seconds from now on in which an assertion of a program may end: so long its id is kept."""


class EndedToken(ValueError):
    """A token that this hub signed, and that is not valid any more: its time, its key or its issuer has ended."""


class RefusedScope(ValueError):
    """A program asked for a scope that its key does not have."""


@dataclass(frozen=True, slots=True)
class SignedToken:
    """An access token that is a signed text. `scopes` narrow it; None does not. It is valid for `seconds`."""

    text: str
    scopes: frozenset[str] | None
    seconds: int


class Programs:
    """The programs of one hub; `secret` is the hub's key, `seconds` how long a token is valid."""

    prefix = "patchbay_program_"
    """The first characters of a token of a program."""

    def __init__(self, keys: PersonalKeys, journal: Journal, secret: bytes, seconds: float) -> None:
        self._keys = keys
        self._journal = journal
        self._seconds = int(seconds)
        self._signer = URLSafeSerializer(
            secret, salt="program-token", signer_kwargs={"digest_method": sha256, "key_derivation": "hmac"}
        )

    def find(self, client_id: str) -> Key | None:
        """Return the key of a program by its client id; None for an unknown one."""
        return self._keys.find_named(client_id)

    def has_secret(self, key: Key, secret: str) -> bool:
        """Whether this is the secret of a program; a program with a public key has none."""
        return not key.public_keys and is_key(key, secret)

    def issue(self, key: Key, resource: str, scope: str) -> SignedToken:
        """Return a new token for a resource. `scope` is what the program asks for, empty for all that its key has.

        Raises RefusedScope.
        """
        scopes = narrow_scopes(key.scopes, read_asked_scopes(scope))
        self._keys.note_use(key.name)
        listed = None if scopes is None else sorted(scopes)
        body = [key.name, key.digest, resource, listed, int(self._keys.now()) + self._seconds]
        return SignedToken(self.prefix + str(self._signer.dumps(body)), scopes, self._seconds)

    def verify(self, token: str) -> tuple[Principal, str] | None:
        """Return the principal and the resource of a token; None for one that this hub did not sign.

        Raises EndedToken.
        """
        if len(token) > MAX_TOKEN_CHARACTERS:
            return None
        try:
            name, digest, resource, scopes, expires = self._signer.loads(token.removeprefix(self.prefix))
        except (BadData, ValueError, TypeError):
            return None
        key = self._keys.find_named(name, digest) if self._keys.now() < expires else None
        if key is None:
            raise EndedToken
        self._keys.note_use(name)
        return replace(key.principal, scopes=None if scopes is None else frozenset(scopes)), resource

    def use_assertion(self, issuer: str, id: str) -> bool:
        """Note the use of an assertion, in one transaction for all workers; return False for a second use.

        `issuer` signed it: a program, by its client id, or an identity provider, by its URL.
        """
        name = sha256(f"{issuer}\n{id}".encode("utf-8", "surrogatepass")).hexdigest()
        topic = CLIENT_ASSERTIONS + name
        try:
            self._journal.append_all([(topic, b"used", 2.0 * MAX_ASSERTION_SECONDS)], {topic: 0})
        except StaleUpdate:
            return False
        return True


def read_asked_scopes(scope: str) -> frozenset[str]:
    """Return the scopes of this hub in the parameter `scope` of a request; empty for a request that names no scope.

    Raises RefusedScope when it names others only.
    """
    asked = frozenset(filter(names_scope, scope.split()))
    if scope.split() and not asked:
        raise RefusedScope("expected scopes of this hub, such as see, call and read; none of these is one")
    return asked


def narrow_scopes(held: frozenset[str] | None, asked: frozenset[str]) -> frozenset[str] | None:
    """Return what is in both: the scopes of a key (None: all), and those that a program asks for (empty: all).

    `call` includes `call:notes.*`. Raises RefusedScope when nothing is in both.
    """
    if not asked:
        return held
    if held is None:
        return asked
    both = frozenset(one for one in held if one in asked or _action(one) in asked)
    both |= frozenset(one for one in asked if one in held or _action(one) in held)
    if not both:
        raise RefusedScope(f"the key has the scopes {' '.join(sorted(held))}, and none of those that are asked for")
    return both


def _action(scope: str) -> str:
    return scope.partition(":")[0]

"""Access and refresh tokens of the hub's authorization server.

A token is opaque: a random family and a random secret, of which the hub stores the hash. The hub itself is the only
resource server, so that it looks a token up where a JWT would need a key and a list of revoked tokens; a token that is
ended is ended for the next request. All tokens of one sign-in of a client are a family. A refresh gives a new refresh
token; a second use of an old one ends the family, because one of the two users stole it.
The account of the person lists its families. A family that is not in the list has ended.
Sources: RFC 6749, sections 5 and 6; RFC 9700, section 4.14 (refresh tokens); RFC 8707 (audience); RFC 7009.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass
from hashlib import sha256

from pydantic import BaseModel, ConfigDict

from patchbay.access.oauth.codes import AuthorizationCode, Codes, code_topic
from patchbay.access.people.people import MAX_CLIENTS, People, Person, SignedInClient, notes_of_ends
from patchbay.access.principals import Principal
from patchbay.coordination.records import Records, Write, write_records
from patchbay.errors import StaleUpdate
from patchbay.store import Journal
from patchbay.topics import PEOPLE, TOKEN_FAMILIES

REFRESH_SECONDS = 30 * 24 * 3600.0
"""Seconds that a refresh token is valid; each use begins them again."""

UNSEEN_SECONDS = 7 * 24 * 3600.0
"""Seconds after the last sign-in or refresh of a person at its identity provider, at which its clients end."""

MAX_ACCESS_TOKENS = 10
"""Access tokens of one family that are valid at once."""

CHECK_SECONDS = 0.5
"""Seconds after which a worker looks a token up again. An ended token is refused everywhere after this time."""

MAX_CHECKED = 4096
MAX_TOKEN_CHARACTERS = 256

ACCESS_PREFIX, REFRESH_PREFIX = "patchbay_access_", "patchbay_refresh_"
"""The first characters of tokens. They identify a leaked token as one of Patchbay."""


class InvalidGrant(ValueError):
    """The code or the token is unknown, used, expired or ended."""


class AccessToken(BaseModel):
    """One access token of a family."""

    model_config = ConfigDict(frozen=True)

    hash: str
    until: float
    scopes: tuple[str, ...]


class TokenFamily(BaseModel):
    """The tokens of one sign-in of a client. `refresh` is the hash of the present refresh token."""

    model_config = ConfigDict(frozen=True)

    id: str
    person: str
    account: str
    client: str
    label: str
    resource: str
    scopes: tuple[str, ...]
    refresh: str
    until: float
    access: tuple[AccessToken, ...]


class IssuedTokens(BaseModel):
    """New tokens for a client. `seconds` is the lifetime of the access token."""

    access: str
    refresh: str
    seconds: int
    scopes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerifiedAccess:
    """A valid access token, its family, and the person that it acts for."""

    family: TokenFamily
    token: AccessToken
    principal: Principal


class Tokens:
    """The tokens of one hub; `seconds` is the lifetime of access tokens. Safe for many threads and processes."""

    def __init__(self, journal: Journal, people: People, codes: Codes, seconds: float) -> None:
        self._journal = journal
        self._people = people
        self._codes = codes
        self._seconds = seconds
        self._families = Records(journal, TokenFamily)
        self._accounts = Records(journal, Person)
        self._checked: OrderedDict[str, tuple[float, VerifiedAccess]] = OrderedDict()
        self._lock = threading.Lock()

    def redeem(self, code: str) -> IssuedTokens:
        """Exchange an authorization code for the first tokens of a family. Check client and PKCE first.

        Raises InvalidGrant; for a code that was used before, after ending the tokens of its first use.
        """
        key = secrets.token_urlsafe(16)
        while True:
            known, code_seq = self._codes.records.load(code_topic(code))
            if known is not None and known.family:
                self.end(known.person, known.family)
                raise InvalidGrant("the code was used before, so that the tokens of its first use have ended")
            if known is None or known.until < self._journal.now():
                raise InvalidGrant("the code is unknown or too old")
            person, person_seq = self._accounts.load(PEOPLE + known.person)
            if person is None or (person.id, person.generation) != (known.account, known.generation):
                raise InvalidGrant("the account has changed since")
            family, issued = self._start_family(key, known)
            writes = [
                Write(code_topic(code), known.model_copy(update={"family": family.id}), 24 * 3600.0),
                Write(TOKEN_FAMILIES + family.id, family, REFRESH_SECONDS),
            ]
            changed = _with_client(person, known, family.id, self._journal.now())
            writes += [Write(PEOPLE + person.name, changed), *notes_of_ends(person, changed)]
            last = {code_topic(code): code_seq, TOKEN_FAMILIES + family.id: 0, PEOPLE + person.name: person_seq}
            try:
                write_records(self._journal, writes, last)
            except StaleUpdate:
                continue
            return issued

    def find_refresh_token(self, token: str) -> TokenFamily | None:
        """Return the family of a refresh token, which may be an old one; None for an ended family."""
        found = self._alive(_split(token, REFRESH_PREFIX)[0])
        return None if found is None else found[0]

    def refresh(self, token: str, scopes: tuple[str, ...] = ()) -> IssuedTokens:
        """Exchange a refresh token for new tokens with all scopes of the family, or fewer. Check the client first.

        Raises InvalidGrant; for an old refresh token, after ending the family.
        """
        key, secret = _split(token, REFRESH_PREFIX)
        while True:
            topic = TOKEN_FAMILIES + _digest(key)
            family, seq = self._families.load(topic)
            if family is None or self._alive(key) is None:
                raise InvalidGrant("the refresh token is unknown, too old or ended: sign in again")
            if not hmac.compare_digest(family.refresh, _digest(secret)):
                self.end(family.person, family.id)
                raise InvalidGrant("the refresh token was used before, so that this sign-in has ended: sign in again")
            allowed = tuple(name for name in family.scopes if name in scopes) or family.scopes
            new, issued = self._next(key, family, allowed)
            try:
                write_records(self._journal, [Write(topic, new, REFRESH_SECONDS)], {topic: seq})
            except StaleUpdate:
                continue
            return issued

    def verify(self, token: str) -> VerifiedAccess | None:
        """Return what a valid access token stands for. The answer may be CHECK_SECONDS old."""
        if len(token) > MAX_TOKEN_CHARACTERS:
            return None
        now = time.monotonic()
        with self._lock:
            known = self._checked.get(token)
        if known is None or now - known[0] > CHECK_SECONDS:
            known = self._look_up(token, now)
        if known is None or known[1].token.until < self._journal.now():
            return None
        return known[1]

    def end(self, person: str, family: str) -> bool:
        """End the tokens of a family; False if it had ended before."""

        def drop(account: Person) -> Person | None:
            rest = tuple(each for each in account.clients if each.family != family)
            return account.model_copy(update={"clients": rest}) if len(rest) < len(account.clients) else None

        ended = self._people.find(person) is not None and self._people.change(person, drop)
        with self._lock:
            self._checked.clear()
        return ended

    def find(self, token: str) -> TokenFamily | None:
        """Return the family of an access or refresh token, for its revocation."""
        if token.startswith(REFRESH_PREFIX):
            return self.find_refresh_token(token)
        found = self.verify(token)
        return None if found is None else found.family

    def _look_up(self, token: str, now: float) -> tuple[float, VerifiedAccess] | None:
        key, secret = _split(token, ACCESS_PREFIX)
        alive, digest = self._alive(key), _digest(secret)
        for access in () if alive is None else alive[0].access:
            if hmac.compare_digest(access.hash, digest) and alive is not None:
                with self._lock:
                    self._checked[token] = found = (now, VerifiedAccess(alive[0], access, alive[1].principal))
                    while len(self._checked) > MAX_CHECKED:
                        self._checked.popitem(last=False)
                return found
        with self._lock:
            self._checked.pop(token, None)
        return None

    def _alive(self, key: str) -> tuple[TokenFamily, Person] | None:
        """The family of a key and its person, whose account still lists it.

        Clients of a person whose identity provider has said nothing for UNSEEN_SECONDS have ended.
        """
        if not key:
            return None
        family = self._families.load(TOKEN_FAMILIES + _digest(key))[0]
        if family is None or family.until < self._journal.now():
            return None
        person = self._people.find(family.person)
        if person is None or person.id != family.account:
            return None
        if person.outside is not None and self._journal.now() - person.outside.seen > UNSEEN_SECONDS:
            return None
        return (family, person) if any(each.family == family.id for each in person.clients) else None

    def _start_family(self, key: str, code: AuthorizationCode) -> tuple[TokenFamily, IssuedTokens]:
        family = TokenFamily(
            id=_digest(key),
            person=code.person,
            account=code.account,
            client=code.client.id,
            label=code.client.label,
            resource=code.resource,
            scopes=code.scopes,
            refresh="",
            until=0,
            access=(),
        )
        return self._next(key, family, code.scopes)

    def _next(self, key: str, family: TokenFamily, scopes: tuple[str, ...]) -> tuple[TokenFamily, IssuedTokens]:
        access, refresh, now = secrets.token_urlsafe(32), secrets.token_urlsafe(32), self._journal.now()
        token = AccessToken(hash=_digest(access), until=now + self._seconds, scopes=scopes)
        valid = [each for each in family.access if each.until > now]
        changed = {
            "refresh": _digest(refresh),
            "until": now + REFRESH_SECONDS,
            "access": (*valid[1 - MAX_ACCESS_TOKENS :], token),
        }
        issued = IssuedTokens(
            access=f"{ACCESS_PREFIX}{key}.{access}",
            refresh=f"{REFRESH_PREFIX}{key}.{refresh}",
            seconds=max(1, int(self._seconds)),
            scopes=scopes,
        )
        return family.model_copy(update=changed), issued


def _with_client(person: Person, code: AuthorizationCode, family: str, at: float) -> Person:
    client = SignedInClient(
        family=family,
        name=code.client.name,
        client=code.client.label,
        resource=code.resource,
        scopes=code.scopes,
        at=at,
    )
    return person.model_copy(update={"clients": (*person.clients[1 - MAX_CLIENTS :], client)})


def _split(token: str, prefix: str) -> tuple[str, str]:
    """The family and the secret of a token; empty texts for another kind of text."""
    if not token.startswith(prefix) or len(token) > MAX_TOKEN_CHARACTERS:
        return "", ""
    key, _, secret = token.removeprefix(prefix).partition(".")
    return (key, secret) if key and secret else ("", "")


def _digest(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()

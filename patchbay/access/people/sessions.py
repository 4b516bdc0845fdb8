"""Sessions of people in browsers: a cookie with a random secret, of which the account holds the hash.

A sign-in always makes a new session, so that a cookie from elsewhere is never signed in (session fixation). A request
that another site causes does not count as one of the session.
Sources: RFC 6265bis (`__Host-`, `SameSite`); https://www.w3.org/TR/fetch-metadata/.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256

from patchbay.access.authentication import Credentials
from patchbay.access.credentials.names import name_session
from patchbay.access.people.people import MAX_SESSIONS, People, Person, Session
from patchbay.access.principals import Principal
from patchbay.access.session_cookies import find_session_cookie

SESSION_SECONDS = 30 * 24 * 3600
"""Seconds that a session lasts."""

UNCONFIRMED_SECONDS = 12 * 3600
"""The same for a sign-in with an identity provider that gives no refresh token: it says nothing about it afterwards."""

MAX_COOKIE_CHARACTERS = 256
MAX_BROWSER_CHARACTERS = 200


@dataclass(frozen=True, slots=True)
class ProvedOutside:
    """What an identity provider said about a sign-in: its session there (`sid`), and when the person proved itself.

    `id` is the id that the session gets here. `is_renewable` says that the provider can be asked about it later.
    """

    id: str
    sid: str
    proved: float
    is_renewable: bool


class PersonSessions:
    """The sessions of one hub; `port` and `prefix`, its path, decide the name of the cookie.

    `confirm` returns the account of a session as it is now, after asking the identity provider of the person if it is
    time to; None for a session that the provider ended.
    """

    confirm: Callable[[Person, Session], Person | None] = staticmethod(lambda person, session: person)

    def __init__(self, people: People, port: int, prefix: str = "") -> None:
        self._people = people
        self._port = port
        self._prefix = prefix

    def begin(self, name: str, browser: str, outside: ProvedOutside | None = None) -> str:
        """Begin a session and return the value of its cookie. Raises UnknownPerson."""
        secret, now = secrets.token_urlsafe(32), self._people.now()
        lasts = SESSION_SECONDS if outside is None or outside.is_renewable else UNCONFIRMED_SECONDS
        session = Session(
            id=secrets.token_hex(8) if outside is None else outside.id,
            hash=_hash(secret),
            browser=browser[:MAX_BROWSER_CHARACTERS],
            at=now,
            until=now + lasts,
            sid="" if outside is None else outside.sid,
            proved=0.0 if outside is None else outside.proved,
            checked=now,
        )

        def add(person: Person) -> Person:
            alive = [each for each in person.sessions if each.until > now]
            return person.model_copy(update={"sessions": (*alive[1 - MAX_SESSIONS :], session)})

        self._people.change(name, add)
        return f"{name}.{secret}"

    def find(self, cookies: Mapping[str, str]) -> tuple[Person, Session] | None:
        """Return the person and the session of a request by its cookies; None without a valid one."""
        value = find_session_cookie(cookies, self._port, self._prefix)
        name, _, secret = value.rpartition(".")
        if not name or len(value) > MAX_COOKIE_CHARACTERS or (person := self._people.find(name)) is None:
            return None
        known, now = _hash(secret), self._people.now()
        for session in person.sessions:
            if hmac.compare_digest(session.hash, known) and session.until > now:
                return person, session
        return None

    def end(self, name: str, id: str) -> bool:
        """End one session of a person; return False for an unknown id. Raises UnknownPerson."""

        def drop(person: Person) -> Person | None:
            rest = tuple(each for each in person.sessions if each.id != id)
            return person.model_copy(update={"sessions": rest}) if len(rest) < len(person.sessions) else None

        return self._people.change(name, drop)


class SessionScheme:
    """Authentication with the session cookie of a person; implements `Scheme`.

    `remember` gets each person of an identity provider.
    """

    def __init__(self, sessions: PersonSessions, remember: Callable[[Principal], None] = lambda sender: None) -> None:
        self._sessions = sessions
        self._remember = remember

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the person of a session; None without a valid session, or when another site causes the request."""
        if credentials.token is not None or not credentials.cookies or not _is_own_request(credentials):
            return None
        found = self._sessions.find(credentials.cookies)
        if found is None:
            return None
        person, session = found
        if person.outside is not None:
            confirmed = self._sessions.confirm(person, session)
            if confirmed is None:
                return None
            person = confirmed
            self._remember(person.principal)
        return replace(person.principal, credential=name_session(person.id, session.id))


def _is_own_request(credentials: Credentials) -> bool:
    """Whether the hub's own pages or the person cause a request, and no other site."""
    headers = credentials.headers
    site = headers.get("sec-fetch-site")
    reads = credentials.method in ("GET", "HEAD")
    if site is not None:
        visits = reads and headers.get("sec-fetch-mode") == "navigate"
        return site in ("same-origin", "none") or visits
    origin = headers.get("origin")
    if origin is None:
        return reads
    return origin.lower() == "/".join(credentials.url.lower().split("/", 3)[:3])


def _hash(secret: str) -> str:
    return sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()

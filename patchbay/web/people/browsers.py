"""The browser of a person: the session of a request, its cookies, and the proof that a form is the hub's own.

Sources: RFC 6265bis (`__Host-`, `SameSite`); OWASP, "Slow Down Online Guessing Attacks with Device Cookies".
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping

from flask import Response, request
from itsdangerous import BadData

from patchbay.access.credentials.names import name_session
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import Person, Session
from patchbay.access.people.sessions import SESSION_SECONDS, ProvedOutside
from patchbay.access.providers.pending import SIGN_IN_SECONDS
from patchbay.access.session_cookies import cookie_name, cookie_path, session_cookie_name
from patchbay.access.timed_signatures import SHA256, timed_serializer
from patchbay.errors import Refused
from patchbay.serving.hub_url import public_url
from patchbay.settings import Settings
from patchbay.wire.requests.base_urls import find_base_url, find_client_origin
from patchbay.wire.requests.security import check_same_origin
from patchbay.wire.requests.wsgi import request_of

FORM_SECONDS = 12 * 3600
"""Seconds that the form of a page is valid."""

RECENT_SECONDS = 15 * 60
"""Seconds after a sign-in in which the person may change passwords and passkeys."""

PROVED_SECONDS = 3600
"""Seconds after a proof at an identity provider in which an administrator may act as the operator."""

KNOWN_BROWSER_SECONDS = 365 * 24 * 3600
"""Seconds for which the hub remembers that a person has signed in with a browser."""

CONFIRMED = "confirmed session"
"""The name under which a request keeps the id of the session that was confirmed for it."""


class SignedOut(Refused):
    """The page needs a person, and the browser is not signed in."""

    status = 401

    def __init__(self) -> None:
        super().__init__("sign in at /login first")


class Browsers:
    """The browsers of the people of one hub."""

    def __init__(self, accounts: Accounts, settings: Settings) -> None:
        self._accounts = accounts
        self._port = settings.port
        self._prefix = settings.path_prefix
        self._forms = timed_serializer(accounts.key, "person-form", accounts.people.now, SHA256)
        self._known = timed_serializer(accounts.key, "known-browser", accounts.people.now, SHA256)

    def find(self) -> tuple[Person, Session] | None:
        """Return the person and the session of the current request; None if it is not signed in.

        The identity provider of the person is asked once per request, here where `SessionScheme` did not: a request
        with `Authorization`, or from another site.
        """
        found, sent = self._accounts.sessions.find(request.cookies), request_of(request.environ)
        if found is None:
            return None
        person, session = found
        if sent.sender.credential == name_session(person.id, session.id) or sent.found.get(CONFIRMED) == session.id:
            return found
        confirmed = self._accounts.sessions.confirm(person, session)
        if confirmed is None:
            return None
        sent.found[CONFIRMED] = session.id
        return confirmed, session

    def find_name(self) -> str:
        """Return the name of the person of the current request; an empty text if it is not signed in."""
        found = self.find()
        return found[0].principal.name if found is not None else ""

    def require(self) -> tuple[Person, Session]:
        """Return the person and the session of the current request. Raises SignedOut (401)."""
        found = self.find()
        if found is None:
            raise SignedOut
        return found

    def check_form(self, form: Mapping[str, str]) -> tuple[Person, Session]:
        """Return the person who sent a form of the hub's own page. Raises Refused (403), SignedOut (401)."""
        check_same_origin(request.headers)
        if "Sec-Fetch-Site" not in request.headers and "Origin" not in request.headers:
            raise Refused("a form needs the header Sec-Fetch-Site or Origin, and this request has neither")
        person, session = self.require()
        try:
            owner = self._forms.loads(form.get("csrf", "")[:1024], max_age=FORM_SECONDS)
        except BadData as problem:
            raise Refused("this form is too old or comes from another hub: reload the page and try again") from problem
        if not hmac.compare_digest(str(owner).encode(), session.id.encode()):
            raise Refused("this form belongs to another session: reload the page and try again")
        return person, session

    def csrf(self, session: Session) -> str:
        """The value for the field `csrf` of a form in this session."""
        return str(self._forms.dumps(session.id))

    def is_recent(self, session: Session) -> bool:
        """Whether the person signed in a short time ago."""
        return self._accounts.people.now() - session.at < RECENT_SECONDS

    def has_proved(self, session: Session) -> bool:
        """Whether the identity provider of a person saw a proof in the last hour, as the acts of the operator need."""
        return self._accounts.people.now() - session.proved < PROVED_SECONDS

    def sign_in(self, response: Response, name: str, outside: ProvedOutside | None = None) -> None:
        """Begin a session of a person in this browser, and end the one that it had. Raises UnknownPerson.

        `outside` is what an identity provider said about the sign-in.
        """
        self._end()
        value = self._accounts.sessions.begin(name, request.headers.get("User-Agent", ""), outside)
        over_tls = is_over_tls()
        self._set(response, session_cookie_name(self._port, over_tls, self._prefix), value, SESSION_SECONDS, "Lax")
        known = self._known.dumps([name, secrets.token_hex(8)])
        self._set(response, self._known_cookie(), str(known), KNOWN_BROWSER_SECONDS, "Strict")

    def sign_out(self, response: Response) -> None:
        """End the session of this browser."""
        self._end()
        self._delete(response, session_cookie_name(self._port, is_over_tls(), self._prefix))

    def remember_sign_in(self, response: Response, value: str) -> None:
        """Add the cookie with which the answer of an identity provider comes back to this browser."""
        self._set(response, self._sign_in_cookie(), value, SIGN_IN_SECONDS, "Lax")

    def take_sign_in(self, response: Response) -> str:
        """Delete this cookie; return its value, empty without one."""
        name = self._sign_in_cookie()
        self._delete(response, name)
        return request.cookies.get(name, "")

    def known_browser(self, name: str) -> str:
        """Return the id of this browser if the person has signed in with it before, else an empty text."""
        try:
            owner, id = self._known.loads(
                request.cookies.get(self._known_cookie(), "")[:1024], max_age=KNOWN_BROWSER_SECONDS
            )
        except (BadData, ValueError, TypeError):
            return ""
        return str(id) if owner == name else ""

    def _end(self) -> None:
        found = self.find()
        if found is not None:
            self._accounts.sessions.end(found[0].name, found[1].id)

    def _known_cookie(self) -> str:
        return cookie_name("patchbay-known", self._port, is_over_tls(), self._prefix)

    def _sign_in_cookie(self) -> str:
        return cookie_name("patchbay-sign-in", self._port, is_over_tls(), self._prefix)

    def _delete(self, response: Response, name: str) -> None:
        response.delete_cookie(
            name, path=cookie_path(self._prefix), secure=is_over_tls(), httponly=True, samesite="Lax"
        )

    def _set(self, response: Response, name: str, value: str, seconds: int, samesite: str) -> None:
        response.set_cookie(
            name,
            value,
            max_age=seconds,
            path=cookie_path(self._prefix),
            secure=is_over_tls(),
            httponly=True,
            samesite=samesite,
        )


def is_over_tls() -> bool:
    """Whether the browser uses TLS, to the hub or to its proxy. A forged header does no harm."""
    return public_origin().startswith("https://")


def public_origin() -> str:
    """Scheme, host and port of the hub as the browser sees it: the origin of its pages. `Host` was checked before."""
    return find_client_origin(request_of(request.environ))


def public_base_url() -> str:
    """The URL of the hub as the browser sees it: its origin, and the path prefix of the hub."""
    return find_base_url(request_of(request.environ))


def hub_address(settings: Settings) -> str:
    """The URL of the hub that other sites are told: that of the settings, else the one that the browser sees."""
    return public_url(settings) if settings.public_url else public_base_url()

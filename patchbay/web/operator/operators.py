"""Who the operator is, and whether a request may change things: one place that everything asks.

Rules: the operator always proves it, on the hub's own machine too. A program sends the token as `Authorization:
Bearer`; a browser logs in at `/login`, with the token or with a link that works once, and gets a signed session cookie.
A change needs besides that no other site caused it, and a form of a page carries a signed value from that page. A token
is never shown in an answer or logged. The right token is never throttled; wrong ones are counted by address.
Sources: ACCESS section 1; THREATS 0.3 (no defaults), 1.4 (CSRF, DNS rebinding); RFC 6750; RFC 6265bis (`__Host-`).
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from flask import Response, request
from itsdangerous import BadData, URLSafeTimedSerializer
from werkzeug.wrappers import Request

from patchbay.access.hub_key import load_key
from patchbay.access.operator_token import OperatorToken
from patchbay.errors import ConfigError, ReadOnly, Refused
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import OPERATOR_SESSIONS
from patchbay.web.operator.login_links import SIGNER, LoginLinks
from patchbay.wire.security import check_same_origin

log = logging.getLogger(__name__)

SESSION_SECONDS = 30 * 24 * 3600
"""Seconds that a session of the operator lasts."""

FORM_SECONDS = 12 * 3600
"""Seconds that a form of a page can be sent."""

TRIES, WINDOW = 10, 60.0
"""Wrong tokens of one address in so many seconds that are answered with 401; more get 429."""

ADDRESSES = 1024
"""Addresses whose wrong tokens are remembered."""


SESSION, TOKEN = "session", "token"
"""How a request proves that the operator sent it: by the cookie of a session, or by the token."""

STANDING = "patchbay.standing"
"""Name in the environ of what was found out about a request."""


class NotOperator(Refused):
    """The request needs the operator, and does not prove that the operator sent it."""

    status = 401
    headers: ClassVar = {"WWW-Authenticate": 'Bearer realm="patchbay"'}


class WrongToken(NotOperator):
    """A token was shown that is not the operator's. What was shown is not repeated."""

    def __init__(self) -> None:
        super().__init__("that is not the operator's token; `patchbay token --show` prints the right one")


class WrongLink(NotOperator):
    """A login link was used before, is too old, or is not one of this hub."""

    def __init__(self) -> None:
        super().__init__("this login link was used before, or is too old; `patchbay login` prints a new one")


class TooManyTries(Refused):
    """An address has shown too many wrong tokens, and this is another wrong one."""

    status = 429
    headers: ClassVar = {"Retry-After": f"{WINDOW:.0f}"}

    def __init__(self) -> None:
        super().__init__(f"too many wrong tokens came from your address; try again in {WINDOW:.0f} seconds")


class TokenUnreadable(Refused):
    """The file of the operator's token is damaged. Where it is and what it holds is said in the log only."""

    status = 503

    def __init__(self) -> None:
        super().__init__("this hub cannot check who its operator is; its log says why")


@dataclass(frozen=True, slots=True)
class OperatorProof:
    """How a request proves that the operator sent it (SESSION, TOKEN); empty where it does not.

    `nonce` names the session.
    """

    how: str = ""
    nonce: str = ""

    @property
    def operator(self) -> bool:
        return bool(self.how)


class Operators:
    """Operator access of one hub. Safe to use from many threads."""

    def __init__(self, settings: Settings, store: Store, readonly: Callable[[], bool]) -> None:
        folder = None if settings.store == "memory" else settings.data
        self._settings = settings
        self._journal = store.journal
        self._readonly = readonly
        self._tries = Tries()
        self.token = OperatorToken(folder)
        self.token.ensure()
        key = load_key(folder)
        self.links = LoginLinks(key, self.token)
        self._sessions = URLSafeTimedSerializer(key, salt="operator-session", signer_kwargs=SIGNER)
        self._forms = URLSafeTimedSerializer(key, salt="operator-form", signer_kwargs=SIGNER)

    def is_operator(self, environ: Mapping[str, Any]) -> bool:
        """Whether a request proves that the operator sent it, by the token or by the cookie of a session.

        Ask this wherever something is shown that is the operator's alone, with the WSGI environ of the request:
        `request.environ` in Flask, the environ itself in the transports. It never raises: a wrong token, an ended
        session and a damaged token file all answer False. The answer is found out once for each request. What
        changes something asks `check_change` instead, which proves besides that no other site caused the request.
        """
        return isinstance(found := self._found(environ), OperatorProof) and found.operator

    def standing(self) -> OperatorProof:
        """How the present request proves the operator. Raises WrongToken, TooManyTries, TokenUnreadable."""
        found = self._found(request.environ)
        if isinstance(found, Refused):
            raise found
        return found

    def shown(self) -> OperatorProof:
        """The same for a page that everybody may see: a wrong token proves nothing there."""
        found = self._found(request.environ)
        return found if isinstance(found, OperatorProof) else OperatorProof()

    def _found(self, environ: Mapping[str, Any]) -> OperatorProof | Refused:
        found: OperatorProof | Refused | None = environ.get(STANDING)
        if found is None:
            try:
                found = self._standing(Request(dict(environ)))
            except Refused as problem:
                found = problem
            if isinstance(environ, dict):
                environ[STANDING] = found
        return found

    def _standing(self, sent: Request) -> OperatorProof:
        shown = _bearer(sent)
        if shown is not None:
            self.check_token(shown, sent.remote_addr or "")
            return OperatorProof(TOKEN)
        nonce = self._session(sent)
        return OperatorProof(SESSION, nonce) if nonce else OperatorProof()

    def check_operator(self) -> OperatorProof:
        """The standing of the operator; raises NotOperator (401) for everybody else."""
        standing = self.standing()
        if not standing.operator:
            raise NotOperator("only the operator of this hub may do this: log in at /login, or send the token")
        return standing

    def check_change(self, form: Mapping[str, str] | None = None) -> OperatorProof:
        """Let the present request change something, or raise. Call it before anything else is done.

        `form` are the fields of a request that an HTML form sent: `csrf` among them has to be what `csrf()` gave.
        Raises Refused (403) when another site may have caused it, NotOperator (401), ReadOnly (405).
        """
        return self._checked(form, changes=True)

    def check_use(self, form: Mapping[str, str] | None = None) -> OperatorProof:
        """The same for what is the operator's alone but changes nothing here: a read-only hub allows it."""
        return self._checked(form, changes=False)

    def _checked(self, form: Mapping[str, str] | None, changes: bool) -> OperatorProof:
        check_same_origin(request.headers)
        standing = self.check_operator()
        if changes and self._readonly():
            raise ReadOnly("this hub was booted read-only: nothing can be changed here")
        if standing.how == SESSION and not {"Sec-Fetch-Site", "Origin"} & {name for name, _ in request.headers}:
            raise Refused(
                "a browser that sends its cookie has to say where the request comes from, and this one did not"
            )
        if form is not None and standing.how != TOKEN:
            self._check_form(form.get("csrf", ""), standing)
        return standing

    def csrf(self) -> str:
        """The value of the field `csrf` in a form of a page that is being shown; empty for who may change nothing."""
        standing = self.shown()
        return self._forms.dumps(standing.nonce or TOKEN) if standing.operator else ""

    def check_token(self, token: str, address: str) -> None:
        """Raises WrongToken (401), TooManyTries (429) after many wrong ones of this address, TokenUnreadable (503)."""
        try:
            right = self.token.fits(token)
        except ConfigError as problem:
            raise _unreadable(problem) from problem
        if not right:
            self._tries.count(address)
            raise WrongToken

    def check_link(self, once: str, address: str) -> None:
        """Use a login link up. Raises WrongLink (401), TooManyTries (429), TokenUnreadable (503)."""
        try:
            right = self.links.redeem(once, self._journal)
        except ConfigError as problem:
            raise _unreadable(problem) from problem
        if not right:
            self._tries.count(address)
            raise WrongLink

    def log_in(self, response: Response) -> None:
        """Give the browser that gets this response a session; its token or its link has been checked."""
        session = self._sessions.dumps([secrets.token_hex(16), self.token.generation()])
        over_tls = _over_tls(request)
        response.set_cookie(
            self._cookie(over_tls),
            session,
            max_age=SESSION_SECONDS,
            path="/",
            secure=over_tls,
            httponly=True,
            samesite="Strict",
        )

    def log_out(self, response: Response) -> None:
        """End the session of the present request, everywhere."""
        nonce, over_tls = self._session(request), _over_tls(request)
        if nonce:
            self._journal.append(OPERATOR_SESSIONS + nonce, b"ended", SESSION_SECONDS)
        response.delete_cookie(self._cookie(over_tls), path="/", secure=over_tls, httponly=True, samesite="Strict")

    def _cookie(self, over_tls: bool) -> str:
        # Cookies do not know ports: two hubs on one machine would log each other out.
        return "__Host-patchbay" if over_tls else f"patchbay-{self._settings.port}"

    def _session(self, sent: Request) -> str:
        """The nonce of the session whose cookie came along, when it is still good. Raises TokenUnreadable."""
        text = sent.cookies.get(self._cookie(_over_tls(sent)))
        if not text or len(text) > 1024:
            return ""
        try:
            nonce, generation = self._sessions.loads(text, max_age=SESSION_SECONDS)
        except (BadData, ValueError, TypeError):
            return ""
        try:
            good = hmac.compare_digest(str(generation), self.token.generation())
        except ConfigError as problem:
            raise _unreadable(problem) from problem
        return str(nonce) if good and not self._journal.last(OPERATOR_SESSIONS + str(nonce)) else ""

    def _check_form(self, text: str, standing: OperatorProof) -> None:
        try:
            said = self._forms.loads(text[:1024], max_age=FORM_SECONDS)
        except BadData as problem:
            raise Refused("this form is too old, or not one of this hub: load the page again and repeat") from problem
        if not hmac.compare_digest(str(said), standing.nonce or TOKEN):
            raise Refused("this form was made for another session: load the page again and repeat")


class Tries:
    """Wrong tokens by address, as many as matter. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, address: str) -> None:
        """One more wrong token. Raises TooManyTries when the address has shown TRIES others within WINDOW."""
        with self._lock:
            times = self._wrong.setdefault(address, deque(maxlen=TRIES))
            late = len(times) >= TRIES and self._clock() - times[0] < WINDOW
            if not late:
                times.append(self._clock())
            self._wrong.move_to_end(address)
            while len(self._wrong) > ADDRESSES:
                self._wrong.popitem(last=False)
        if late:
            raise TooManyTries


def _unreadable(problem: ConfigError) -> TokenUnreadable:
    log.error("the operator cannot prove who they are: %s", problem.message)
    return TokenUnreadable()


def _over_tls(sent: Request) -> bool:
    """Whether the browser speaks TLS, to the hub or to what stands before it. Believing that wrongly does no harm."""
    return sent.is_secure or sent.headers.get("X-Forwarded-Proto", "").lower() == "https"


def _bearer(sent: Request) -> str | None:
    kind, _, token = sent.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None

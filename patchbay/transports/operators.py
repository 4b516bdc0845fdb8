"""Who the operator is, and whether a request may change things: one place that every page asks.

Rules: while the hub can be reached from its own machine only and no token was made, the person at the machine is
the operator. Otherwise the operator shows a token: as `Authorization: Bearer`, or once to `/login`, for a signed
session cookie. Whoever changes something proves besides that no other site caused it, and a form of a page carries
a signed value from that page. A token is never shown, logged or kept; wrong ones are counted and soon not looked at.
Sources: THREATS 0.3 (no defaults), 1.4 (CSRF, DNS rebinding); RFC 6750; RFC 6265bis (`__Host-`, SameSite).
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar

from flask import Response, g, request
from itsdangerous import BadData, URLSafeTimedSerializer

from patchbay.errors import ReadOnly, Refused
from patchbay.protocol.keys import load_key
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.transports.operator_token import OperatorToken
from patchbay.transports.security import authority, check_same_origin, is_loopback

LIFE = 12 * 3600
"""Seconds that a session of the operator lasts."""

TRIES, WINDOW = 10, 60.0
"""Wrong tokens that one address may show in so many seconds; after that it is not listened to."""

ADDRESSES = 1024
"""Addresses whose wrong tokens are remembered."""

ENDED = "operator/ended"
"""The journal topic of sessions that were logged out."""

HERE, SESSION, TOKEN = "here", "session", "token"
"""How somebody is the operator: at the machine, by logging in, by a token with the request."""

_FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip")


class NotOperator(Refused):
    """The request needs the operator, and whoever sent it has not shown to be that."""

    status = 401
    headers: ClassVar = {"WWW-Authenticate": 'Bearer realm="patchbay"'}


class WrongToken(NotOperator):
    """A token was shown that is not the operator's. What was shown is not repeated."""

    def __init__(self) -> None:
        super().__init__("that is not the operator's token; `patchbay token` makes a new one")


class TooManyTries(Refused):
    """An address has shown too many wrong tokens."""

    status = 429
    headers: ClassVar = {"Retry-After": f"{WINDOW:.0f}"}

    def __init__(self) -> None:
        super().__init__(f"too many wrong tokens came from your address; try again in {WINDOW:.0f} seconds")


@dataclass(frozen=True, slots=True)
class Standing:
    """What the sender of a request is: `how` it is the operator (HERE, SESSION, TOKEN), empty when it is not.

    `needs_token` says that here nobody is the operator without a token; `nonce` names the session.
    """

    how: str
    needs_token: bool
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
        self._exposed = not is_loopback(settings.host) or not all(map(_names_this_machine, settings.allowed_hosts))
        self._tries = Tries()
        self.token = OperatorToken(folder)
        self._fresh = self.token.first() if self._exposed else None
        key = load_key(folder)
        self._sessions = URLSafeTimedSerializer(key, salt="operator-session", signer_kwargs=_SIGNED)
        self._forms = URLSafeTimedSerializer(key, salt="operator-form", signer_kwargs=_SIGNED)

    def take_fresh(self) -> str | None:
        """The token, when this start made the first one: to be shown to whoever started the hub. Only once."""
        fresh, self._fresh = self._fresh, None
        return fresh

    def standing(self) -> Standing:
        """What the sender of the present request is. Raises WrongToken, TooManyTries for a token with the request."""
        found: Standing | Refused | None = g.get("standing")
        if found is None:
            try:
                found = self._standing()
            except Refused as problem:
                found = problem
            g.standing = found
        if isinstance(found, Refused):
            raise found
        return found

    def shown(self) -> Standing:
        """The same for a page that anybody may see: whoever shows a wrong token is nobody."""
        try:
            return self.standing()
        except Refused:
            return Standing("", True)

    def _standing(self) -> Standing:
        needed = self._exposed or self.token.hash() is not None
        if not needed and from_this_machine():
            return Standing(HERE, needed)
        shown = _bearer()
        if shown is not None:
            self.check_token(shown)
            return Standing(TOKEN, needed)
        nonce = self._session()
        return Standing(SESSION, needed, nonce) if nonce else Standing("", needed)

    def check_operator(self) -> Standing:
        """The standing of the operator; raises NotOperator (401) for anybody else."""
        standing = self.standing()
        if not standing.operator:
            how = "log in at /login, or send the token" if standing.needs_token else "use the hub on its own machine"
            raise NotOperator(f"only the operator of this hub may do this: {how}")
        return standing

    def check_change(self, form: Mapping[str, str] | None = None) -> Standing:
        """Let the present request change something, or raise. Call it before anything else is done.

        `form` are the fields of a request that an HTML form sent: `csrf` among them has to be what `csrf()` gave.
        Raises Refused (403) when another site may have caused it, NotOperator (401), ReadOnly (405).
        """
        return self._checked(form, changes=True)

    def check_use(self, form: Mapping[str, str] | None = None) -> Standing:
        """The same for what is the operator's alone but changes nothing here: a read-only hub allows it."""
        return self._checked(form, changes=False)

    def _checked(self, form: Mapping[str, str] | None, changes: bool) -> Standing:
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
        return self._forms.dumps(standing.nonce or HERE) if standing.operator else ""

    def check_token(self, token: str) -> None:
        """Raises WrongToken (401), or TooManyTries (429) without having looked at it."""
        address = request.remote_addr or ""
        self._tries.check(address)
        if not self.token.fits(token):
            self._tries.wrong(address)
            raise WrongToken

    def log_in(self, response: Response) -> None:
        """Give the browser that gets this response a session; its token has been checked."""
        session = self._sessions.dumps([secrets.token_hex(16), self._generation()])
        response.set_cookie(
            self._cookie, session, max_age=LIFE, path="/", secure=_over_tls(), httponly=True, samesite="Strict"
        )

    def log_out(self, response: Response) -> None:
        """End the session of the present request, everywhere."""
        nonce = self._session()
        if nonce:
            self._journal.append(ENDED, nonce.encode(), LIFE)
        response.delete_cookie(self._cookie, path="/", secure=_over_tls(), httponly=True, samesite="Strict")

    @property
    def _cookie(self) -> str:
        # Cookies do not know ports: two hubs on one machine would log each other out.
        return "__Host-patchbay" if _over_tls() else f"patchbay-{self._settings.port}"

    def _session(self) -> str:
        """The nonce of the session whose cookie came along, when it is still good."""
        text = request.cookies.get(self._cookie)
        if not text or len(text) > 1024:
            return ""
        try:
            nonce, generation = self._sessions.loads(text, max_age=LIFE)
        except (BadData, ValueError, TypeError):
            return ""
        good = hmac.compare_digest(str(generation), self._generation())
        ended = any(entry.data == str(nonce).encode() for entry in self._journal.tail(ENDED))
        return str(nonce) if good and not ended else ""

    def _generation(self) -> str:
        """Stands for the present token in a session, so that a new token ends the sessions of the old one."""
        return sha256(f"generation {self.token.hash()}".encode()).hexdigest()[:32]

    def _check_form(self, text: str, standing: Standing) -> None:
        try:
            said = self._forms.loads(text[:1024], max_age=LIFE)
        except BadData as problem:
            raise Refused("this form is too old, or not one of this hub: load the page again and repeat") from problem
        if not hmac.compare_digest(str(said), standing.nonce or HERE):
            raise Refused("this form was made for another session: load the page again and repeat")


_SIGNED = {"digest_method": sha256, "key_derivation": "hmac"}


class Tries:
    """Wrong tokens by address, as many as matter. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """Raises TooManyTries."""
        with self._lock:
            times = self._wrong.get(address)
            if times is not None and len(times) >= TRIES and self._clock() - times[0] < WINDOW:
                raise TooManyTries

    def wrong(self, address: str) -> None:
        """One more."""
        with self._lock:
            self._wrong.setdefault(address, deque(maxlen=TRIES)).append(self._clock())
            self._wrong.move_to_end(address)
            while len(self._wrong) > ADDRESSES:
                self._wrong.popitem(last=False)


def _names_this_machine(entry: str) -> bool:
    """Whether an entry of `allowed_hosts` is a loopback name."""
    found = authority(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
    return found is not None and is_loopback(found[0])


def from_this_machine() -> bool:
    """Whether the present request comes from this machine, with a name of this machine, and through no proxy."""
    host = authority(request.headers.get("Host", ""))
    direct = not any(name in request.headers for name in _FORWARDED)
    return direct and host is not None and is_loopback(host[0]) and is_loopback(request.remote_addr or "")


def _over_tls() -> bool:
    """Whether the browser speaks TLS, to the hub or to what stands before it. Believing that wrongly harms nobody."""
    return request.is_secure or request.headers.get("X-Forwarded-Proto", "").lower() == "https"


def _bearer() -> str | None:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None

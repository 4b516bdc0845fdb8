"""The operator: authentication of requests, and permission to change the hub. All checks of the hub use this module.

The operator always authenticates, also on the machine of the hub. A program sends the token as `Authorization: Bearer`.
A browser logs in at `/login`, with the token or with a login link, and gets a signed session cookie. A change also
needs proof that no other site caused the request; the form of a page carries a signed value (CSRF token). Responses and
logs never hold a token. The right token is always accepted; wrong tokens are counted by client address and limited.
Sources: RFC 6750; RFC 6265bis (`__Host-`).
"""

from __future__ import annotations

import hmac
import logging
import secrets
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar
from urllib.parse import urlsplit

from flask import Response, request
from itsdangerous import BadData
from werkzeug.http import parse_cookie

from patchbay.access.authentication import Credentials
from patchbay.access.credentials.names import name_operator, note_end
from patchbay.access.hub_key import load_key
from patchbay.access.operator_token import PREFIX, OperatorToken
from patchbay.access.principals import ANONYMOUS, LOCAL_ID, LOCAL_OPERATOR, OPERATOR, Principal
from patchbay.access.session_cookies import cookie_path, operator_cookie_name
from patchbay.access.timed_signatures import SHA256, timed_serializer
from patchbay.errors import ConfigError, ReadOnly, Refused
from patchbay.settings import Settings
from patchbay.store import Store
from patchbay.topics import OPERATOR_SESSIONS
from patchbay.web.operator.login_links import LoginLinks
from patchbay.wire.requests.request import Request
from patchbay.wire.requests.security import check_same_origin
from patchbay.wire.requests.wsgi import request_of

log = logging.getLogger(__name__)

SESSION_SECONDS = 30 * 24 * 3600
"""Seconds that a session of the operator lasts."""

FORM_SECONDS = 12 * 3600
"""Seconds that the form of a page is valid."""

MAX_WRONG_TOKENS, WRONG_TOKEN_SECONDS = 10, 60.0
"""One address gets 401 for this number of wrong tokens in this number of seconds; then it gets 429."""

MAX_TRACKED_ADDRESSES = 1024
"""Addresses with counted wrong tokens, at most."""


SESSION, TOKEN = "session", "token"
"""The kinds of proof: the cookie of a session, or the token."""

_ADMINISTRATOR = "principal "
"""How the nonce of a proof begins that another principal is an administrator; its id follows."""

PROOF = "operator proof"
"""The name under which a request keeps its proof: each request is checked once, because a wrong token counts."""


class NotOperator(Refused):
    """The request needs the operator, but has no valid proof."""

    status = 401
    headers: ClassVar = {"WWW-Authenticate": 'Bearer realm="patchbay"'}


class ProofTooOld(Refused):
    """An administrator proved itself at its identity provider too long ago for an act of the operator."""

    def __init__(self, page: str) -> None:
        super().__init__(
            f"an act of the operator needs a proof of the last hour: open {page} to sign in again, and repeat the act"
        )


class WrongToken(NotOperator):
    """The token of the request is wrong. The message does not repeat it."""

    def __init__(self) -> None:
        super().__init__("the operator's token is wrong; `patchbay token --show` prints the right one")


class WrongLink(NotOperator):
    """The login link was used before, is too old, or comes from another hub."""

    def __init__(self) -> None:
        super().__init__("this login link was used before or is too old; `patchbay login` prints a new one")


class TooManyWrongTokens(Refused):
    """The token is wrong, and the address has sent too many wrong tokens."""

    status = 429
    headers: ClassVar = {"Retry-After": f"{WRONG_TOKEN_SECONDS:.0f}"}

    def __init__(self) -> None:
        super().__init__(
            f"too many wrong tokens came from your address; try again in {WRONG_TOKEN_SECONDS:.0f} seconds"
        )


class TokenUnreadable(Refused):
    """The file of the operator's token is damaged. Only the log has its path and the details."""

    status = 503

    def __init__(self) -> None:
        super().__init__("this hub cannot check the operator's token; the log of the hub has the reason")


@dataclass(frozen=True, slots=True)
class OperatorProof:
    """The proof that the operator sent a request. `how` is SESSION or TOKEN, empty without proof.

    `nonce` identifies the session, `credential` the token or session of the operator (`access/credentials/names.py`).
    """

    how: str = ""
    nonce: str = ""
    credential: str = ""

    @property
    def is_operator(self) -> bool:
        return bool(self.how)

    @property
    def is_own_session(self) -> bool:
        """Whether the proof is a session of the operator in this browser, which `/logout` ends."""
        return self.how == SESSION and not self.nonce.startswith(_ADMINISTRATOR)


class Operators:
    """Operator access of one hub. Safe to use from many threads.

    In a shared hub the principal of a request decides: `is_administrator` says which principals operate the hub, and
    `may_change_toolset` which others make and change the toolset of a name.
    `find_new_proof` returns the page where a principal proves itself again before an act; empty if it need not.
    """

    find_new_proof: Callable[[Principal], str] = staticmethod(lambda sender: "")

    def __init__(
        self,
        settings: Settings,
        store: Store,
        readonly: Callable[[], bool],
        is_administrator: Callable[[Principal], bool] = lambda sender: sender.is_operator,
        may_change_toolset: Callable[[Principal, str], bool] = lambda sender, name: sender.is_operator,
    ) -> None:
        self._is_administrator = is_administrator
        self._may_change_toolset = may_change_toolset
        folder = None if settings.store == "memory" else settings.data
        self._settings = settings
        self._journal = store.journal
        self._readonly = readonly
        self._wrong_tokens = WrongTokenCounter()
        self.token = OperatorToken(folder)
        self.token.ensure()
        key = load_key(folder)
        self.links = LoginLinks(key, self.token, store.now)
        self._sessions = timed_serializer(key, "operator-session", store.now, SHA256)
        self._forms = timed_serializer(key, "operator-form", store.now, SHA256)

    def is_operator(self, sent: Request) -> bool:
        """Whether a request has valid proof (token or session cookie) that the operator sent it.

        Use it wherever a response holds values for the operator only. In a page, `request_of(request.environ)` is the
        request. It never raises: for a wrong token, an ended session or a damaged token file it returns False. Each
        request is checked once. Changes use `check_change` instead, which also checks the origin.
        """
        return isinstance(found := self._find_proof(sent), OperatorProof) and found.is_operator

    def find_operator(self, sent: Request) -> Principal | None:
        """Return the operator of a personal or open hub if a request proves it, else None. It never raises."""
        found = self._find_proof(sent)
        if isinstance(found, OperatorProof) and found.is_operator:
            return replace(LOCAL_OPERATOR, credential=found.credential)
        return None

    def proof(self) -> OperatorProof:
        """The proof of the current request. Raises WrongToken, TooManyWrongTokens, TokenUnreadable."""
        found = self._find_proof(request_of(request.environ))
        if isinstance(found, Refused):
            raise found
        return found

    def lenient_proof(self) -> OperatorProof:
        """The proof of the current request for a public page; a wrong token counts as no proof."""
        found = self._find_proof(request_of(request.environ))
        return found if isinstance(found, OperatorProof) else OperatorProof()

    def _find_proof(self, sent: Request) -> OperatorProof | Refused:
        found: OperatorProof | Refused | None = sent.found.get(PROOF)
        if found is None:
            try:
                found = self._check_proof(sent)
            except Refused as problem:
                found = problem
            sent.found[PROOF] = found
        return found

    def _check_proof(self, sent: Request) -> OperatorProof:
        if sent.sender.id != LOCAL_ID:
            return self._proof_of(sent.sender, sent)
        shown = _bearer_token(sent)
        if shown is not None:
            generation = self.check_token(shown, sent.address)
            return OperatorProof(TOKEN, credential=name_operator(generation))
        nonce, generation = self._session(sent)
        return OperatorProof(SESSION, nonce, name_operator(generation, nonce)) if nonce else OperatorProof()

    def _proof_of(self, sender: Principal, sent: Request) -> OperatorProof:
        """The proof that a principal is an administrator; its credentials were checked before."""
        return self._proof_by_credentials(sender, sent) if self._is_administrator(sender) else OperatorProof()

    def _proof_by_credentials(self, sender: Principal, sent: Request) -> OperatorProof:
        """The proof that a principal sent a request: a token, or the session of a browser."""
        if _bearer_token(sent) is not None:
            return OperatorProof(TOKEN, credential=sender.credential)
        nonce = self._session(sent)[0] or _ADMINISTRATOR + sender.id
        return OperatorProof(SESSION, nonce, sender.credential)

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return OPERATOR for the operator's token or session cookie, None for other credentials.

        This is the authentication scheme of the operator. Raises TokenUnreadable (503).
        """
        try:
            if credentials.token is not None:
                # The prefix excludes the tokens of other schemes without reading the file of the token.
                token = credentials.token
                generation, nonce = self.token.find_generation(token) if token.startswith(PREFIX) else "", ""
            else:
                over_tls = urlsplit(credentials.url).scheme == "https"
                nonce, generation = self._read_session(credentials.cookies.get(self._cookie(over_tls)))
        except ConfigError as problem:
            raise _unreadable(problem) from problem
        return replace(OPERATOR, credential=name_operator(generation, nonce)) if generation else None

    def count_wrong_token(self, address: str) -> None:
        """Count a wrong token of an address. Raises TooManyWrongTokens."""
        self._wrong_tokens.count(address)

    def check_operator(self) -> OperatorProof:
        """Return the proof of the operator. Raises NotOperator (401) without proof."""
        proof = self.proof()
        if not proof.is_operator:
            raise NotOperator("only the operator of this hub can do this: log in at /login, or send the token")
        return proof

    def check_new_proof(self, proof: OperatorProof) -> None:
        """Check that an administrator of an identity provider proved itself in the last hour. Raises ProofTooOld."""
        sender = request_of(request.environ).sender
        if proof.how == SESSION and self._is_administrator(sender) and (page := self.find_new_proof(sender)):
            raise ProofTooOld(page)

    def check_change(self, form: Mapping[str, str] | None = None) -> OperatorProof:
        """Check that the current request may change something. Call it before any other work.

        `form` holds the fields of an HTML form; its field `csrf` must be the value of `csrf()`. Raises Refused (403)
        when another site may have caused the request, NotOperator (401), ReadOnly (405).
        """
        return self._checked(form, changes=True)

    def toolset_proof(self, name: str) -> OperatorProof:
        """The proof that the sender of the current request may make and change the toolset of a name.

        It is that of an operator, or of another principal with a grant on this name; without either it is empty.
        """
        found = self.lenient_proof()
        sent = request_of(request.environ)
        if found.is_operator or sent.sender.id == LOCAL_ID:
            return found
        is_maker = bool(name) and self._may_change_toolset(sent.sender, name)
        return self._proof_by_credentials(sent.sender, sent) if is_maker else found

    def check_toolset_change(self, name: str, form: Mapping[str, str] | None = None) -> OperatorProof:
        """Like `check_change`, for the toolset of a name, which other principals may make and change too."""
        proof = self.toolset_proof(name)
        return self._checked(form, changes=True, proof=proof if proof.is_operator else None)

    def own_proof(self) -> OperatorProof:
        """The proof that a principal with credentials of its own, or the operator, sent the current request.

        It is for what a principal may do with its own things. Without such credentials it is empty.
        """
        found = self.lenient_proof()
        sent = request_of(request.environ)
        has_name = sent.sender.id not in (LOCAL_ID, ANONYMOUS.id)
        return self._proof_by_credentials(sent.sender, sent) if has_name and not found.is_operator else found

    def check_own_use(self, form: Mapping[str, str] | None = None) -> OperatorProof:
        """Like `check_use`, for what each principal with credentials may do with its own things, and the operator."""
        proof = self.own_proof()
        return self._checked(form, changes=False, proof=proof if proof.is_operator else None)

    def own_csrf(self) -> str:
        """The value for the field `csrf` in a form for `check_own_use`; empty when the reader may not send it."""
        proof = self.own_proof()
        return self._forms.dumps(proof.nonce or TOKEN) if proof.is_operator else ""

    def check_use(self, form: Mapping[str, str] | None = None) -> OperatorProof:
        """Like `check_change`, for actions of the operator that change nothing; a read-only hub allows them."""
        return self._checked(form, changes=False)

    def _checked(
        self, form: Mapping[str, str] | None, changes: bool, proof: OperatorProof | None = None
    ) -> OperatorProof:
        check_same_origin(request.headers)
        proof = proof or self.check_operator()
        self.check_new_proof(proof)
        if changes and self._readonly():
            raise ReadOnly("this hub was booted read-only: you cannot change anything")
        if proof.how == SESSION and not {"Sec-Fetch-Site", "Origin"} & {name for name, _ in request.headers}:
            raise Refused(
                "a request with the session cookie needs the header Sec-Fetch-Site or Origin, and this one has neither"
            )
        if form is not None and proof.how != TOKEN:
            self._check_form(form.get("csrf", ""), proof)
        return proof

    def csrf(self, toolset: str = "") -> str:
        """The value for the field `csrf` in a form of the current page; empty when the reader may not send it.

        The form is one of the operator, or of those who may change the toolset of a name.
        """
        proof = self.toolset_proof(toolset)
        return self._forms.dumps(proof.nonce or TOKEN) if proof.is_operator else ""

    def check_token(self, token: str, address: str) -> str:
        """Check a token; return its generation. Raises WrongToken (401), TooManyWrongTokens (429), TokenUnreadable
        (503).
        """
        try:
            generation = self.token.find_generation(token)
        except ConfigError as problem:
            raise _unreadable(problem) from problem
        if not generation:
            self._wrong_tokens.count(address)
            raise WrongToken
        return generation

    def check_link(self, once: str, address: str) -> None:
        """Use a login link. Raises WrongLink (401), TooManyWrongTokens (429), TokenUnreadable (503)."""
        try:
            right = self.links.redeem(once, self._journal)
        except ConfigError as problem:
            raise _unreadable(problem) from problem
        if not right:
            self._wrong_tokens.count(address)
            raise WrongLink

    def log_in(self, response: Response) -> None:
        """Add a session cookie to the response. Check the token or the login link first."""
        session = self._sessions.dumps([secrets.token_hex(16), self.token.generation()])
        over_tls = _is_over_tls(request_of(request.environ))
        response.set_cookie(
            self._cookie(over_tls),
            session,
            max_age=SESSION_SECONDS,
            path=cookie_path(self._settings.path_prefix),
            secure=over_tls,
            httponly=True,
            samesite="Strict",
        )

    def log_out(self, response: Response) -> None:
        """End the session of the current request in all workers."""
        (nonce, _), over_tls = self._session(request_of(request.environ)), _is_over_tls(request_of(request.environ))
        if nonce:
            self._journal.append(OPERATOR_SESSIONS + nonce, b"ended", SESSION_SECONDS)
            note_end(self._journal, "a session of the operator")
        response.delete_cookie(
            self._cookie(over_tls),
            path=cookie_path(self._settings.path_prefix),
            secure=over_tls,
            httponly=True,
            samesite="Strict",
        )

    def _cookie(self, over_tls: bool) -> str:
        return operator_cookie_name(self._settings.port, over_tls, self._settings.path_prefix)

    def _session(self, sent: Request) -> tuple[str, str]:
        """The nonce and the generation of the session cookie of a request; see `_read_session`."""
        return self._read_session(parse_cookie(sent.headers.get("cookie")).get(self._cookie(_is_over_tls(sent))))

    def _read_session(self, text: str | None) -> tuple[str, str]:
        """The nonce of a valid session cookie, and the generation of its token; else empty texts.

        Raises TokenUnreadable.
        """
        if not text or len(text) > 1024:
            return "", ""
        try:
            nonce, generation = self._sessions.loads(text, max_age=SESSION_SECONDS)
        except (BadData, ValueError, TypeError):
            return "", ""
        try:
            good = hmac.compare_digest(str(generation), self.token.generation())
        except ConfigError as problem:
            raise _unreadable(problem) from problem
        is_valid = good and not self._journal.last(OPERATOR_SESSIONS + str(nonce))
        return (str(nonce), str(generation)) if is_valid else ("", "")

    def _check_form(self, text: str, proof: OperatorProof) -> None:
        try:
            owner = self._forms.loads(text[:1024], max_age=FORM_SECONDS)
        except BadData as problem:
            raise Refused("this form is too old or comes from another hub: reload the page and try again") from problem
        if not hmac.compare_digest(str(owner), proof.nonce or TOKEN):
            raise Refused("this form belongs to another session: reload the page and try again")


class WrongTokenCounter:
    """Counts wrong tokens by client address. Safe to use from many threads."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._wrong: OrderedDict[str, deque[float]] = OrderedDict()

    def count(self, address: str) -> None:
        """Count one wrong token. Raises TooManyWrongTokens above MAX_WRONG_TOKENS within WRONG_TOKEN_SECONDS."""
        with self._lock:
            times = self._wrong.setdefault(address, deque(maxlen=MAX_WRONG_TOKENS))
            late = len(times) >= MAX_WRONG_TOKENS and self._clock() - times[0] < WRONG_TOKEN_SECONDS
            if not late:
                times.append(self._clock())
            self._wrong.move_to_end(address)
            while len(self._wrong) > MAX_TRACKED_ADDRESSES:
                self._wrong.popitem(last=False)
        if late:
            raise TooManyWrongTokens


def _unreadable(problem: ConfigError) -> TokenUnreadable:
    log.error("cannot check the operator's token: %s", problem)
    return TokenUnreadable()


def _is_over_tls(sent: Request) -> bool:
    """Whether the browser uses TLS, to the hub or to its proxy. A forged header does no harm."""
    return sent.scheme in ("https", "wss") or sent.headers.get("x-forwarded-proto", "").lower() == "https"


def _bearer_token(sent: Request) -> str | None:
    kind, _, token = sent.headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else None

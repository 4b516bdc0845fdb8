"""The one place that authenticates requests over HTTP: it finds the Principal of each request.

In personal mode a request of this machine is of the principal `local`, and so is every request of an open hub. In
shared mode, and for a request that reached a personal hub through a proxy or from another machine, the schemes decide;
a request without valid credentials gets 401. Health checks, sign-in and static files are always served.
Sources: RFC 9110, sections 7.6.3 (`Via`) and 11.6.1 (`WWW-Authenticate`); RFC 7239 (`Forwarded`); RFC 6750.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from werkzeug.datastructures import Headers
from werkzeug.http import parse_cookie

from patchbay.access.authentication import Credentials, InsufficientScope, Scheme, Unauthorized, authenticate
from patchbay.access.keys import PREFIX as KEY_PREFIX
from patchbay.access.principals import ANONYMOUS, LOCAL, Principal
from patchbay.errors import PatchbayError
from patchbay.hosts.names import authority, is_loopback
from patchbay.jsonrpc import failure
from patchbay.settings import OPEN, PERSONAL, SHARED, Settings
from patchbay.text_cache import cached_by_text
from patchbay.wire.replies.accept import wants_html
from patchbay.wire.replies.reply import Reply, json_reply, refusal
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.cross_origin import with_cors
from patchbay.wire.requests.request import Request
from patchbay.wire.requests.security import check_same_origin

REALM = 'Bearer realm="patchbay"'
"""The challenge of a request without credentials."""

PROXY_HEADERS = frozenset(
    (
        *("forwarded", "via", "x-real-ip", "x-client-ip", "x-original-forwarded-for"),
        *("cf-connecting-ip", "true-client-ip", "fly-client-ip", "x-envoy-external-address"),
    )
)
"""Headers that proxies add. All headers with the prefix `X-Forwarded-` count too."""

KEY_AUTHORIZATION = f"Bearer {KEY_PREFIX}"
"""The beginning of `Authorization` with a personal key."""

OPEN_PATHS = ("/healthz", "/readyz", "/login", "/logout", "/favicon.ico")
"""Paths that are served to every request."""

OPEN_PREFIXES = ("/static/",)
"""Beginnings of paths that are served to every request."""

SENT_ELSEWHERE = (
    "this hub serves only its own machine without a sign-in, and this request came through a proxy or from another"
    " machine: log in at /login, or send a key as `Authorization: Bearer KEY` (`patchbay key new NAME` makes one)"
)

SIGN_IN = (
    "this hub is shared: log in at /login, or send a key as `Authorization: Bearer KEY`"
    " (the operator makes one with `patchbay key new NAME`)"
)


def is_proxied(request: Request) -> bool:
    """Whether a request has a header that only proxies add. A proxy without such a header is not detected."""
    return _has_proxy_header("\n".join(request.headers))


@cached_by_text(1024)
def _has_proxy_header(names: str) -> bool:
    """Whether names of headers, each on its own line, have one that only proxies add."""
    return any(name in PROXY_HEADERS or name.startswith("x-forwarded-") for name in names.split("\n"))


def is_local_request(request: Request) -> bool:
    """Whether a request comes from this machine, to a loopback name, without the headers of a proxy."""
    host = authority(request.headers.get("host", ""))
    named = host is not None and is_loopback(host[0])
    return named and is_loopback(request.address) and not is_proxied(request)


class Authentication:
    """Finds the principals of requests.

    `schemes` are asked in order; `challenge` makes the value of `WWW-Authenticate` for a request without credentials.
    `open_paths` and `open_prefixes` are served to everybody; parts of the hub that sign people in add theirs. Change
    all of them before the first request. `has_grants` says whether the variable `access` limits callers,
    `find_operator` returns the operator whom a request of a personal or open hub proves, and `count_wrong_token` counts
    by address.
    `find_key_holder` returns the principal of a personal key that is valid: a short way, because programs send a key
    with each call. A key that it does not know takes the way of all schemes.
    """

    def __init__(
        self,
        settings: Settings,
        schemes: list[Scheme],
        has_grants: Callable[[], bool],
        find_operator: Callable[[Request], Principal | None],
        count_wrong_token: Callable[[str], None] = lambda address: None,
        find_key_holder: Callable[[str], Principal | None] = lambda key: None,
    ) -> None:
        self._mode = settings.mode
        self._has_grants = has_grants
        self._find_operator = find_operator
        self._count_wrong_token = count_wrong_token
        self._find_key_holder = find_key_holder
        self.schemes = schemes
        self.challenge: Callable[[Credentials], str] = lambda credentials: REALM
        self.open_paths = set(OPEN_PATHS)
        self.open_prefixes: tuple[str, ...] = OPEN_PREFIXES

    def find_sender(self, request: Request, fault: PatchbayError | None) -> Principal | Reply:
        """Return the principal of a request, or the answer that refuses it.

        `fault` is what is wrong with its head, Host and Origin. It refuses here, unless every caller is served: then
        the form of the refusal depends on the path.
        """
        if self._is_served_to_all(request):
            return (self._find_operator(request) if self._has_grants() else None) or LOCAL
        try:
            if fault is not None:
                raise fault
            return self._authenticate(request)
        except PatchbayError as problem:
            return _answer(request, problem)

    def _is_served_to_all(self, request: Request) -> bool:
        if self._mode == PERSONAL:
            return is_loopback(request.address) and not _has_proxy_header("\n".join(request.headers))
        return self._mode == OPEN

    def _authenticate(self, request: Request) -> Principal | Reply:
        """Return the principal of a request with a good head, or the answer that refuses it. Raises PatchbayError."""
        if request.method == "OPTIONS" and _is_preflight(request):
            return with_cors(request, Reply(204))
        authorization = request.headers.get("authorization", "")
        if authorization.startswith(KEY_AUTHORIZATION):
            holder = self._find_key_holder(authorization[len("Bearer ") :])
            if holder is not None:
                return holder
        credentials = credentials_of(request)
        try:
            principal = self._prove(request, credentials)
        except (Unauthorized, InsufficientScope) as problem:
            if not self._is_open(request):
                return _with_challenge(request, problem, problem.challenge)
            principal = None
        if principal is None and not self._is_open(request):
            sentence = SIGN_IN if self._mode == SHARED else SENT_ELSEWHERE
            if _is_page(request):
                return _to_login(request)
            return _with_challenge(request, Unauthorized(sentence), self.challenge(credentials))
        return principal or ANONYMOUS

    def _prove(self, request: Request, credentials: Credentials) -> Principal | None:
        """Return the principal that the credentials prove. Raises Unauthorized, InsufficientScope, Refused."""
        try:
            principal = authenticate(self.schemes, credentials)
        except Unauthorized as problem:
            if problem.is_guess:
                self._count_wrong_token(credentials.address)
            raise
        by_cookie = principal is not None and credentials.token is None
        if by_cookie and (request.method not in ("GET", "HEAD") or "upgrade" in request.headers):
            # A browser sends cookies also with requests that another site causes.
            check_same_origin(Headers(list(request.headers.items())))
        return principal

    def _is_open(self, request: Request) -> bool:
        return request.path in self.open_paths or request.path.startswith(self.open_prefixes)


def credentials_of(request: Request) -> Credentials:
    """Return what a request carries to prove its sender."""
    path, headers = request.path, request.headers
    url = find_base_url(request) + _quote_path(path)
    return Credentials(
        method=request.method,
        url=url,
        headers=headers,
        cookies=dict(parse_cookie(headers["cookie"])) if "cookie" in headers else {},
        resource=url if path == "/mcp" or path.startswith("/mcp/") else "",
        address=request.address,
        prefix=request.prefix,
    )


@cached_by_text(1024)
def _quote_path(path: str) -> str:
    return quote(path, safe="/:@!$&()*+,;=~")


def _is_preflight(request: Request) -> bool:
    """Whether a request with OPTIONS is the question of a browser before a request to another origin.

    Such a question never has credentials.
    """
    return "access-control-request-method" in request.headers


def _is_page(request: Request) -> bool:
    """Whether a browser asks for a page."""
    return request.method in ("GET", "HEAD") and wants_html(request.headers.get("accept", ""))


def _to_login(request: Request) -> Reply:
    query = request.query
    location = f"/login?next={quote(request.path, safe='/')}{quote(f'?{query}', safe='') if query else ''}"
    return Reply(303, headers=[("Location", request.link(location)), ("Cache-Control", "no-store")])


def _with_challenge(request: Request, problem: PatchbayError, challenge: str) -> Reply:
    headers = (("WWW-Authenticate", challenge), ("Cache-Control", "no-store"))
    return with_cors(request, refusal(problem.status, problem.message, *headers))


def _answer(request: Request, problem: PatchbayError) -> Reply:
    """Return the answer to a request with a refused head, or to one that cannot be checked now."""
    reply = json_reply(failure(None, problem), problem.status)
    reply.headers += [("Cache-Control", "no-store"), *getattr(problem, "headers", {}).items()]
    return with_cors(request, reply)

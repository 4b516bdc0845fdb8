"""The one place that authenticates requests over HTTP: it puts the Principal of each request into the WSGI environ.

In personal mode a request of this machine is of the principal `local`, and so is every request of an open hub. In
shared mode, and for a request that reached a personal hub through a proxy or from another machine, the schemes decide;
a request without valid credentials gets 401. Health checks, sign-in and static files are always served.
Sources: RFC 9110, sections 7.6.3 (`Via`) and 11.6.1 (`WWW-Authenticate`); RFC 7239 (`Forwarded`); RFC 6750.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from werkzeug.datastructures import EnvironHeaders
from werkzeug.http import parse_cookie

from patchbay.access.authentication import Credentials, InsufficientScope, Scheme, Unauthorized, authenticate
from patchbay.access.keys import PREFIX as KEY_PREFIX
from patchbay.access.principals import ANONYMOUS, LOCAL, PRINCIPAL, Principal
from patchbay.errors import PatchbayError
from patchbay.hosts.names import authority, is_loopback
from patchbay.hosts.path_prefix import link_for, prefix_of
from patchbay.jsonrpc import failure
from patchbay.settings import OPEN, PERSONAL, SHARED, Settings
from patchbay.text_cache import cached_by_text
from patchbay.wire.replies.accept import wants_html
from patchbay.wire.replies.reply import Reply, StartResponse, json_reply, refusal, with_cors
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.head_checks import CHECKED, check_head
from patchbay.wire.requests.security import check_host_and_origin, check_same_origin

Environ = MutableMapping[str, Any]

REALM = 'Bearer realm="patchbay"'
"""The challenge of a request without credentials."""

PROXY_HEADERS = frozenset(
    (
        *("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP", "HTTP_X_CLIENT_IP", "HTTP_X_ORIGINAL_FORWARDED_FOR"),
        *("HTTP_CF_CONNECTING_IP", "HTTP_TRUE_CLIENT_IP", "HTTP_FLY_CLIENT_IP", "HTTP_X_ENVOY_EXTERNAL_ADDRESS"),
    )
)
"""Headers that proxies add, by their WSGI names. All headers with the prefix `X-Forwarded-` count too."""

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


def principal_of(environ: Mapping[str, Any]) -> Principal:
    """Return the principal of a request; `local` for an application that runs without the middleware, as in tests."""
    found = environ.get(PRINCIPAL, LOCAL)
    assert isinstance(found, Principal)
    return found


def is_proxied(environ: Mapping[str, Any]) -> bool:
    """Whether a request has a header that only proxies add. A proxy without such a header is not detected."""
    # One search in the joined names is faster than a loop.
    return not PROXY_HEADERS.isdisjoint(environ) or "\nHTTP_X_FORWARDED_" in "\n" + "\n".join(environ)


def is_local_request(environ: Mapping[str, Any]) -> bool:
    """Whether a request comes from this machine, to a loopback name, without the headers of a proxy."""
    host = authority(environ.get("HTTP_HOST", ""))
    named = host is not None and is_loopback(host[0])
    return named and is_loopback(environ.get("REMOTE_ADDR") or "") and not is_proxied(environ)


class Authentication:
    """WSGI middleware: puts the principal of a request into the environ and passes it to `app`, or answers 401.

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
        app: Callable[[Any, StartResponse], Iterable[bytes]],
        settings: Settings,
        schemes: list[Scheme],
        has_grants: Callable[[], bool],
        find_operator: Callable[[Any], Principal | None],
        count_wrong_token: Callable[[str], None] = lambda address: None,
        find_key_holder: Callable[[str], Principal | None] = lambda key: None,
    ) -> None:
        self._app = app
        self._settings = settings
        self._mode = settings.mode
        self._has_grants = has_grants
        self._find_operator = find_operator
        self._count_wrong_token = count_wrong_token
        self._find_key_holder = find_key_holder
        self.schemes = schemes
        self.challenge: Callable[[Credentials], str] = lambda credentials: REALM
        self.open_paths = set(OPEN_PATHS)
        self.open_prefixes: tuple[str, ...] = OPEN_PREFIXES

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        if self._is_served_to_all(environ):
            environ[PRINCIPAL] = (self._find_operator(environ) if self._has_grants() else None) or LOCAL
            return self._app(environ, start_response)
        try:
            refused = self._authenticate(environ)
        except PatchbayError as problem:
            refused = _answer(environ, problem)
        return self._app(environ, start_response) if refused is None else refused.send(start_response)

    def find_plain_sender(
        self, address: str, authorization: str | None, make_credentials: Callable[[], Credentials]
    ) -> Principal | None:
        """Return the principal of a request from `address` that has no cookie and no header of a proxy.

        `authorization` is its header of this name. None says that only the middleware can find it, or its refusal.
        Raises PatchbayError, as the schemes do, where the middleware refuses the request.
        """
        if self._mode == OPEN or (self._mode == PERSONAL and is_loopback(address)):
            return None if authorization is not None and self._has_grants() else LOCAL
        if authorization is None:
            return None
        if authorization.startswith(KEY_AUTHORIZATION):
            holder = self._find_key_holder(authorization[len("Bearer ") :])
            if holder is not None:
                return holder
        return authenticate(self.schemes, make_credentials())

    def _is_served_to_all(self, environ: Environ) -> bool:
        if self._mode == PERSONAL:
            return is_loopback(environ.get("REMOTE_ADDR") or "") and not is_proxied(environ)
        return self._mode == OPEN

    def _authenticate(self, environ: Environ) -> Reply | None:
        """Put the principal into the environ, or return the refusal. Raises PatchbayError for a refused head."""
        fault = check_head(environ)
        if fault is not None:
            raise fault
        check_host_and_origin(environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN"), self._settings)
        environ[CHECKED] = True
        if environ["REQUEST_METHOD"] == "OPTIONS" and _is_preflight(environ):
            return with_cors(environ, Reply(204))
        authorization: str = environ.get("HTTP_AUTHORIZATION", "")
        if authorization.startswith(KEY_AUTHORIZATION):
            holder = self._find_key_holder(authorization[len("Bearer ") :])
            if holder is not None:
                environ[PRINCIPAL] = holder
                return None
        credentials = credentials_of(environ)
        try:
            principal = self._prove(environ, credentials)
        except (Unauthorized, InsufficientScope) as problem:
            if not self._is_open(environ):
                return _with_challenge(environ, problem, problem.challenge)
            principal = None
        if principal is None and not self._is_open(environ):
            sentence = SIGN_IN if self._mode == SHARED else SENT_ELSEWHERE
            if _is_page(environ):
                return _to_login(environ)
            return _with_challenge(environ, Unauthorized(sentence), self.challenge(credentials))
        environ[PRINCIPAL] = principal or ANONYMOUS
        return None

    def _prove(self, environ: Environ, credentials: Credentials) -> Principal | None:
        """Return the principal that the credentials prove. Raises Unauthorized, InsufficientScope, Refused."""
        try:
            principal = authenticate(self.schemes, credentials)
        except Unauthorized as problem:
            if problem.is_guess:
                self._count_wrong_token(credentials.address)
            raise
        by_cookie = principal is not None and credentials.token is None
        if by_cookie and (environ["REQUEST_METHOD"] not in ("GET", "HEAD") or "HTTP_UPGRADE" in environ):
            # A browser sends cookies also with requests that another site causes.
            check_same_origin(EnvironHeaders(environ))  # type: ignore[arg-type]
        return principal

    def _is_open(self, environ: Environ) -> bool:
        path: str = environ["PATH_INFO"]
        return path in self.open_paths or path.startswith(self.open_prefixes)


class RequestHeaders(Mapping[str, str]):
    """The headers of a request by lower-case name, each read from the environ when it is asked for."""

    __slots__ = ("_environ",)

    def __init__(self, environ: Mapping[str, Any]) -> None:
        self._environ = environ

    def __getitem__(self, name: str) -> str:
        value: str = self._environ[_environ_name(name)]
        return value

    def __iter__(self) -> Iterator[str]:
        return (name[5:].replace("_", "-").lower() for name in self._environ if name.startswith("HTTP_"))

    def __len__(self) -> int:
        return sum(1 for _ in self)


@lru_cache(maxsize=256)
def _environ_name(name: str) -> str:
    return f"HTTP_{name.upper().replace('-', '_')}"


def credentials_of(environ: Mapping[str, Any]) -> Credentials:
    """Return what a request carries to prove its sender."""
    path: str = environ["PATH_INFO"]
    url = find_base_url(environ) + _quote_path(path)
    return Credentials(
        method=environ["REQUEST_METHOD"],
        url=url,
        headers=RequestHeaders(environ),
        cookies=dict(parse_cookie(environ.get("HTTP_COOKIE"))) if "HTTP_COOKIE" in environ else {},
        resource=url if path == "/mcp" or path.startswith("/mcp/") else "",
        address=environ.get("REMOTE_ADDR") or "",
        prefix=prefix_of(environ),
    )


def plain_credentials(base: str, path: str, headers: Mapping[str, str], address: str, prefix: str = "") -> Credentials:
    """Return the credentials of a POST without cookies to an MCP endpoint.

    `base` is the URL of the hub, whose path is `prefix`; `path` is ASCII and without the prefix.
    """
    url = base + _quote_path(path)
    return Credentials("POST", url, headers, resource=url, address=address, prefix=prefix)


@cached_by_text(1024)
def _quote_path(path: str) -> str:
    return quote(path, safe="/:@!$&()*+,;=~")


def _is_preflight(environ: Environ) -> bool:
    """Whether a request with OPTIONS is the question of a browser before a request to another origin.

    Such a question never has credentials.
    """
    return "HTTP_ACCESS_CONTROL_REQUEST_METHOD" in environ


def _is_page(environ: Environ) -> bool:
    """Whether a browser asks for a page."""
    return environ["REQUEST_METHOD"] in ("GET", "HEAD") and wants_html(environ.get("HTTP_ACCEPT", ""))


def _to_login(environ: Environ) -> Reply:
    query = environ.get("QUERY_STRING", "")
    location = f"/login?next={quote(environ['PATH_INFO'], safe='/')}{quote(f'?{query}', safe='') if query else ''}"
    return Reply(303, headers=[("Location", link_for(environ, location)), ("Cache-Control", "no-store")])


def _with_challenge(environ: Environ, problem: PatchbayError, challenge: str) -> Reply:
    headers = (("WWW-Authenticate", challenge), ("Cache-Control", "no-store"))
    return with_cors(environ, refusal(problem.status, problem.message, *headers))


def _answer(environ: Environ, problem: PatchbayError) -> Reply:
    """Return the answer to a request with a refused head, or to one that cannot be checked now."""
    reply = json_reply(failure(None, problem), problem.status)
    reply.headers += [("Cache-Control", "no-store"), *getattr(problem, "headers", {}).items()]
    return with_cors(environ, reply)

"""Access to the hub: from its own machine only (`access` is `personal`), or from everywhere (`open`).

A hub in personal mode listens on loopback and accepts loopback names only; other settings stop the start with an error.
In personal mode the hub refuses a request through a proxy or from another machine, unless the operator sent it. Health
checks, the login page and the static files are always served.
Sources: RFC 7239 (`Forwarded`); RFC 9110, 7.6.3 (`Via`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

from patchbay.errors import ConfigError
from patchbay.settings import Settings
from patchbay.web.site import wants_html
from patchbay.wire.responses import Reply, StartResponse, refusal
from patchbay.wire.security import authority, is_loopback

PERSONAL = "personal"
"""The value of the setting `access` that lets only the operator in."""

PROXY_HEADERS = frozenset(
    (
        *("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP", "HTTP_X_CLIENT_IP", "HTTP_X_ORIGINAL_FORWARDED_FOR"),
        *("HTTP_CF_CONNECTING_IP", "HTTP_TRUE_CLIENT_IP", "HTTP_FLY_CLIENT_IP", "HTTP_X_ENVOY_EXTERNAL_ADDRESS"),
    )
)
"""Headers that proxies add, by their WSGI names. All headers with the prefix `X-Forwarded-` count too."""

OPEN_PATHS = ("/healthz", "/readyz", "/login")
"""Paths that personal mode serves to every request."""

REFUSAL_MESSAGE = (
    "this hub serves only its own machine, and this request came through a proxy or from another machine:"
    " log in at /login, send the operator's token, or start the hub with --access open"
)


def check_exposure(settings: Settings) -> None:
    """Raise ConfigError when the settings of a hub in personal mode allow requests from other machines."""
    if settings.access != PERSONAL:
        return
    strange = [name for name in settings.allowed_hosts if not is_loopback_name(name)]
    if is_loopback(settings.host) and not strange:
        return
    where, found = ("--allowed-hosts", strange[0]) if is_loopback(settings.host) else ("--host", settings.host)
    raise ConfigError(
        where,
        "",
        f"{found!r} lets other machines reach this hub and call every tool: add --access open to allow it,"
        " or use only names of this machine (127.0.0.1, localhost)",
    )


def is_loopback_name(entry: str) -> bool:
    """Whether an entry of `allowed_hosts` is a loopback name."""
    found = authority(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
    return found is not None and is_loopback(found[0])


def is_proxied(environ: Mapping[str, Any]) -> bool:
    """Whether a request has a header that only proxies add. A proxy without such a header is not detected."""
    # One search in the joined names is faster than a loop.
    return not PROXY_HEADERS.isdisjoint(environ) or "\nHTTP_X_FORWARDED_" in "\n" + "\n".join(environ)


def is_local_request(environ: Mapping[str, Any]) -> bool:
    """Whether a request comes from this machine, to a loopback name, without the headers of a proxy."""
    host = authority(environ.get("HTTP_HOST", ""))
    named = host is not None and is_loopback(host[0])
    return named and is_loopback(environ.get("REMOTE_ADDR") or "") and not is_proxied(environ)


class PersonalMode:
    """WSGI middleware: in personal mode, pass requests of this machine and of the operator to `app`; refuse others."""

    def __init__(
        self,
        app: Callable[[Any, StartResponse], Iterable[bytes]],
        settings: Settings,
        is_operator: Callable[[Any], bool],
    ) -> None:
        self._app = app
        self._personal = settings.access == PERSONAL
        self._is_operator = is_operator

    def __call__(self, environ: Any, start_response: StartResponse) -> Iterable[bytes]:
        if self._personal and not self._serves(environ):
            return refuse_stranger(environ).send(start_response)
        return self._app(environ, start_response)

    def _serves(self, environ: Any) -> bool:
        if not is_proxied(environ) and is_loopback(environ.get("REMOTE_ADDR") or ""):
            return True
        path: str = environ.get("PATH_INFO", "")
        return path in OPEN_PATHS or path.startswith("/static/") or self._is_operator(environ)


def refuse_stranger(environ: Mapping[str, Any]) -> Reply:
    """The response to a refused request: a redirect to the login page for browsers, status 401 for programs."""
    path: str = environ.get("PATH_INFO", "/")
    if environ["REQUEST_METHOD"] in ("GET", "HEAD") and wants_html(environ.get("HTTP_ACCEPT", "")):
        location = f"/login?next={quote(path, safe='/')}"
        return Reply(303, headers=[("Location", location), ("Cache-Control", "no-store")])
    return refusal(401, REFUSAL_MESSAGE, ("WWW-Authenticate", 'Bearer realm="patchbay"'), ("Cache-Control", "no-store"))

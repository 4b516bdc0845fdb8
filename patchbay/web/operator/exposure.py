"""Who may reach the hub at all: its own machine only (`access` is `personal`), or strangers too (`open`).

Rules: a hub in personal mode listens on loopback and answers to loopback names only; a start that says otherwise is
refused. A request that came through a proxy, or from another machine, is not served in personal mode unless it
proves that the operator sent it. Health, the login page and the static files answer all the same.
Sources: ACCESS section 1; RFC 7239 (`Forwarded`); RFC 9110, 7.6.3 (`Via`).
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

PERSONAL, OPEN = "personal", "open"
"""The values of the setting `access`."""

PROXY_HEADERS = frozenset(
    (
        *("HTTP_FORWARDED", "HTTP_VIA", "HTTP_X_REAL_IP", "HTTP_X_CLIENT_IP", "HTTP_X_ORIGINAL_FORWARDED_FOR"),
        *("HTTP_CF_CONNECTING_IP", "HTTP_TRUE_CLIENT_IP", "HTTP_FLY_CLIENT_IP", "HTTP_X_ENVOY_EXTERNAL_ADDRESS"),
    )
)
"""What proxies add to a request, as WSGI names it, besides everything that begins with `X-Forwarded-`."""

OPEN_PATHS = ("/healthz", "/readyz", "/login")
"""What answers in personal mode to a request that came through a proxy."""

REFUSAL = (
    "this hub serves its own machine only, and this request came through a proxy or from another machine:"
    " log in at /login, send the operator's token, or start the hub with --access open"
)


def check_exposure(settings: Settings) -> None:
    """Raise ConfigError when a hub in personal mode would serve more than its own machine."""
    if settings.access != PERSONAL:
        return
    strange = [name for name in settings.allowed_hosts if not names_this_machine(name)]
    if is_loopback(settings.host) and not strange:
        return
    where, found = ("--allowed-hosts", strange[0]) if is_loopback(settings.host) else ("--host", settings.host)
    raise ConfigError(
        where,
        "",
        f"{found!r} lets strangers reach this hub, who could call every tool: add --access open to allow that,"
        " or name this machine only (127.0.0.1, localhost)",
    )


def names_this_machine(entry: str) -> bool:
    """Whether an entry of `allowed_hosts` is a loopback name."""
    found = authority(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
    return found is not None and is_loopback(found[0])


def came_through_proxy(environ: Mapping[str, Any]) -> bool:
    """Whether a request carries a header that only proxies add. A proxy that adds none cannot be seen."""
    # One search in the joined names is quicker than a look at each name.
    return not PROXY_HEADERS.isdisjoint(environ) or "\nHTTP_X_FORWARDED_" in "\n" + "\n".join(environ)


def from_this_machine(environ: Mapping[str, Any]) -> bool:
    """Whether a request comes from this machine, with a name of this machine, and through no proxy that says so."""
    host = authority(environ.get("HTTP_HOST", ""))
    named = host is not None and is_loopback(host[0])
    return named and is_loopback(environ.get("REMOTE_ADDR") or "") and not came_through_proxy(environ)


class PersonalMode:
    """WSGI: in personal mode, let requests of this machine and of the operator pass to `app`; refuse the others."""

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
            return refused(environ).send(start_response)
        return self._app(environ, start_response)

    def _serves(self, environ: Any) -> bool:
        if not came_through_proxy(environ) and is_loopback(environ.get("REMOTE_ADDR") or ""):
            return True
        path: str = environ.get("PATH_INFO", "")
        return path in OPEN_PATHS or path.startswith("/static/") or self._is_operator(environ)


def refused(environ: Mapping[str, Any]) -> Reply:
    """The answer of a hub in personal mode to a stranger: the login page to a browser, 401 to a program."""
    path: str = environ.get("PATH_INFO", "/")
    if environ["REQUEST_METHOD"] in ("GET", "HEAD") and wants_html(environ.get("HTTP_ACCEPT", "")):
        location = f"/login?next={quote(path, safe='/')}"
        return Reply(303, headers=[("Location", location), ("Cache-Control", "no-store")])
    return refusal(401, REFUSAL, ("WWW-Authenticate", 'Bearer realm="patchbay"'), ("Cache-Control", "no-store"))

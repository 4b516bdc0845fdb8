"""Requests of a web server by WSGI: a Request out of an environ, and an environ for the pages out of a Request.

An environ does not show the lines of a repeated header, nor an underscore in the name of one; docs/operation.md lists
what a proxy in front of another web server than the hub's own must check itself.
Source: PEP 3333.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from typing import Any

from patchbay.hosts.path_prefix import strip_prefix
from patchbay.hosts.trusted_proxies import TrustedProxies
from patchbay.text_cache import cached_by_text
from patchbay.wire.replies.reply import Reply, StartResponse
from patchbay.wire.requests.request import Body, Request

REQUEST = "patchbay.request"
"""Name in the environ of the Request from which it was made."""

BLIND_SERVER = "Granian"
"""SERVER_SOFTWARE of the web server whose WSGI interface shows a chunked body that is cut off as whole."""

NO_PROXIES = TrustedProxies(())

_CONSTANT: Mapping[str, Any] = {
    "GATEWAY_INTERFACE": "CGI/1.1",
    "SERVER_NAME": "localhost",
    "SERVER_PORT": "80",
    "SERVER_PROTOCOL": "HTTP/1.1",
    "SERVER_SOFTWARE": "Patchbay",
    "wsgi.errors": sys.stderr,
    "wsgi.multiprocess": False,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.version": (1, 0),
}

_UNDERSCORED = ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH")
"""Names in an environ that only a header with an underscore in its name gets."""

_PLAIN = {"CONTENT_TYPE": "content-type", "CONTENT_LENGTH": "content-length"}


class WsgiApplication:
    """The hub for a web server by WSGI: `answer` answers its requests, behind these proxies and below this prefix."""

    def __init__(self, answer: Callable[[Request], Reply], proxies: TrustedProxies, prefix: str) -> None:
        self._answer = answer
        self._proxies = proxies
        self._prefix = prefix

    def __call__(self, environ: Mapping[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request; an answer that is known later holds this thread until then."""
        reply = self._answer(read_environ(environ, self._proxies, self._prefix))
        return reply.settle_on_thread().send(start_response)


def read_environ(environ: Mapping[str, Any], proxies: TrustedProxies = NO_PROXIES, prefix: str = "") -> Request:
    """Return the request of an environ, behind these proxies and below this prefix of the hub."""
    path: str = environ.get("PATH_INFO", "")
    headers = {_header(name): value for name, value in environ.items() if name.startswith("HTTP_") or name in _PLAIN}
    underscored = any(name in environ for name in _UNDERSCORED)
    body = Body(
        environ.get("wsgi.input"),
        has_end=bool(environ.get("wsgi.input_terminated") or environ.get("HTTP_TRANSFER_ENCODING")),
        shows_cuts=environ.get("SERVER_SOFTWARE") != BLIND_SERVER,
    )
    peer: str = environ.get("REMOTE_ADDR") or ""
    port = environ.get("REMOTE_PORT")
    return Request(
        environ.get("REQUEST_METHOD", "GET"),
        strip_prefix(prefix, path) if prefix else path,
        environ.get("QUERY_STRING", ""),
        headers,
        body,
        {},
        proxies.find_client(peer, environ.get("HTTP_X_FORWARDED_FOR")),
        f"{peer}:{port}" if port else "",
        environ.get("wsgi.url_scheme", "http"),
        prefix or environ.get("SCRIPT_NAME", ""),
        "a header has an underscore in its name: expected Content-Type and Content-Length" if underscored else "",
    )


def make_environ(request: Request) -> dict[str, Any]:
    """Return the environ of a request, for an application of WSGI. It holds the request as REQUEST."""
    environ = {
        **_CONSTANT,
        "SCRIPT_NAME": request.prefix,
        "REMOTE_ADDR": request.address,
        "REQUEST_METHOD": request.method,
        "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "wsgi.url_scheme": request.scheme,
        "wsgi.input": request.body.stream,
        "wsgi.input_terminated": request.body.has_end,
        REQUEST: request,
    }
    for name, value in request.headers.items():
        environ[_variable(name)] = value
    return environ


def request_of(environ: MutableMapping[str, Any]) -> Request:
    """Return the request of an environ that `make_environ` made; another environ is read once."""
    found: Request | None = environ.get(REQUEST)
    if found is None:
        found = environ[REQUEST] = read_environ(environ)
    return found


@cached_by_text(1024)
def _header(name: str) -> str:
    """Return the name of a header that has this name in an environ."""
    return _PLAIN.get(name) or name[len("HTTP_") :].replace("_", "-").lower()


@cached_by_text(1024)
def _variable(header: str) -> str:
    """Return the name of a header in an environ."""
    name = header.upper().replace("-", "_")
    return name if header in ("content-type", "content-length") else f"HTTP_{name}"

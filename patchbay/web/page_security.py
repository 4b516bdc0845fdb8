"""Checks of requests before every page, and the security headers of every response."""

from __future__ import annotations

from flask import Flask, Response, request

from patchbay.hosts.path_prefix import link_for
from patchbay.settings import Settings
from patchbay.wire.requests.public_paths import find_checked_origin
from patchbay.wire.requests.security import CSP, check_host_and_origin


def add_security(app: Flask, settings: Settings) -> None:
    """Check Host and Origin before every route of an app; add headers to every response.

    A refusal is raised as an error, which the error handler of the app turns into a response.
    """

    @app.before_request
    def check() -> None:
        environ = request.environ
        origin = find_checked_origin(environ.get("HTTP_ORIGIN"), request.method, request.path, settings)
        check_host_and_origin(environ.get("HTTP_HOST"), origin, settings)

    app.after_request(add_security_headers)
    app.after_request(add_path_prefix)


def add_path_prefix(response: Response) -> Response:
    """Put the path prefix of the hub before the path of a redirect, which a page gives without it."""
    if (location := response.headers.get("Location")) is not None:
        response.headers["Location"] = link_for(request.environ, location)
    return response


def add_security_headers(response: Response) -> Response:
    """Add the security headers to a response. Headers that the route has set stay."""
    headers = response.headers
    headers["X-Content-Type-Options"] = "nosniff"
    if response.mimetype == "text/html":
        headers.setdefault("Content-Security-Policy", CSP)
        headers.setdefault("Referrer-Policy", "same-origin")
        headers.setdefault("Cache-Control", "no-store")
        headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    return response

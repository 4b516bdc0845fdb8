"""The checks of a request in front of every page, and the security headers of every answer."""

from __future__ import annotations

from flask import Flask, Response, request

from patchbay.settings import Settings
from patchbay.wire.security import CSP, check_host_and_origin


def secure(app: Flask, settings: Settings) -> None:
    """Put the check in front of every route of an app and the headers on every answer.

    A refusal is raised as an error: whoever turns errors into answers gives it its form.
    """

    @app.before_request
    def check() -> None:
        environ = request.environ
        check_host_and_origin(environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN"), settings)

    app.after_request(with_headers)


def with_headers(response: Response) -> Response:
    """An answer with the security headers it needs; what a route has set itself stays."""
    headers = response.headers
    headers["X-Content-Type-Options"] = "nosniff"
    if response.mimetype == "text/html":
        headers.setdefault("Content-Security-Policy", CSP)
        headers.setdefault("Referrer-Policy", "same-origin")
        headers.setdefault("Cache-Control", "no-store")
        headers.setdefault("Cross-Origin-Opener-Policy", "same-origin")
        headers.setdefault("Cross-Origin-Resource-Policy", "same-origin")
    return response

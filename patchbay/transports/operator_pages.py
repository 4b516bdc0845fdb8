"""`/login` and `/logout`: the operator's session in a browser.

Rules: both change something only by a POST of the hub's own pages; after logging in one goes on to a page of this
hub and nowhere else; a token that was typed in is never shown again, not even a wrong one.
Sources: THREATS 1.4 (CSRF, open redirect after login); REQUIREMENTS VWR-6.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import parse_qsl

from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams
from patchbay.transports.bodies import Unsupported, media_type, read_body
from patchbay.transports.operators import TooManyTries, WrongToken
from patchbay.transports.page_answers import answer
from patchbay.transports.security import check_same_origin
from patchbay.transports.site import Site

FORM = "application/x-www-form-urlencoded"
LARGEST = 64 * 1024
"""Bytes of a form here."""

_HERE = re.compile(r"/(?:[A-Za-z0-9_.~@=&?%+:-][A-Za-z0-9_.~@=&?%+:/-]*)?", re.ASCII)


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show(self) -> Response:
        """The page to log in and out; it says who is the operator here."""
        return self._page("")

    def log_in(self) -> Response:
        """POST /login: `token` and, where to go then, `next`."""
        check_same_origin(request.headers)
        fields = form_fields(LARGEST)
        try:
            self._site.operators.check_token(fields.get("token", "").strip())
        except (WrongToken, TooManyTries) as problem:
            response = self._page(problem.message, fields.get("next", ""))
            response.status_code = problem.status
            response.headers.extend(problem.headers)
            return response
        response = seen_elsewhere(local(fields.get("next", "")))
        self._site.operators.log_in(response)
        return response

    def log_out(self) -> Response:
        """POST /logout: ends the session."""
        check_same_origin(request.headers)
        response = seen_elsewhere("/login")
        self._site.operators.log_out(response)
        return response

    def _page(self, problem: str, then: str = "") -> Response:
        then = local(then or request.args.get("next", ""))
        return answer(self._site, "login.html", "login", self.values(), problem=problem, then=then)

    def values(self) -> dict[str, Any]:
        standing = self._site.operators.shown()
        return {"operator": standing.operator, "how": standing.how, "needs_token": standing.needs_token}


def form_fields(limit: int) -> dict[str, str]:
    """The fields of an HTML form in the present request; of a repeated one the last.

    Raises Unsupported (415), TooLarge (413), InvalidParams.
    """
    kind = media_type(request.environ.get("CONTENT_TYPE") or "")
    if kind != FORM:
        raise Unsupported(f"send this form as {FORM}; not as {kind or 'nothing said'}")
    body = read_body(request.environ, limit)
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=100))
    except ValueError as problem:
        raise InvalidParams(f"this is no form in UTF-8: {problem}") from problem


def local(path: str) -> str:
    """A path of this hub to go on to; `/` for everything else."""
    return path if _HERE.fullmatch(path) and len(path) < 2000 else "/"


def seen_elsewhere(path: str) -> Response:
    """Go on to another page of this hub, by GET."""
    response = Response(status=303)
    response.headers["Location"] = path
    response.headers["Cache-Control"] = "no-store"
    return response


def operator_blueprint(site: Site) -> Blueprint:
    """`/login` and `/logout`."""
    views = _Views(site)
    pages = Blueprint("operator", __name__)
    pages.add_url_rule("/login", "login", views.show)
    pages.add_url_rule("/login", "log_in", views.log_in, methods=["POST"])
    pages.add_url_rule("/logout", "log_out", views.log_out, methods=["POST"])
    return pages

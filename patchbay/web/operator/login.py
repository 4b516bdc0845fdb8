"""`/login` and `/logout`: the operator's session in a browser.

Rules: both change something only by a POST of the hub's own pages, or by a link that works once. After the login the
browser goes on to a page of this hub and nowhere else. A token that was typed in is not shown again.
Sources: ACCESS section 1; THREATS 1.4 (CSRF, open redirect after login); REQUIREMENTS VWR-6.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl

from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams
from patchbay.web.operator.operators import NotOperator, TokenUnreadable, TooManyTries
from patchbay.web.pages.answers import at_json_address, render_answer
from patchbay.web.site import Site
from patchbay.wire.request_bodies import Unsupported, media_type, read_body
from patchbay.wire.security import check_same_origin

FORM = "application/x-www-form-urlencoded"
MAX_FORM_BYTES = 64 * 1024
"""Bytes of a form here."""

_HERE = re.compile(r"/(?:[A-Za-z0-9_.~@=&?%+:-][A-Za-z0-9_.~@=&?%+:/-]*)?", re.ASCII)


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show(self) -> Response:
        """GET /login: the page to log in and out. With `once`, which a login link carries, the login itself."""
        once = request.args.get("once")
        if once is None or request.method != "GET" or at_json_address():
            return self._page("")
        # A browser that is logged in may load its link again.
        known = self._site.operators.is_operator(request.environ)
        then = request.args.get("next", "")
        return self._entered(lambda: self._site.operators.check_link(once, request.remote_addr or ""), then, known)

    def log_in(self) -> Response:
        """POST /login: `token` and, where to go then, `next`."""
        check_same_origin(request.headers)
        fields = form_fields(MAX_FORM_BYTES)
        token = fields.get("token", "").strip()
        check = self._site.operators.check_token
        return self._entered(lambda: check(token, request.remote_addr or ""), fields.get("next", ""))

    def _entered(self, check: Callable[[], None], then: str, known: bool = False) -> Response:
        """Go on to `then` with a session when `check` does not raise, or when the browser is `known` already."""
        response = seen_elsewhere(local(then))
        try:
            check()
        except (NotOperator, TooManyTries, TokenUnreadable) as problem:
            return response if known else self._refused(problem, then)
        self._site.operators.log_in(response)
        return response

    def _refused(self, problem: NotOperator | TooManyTries | TokenUnreadable, then: str) -> Response:
        response = self._page(problem.message, then)
        response.status_code = problem.status
        response.headers.extend(getattr(problem, "headers", {}))
        return response

    def log_out(self) -> Response:
        """POST /logout: ends the session."""
        check_same_origin(request.headers)
        response = seen_elsewhere("/login")
        self._site.operators.log_out(response)
        return response

    def _page(self, problem: str, then: str = "") -> Response:
        then = local(then or request.args.get("next", ""))
        return render_answer(self._site, "login.html", "login", self.values(), problem=problem, then=then)

    def values(self) -> dict[str, Any]:
        standing = self._site.operators.shown()
        return {"operator": standing.operator, "how": standing.how, "access": self._site.settings.access}


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

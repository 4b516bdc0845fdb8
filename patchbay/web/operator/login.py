"""`/login` and `/logout`: the operator's session in a browser.

Both need a POST from a page of the hub, or a login link that works once. After the login the browser goes only to a
page of this hub. The hub never shows a typed token again.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from io import BytesIO
from typing import Any
from urllib.parse import parse_qsl

from flask import Blueprint, Response, request
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.formparser import MultiPartParser
from werkzeug.http import parse_options_header

from patchbay.errors import InvalidParams
from patchbay.web.operator.operators import NotOperator, TokenUnreadable, TooManyWrongTokens
from patchbay.web.site.answers import is_json_address, render_answer
from patchbay.web.site.site import Site
from patchbay.wire.requests.bodies import Unsupported, drop_body, media_type, read_body
from patchbay.wire.requests.security import check_same_origin
from patchbay.wire.requests.wsgi import request_of

FORM = "application/x-www-form-urlencoded"
UPLOAD = "multipart/form-data"
MAX_UPLOAD_PARTS = 20
MAX_FORM_BYTES = 64 * 1024
"""Bytes of the login form, at most."""

MAX_PATH_CHARACTERS = 16 * 1024
"""Characters of the page after the login, at most: the request of an OAuth client is part of its path."""

_LOCAL_PATH = re.compile(r"/(?:[A-Za-z0-9_.~@=&?%+:-][A-Za-z0-9_.~@=&?%+:/-]*)?", re.ASCII)

_DOT_SEGMENT = re.compile(r"/(?:\.|%2e){1,2}(?:/|$)", re.ASCII | re.IGNORECASE)
"""What a browser takes for `/.` or `/..` (https://url.spec.whatwg.org/#double-dot-path-segment)."""


class _LoginViews:
    def __init__(self, site: Site, describe: Callable[[], dict[str, Any]]) -> None:
        self._site = site
        self._describe = describe

    def show(self) -> Response:
        """GET /login: the page to log in and out. With `once`, the token of a login link, log in."""
        once = request.args.get("once")
        if once is None or request.method != "GET" or is_json_address():
            return self._page("")
        # A browser with a session may load its login link again.
        known = self._site.operators.is_operator(request_of(request.environ))
        then = request.args.get("next", "")
        return self._entered(lambda: self._site.operators.check_link(once, request.remote_addr or ""), then, known)

    def log_in(self) -> Response:
        """POST /login with `token` and `next`, the page after the login."""
        check_same_origin(request.headers)
        fields = read_form(MAX_FORM_BYTES)
        token = fields.get("token", "").strip()
        check = self._site.operators.check_token
        return self._entered(lambda: check(token, request.remote_addr or ""), fields.get("next", ""))

    def _entered(self, check: Callable[[], object], then: str, known: bool = False) -> Response:
        """Redirect to `then` with a session, unless `check` raises. A `known` browser is redirected in any case."""
        response = redirect_to(local_path(then))
        try:
            check()
        except (NotOperator, TooManyWrongTokens, TokenUnreadable) as problem:
            return response if known else self._refused(problem, then)
        self._site.operators.log_in(response)
        return response

    def _refused(self, problem: NotOperator | TooManyWrongTokens | TokenUnreadable, then: str) -> Response:
        response = self._page(problem.message, then)
        response.status_code = problem.status
        response.headers.extend(getattr(problem, "headers", {}))
        return response

    def log_out(self) -> Response:
        """POST /logout: end the session."""
        check_same_origin(request.headers)
        drop_body(request_of(request.environ), MAX_FORM_BYTES)
        response = redirect_to("/login")
        self._site.operators.log_out(response)
        return response

    def _page(self, problem: str, then: str = "") -> Response:
        then = local_path(then or request.args.get("next", ""))
        return render_answer(
            self._site,
            "login.html",
            "login",
            self._describe(),
            problem=problem,
            then=then,
            wrong="",
            marks_fields=False,
            name="",
        )


MAX_FIELDS = 100
"""Fields of a form, unless the page needs more."""


def read_form(limit: int, most: int = MAX_FIELDS) -> dict[str, str]:
    """Read the fields of an HTML form in the current request, at most `most`; a repeated field has its last value.

    Raises Unsupported (415), TooLarge (413), InvalidParams.
    """
    kind = media_type(request.environ.get("CONTENT_TYPE") or "")
    if kind != FORM:
        raise Unsupported(f"send this form as {FORM}; the content type is {kind or 'missing'}")
    body = read_body(request_of(request.environ), limit)
    try:
        return dict(parse_qsl(body.decode("utf-8"), keep_blank_values=True, errors="strict", max_num_fields=most))
    except ValueError as problem:
        raise InvalidParams(f"the form is not valid UTF-8 form data: {problem}") from problem


def read_upload(limit: int) -> dict[str, str]:
    """Read the fields and files of an HTML form with files in the current request; each file is a text in UTF-8.

    Raises Unsupported (415), TooLarge (413), InvalidParams.
    """
    fields, files = _parse_upload(limit, MAX_UPLOAD_PARTS)
    try:
        return fields | {name: data.decode("utf-8") for name, data in files.items()}
    except ValueError as problem:
        raise InvalidParams(f"the form is not valid {UPLOAD} in UTF-8: {problem}") from problem


def read_form_with_files(limit: int, most: int) -> tuple[dict[str, str], dict[str, bytes]]:
    """Read a form with or without files: its fields, and the bytes of each file that was chosen, by their names.

    A program may send it without files as `read_form` takes it. Raises Unsupported (415), TooLarge (413),
    InvalidParams.
    """
    if media_type(request.environ.get("CONTENT_TYPE") or "") == UPLOAD:
        return _parse_upload(limit, most)
    return read_form(limit, most), {}


def _parse_upload(limit: int, most: int) -> tuple[dict[str, str], dict[str, bytes]]:
    """Return the fields of a form with files, and its chosen files; it has `most` parts at most."""
    content_type = request.environ.get("CONTENT_TYPE") or ""
    kind, options = parse_options_header(content_type)
    if kind != UPLOAD or not options.get("boundary"):
        raise Unsupported(f"send this form as {UPLOAD}; the content type is {kind or 'missing'}")
    body = read_body(request_of(request.environ), limit)
    parser = MultiPartParser(stream_factory=lambda *_, **__: BytesIO(), max_form_memory_size=limit, max_form_parts=most)
    try:
        form, files = parser.parse(BytesIO(body), options["boundary"].encode("latin-1"), len(body))
    except (ValueError, RequestEntityTooLarge) as problem:
        raise InvalidParams(f"the form is not valid {UPLOAD} in UTF-8: {problem}") from problem
    # A browser sends a part without a name of a file where none was chosen.
    return dict(form.items()), {name: file.read() for name, file in files.items() if file.filename}


def local_path(path: str) -> str:
    """The path when it is a path of this hub, else `/`. A dot segment could lead out of the path prefix of the hub."""
    is_local = _LOCAL_PATH.fullmatch(path) and not _DOT_SEGMENT.search(path.partition("?")[0])
    return path if is_local and len(path) <= MAX_PATH_CHARACTERS else "/"


def redirect_to(path: str) -> Response:
    """Redirect to another page of this hub (303)."""
    response = Response(status=303)
    response.headers["Location"] = path
    response.headers["Cache-Control"] = "no-store"
    return response


def operator_blueprint(site: Site, describe: Callable[[], dict[str, Any]]) -> Blueprint:
    """The routes `/login` and `/logout`. `describe` returns the data of the page: who is logged in."""
    views = _LoginViews(site, describe)
    pages = Blueprint("operator", __name__)
    pages.add_url_rule("/login", "login", views.show)
    pages.add_url_rule("/login", "log_in", views.log_in, methods=["POST"])
    pages.add_url_rule("/logout", "log_out", views.log_out, methods=["POST"])
    return pages

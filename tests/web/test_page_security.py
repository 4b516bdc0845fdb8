"""The headers of every page, and the check of Host and Origin before a page is looked up."""

from __future__ import annotations

import pytest
from flask import Flask, Response

from patchbay.errors import PatchbayError
from patchbay.settings import Settings
from patchbay.web.page_security import add_security
from patchbay.wire.requests.security import CSP


def small_app() -> Flask:
    app = Flask("small")
    add_security(app, Settings())
    app.register_error_handler(PatchbayError, lambda problem: (problem.message, problem.status))
    app.add_url_rule("/page", "page", lambda: "<p>page</p>")
    app.add_url_rule("/own", "own", lambda: Response("x", headers={"Content-Security-Policy": "sandbox"}))
    app.add_url_rule("/data", "data", lambda: Response("{}", mimetype="application/json"))
    return app


def test_a_page_gets_every_header_and_keeps_what_it_set_itself() -> None:
    client = small_app().test_client()
    headers = client.get("/page").headers
    assert headers["Content-Security-Policy"] == CSP
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Opener-Policy"] == "same-origin"
    assert client.get("/own").headers["Content-Security-Policy"] == "sandbox"
    assert client.get("/data").headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize("path", ["/page", "/nowhere", "/mcp/echo", "/static/x"])
def test_the_check_comes_before_the_path_is_looked_up(path: str) -> None:
    client = small_app().test_client()
    assert client.get(path, headers={"Host": "evil.example"}).status_code == 421
    assert client.get(path, headers={"Origin": "http://evil.example"}).status_code == 403

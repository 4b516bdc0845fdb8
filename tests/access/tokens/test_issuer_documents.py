"""Fetching from an issuer: which addresses it may lead to, and answers that are too large, too slow or of another."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from patchbay.access.tokens import issuer_documents
from patchbay.access.tokens.issuer import Issuer, load_issuer
from patchbay.access.tokens.issuer_documents import MAX_DOCUMENT_BYTES, IssuerDocuments
from patchbay.access.tokens.problems import IssuerUnavailable
from patchbay.client.auth.token_exchange import list_metadata_urls
from patchbay.errors import ConfigError
from patchbay.settings import Settings

Answer = Callable[[BaseHTTPRequestHandler], None]


class Web:
    """A server of scripted answers, by path; `seen` are the paths that were asked for."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.seen: list[str] = []
        self.ended = threading.Event()
        web = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.seen.append(self.path)
                if self.path in web.answers:
                    web.answers[self.path](self)
                else:
                    self.send_error(404)

            def log_message(self, *_: Any) -> None:
                """Write nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def set_answer(self, path: str, value: Any) -> None:
        self.answers[path] = lambda handler: send(handler, json.dumps(value).encode())

    def redirect(self, path: str, target: str) -> None:
        def answer(handler: BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", target)
            handler.send_header("Content-Length", "0")
            handler.end_headers()

        self.answers[path] = answer

    def close(self) -> None:
        self.ended.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


def send(handler: BaseHTTPRequestHandler, data: bytes) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", str(len(data)))
    handler.end_headers()
    handler.wfile.write(data)


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    yield web
    web.close()


def test_metadata_is_looked_for_where_mcp_clients_look() -> None:
    assert list_metadata_urls("https://id.example.org/realms/acme") == [
        "https://id.example.org/.well-known/oauth-authorization-server/realms/acme",
        "https://id.example.org/.well-known/openid-configuration/realms/acme",
        "https://id.example.org/realms/acme/.well-known/openid-configuration",
    ]
    assert len(list_metadata_urls("https://id.example.org/")) == 2


def test_metadata_of_another_issuer_is_refused_and_the_message_names_it(web: Web) -> None:
    web.set_answer("/.well-known/oauth-authorization-server", {"issuer": web.url + "/"})
    with pytest.raises(IssuerUnavailable, match="write --issuer exactly so"):
        IssuerDocuments(Issuer(web.url)).discover()
    web.set_answer("/.well-known/openid-configuration", {"issuer": web.url, "jwks_uri": "here"})
    assert IssuerDocuments(Issuer(web.url)).discover()["jwks_uri"] == "here"


@pytest.mark.parametrize(
    "url",
    [
        "https://127.0.0.1:1/jwks",
        "https://10.0.0.1/jwks",
        "https://169.254.169.254/latest/meta-data",
        "https://[::1]/jwks",
        "https://[::ffff:127.0.0.1]/jwks",
        "https://localhost/jwks",
        "http://203.0.113.9/jwks",
        "file:///etc/passwd",
        "ftp://127.0.0.1/jwks",
        "jwks",
    ],
)
def test_a_url_in_the_metadata_may_not_lead_to_a_private_address(web: Web, url: str) -> None:
    with pytest.raises(IssuerUnavailable) as caught:
        IssuerDocuments(Issuer(web.url)).fetch(url)
    assert "not a public address" in str(caught.value) or "not an https URL" in str(caught.value)


def test_the_operator_can_allow_a_private_host_by_its_name(web: Web) -> None:
    other = Web()
    try:
        other.set_answer("/jwks", {"keys": []})
        url = other.url.replace("127.0.0.1", "localhost") + "/jwks"
        with pytest.raises(IssuerUnavailable):
            IssuerDocuments(Issuer(web.url)).fetch(url)
        assert other.seen == []
        assert IssuerDocuments(Issuer(web.url, private_hosts=frozenset(("localhost",)))).fetch(url) == {"keys": []}
    finally:
        other.close()


def test_a_redirect_to_another_origin_is_not_followed(web: Web) -> None:
    other = Web()
    try:
        web.redirect("/jwks", other.url + "/jwks")
        with pytest.raises(IssuerUnavailable, match="not followed"):
            IssuerDocuments(Issuer(web.url)).fetch(web.url + "/jwks")
        assert other.seen == []
        web.redirect("/round", web.url + "/round")
        with pytest.raises(IssuerUnavailable, match="redirects more than"):
            IssuerDocuments(Issuer(web.url)).fetch(web.url + "/round")
    finally:
        other.close()


def test_an_answer_that_is_too_large_or_no_object_is_refused(web: Web) -> None:
    web.answers["/large"] = lambda handler: send(handler, b" " * (MAX_DOCUMENT_BYTES + 1))
    web.answers["/text"] = lambda handler: send(handler, b"hello")
    web.set_answer("/list", [])
    for path, reason in (("/large", "more than"), ("/text", "not JSON"), ("/list", "JSON object"), ("/no", "404")):
        with pytest.raises(IssuerUnavailable, match=reason):
            IssuerDocuments(Issuer(web.url)).fetch(web.url + path)


def test_an_answer_that_never_ends_is_given_up(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    def drip(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.end_headers()
        for _ in range(3000):
            if web.ended.wait(0.02):
                return
            try:
                handler.wfile.write(b" ")
            except OSError:
                return

    web.answers["/drip"] = drip
    monkeypatch.setattr(issuer_documents, "FETCH_SECONDS", 0.2)
    with pytest.raises(IssuerUnavailable, match="did not end its answer"):
        IssuerDocuments(Issuer(web.url)).fetch(web.url + "/drip")


RIGHT = {"issuer": "https://id.example.org/realms/acme"}


def test_without_an_issuer_there_are_no_access_tokens() -> None:
    assert load_issuer(Settings(), {}) is None


def test_the_settings_become_an_issuer() -> None:
    settings = Settings.load(
        {
            **RIGHT,
            **{"audiences": "api://hub, hub", "required_scopes": "see,call", "token_types": "at+jwt,JWT"},
            **{"introspection_id": "hub", "introspection_secret": "${SECRET}", "issuer_hosts": "keycloak"},
        },
        {},
    )
    issuer = load_issuer(settings, {"SECRET": "s3cret"})
    assert issuer is not None
    assert (issuer.client_id, issuer.client_secret, issuer.has_introspection) == ("hub", "s3cret", True)
    assert issuer.audiences == {"api://hub", "hub"}
    assert issuer.required_scopes == ("see", "call")
    assert "s3cret" not in repr(issuer)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"issuer": "id.example.org"}, "--issuer"),
        ({"issuer": "https://"}, "--issuer"),
        ({"issuer": "https://ann:pw@id.example.org"}, "--issuer"),
        ({"issuer": "https://id.example.org?a=b"}, "--issuer"),
        ({"issuer": "https://id.example.org#a"}, "--issuer"),
        ({"issuer": "https://id.example.org:port"}, "--issuer"),
        ({"issuer": "https://id.exämple.org"}, "--issuer"),
        ({"issuer": "http://id.example.org"}, "--issuer"),
        ({"issuer": "ftp://id.example.org"}, "--issuer"),
        ({"required_scopes": ("a b",)}, "--required-scopes"),
        ({"required_scopes": ('a"b',)}, "--required-scopes"),
        ({"token_types": ()}, "--token-types"),
        ({"introspection_id": "hub"}, "--introspection-id"),
        ({"introspection_secret": "${SECRET}"}, "--introspection-id"),
        ({"introspection_id": "hub", "introspection_secret": "s3cret"}, "--introspection-secret"),
        ({"introspection_id": "hub", "introspection_secret": "${ABSENT}"}, "--introspection-secret"),
    ],
    ids=str,
)
def test_wrong_settings_stop_the_start_and_are_named(changes: dict[str, Any], where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_issuer(Settings(**(RIGHT | changes)), {"SECRET": "s3cret"})
    assert caught.value.where == where
    assert "s3cret" not in str(caught.value)


def test_http_is_for_loopback_and_for_hosts_that_the_operator_names() -> None:
    assert load_issuer(Settings(issuer="http://127.0.0.1:9000"), {}) is not None
    assert load_issuer(Settings(issuer="http://keycloak:8080", issuer_hosts=("keycloak",)), {}) is not None

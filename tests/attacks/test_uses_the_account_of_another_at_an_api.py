"""An attacker wants the token that another person has for a mounted HTTP API, or to lead a sign-in elsewhere.

The API of these tests is its own authorization server, at the same origin.
Sources: RFC 9700, sections 4.4 (mix-up), 4.7 (state) and 4.10 (misuse of tokens); CWE-918.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
from werkzeug.test import TestResponse

from patchbay.access.upstreams.token_store import TokenStore
from patchbay.client.auth.token_clients import IssuedTokens, TokenClient
from tests.access.upstreams.guarded import Caller, begin, caller_of, is_connected, name_of, page_of, tools_of
from tests.hubs import Hub
from tests.kinds.openapi.mounting import Json, document, operation, parameter
from tests.kinds.openapi.recording_api import Recorded, RecordingApi, Reply, recording_api
from tests.signing_in import HTML, Browser, hidden_fields, shared_hub, signed_in
from tests.waiting import until

NAMES = iter(f"person{number}" for number in range(1000))
TOKEN_HEADER = parameter("Authorization", "header")
LOGIN = {"login": {"type": "openIdConnect", "openIdConnectUrl": "/.well-known/openid-configuration"}}
PATHS: Json = {
    path: {"get": operation(TOKEN_HEADER, operationId=path.strip("/"), security=[{"login": ["read"]}])}
    for path in ("/whoami", "/moved", "/refused")
}


class OwnIssuer:
    """Answers as an API and as its authorization server; `moved_to` is where `/moved` redirects to."""

    def __init__(self) -> None:
        self.url = self.moved_to = ""
        self.refused: set[str] = set()
        self.forms: list[dict[str, str]] = []

    def __call__(self, seen: Recorded) -> Reply:
        if seen.path == "/.well-known/openid-configuration":
            return Reply(metadata(self.url))
        if seen.path == "/register":
            return Reply(json.loads(seen.body) | {"client_id": "hub"}, 201)
        if seen.path == "/token":
            form = dict(parse_qsl(seen.body.decode()))
            self.forms.append(form)
            token = f"{form.get('code') or form['refresh_token']}+"
            return Reply({"access_token": token, "token_type": "Bearer", "expires_in": 600, "refresh_token": token})
        token = str(seen.headers["Authorization"]).removeprefix("Bearer ")
        if seen.path == "/refused" or token in self.refused:
            return Reply({"detail": f"refused {token}"}, 401)
        return Reply(None, 302, {"Location": self.moved_to}) if seen.path == "/moved" else Reply({"token": token})


def metadata(url: str, **changes: Any) -> Json:
    """The metadata of an authorization server."""
    return {
        "issuer": url,
        **{f"{name}_endpoint": f"{url}/{path}" for name, path in (("authorization", "auth"), ("token", "token"))},
        "registration_endpoint": f"{url}/register",
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": True,
        **changes,
    }


def mount(api: RecordingApi, **oauth: str) -> str:
    fields = {"document": f"{api.url}/openapi.json", "base": api.url, "account": "caller", "refresh": 1}
    return json.dumps({"kind": "openapi", **fields} | ({"oauth": oauth} if oauth else {}))


def described(schemes: Mapping[str, Any]) -> Json:
    return document(PATHS, components={"securitySchemes": schemes})


@pytest.fixture(scope="module")
def issuer() -> OwnIssuer:
    return OwnIssuer()


@pytest.fixture(scope="module")
def api(issuer: OwnIssuer) -> Iterator[RecordingApi]:
    with recording_api(described(LOGIN), issuer) as api:
        issuer.url = api.url
        yield api


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[RecordingApi]:
    """Another server at a private address, which must not be contacted."""
    with recording_api({}, lambda seen: Reply(metadata("http://elsewhere.example"))) as elsewhere:
        yield elsewhere


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, api: RecordingApi) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"), files={"far.json": mount(api)})
    until(lambda: hub.catalogue.find("far").tools, lambda: hub.catalogue.find("far"))
    yield hub
    hub.close()


@pytest.fixture
def victim(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), "far")


@pytest.fixture
def attacker(hub: Hub) -> Caller:
    return caller_of(hub, signed_in(hub, next(NAMES)), "far")


def answer_to(url: str, code: str, **changes: str) -> str:
    """The path to which the authorization server of `url` sends a browser back."""
    parts = urlsplit(url)
    asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
    values = {"code": code, "state": asked["state"], "iss": f"{parts.scheme}://{parts.netloc}"} | changes
    query = urlencode({name: value for name, value in values.items() if value})
    return f"{urlsplit(asked['redirect_uri']).path}?{query}"


def come_back(caller: Caller, path: str) -> TestResponse:
    return caller.browser.client.get(path, headers=HTML)


def connect(caller: Caller, code: str) -> None:
    assert come_back(caller, answer_to(begin(caller.browser.client, "far"), code)).status_code == 200


def token_of(caller: Caller) -> str:
    """The token with which the API gets a call."""
    return str(caller.call("far", "whoami").result["structuredContent"]["token"])


def call_all(folder: Path, api: RecordingApi, where: str) -> set[str]:
    """Call every tool of an API, of which the document is at `where`, with a token; return those without an error."""
    fields = {"base": api.url, "account": "caller", "pages": 5, "document": where}
    hub = shared_hub(folder, files={"far.json": json.dumps({"kind": "openapi", **fields})})
    try:
        until(lambda: hub.catalogue.find("far").tools, lambda: hub.catalogue.find("far"))
        caller = caller_of(hub, signed_in(hub, "ann"), "far")
        tokens: TokenStore = hub.app.parts.dispatcher.services.upstream_tokens
        client = TokenClient(issuer=api.url, token_url=f"{api.url}/token", client_id="hub", resource="")
        upstream = hub.catalogue.find("far").standing.accounts.upstream
        tokens.connect("ann", upstream, client, IssuedTokens(access_token="of-ann"), "ann")
        return {name for name in tools_of(caller, "far") if not caller.call("far", name).result["isError"]}
    finally:
        hub.close()


def test_the_token_of_one_principal_is_not_used_for_another(
    api: RecordingApi, victim: Caller, attacker: Caller
) -> None:
    connect(victim, "of-victim")
    assert token_of(victim) == "of-victim+"
    before = len(api.requests)
    assert attacker.call("far", "whoami").text.endswith("/upstreams/far")
    assert len(api.requests) == before
    connect(attacker, "of-attacker")
    assert [token_of(caller) for caller in (victim, attacker, victim)] == ["of-victim+", "of-attacker+", "of-victim+"]


def test_no_argument_and_no_header_of_a_caller_is_sent_as_a_token(hub: Hub, api: RecordingApi, victim: Caller) -> None:
    connect(victim, "of-victim")
    (tool,) = (one for one in victim.modern("far", "tools/list").result["tools"] if one["name"] == "whoami")
    assert tool["inputSchema"]["properties"] == {}
    assert token_of(victim) == "of-victim+"
    seen = str([list(one.headers.items()) for one in (*api.requests, *api.document_requests)])
    for secret in (victim.token, hub.token):
        assert secret not in seen


def test_a_redirect_to_another_origin_gets_no_request(
    issuer: OwnIssuer, elsewhere: RecordingApi, victim: Caller
) -> None:
    connect(victim, "of-victim")
    issuer.moved_to = f"{elsewhere.url}/whoami"
    assert "302 Found" in victim.call("far", "moved").text
    assert elsewhere.requests == []
    issuer.moved_to = "/whoami"
    assert victim.call("far", "moved").result["structuredContent"] == {"token": "of-victim+"}


def test_no_path_of_the_document_leads_the_token_to_another_host(tmp_path: Path) -> None:
    """`http://api` and the path `@evil.example/x` are a URL of evil.example."""
    with recording_api({}) as other, recording_api({}) as api:
        evil = f"@{urlsplit(other.url).netloc}/take"
        paths = {evil: {"get": operation(operationId="take")}, "/give": {"get": operation(operationId="give")}}
        api.document = document(paths)
        assert call_all(tmp_path, api, f"{api.url}/openapi.json") == {"give"}
        assert [one.headers["Authorization"] for one in api.requests] == ["Bearer of-ann"]
        assert other.requests == []


def test_a_next_page_at_the_origin_of_the_document_gets_no_token(tmp_path: Path) -> None:
    """The document may be at another origin than the API, and that origin is a named one too."""
    listed = {"/list": {"get": operation(operationId="list", answer={"type": "array", "items": {}})}}
    with recording_api(document(listed)) as other, recording_api({}) as api:
        api.answer = lambda seen: Reply([1], 200, {"Link": f'<{other.url}/list>; rel="next"'})
        assert call_all(tmp_path, api, f"{other.url}/openapi.json") == {"list"}
        assert [one.headers["Authorization"] for one in api.requests] == ["Bearer of-ann"]
        assert other.requests == []


def test_a_request_to_another_origin_that_the_operator_named_gets_no_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The last check before a request is sent, for whatever leads it there."""
    listed = {"/list": {"get": operation(operationId="list", answer={"type": "array", "items": {}})}}
    with recording_api(document(listed)) as other, recording_api({}, lambda seen: Reply([1])) as api:
        monkeypatch.setattr("patchbay.kinds.openapi.handler.find_next_url", lambda *_: f"{other.url}/list")
        assert call_all(tmp_path, api, f"{other.url}/openapi.json") == set()
        assert len(api.requests) == 1
        assert other.requests == []


def test_a_token_that_the_api_refuses_is_renewed_once_and_shown_in_no_answer(
    issuer: OwnIssuer, api: RecordingApi, victim: Caller
) -> None:
    connect(victim, "of-victim")
    issuer.refused.add("of-victim+")
    assert token_of(victim) == "of-victim++"
    before = len(api.requests)
    refused = victim.call("far", "refused")
    assert [one.path for one in api.requests[before:]] == ["/refused", "/token", "/refused"]
    assert refused.result["isError"]
    assert "of-victim" not in str(refused.result)
    assert refused.text.endswith("/upstreams/far")


def test_a_forwarded_sign_in_connects_no_account(hub: Hub, victim: Caller, attacker: Caller) -> None:
    back = answer_to(begin(attacker.browser.client, "far"), "of-victim")
    assert come_back(victim, back).status_code == 403
    assert come_back(Caller(hub, Browser(hub), ""), back).status_code == 403
    assert not is_connected(hub, name_of(attacker))
    assert not is_connected(hub, name_of(victim))


def test_a_state_works_once_and_its_code_goes_out_with_the_verifier_of_its_challenge(
    issuer: OwnIssuer, victim: Caller
) -> None:
    url = begin(victim.browser.client, "far")
    assert parse_qs(urlsplit(url).query)["code_challenge_method"] == ["S256"]
    assert come_back(victim, answer_to(url, "once")).status_code == 200
    assert come_back(victim, answer_to(url, "twice")).status_code == 403
    assert [form["code"] for form in issuer.forms if form.get("code") in ("once", "twice")] == ["once"]
    assert len(issuer.forms[-1]["code_verifier"]) >= 43


@pytest.mark.parametrize("iss", ["https://evil.example", ""])
def test_the_answer_of_another_issuer_is_refused_before_its_code_is_sent(
    hub: Hub, issuer: OwnIssuer, victim: Caller, iss: str
) -> None:
    back = answer_to(begin(victim.browser.client, "far"), "mixed-up", iss=iss)
    assert come_back(victim, back).status_code == 502
    assert not [form for form in issuer.forms if form.get("code") == "mixed-up"]
    assert not is_connected(hub, name_of(victim))


def code_flow(authorization: str, token: str) -> Json:
    flow = {"authorizationUrl": authorization, "tokenUrl": token, "scopes": {"read": "Read"}}
    return {"login": {"type": "oauth2", "flows": {"authorizationCode": flow}}}


LEADING = [
    lambda own, other: {"login": {"type": "openIdConnect", "openIdConnectUrl": f"{other}{WELL_KNOWN}"}},
    lambda own, other: {"login": {"type": "oauth2", "oauth2MetadataUrl": f"{other}{WELL_KNOWN}", "flows": {}}},
    lambda own, other: code_flow(f"{own}/auth", f"{other}/token"),
    lambda own, other: code_flow(f"{other}/auth", f"{own}/token"),
    lambda own, other: code_flow("https://login.example/auth", "https://login.example/token"),
    lambda own, other: code_flow("javascript:alert(1)", f"{own}/token"),
    lambda own, other: {"login": {"type": "http", "scheme": "bearer"}},
]
WELL_KNOWN = "/.well-known/openid-configuration"


@pytest.mark.parametrize("schemes", LEADING)
def test_no_document_leads_a_sign_in_to_an_origin_that_the_operator_did_not_name(
    hub: Hub, api: RecordingApi, elsewhere: RecordingApi, victim: Caller, schemes: Any
) -> None:
    api.document = described(schemes(api.url, elsewhere.url))
    try:
        standing = hub.catalogue.find("far").standing
        wanted = api.document["components"]
        until(lambda: standing.build().api.document["components"] == wanted)
        fields = hidden_fields(page_of(victim.browser.client, "far").text, "csrf", "for")
        page = victim.browser.client.post("/upstreams/far", data=fields | {"do": "connect"}, headers=HTML)
        assert page.status_code == 502, page.text
        assert "name it in the configuration" in page.text or "name the authorization server" in page.text, page.text
        assert elsewhere.requests == []
    finally:
        api.document = described(LOGIN)
        until(lambda: standing.build().api.document["components"] == api.document["components"])

"""An attacker has a code, a state or a refresh token of another client, or changes where they go."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from patchbay.access.authentication import Unauthorized
from tests.hubs import Hub
from tests.signing_in import BASE, Browser, OAuthClient, answer_of, body_of, principal_of, shared_hub, signed_in


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"))
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> Browser:
    return signed_in(hub, "ann")


def test_a_replayed_code_ends_the_tokens_of_its_first_use(hub: Hub, ann: Browser) -> None:
    """RFC 6749, section 4.1.2; RFC 9700, section 4.5."""
    client = OAuthClient(hub).register()
    code = client.code(ann)
    client.tokens = body_of(client.redeem(code))
    assert principal_of(hub, client.access) is not None
    assert body_of(client.redeem(code))["error"] == "invalid_grant"
    with pytest.raises(Unauthorized):
        principal_of(hub, client.access)
    assert body_of(client.refresh())["error"] == "invalid_grant"


def test_a_stolen_code_is_of_no_use_to_another_client_or_without_the_verifier(hub: Hub, ann: Browser) -> None:
    """RFC 7636; RFC 9700, section 4.5.3 (code injection)."""
    client, thief = OAuthClient(hub).register(), OAuthClient(hub).register()
    code = client.code(ann)
    thief.verifier = client.verifier
    assert body_of(thief.redeem(code))["error"] == "invalid_grant"
    for verifier in ("x" * 43, client.verifier[:-1] + "~", client.verifier + "x"):
        assert body_of(client.redeem(code, code_verifier=verifier))["error"] == "invalid_grant"
    assert body_of(client.redeem(code, code_verifier=""))["error"] == "invalid_request"
    assert client.redeem(code).status_code == 200


def test_a_stolen_refresh_token_ends_with_its_owners_next_refresh(hub: Hub, ann: Browser) -> None:
    """RFC 9700, section 4.14.2."""
    owner = OAuthClient(hub).register().sign_in(ann)
    stolen = owner.tokens["refresh_token"]
    thief = body_of(owner.refresh(stolen))
    assert principal_of(hub, thief["access_token"]) is not None
    assert body_of(owner.refresh(stolen))["error"] == "invalid_grant"
    for token in (thief["access_token"], owner.access):
        with pytest.raises(Unauthorized):
            principal_of(hub, token)
    assert body_of(owner.refresh(thief["refresh_token"]))["error"] == "invalid_grant"


def test_a_refresh_token_of_another_client_is_refused_and_goes_on_for_its_owner(hub: Hub, ann: Browser) -> None:
    owner, thief = OAuthClient(hub).register().sign_in(ann), OAuthClient(hub).register()
    assert body_of(thief.refresh(owner.tokens["refresh_token"]))["error"] == "invalid_grant"
    assert owner.refresh().status_code == 200


def test_a_refresh_gives_no_other_resource_and_no_more_scopes(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register().sign_in(ann, scope="see")
    assert body_of(client.refresh(resource=f"{BASE}/mcp/bash"))["error"] == "invalid_target"
    assert body_of(client.refresh(scope="see call"))["error"] == "invalid_scope"
    fresh = body_of(client.refresh(scope="see openid", resource=f"{BASE}/mcp/echo"))
    assert fresh["scope"] == "see"


def test_a_token_of_one_server_opens_no_other(hub: Hub, ann: Browser) -> None:
    """MCP specification, basic/authorization (token audience binding); CVE-2025-69196."""
    client = OAuthClient(hub).register().sign_in(ann)
    for path in ("/mcp", "/mcp/bash", "/mcp/echo2", "/mcp/echo/..", "/mcp/Echo"):
        with pytest.raises(Unauthorized):
            principal_of(hub, client.access, BASE + path)
    bearer = {"Authorization": f"Bearer {client.access}"}
    for path in ("/rpc", "/mcp/bash", "/mcp", "/servers", "/variables"):
        assert hub.app.test_client().get(path, headers=bearer).status_code == 401, path


def test_a_redirect_goes_to_an_address_of_the_client_only(hub: Hub, ann: Browser) -> None:
    """RFC 9700, section 4.1."""
    client = OAuthClient(hub, redirect="https://client.example/callback").register()
    tricks = [
        "https://evil.example/callback",
        "https://client.example.evil.example/callback",
        "https://client.example@evil.example/callback",
        "https://client.example/callback/../evil",
        "https://client.example/callback?next=https://evil.example",
        "https://client.example/callback#evil",
        "https://client.example:444/callback",
        "http://client.example/callback",
        "https://CLIENT.example/callback",
        "https://client.example//callback",
        "https://client.example/callback%00",
        "javascript:alert(1)//https://client.example/callback",
        "//evil.example",
        "callback",
    ]
    for trick in tricks:
        page = ann.ask(client.query(redirect_uri=trick))
        assert page.status_code == 400 and "Location" not in page.headers, trick
    found = answer_of(ann.decide(client.query()))
    assert found["iss"] == BASE and found["state"] == "the state"


def test_the_state_comes_back_as_it_was_and_cannot_add_parameters(hub: Hub, ann: Browser) -> None:
    client = OAuthClient(hub).register()
    state = 'x&code=evil&iss=https://evil.example#"><script>\u202e'
    answer = ann.decide(client.query(state=state))
    found = answer_of(answer)
    assert found["state"] == state and found["iss"] == BASE and found["code"] != "evil"
    assert "#" not in answer.headers["Location"] and answer.headers["Location"].count("code=") == 1


def test_data_from_a_client_does_not_change_the_page(hub: Hub, ann: Browser) -> None:
    name = "</title><script>alert(1)</script>{{ site }}\u202e\u0000"
    client = OAuthClient(hub).register(client_name=name)
    text = ann.ask(client.query(scope="call:<script>", state="<script>")).text
    assert "<script>alert" not in text and "call:<script>" not in text and "\u202e" not in text
    assert "{{ site }}" in text
    page = ann.ask(client.query(code_challenge="<script>"))
    assert page.status_code == 400 and "<script>" not in page.text

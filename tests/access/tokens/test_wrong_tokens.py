"""Wrong tokens and proofs, with oidc-provider as the outside issuer: each is refused with its status and header."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.tokens.access_tokens import AccessTokens
from patchbay.access.tokens.issuer import Issuer as OutsideIssuer
from tests.access.tokens.issuers import Issuer, make_key
from tests.access.tokens.wrong_tokens import PROOFS, RESOURCE, SENDER, TOKENS, Case, Headers, bearer, now
from tests.hubs import Answer, Hub

pytestmark = [pytest.mark.node, pytest.mark.process]

METADATA = "http://localhost/.well-known/oauth-protected-resource/mcp/echo"
ECHO = 'def echo(text: str) -> str:\n    """Echo."""\n    return text'


@pytest.fixture(scope="module")
def hub(issuer: Issuer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("hub"), {"echo.py": ECHO}, issuer=issuer.url, required_scopes=("mcp:use",))
    yield hub
    hub.close()


def send_request(hub: Hub, headers: Headers, server: str = "echo") -> Answer:
    message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    return hub.send(server, message, headers | {"MCP-Protocol-Version": "2025-11-25"})


def parameters(challenge: str) -> dict[str, str]:
    """The parameters of a challenge."""
    return dict(re.findall(r'([a-z_]+)="([^"]*)"', challenge))


@pytest.mark.parametrize("case", TOKENS + PROOFS, ids=lambda case: case.name)
def test_a_wrong_token_or_proof_is_refused_with_401(case: Case, hub: Hub, issuer: Issuer) -> None:
    answer = send_request(hub, case.make(issuer))
    assert answer.status == 401, answer.body
    challenge = answer.headers["WWW-Authenticate"]
    found = parameters(challenge)
    assert challenge.partition(" ")[0] == case.scheme
    assert found["error"] == case.error
    assert case.reason in found["error_description"], found
    assert found["resource_metadata"] == METADATA
    assert found["scope"] == "mcp:use"
    assert ("ES256" in found.get("algs", "")) == (case.scheme == "DPoP")


def test_the_table_has_at_least_sixty_cases_with_names_of_their_own() -> None:
    assert len({case.name for case in TOKENS + PROOFS}) == len(TOKENS + PROOFS) >= 60


@pytest.mark.parametrize("scope", [None, "", "mcp:more", "mcp:us", "MCP:USE", "mcp:use2 openid"])
def test_a_token_without_the_scope_gets_403_that_names_the_scope(scope: str | None, hub: Hub, issuer: Issuer) -> None:
    answer = send_request(hub, bearer(issuer.mint(RESOURCE, scope=scope)))
    found = parameters(answer.headers["WWW-Authenticate"])
    assert (answer.status, found["error"], found["scope"]) == (403, "insufficient_scope", "mcp:use")
    assert found["resource_metadata"] == METADATA


def test_a_request_without_a_token_gets_401_without_an_error_code(hub: Hub) -> None:
    answer = send_request(hub, {})
    assert answer.status == 401
    assert parameters(answer.headers["WWW-Authenticate"]) == {"resource_metadata": METADATA, "scope": "mcp:use"}


@pytest.mark.parametrize("audience", ["http://localhost", "http://localhost/", "http://localhost/mcp", RESOURCE + "/"])
def test_a_token_for_what_is_above_a_server_is_valid_for_the_server(audience: str, hub: Hub, issuer: Issuer) -> None:
    assert send_request(hub, bearer(issuer.mint(audience))).result == {}
    assert send_request(hub, bearer(issuer.mint("unused", aud=["other", audience]))).result == {}


def test_a_token_for_a_server_is_not_valid_for_all_servers(hub: Hub, issuer: Issuer) -> None:
    assert send_request(hub, bearer(issuer.mint(RESOURCE))).status == 200
    assert send_request(hub, bearer(issuer.mint(RESOURCE)), "").status == 401


@pytest.mark.parametrize(
    "changes",
    [{"exp": now(-20)}, {"nbf": now(20)}, {"iat": now(20)}, {"groups": "research"}, {"scope": None, "scp": "mcp:use"}],
    ids=" ".join,
)
def test_clocks_may_differ_by_thirty_seconds_and_claims_have_their_usual_forms(
    changes: dict[str, Any], hub: Hub, issuer: Issuer
) -> None:
    values = {name: value(issuer) if callable(value) else value for name, value in changes.items()}
    assert send_request(hub, bearer(issuer.mint(RESOURCE, **values))).status == 200


def test_tokens_that_oidc_provider_makes_are_accepted_as_bearer_and_with_a_proof(hub: Hub, issuer: Issuer) -> None:
    assert send_request(hub, bearer(issuer.get_token(RESOURCE))).result == {}
    token = issuer.get_token(RESOURCE, dpop=SENDER)
    for _ in range(2):
        right = {"Authorization": f"DPoP {token}", "DPoP": SENDER.prove("POST", RESOURCE, token)}
        assert send_request(hub, right).result == {}


def test_the_quotas_of_a_hub_know_the_groups_of_a_token_before_its_first_call(hub: Hub, issuer: Issuer) -> None:
    assert send_request(hub, bearer(issuer.mint(RESOURCE, sub="carol", groups=["team"]))).status == 200
    seen = hub.app.parts.dispatcher.services.quotas._seen
    assert seen[f"{issuer.url}#carol"].groups == {"team"}


def test_a_proof_is_valid_once_for_all_workers(hub: Hub, issuer: Issuer) -> None:
    token = issuer.get_token(RESOURCE, dpop=SENDER)
    headers = {"Authorization": f"DPoP {token}", "DPoP": SENDER.prove("POST", RESOURCE, token)}
    assert send_request(hub, headers).status == 200
    schemes = hub.app.parts.authentication.schemes
    own: Any = schemes.pop()
    try:
        schemes.append(AccessTokens(own.issuer, hub.catalogue.store.journal))
        found = parameters(send_request(hub, headers).headers["WWW-Authenticate"])
    finally:
        schemes[-1] = own
    assert found["error"] == "invalid_dpop_proof"
    assert "used before" in found["error_description"]


def test_a_proof_may_write_its_url_in_another_form(hub: Hub, issuer: Issuer) -> None:
    token = issuer.mint(RESOURCE, cnf={"jkt": SENDER.thumbprint})
    for url in ("HTTP://LOCALHOST:80/mcp/echo", "http://localhost/mcp/%65cho", RESOURCE + "?a=b#c"):
        headers = {"Authorization": f"dpop {token}", "DPoP": SENDER.prove("POST", url, token)}
        assert send_request(hub, headers).status == 200, url


def test_while_no_key_of_the_issuer_is_known_a_token_gets_503_and_a_time_to_retry(hub: Hub) -> None:
    schemes = hub.app.parts.authentication.schemes
    own, away = schemes.pop(), Issuer("http://127.0.0.1:9", Path(), [make_key("ES256")])
    try:
        schemes.append(AccessTokens(OutsideIssuer(away.url), hub.catalogue.store.journal))
        answer = send_request(hub, bearer(away.mint(RESOURCE)))
    finally:
        schemes[-1] = own
    assert answer.status == 503
    assert answer.headers["Retry-After"]
    assert "127.0.0.1:9" not in answer.body.decode()

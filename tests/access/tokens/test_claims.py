"""The claims of access tokens as they become principals, with the names that Keycloak and Entra give them."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.access.tokens.audiences import list_audiences, normalize_audience
from patchbay.access.tokens.claims import check_audience, check_claims, check_type, make_principal
from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.problems import WrongToken

ISSUER = Issuer("https://id.example.org/realms/acme")
NOW = 1_800_000_000.0
RIGHT: dict[str, Any] = {
    "iss": ISSUER.url,
    "sub": "248289761001",
    "aud": "https://hub.example.org/mcp",
    "exp": NOW + 60,
}
KEYCLOAK: dict[str, Any] = RIGHT | {
    **{"typ": "Bearer", "azp": "claude", "scope": "openid mcp:use", "preferred_username": "ann"},
    **{"realm_access": {"roles": ["research"]}, "resource_access": {"hub.app": {"roles": ["editor"]}}},
}
ENTRA: dict[str, Any] = RIGHT | {
    **{"ver": "2.0", "azp": "6731de76", "scp": "mcp.use", "name": "Ann Lee", "groups": ["b1c2"], "oid": "o-1"},
}


def test_the_principal_is_issuer_and_subject_and_not_the_token() -> None:
    first = make_principal(KEYCLOAK | {"jti": "1", "exp": NOW}, ISSUER)
    second = make_principal(KEYCLOAK | {"jti": "2", "exp": NOW + 900}, ISSUER)
    assert first == second
    assert first.id == "https://id.example.org/realms/acme#248289761001"


def test_names_of_keycloak_are_read() -> None:
    found = make_principal(KEYCLOAK, Issuer(ISSUER.url, groups_claim="realm_access.roles"))
    assert (found.name, found.agent, found.groups) == ("ann", "claude", frozenset(("research",)))


def test_names_of_entra_are_read() -> None:
    found = make_principal(ENTRA, ISSUER)
    assert (found.name, found.agent, found.groups) == ("Ann Lee", "6731de76", frozenset(("b1c2",)))


@pytest.mark.parametrize(
    ("claims", "email"),
    [
        ({"email": "ann@example.org", "email_verified": True}, "ann@example.org"),
        ({"email": "ann@example.org", "email_verified": "true"}, "ann@example.org"),
        ({"email": "ann@example.org"}, ""),
        ({"email": "ann@example.org", "email_verified": False}, ""),
        ({"email": "ann@example.org", "email_verified": "false"}, ""),
        ({"email": "ann@example.org", "email_verified": 1}, ""),
        ({"email_verified": True}, ""),
    ],
)
def test_an_address_counts_only_when_the_issuer_has_verified_it(claims: dict[str, Any], email: str) -> None:
    assert make_principal(KEYCLOAK | claims, ISSUER).email == email


def test_words_of_the_claim_scope_are_groups_where_it_is_the_claim_with_the_groups() -> None:
    """An access token has a string there, and the ID token of the same provider may have a list."""
    issuer = Issuer(ISSUER.url, groups_claim="scope")
    for scope in ("openid research", ["openid", "research"]):
        assert make_principal(RIGHT | {"scope": scope}, issuer).groups == {"openid", "research"}
    named = Issuer(ISSUER.url, groups_claim="team")
    assert make_principal(RIGHT | {"team": "red team"}, named).groups == {"red team"}


@pytest.mark.parametrize(
    ("name", "groups"),
    [
        ("groups", set()),
        ("realm_access.roles", {"research"}),
        ("resource_access.hub.app.roles", set()),
        ("realm_access", None),
        ("azp.roles", set()),
    ],
)
def test_a_dot_in_the_groups_claim_leads_into_an_object(name: str, groups: set[str] | None) -> None:
    if groups is None:
        with pytest.raises(WrongToken):
            make_principal(KEYCLOAK, Issuer(ISSUER.url, groups_claim=name))
    else:
        assert make_principal(KEYCLOAK, Issuer(ISSUER.url, groups_claim=name)).groups == groups


def test_a_claim_whose_own_name_has_dots_is_read() -> None:
    claims = RIGHT | {"https://acme.example/groups": ["research"]}
    assert make_principal(claims, Issuer(ISSUER.url, groups_claim="https://acme.example/groups")).groups == {"research"}


def test_the_agent_is_the_actor_before_the_client() -> None:
    assert make_principal(RIGHT | {"client_id": "app", "act": {"sub": "robot"}}, ISSUER).agent == "robot"
    assert make_principal(RIGHT | {"client_id": "app", "act": {"client_id": "tool"}}, ISSUER).agent == "tool"
    assert make_principal(RIGHT | {"client_id": "app"}, ISSUER).agent == "app"
    assert make_principal(RIGHT, ISSUER).agent == ""


def test_scopes_of_the_hub_narrow_and_scopes_of_others_do_not() -> None:
    assert make_principal(RIGHT, ISSUER).scopes is None
    assert make_principal(KEYCLOAK, ISSUER).scopes is None
    narrowed = make_principal(RIGHT | {"scope": "openid see call:notes.*"}, ISSUER)
    assert narrowed.scopes == frozenset(("see", "call:notes.*"))
    assert check_claims(KEYCLOAK, ISSUER, NOW, "key").scopes == {"openid", "mcp:use"}


BOTH = frozenset(("at+jwt", "JWT"))


@pytest.mark.parametrize("kind", ["at+jwt", "AT+JWT", "application/at+jwt"])
def test_the_type_of_access_tokens_is_accepted_in_each_form(kind: str) -> None:
    check_type({"typ": kind}, RIGHT, frozenset(("at+jwt",)))


@pytest.mark.parametrize("claims", [KEYCLOAK, ENTRA, RIGHT | {"idtyp": "app"}], ids=["keycloak", "entra", "app"])
def test_the_type_jwt_is_accepted_for_access_tokens_when_the_operator_allows_it(claims: dict[str, Any]) -> None:
    check_type({"typ": "JWT"}, claims, BOTH)
    with pytest.raises(WrongToken):
        check_type({"typ": "JWT"}, claims, frozenset(("at+jwt",)))


@pytest.mark.parametrize(
    "changes",
    [
        {"nonce": "n"},
        {"at_hash": "h"},
        {"events": {}},
        {"typ": "ID"},
        {"typ": "Refresh"},
        {"typ": "Logout"},
        {"scope": None},
    ],
    ids=str,
)
def test_an_id_token_of_the_type_jwt_is_refused(changes: dict[str, Any]) -> None:
    claims = {name: value for name, value in (KEYCLOAK | changes).items() if value is not None}
    with pytest.raises(WrongToken):
        check_type({"typ": "JWT"}, claims, BOTH)


def test_a_further_audience_of_the_operator_is_accepted_exactly() -> None:
    issuer = Issuer(ISSUER.url, audiences=frozenset(("api://hub",)))
    resource = "https://hub.example.org/mcp/echo"
    check_audience(check_claims(RIGHT | {"aud": "api://hub"}, issuer, NOW, "key"), issuer, resource, resource)
    for wrong in ("api://hub2", "api://", "API://hub", "hub"):
        with pytest.raises(WrongToken):
            check_audience(check_claims(RIGHT | {"aud": wrong}, issuer, NOW, "key"), issuer, resource, resource)


def test_an_address_that_is_not_a_resource_takes_tokens_for_the_whole_hub_only() -> None:
    url = "https://hub.example.org/search"
    assert list_audiences("", url) == {"https://hub.example.org", "https://hub.example.org/mcp"}
    for audience, fits in (("https://hub.example.org/", True), ("https://hub.example.org/mcp/echo", False)):
        assert (normalize_audience(audience) in list_audiences("", url)) is fits


def test_the_origin_of_a_resource_has_its_normal_form() -> None:
    expected = {"https://hub.example.org", "https://hub.example.org/mcp", "https://hub.example.org/mcp/Echo"}
    assert list_audiences("https://HUB.example.org:443/mcp/Echo/", "") == expected
    assert "http://[::1]:8000/mcp" in list_audiences("http://[::1]:8000/mcp", "")


def test_an_answer_of_introspection_may_leave_out_the_issuer_but_not_name_another() -> None:
    claims = {name: value for name, value in RIGHT.items() if name != "iss"}
    assert check_claims(claims, ISSUER, NOW).principal.issuer == ISSUER.url
    with pytest.raises(WrongToken):
        check_claims(claims | {"iss": "https://other.example"}, ISSUER, NOW)
    with pytest.raises(WrongToken):
        check_claims(claims, ISSUER, NOW, "key")

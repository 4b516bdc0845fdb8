"""Clients exchange identity assertions (ID-JAG) for tokens; attacks on the assertions and on the tokens.

The identity provider is oidc-provider; the test holds its keys, so that it can also sign what no provider would.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey

from patchbay.access.authentication import Credentials, Unauthorized
from patchbay.access.keys import PersonalKeys
from patchbay.access.oauth.identity_assertions import MAX_ASSERTION_SECONDS
from patchbay.access.oauth.public_keys import parse_public_keys
from patchbay.access.principals import Principal
from patchbay.access.tokens.issuer import load_assertion_issuers
from patchbay.errors import ConfigError
from patchbay.settings import Settings
from tests.access.tokens.issuers import Issuer, changed, encode_part, make_key, running_issuer, sign
from tests.hubs import Hub
from tests.signing_in import BASE, OAuthClient, accounts_of, body_of, principal_of, shared_hub

pytestmark = [pytest.mark.node, pytest.mark.process]

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
RESOURCE = f"{BASE}/mcp/echo"
FOREIGN_KEY = make_key("ES256")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    with running_issuer(tmp_path_factory.mktemp("provider") / "one") as issuer:
        yield issuer


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, provider: Issuer) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"), assertion_issuers=(provider.url,), store="sqlite")
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def secret(hub: Hub) -> str:
    """The secret of the client `agent`."""
    return keys_of(hub).make("agent")


def keys_of(hub: Hub) -> PersonalKeys:
    keys = hub.app.parts.keys
    assert isinstance(keys, PersonalKeys)
    return keys


def header_of(provider: Issuer, **changes: Any) -> dict[str, Any]:
    return changed(provider.header(typ="oauth-id-jag+jwt"), changes)


def claims_of(provider: Issuer, **changes: Any) -> dict[str, Any]:
    """The claims of a right assertion for the client `agent`; a change to None removes a claim."""
    now = int(time.time())
    right = {"iss": provider.url, "sub": "ann", "aud": BASE, "client_id": "agent", "resource": RESOURCE}
    return changed(right | {"exp": now + 300, "iat": now, "jti": secrets.token_hex(8), "groups": ["research"]}, changes)


def assertion(provider: Issuer, header: dict[str, Any] | None = None, **changes: Any) -> str:
    return sign(header_of(provider, **(header or {})), claims_of(provider, **changes), provider.keys[0])


def send(hub: Hub, text: str, secret: str, client: str = "agent", **form: str) -> Any:
    known = {"grant_type": GRANT, "assertion": text, "client_id": client, "client_secret": secret} | form
    return hub.app.test_client().post("/oauth/token", data={name: value for name, value in known.items() if value})


def token_of(answer: Any) -> str:
    assert answer.status_code == 200, answer.text
    return str(body_of(answer)["access_token"])


def test_the_person_of_an_assertion_is_the_one_of_an_access_token_of_that_issuer(
    hub: Hub, provider: Issuer, secret: str, tmp_path: Path
) -> None:
    answer = send(hub, assertion(provider, name="Ann", email="ann@example.org", email_verified=True), secret)
    assert "refresh_token" not in body_of(answer) and answer.headers["Cache-Control"] == "no-store"
    found = principal_of(hub, token_of(answer))
    other = Hub(tmp_path, access="shared", issuer=provider.url)
    try:
        scheme = other.app.parts.authentication.schemes[-1]
        headers = {"authorization": f"Bearer {provider.mint(RESOURCE)}"}
        direct = scheme.authenticate(Credentials("POST", RESOURCE, headers, resource=RESOURCE))
    finally:
        other.close()
    assert found is not None and direct is not None
    assert found.id == direct.id == f"{provider.url}#ann" and found.groups == direct.groups == {"research"}
    assert (found.name, found.email, found.agent, found.scopes) == ("Ann", "ann@example.org", "agent", None)


def test_an_assertion_works_once_also_when_two_nodes_get_it_at_once(hub: Hub, provider: Issuer, secret: str) -> None:
    second = Hub(hub.servers.parent, access="shared", assertion_issuers=(provider.url,), store="sqlite")
    try:
        for _ in range(5):
            text = assertion(provider)
            with ThreadPoolExecutor(4) as pool:
                sent = [pool.submit(send, one, text, secret) for one in (hub, second, hub, second)]
                answers = [one.result() for one in sent]
            assert sorted(one.status_code for one in answers) == [200, 400, 400, 400]
            assert {body_of(one)["error"] for one in answers if one.status_code == 400} == {"invalid_grant"}
    finally:
        second.close()


def wrong_assertions(provider: Issuer) -> dict[str, str]:
    now = int(time.time())
    right = assertion(provider)
    head, payload, signature = right.split(".")
    other = encode_part(claims_of(provider, sub="ben"))
    public = provider.keys[0].as_dict(private=False)
    return {
        "another audience": assertion(provider, aud="https://elsewhere.example"),
        "this hub and another audience": assertion(provider, aud=[BASE, "https://elsewhere.example"]),
        "the token endpoint as audience": assertion(provider, aud=f"{BASE}/oauth/token"),
        "no audience": assertion(provider, aud=None),
        "another client": assertion(provider, client_id="other"),
        "no client": assertion(provider, client_id=None),
        "the type of an access token": assertion(provider, {"typ": "at+jwt"}),
        "the type JWT": assertion(provider, {"typ": "JWT"}),
        "no type": assertion(provider, {"typ": None}),
        "an access token for the hub": provider.mint(RESOURCE),
        "an end in the past": assertion(provider, exp=now - 60, iat=now - 120),
        "no end": assertion(provider, exp=None),
        "a long life": assertion(provider, exp=now + MAX_ASSERTION_SECONDS + 120),
        "an issue in the future": assertion(provider, iat=now + 120),
        "no issue time": assertion(provider, iat=None),
        "an issue time that is no number": assertion(provider, iat="now"),
        "a begin in the future": assertion(provider, nbf=now + 120),
        "no id": assertion(provider, jti=None),
        "an empty id": assertion(provider, jti=""),
        "an id that is no text": assertion(provider, jti=7),
        "no subject": assertion(provider, sub=None),
        "a subject that is no text": assertion(provider, sub=["ann"]),
        "no resource": assertion(provider, resource=None),
        "a list of resources": assertion(provider, resource=[RESOURCE]),
        "another issuer's name": assertion(provider, iss="https://elsewhere.example"),
        "an issuer with a slash more": assertion(provider, iss=provider.url + "/"),
        "another issuer's key": sign(header_of(provider), claims_of(provider), FOREIGN_KEY),
        "an unknown key id": sign(header_of(provider, kid="unknown"), claims_of(provider), FOREIGN_KEY),
        "the key inside": sign(
            header_of(provider, kid=None, jwk=FOREIGN_KEY.as_dict(private=False)), claims_of(provider), FOREIGN_KEY
        ),
        "the subject of another": f"{head}.{other}.{signature}",
        "no signature": f"{head}.{payload}.",
        "the algorithm none": encode_part(header_of(provider, alg="none")) + f".{payload}.",
        "a secret made of the public key": jwt.encode(
            header_of(provider, alg="HS256"),
            claims_of(provider),
            OctKey.import_key(json.dumps(public)),
            algorithms=["HS256"],
        ),
        "a binding to a key": assertion(provider, cnf={"jkt": "x"}),
        "scopes that are no text": assertion(provider, scope=["call"]),
        "groups that are no texts": assertion(provider, groups=[7]),
        "no words": "x",
        "three words": "x.y.z",
    }


def test_a_wrong_assertion_gets_no_token(hub: Hub, provider: Issuer, secret: str) -> None:
    token_of(send(hub, assertion(provider), secret))
    for what, text in wrong_assertions(provider).items():
        answer = send(hub, text, secret)
        assert answer.status_code == 400, (what, answer.text)
        assert body_of(answer)["error"] == "invalid_grant", (what, answer.text)


def test_a_wrong_assertion_does_not_use_up_the_right_one(hub: Hub, provider: Issuer, secret: str) -> None:
    claims = claims_of(provider, scope="call")
    text = sign(header_of(provider), claims, provider.keys[0])
    other = keys_of(hub).make("thief")
    assert send(hub, text, other, "thief").status_code == 400
    assert send(hub, text, secret, scope="read").status_code == 400
    assert send(hub, sign(header_of(provider), claims, FOREIGN_KEY), secret).status_code == 400
    token_of(send(hub, text, secret))


def test_a_client_without_a_proof_gets_no_token(hub: Hub, provider: Issuer, secret: str) -> None:
    public = OAuthClient(hub).register()
    for client, given in (
        ("agent", ""),
        ("agent", "wrong"),
        ("no-such-client", secret),
        ("", secret),
        (public.id, ""),
        (public.id, secret),
    ):
        answer = send(hub, assertion(provider, client_id=client or "agent"), given, client)
        assert answer.status_code in (400, 401) and "access_token" not in answer.text, client
    assert send(hub, "", secret).status_code == 400


def test_a_client_that_registered_with_a_secret_and_one_that_signs_get_tokens(hub: Hub, provider: Issuer) -> None:
    registered = OAuthClient(hub).register(token_endpoint_auth_method="client_secret_post")
    token = token_of(send(hub, assertion(provider, client_id=registered.id), registered.secret, registered.id))
    found = principal_of(hub, token)
    assert isinstance(found, Principal) and found.agent.startswith("registered:")
    key = ECKey.generate_key("P-256")
    keys_of(hub).make("signing-agent", public_keys=parse_public_keys(key.as_pem(private=False)))
    now = int(time.time())
    proof = {"iss": "signing-agent", "sub": "signing-agent", "aud": BASE, "exp": now + 60, "jti": secrets.token_hex(8)}
    answer = send(
        hub,
        assertion(provider, client_id="signing-agent"),
        "",
        "",
        client_assertion_type="urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
        client_assertion=jwt.encode({"alg": "ES256"}, proof, key),
    )
    found = principal_of(hub, token_of(answer))
    assert isinstance(found, Principal) and (found.subject, found.agent) == ("ann", "signing-agent")


SCOPES: list[tuple[list[str] | None, str | None, str, str | None]] = [
    (None, None, "", None),
    (None, "call read", "", "call read"),
    (None, "call read openid", "see call", "call"),
    (None, "call:echo.*", "call see", "call:echo.*"),
    (None, None, "read", "read"),
    (["call:echo.*"], "call read", "", "call:echo.*"),
    (["call"], None, "", "call"),
    (["call", "see"], "call read", "call read see", "call"),
]

REFUSED_SCOPES: list[tuple[list[str] | None, str | None, str]] = [
    (None, "read", "call"),
    (None, "call:echo.*", "call:other.*"),
    (None, "openid profile", ""),
    (None, "", ""),
    (None, "openid", "call"),
    (["see"], "call", ""),
    (["see"], None, "call"),
    (None, "call", "openid"),
]


def test_scopes_are_those_that_client_assertion_and_request_have_in_common(hub: Hub, provider: Issuer) -> None:
    for number, (held, given, asked, expected) in enumerate(SCOPES):
        name = f"scoped-{number}"
        key = keys_of(hub).make(name, scopes=held)
        answer = send(hub, assertion(provider, client_id=name, scope=given), key, name, scope=asked)
        assert answer.status_code == 200, (held, given, asked, answer.text)
        assert body_of(answer).get("scope") == expected, (held, given, asked)
        found = principal_of(hub, token_of(answer))
        assert found is not None and found.scopes == (None if expected is None else frozenset(expected.split()))
    for number, (held, given, asked) in enumerate(REFUSED_SCOPES):
        name = f"refused-{number}"
        key = keys_of(hub).make(name, scopes=held)
        answer = send(hub, assertion(provider, client_id=name, scope=given), key, name, scope=asked)
        assert answer.status_code == 400, (held, given, asked)
        assert body_of(answer)["error"] == "invalid_scope", (held, given, asked)


def test_a_token_is_for_the_resource_of_the_assertion_or_one_below_it(hub: Hub, provider: Issuer, secret: str) -> None:
    token = token_of(send(hub, assertion(provider, resource=f"{BASE}/mcp/"), secret, resource=RESOURCE))
    assert isinstance(principal_of(hub, token, RESOURCE), Principal)
    with pytest.raises(Unauthorized):
        principal_of(hub, token, f"{BASE}/mcp/hello")
    for claimed, asked, error in (
        (RESOURCE, f"{BASE}/mcp", "invalid_grant"),
        (RESOURCE, f"{BASE}/mcp/hello", "invalid_grant"),
        (RESOURCE, BASE, "invalid_grant"),
        ("https://elsewhere.example/mcp", "", "invalid_target"),
        ("https://elsewhere.example/mcp", RESOURCE, "invalid_target"),
        (f"{BASE}@elsewhere.example/mcp", "", "invalid_target"),
    ):
        answer = send(hub, assertion(provider, resource=claimed), secret, resource=asked)
        assert answer.status_code == 400 and body_of(answer)["error"] == error, (claimed, asked, answer.text)


def test_a_token_ends_with_its_client_and_with_its_time(hub: Hub, provider: Issuer) -> None:
    key = keys_of(hub).make("ending-agent")
    token = token_of(send(hub, assertion(provider, client_id="ending-agent"), key, "ending-agent"))
    found = principal_of(hub, token)
    assert found is not None
    validity = hub.app.parts.dispatcher.services.access.validity
    assert validity is not None and validity.is_good(found) and not validity.has_expired(found)
    keys_of(hub).revoke("ending-agent")
    with pytest.raises(Unauthorized) as refused:
        principal_of(hub, token)
    assert not refused.value.is_guess, "a client may send a token that ended more often than it may guess one"
    validity._look()
    assert not validity.keys.has_digest(found.credential.rpartition(":")[2])
    keys_of(hub).make("ending-agent")
    with pytest.raises(Unauthorized):
        principal_of(hub, token)


def test_a_changed_token_and_a_token_of_an_issuer_that_is_no_longer_trusted_are_refused(
    hub: Hub, provider: Issuer, secret: str
) -> None:
    token = token_of(send(hub, assertion(provider), secret))
    for wrong in (token[:-2] + "AA", token[:20] + "A" + token[21:], token + "A" * 9000, token[:17]):
        with pytest.raises(Unauthorized):
            principal_of(hub, wrong)
    without = Hub(hub.servers.parent, access="shared", store="sqlite")
    try:
        with pytest.raises(Unauthorized):
            principal_of(without, token)
        refused = send(without, assertion(provider), secret)
        assert refused.status_code == 400 and body_of(refused)["error"] == "unsupported_grant_type"
    finally:
        without.close()


def test_a_wrong_assertion_causes_no_request_to_a_provider(tmp_path: Path) -> None:
    with running_issuer(tmp_path / "provider") as quiet:
        hub = shared_hub(tmp_path / "hub", assertion_issuers=(quiet.url,))
        try:
            secret = keys_of(hub).make("agent")
            keyed = ("another issuer's key", "an unknown key id", "the key inside", "the subject of another")
            before = quiet.control("counts")
            for what, text in wrong_assertions(quiet).items():
                if what not in keyed:
                    assert send(hub, text, secret).status_code == 400, what
            assert quiet.control("counts") == before
            quiet.control("down")
            away = send(hub, assertion(quiet), secret)
            assert away.status_code == 503 and body_of(away)["error"] == "temporarily_unavailable"
        finally:
            hub.close()


def test_the_metadata_name_the_grant_and_its_profile_where_an_issuer_is_trusted(hub: Hub, tmp_path: Path) -> None:
    def read(one: Hub, path: str) -> Any:
        return body_of(one.app.test_client().get(path))

    for path in ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration"):
        found = read(hub, path)
        assert GRANT in found["grant_types_supported"]
        assert found["authorization_grant_profiles_supported"] == ["urn:ietf:params:oauth:grant-profile:id-jag"]
    without = shared_hub(tmp_path)
    try:
        found = read(without, path)
        assert GRANT not in found["grant_types_supported"] and "authorization_grant_profiles_supported" not in found
        assert accounts_of(without).assertions is None
    finally:
        without.close()


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"access": "personal"}, "--access shared"),
        ({"issuer": "https://id.example"}, "no --issuer"),
        ({"assertion_issuers": ("http://id.example",)}, "https URL"),
        ({"assertion_issuers": ("https://id.example?x=1",)}, "without query"),
        ({"assertion_issuers": ("id.example",)}, "expected a URL"),
    ],
)
def test_issuers_that_cannot_work_stop_the_start(settings: dict[str, Any], says: str) -> None:
    right: dict[str, Any] = {"access": "shared", "assertion_issuers": ("https://id.example",)}
    assert [one.url for one in load_assertion_issuers(Settings(**right))] == ["https://id.example"]
    with pytest.raises(ConfigError, match=says):
        load_assertion_issuers(Settings(**(right | settings)))

"""Programs get access tokens for themselves; attacks on the grant, the assertions and the tokens."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from joserfc import jwt
from joserfc.jwk import ECKey, Key, OctKey, OKPKey, RSAKey

from patchbay.access.authentication import Unauthorized
from patchbay.access.keys import PersonalKeys
from patchbay.access.oauth.programs import RefusedScope, narrow_scopes
from patchbay.access.oauth.public_keys import parse_public_keys
from patchbay.access.principals import Principal
from patchbay.errors import InvalidParams
from patchbay.web.oauth.endpoints import MAX_PROGRAM_REQUESTS
from patchbay.web.oauth.programs import ALGORITHMS
from tests.hubs import Hub
from tests.signing_in import BASE, body_of, principal_of, shared_hub

JWT_BEARER = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
PRIVATE = ECKey.generate_key("P-256")


def keys_of(hub: Hub) -> PersonalKeys:
    keys = hub.app.parts.keys
    assert isinstance(keys, PersonalKeys)
    return keys


def public_set(key: Key = PRIVATE) -> str:
    return parse_public_keys(json.dumps(key.as_dict(private=False)).encode())


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = shared_hub(tmp_path_factory.mktemp("hub"))
    keys_of(hub).make("signer", public_keys=public_set())
    keys_of(hub).make("other-signer", public_keys=public_set(ECKey.generate_key("P-256")))
    yield hub
    hub.close()


def ask(hub: Hub, **form: str) -> Any:
    return hub.app.test_client().post("/oauth/token", data={"grant_type": "client_credentials"} | form)


def assertion(key: Key = PRIVATE, algorithm: str = "ES256", **changes: Any) -> str:
    now = int(time.time())
    claims = {"iss": "signer", "sub": "signer", "aud": BASE, "exp": now + 60, "iat": now, "jti": str(time.time_ns())}
    claims = {name: value for name, value in (claims | changes).items() if value is not None}
    return jwt.encode({"alg": algorithm}, claims, key, algorithms=[algorithm])


def ask_signed(hub: Hub, text: str, **form: str) -> Any:
    return ask(hub, client_assertion_type=JWT_BEARER, client_assertion=text, **form)


def test_a_program_gets_a_token_for_its_secret_and_is_the_principal_of_its_key(hub: Hub) -> None:
    secret = keys_of(hub).make("nightly")
    for credentials in ({"client_id": "nightly", "client_secret": secret}, None):
        if credentials is None:
            answer = hub.app.test_client().post(
                "/oauth/token", data={"grant_type": "client_credentials"}, auth=("nightly", secret)
            )
        else:
            answer = ask(hub, **credentials)
        body = body_of(answer)
        assert answer.status_code == 200 and body["token_type"] == "Bearer" and "refresh_token" not in body
        assert answer.headers["Cache-Control"] == "no-store"
        found = principal_of(hub, body["access_token"])
        assert isinstance(found, Principal) and (found.id, found.scopes) == ("key:nightly", None)


def test_a_program_gets_a_token_for_a_signed_assertion_once(hub: Hub) -> None:
    text = assertion()
    body = body_of(ask_signed(hub, text))
    found = principal_of(hub, body["access_token"])
    assert isinstance(found, Principal) and found.id == "key:signer"
    again = ask_signed(hub, text)
    assert again.status_code >= 400 and body_of(again)["error"] == "invalid_client"
    assert ask_signed(hub, assertion(aud=f"{BASE}/oauth/token")).status_code == 200


@cache
def rsa_key() -> RSAKey:
    """A key that takes a second to make, which each process that collects the tests would spend."""
    return RSAKey.generate_key(2048)


def key_for(algorithm: str) -> RSAKey | ECKey | OKPKey:
    """A private key for a signature algorithm."""
    if algorithm[:2] in ("RS", "PS"):
        return rsa_key()
    if algorithm in ("EdDSA", "Ed25519"):
        return OKPKey.generate_key("Ed25519")
    return ECKey.generate_key({"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}[algorithm])


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")  # where the test signs
@pytest.mark.parametrize("form", ["pem", "jwk", "set"])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_that_the_metadata_name_works_with_each_form_of_a_key(
    hub: Hub, algorithm: str, form: str
) -> None:
    """The program names a key id in its assertion, which a key in PEM does not have."""
    key, name = key_for(algorithm), f"{algorithm}-{form}"
    row, other = key.as_dict(private=False), ECKey.generate_key("P-256").as_dict(private=False)
    data = {
        "pem": key.as_pem(private=False),
        "jwk": json.dumps(row).encode(),
        "set": json.dumps({"keys": [other, row]}).encode(),
    }
    keys_of(hub).make(name, public_keys=parse_public_keys(data[form]))
    now = int(time.time())
    claims = {"iss": name, "sub": name, "aud": BASE, "exp": now + 60, "jti": str(time.time_ns())}
    text = jwt.encode({"alg": algorithm, "kid": "any"}, claims, key, algorithms=[algorithm])
    answer = ask_signed(hub, text)
    assert answer.status_code == 200, answer.text


def test_who_has_no_proof_learns_no_name_and_changes_no_last_use(hub: Hub) -> None:
    keys_of(hub).make("unused")
    bad = {"client_secret": "wrong"}
    answers = [ask(hub, client_id=name, **bad) for name in ("unused", "no-such-program")]
    other = ECKey.generate_key("P-256")
    signed = [ask_signed(hub, assertion(other, iss=name, sub=name)) for name in ("signer", "unused", "no-such-program")]
    for group in (answers, signed):
        assert len({(one.status_code, one.text) for one in group}) == 1, [one.text for one in group]
        assert body_of(group[0])["error"] == "invalid_client"
    assert next(key for key in keys_of(hub).all() if key.name == "unused").used is None


def forged() -> dict[str, str]:
    now = int(time.time())
    public = PRIVATE.as_dict(private=False)
    return {
        "another key": assertion(ECKey.generate_key("P-256")),
        "another program's name": assertion(iss="other-signer", sub="other-signer"),
        "an issuer that is not the subject": assertion(iss="other-signer"),
        "another audience": assertion(aud="https://elsewhere.example"),
        "no audience": assertion(aud=None),
        "an end in the past": assertion(exp=now - 3600),
        "no end": assertion(exp=None),
        "an end in the far future": assertion(exp=now + 10 * 365 * 86400),
        "no id": assertion(jti=None),
        "an empty id": assertion(jti=""),
        "an id that is no text": assertion(jti=7),
        "a subject that is no text": assertion(sub=7),
        "no subject": assertion(sub=None),
        "a secret made of the public key": assertion(OctKey.import_key(json.dumps(public)), "HS256"),
        "no signature": assertion().rpartition(".")[0] + ".",
        "no words": "x",
    }


@pytest.mark.parametrize("what", forged())
def test_a_forged_assertion_gets_no_token(hub: Hub, what: str) -> None:
    answer = ask_signed(hub, forged()[what])
    assert answer.status_code in (400, 401) and "access_token" not in answer.text, (what, answer.text)


def test_a_wrong_or_ended_program_gets_no_token(hub: Hub) -> None:
    secret = keys_of(hub).make("one")
    other = keys_of(hub).make("two")
    for form in (
        {"client_id": "one", "client_secret": other},
        {"client_id": "no-such-program", "client_secret": secret},
        {"client_id": "one"},
        {"client_id": "one", "client_secret": ""},
        {"client_id": "signer", "client_secret": secret},
        {"client_id": "", "client_secret": secret},
        {"client_id": "ONE", "client_secret": secret},
    ):
        assert ask(hub, **form).status_code in (400, 401), form
    keys_of(hub).revoke("one")
    assert ask(hub, client_id="one", client_secret=secret).status_code in (400, 401)


def test_a_program_gets_no_other_grant_and_a_client_of_a_person_not_this_one(hub: Hub) -> None:
    secret = keys_of(hub).make("narrow")
    form = {"client_id": "narrow", "client_secret": secret}
    for grant in ("authorization_code", "refresh_token", "password", "urn:ietf:params:oauth:grant-type:jwt-bearer"):
        answer = ask(hub, **form, grant_type=grant, code="x", refresh_token="x", redirect_uri="https://x.example")
        assert answer.status_code in (400, 401), grant
    registered = body_of(
        hub.app.test_client().post(
            "/oauth/register",
            json={"redirect_uris": ["https://x.example/"], "token_endpoint_auth_method": "client_secret_post"},
        )
    )
    answer = ask(hub, client_id=registered["client_id"], client_secret=registered["client_secret"])
    assert answer.status_code == 400 and body_of(answer)["error"] == "unauthorized_client"
    page = hub.app.test_client().get("/oauth/authorize", query_string={"client_id": "narrow", "response_type": "code"})
    assert page.status_code != 200


def test_a_token_ends_with_its_key_and_a_new_key_of_the_name_does_not_wake_it(hub: Hub) -> None:
    secret = keys_of(hub).make("ending")
    token = body_of(ask(hub, client_id="ending", client_secret=secret))["access_token"]
    assert isinstance(principal_of(hub, token), Principal)
    with pytest.raises(Unauthorized):
        principal_of(hub, token[:-2] + "AA")
    keys_of(hub).revoke("ending")
    with pytest.raises(Unauthorized):
        principal_of(hub, token)
    keys_of(hub).make("ending")
    with pytest.raises(Unauthorized):
        principal_of(hub, token)


def test_an_ended_token_of_a_program_is_no_guess_and_a_forged_one_is(hub: Hub) -> None:
    """A program sends its last token once more before it gets a new one, and must not be locked out for that."""
    secret = keys_of(hub).make("brief")
    token = body_of(ask(hub, client_id="brief", client_secret=secret))["access_token"]
    keys_of(hub).revoke("brief")
    for text, is_guess in ((token, False), (token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), True)):
        with pytest.raises(Unauthorized) as refused:
            principal_of(hub, text)
        assert refused.value.is_guess is is_guess


def test_a_token_is_for_one_resource(hub: Hub) -> None:
    secret = keys_of(hub).make("aimed")
    form = {"client_id": "aimed", "client_secret": secret}
    token = body_of(ask(hub, **form, resource=f"{BASE}/mcp/echo"))["access_token"]
    statuses = {}
    for path in ("/mcp/echo", "/mcp/hello", "/mcp"):
        message = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        headers = {"Authorization": f"Bearer {token}", "MCP-Protocol-Version": "2025-11-25", "Accept": "*/*"}
        statuses[path] = hub.app.test_client().post(path, json=message, headers=headers).status_code
    assert statuses == {"/mcp/echo": 200, "/mcp/hello": 401, "/mcp": 401}
    elsewhere = ask(hub, **form, resource="https://elsewhere.example/mcp")
    assert elsewhere.status_code == 400 and body_of(elsewhere)["error"] == "invalid_target"


def test_scopes_of_a_token_are_those_of_its_key_or_fewer(hub: Hub) -> None:
    secret = keys_of(hub).make("scoped", scopes=["call:echo.*", "read"])
    form = {"client_id": "scoped", "client_secret": secret}
    assert body_of(ask(hub, **form))["scope"] == "call:echo.* read"
    assert body_of(ask(hub, **form, scope="see call read"))["scope"] == "call:echo.* read"
    assert body_of(ask(hub, **form, scope="call"))["scope"] == "call:echo.*"
    assert body_of(ask(hub, **form, scope="read:notes.*"))["scope"] == "read:notes.*"
    for wrong in ("see", "reed", "openid"):
        refused = ask(hub, **form, scope=wrong)
        assert refused.status_code == 400 and body_of(refused)["error"] == "invalid_scope"


SCOPES = st.frozensets(st.sampled_from(["see", "call", "read", "call:a.*", "call:b", "read:a"]))


@given(held=st.none() | SCOPES.filter(bool), asked=SCOPES)
def test_no_scope_that_a_program_asks_for_widens_what_its_key_has(
    held: frozenset[str] | None, asked: frozenset[str]
) -> None:
    try:
        found = narrow_scopes(held, asked)
    except RefusedScope:
        assert held is not None and not {one.partition(":")[0] for one in held & asked}
        return
    if held is None or found is None:
        assert found == (asked or held)
        return
    assert found and all(one in held or one.partition(":")[0] in held for one in found)


def test_public_keys_are_read_in_each_usual_form_and_private_or_short_ones_are_refused() -> None:
    rsa = RSAKey.generate_key(2048)
    short_key = generate_private_key(65537, 1024).public_key()
    short = short_key.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for key in (PRIVATE, rsa):
        row = key.as_dict(private=False)
        for data in (key.as_pem(private=False), json.dumps(row).encode(), json.dumps({"keys": [row]}).encode()):
            assert len(json.loads(parse_public_keys(data))["keys"]) == 1
    for bad, says in (
        (PRIVATE.as_pem(private=True), "private key"),
        (json.dumps(rsa.as_dict(private=True)).encode(), "private key"),
        (json.dumps(OctKey.generate_key(256).as_dict()).encode(), "expected RSA, EC or OKP"),
        (short, "2048 bits"),
        (b"-----BEGIN PUBLIC KEY-----\nno\n-----END PUBLIC KEY-----", "no public key"),
        (b"[]", "expected a JWK"),
        (b'{"keys": []}', "1 to 10 keys"),
        (b"no", "expected a public key"),
        (b'{"kty": "EC", "crv": "P-256", "x": "", "y": ""}', "cannot be read"),
        (b" " * 70_000, "bytes"),
    ):
        with pytest.raises(InvalidParams, match=says):
            parse_public_keys(bad)


def test_one_address_asks_for_a_bounded_number_of_tokens(tmp_path: Path) -> None:
    hub = shared_hub(tmp_path)
    try:
        found = {ask(hub, client_id="x", client_secret="y").status_code for _ in range(MAX_PROGRAM_REQUESTS)}
        assert found == {401}
        last = ask(hub, client_id="x", client_secret="y")
        assert last.status_code == 429 and last.headers["Retry-After"] == "60"
    finally:
        hub.close()

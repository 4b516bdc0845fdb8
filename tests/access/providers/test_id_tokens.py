"""ID tokens and logout tokens: the right ones, and each that is wrong in one thing."""

from __future__ import annotations

import hmac
import time
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from patchbay.access.providers.id_tokens import LOGOUT_SECONDS, check_id_token, check_logout_token
from patchbay.access.providers.provider import Provider
from patchbay.access.tokens.issuer import Issuer
from patchbay.access.tokens.problems import WrongToken
from patchbay.access.tokens.signing_keys import SigningKeys
from tests.access.providers.false_provider import CLIENT, FalseProvider
from tests.access.tokens.issuers import encode_part, make_key, sign

Change = dict[str, Any]

ISSUED = FalseProvider("https://id.example.org", make_key("RS256"))
PROVIDER = Provider("Acme", "acme", Issuer(ISSUED.url), CLIENT)
NOW = int(time.time())


def keys() -> SigningKeys:
    return SigningKeys(lambda: {"keys": [ISSUED.key.as_dict(private=False)]})


def check(text: str, access_token: str = "", nonce: str | None = "n") -> dict[str, Any]:
    return check_id_token(text, PROVIDER, keys(), time.time(), access_token, nonce)


def test_a_right_id_token_gives_its_claims() -> None:
    """at_hash is that of `the access token`, as OpenID Connect Core, section 3.1.3.6, computes it."""
    claims = check(ISSUED.sign(ISSUED.claims("n", azp=CLIENT, aud=[CLIENT, "another"])))
    assert claims["sub"] == "ann" and claims["groups"] == ["research"]
    hashed = "ITfNjFPYqkwnNHY8nQ0Kew"
    assert check(ISSUED.sign(ISSUED.claims("n", at_hash=_half_hash("the access token"))), "the access token")
    with pytest.raises(WrongToken):
        check(ISSUED.sign(ISSUED.claims("n", at_hash=hashed)), "another access token")


def _half_hash(text: str) -> str:
    return encode_part(sha256(text.encode()).digest()[:16])


def test_the_token_of_a_refresh_may_have_no_nonce() -> None:
    assert check(ISSUED.sign(ISSUED.claims()), nonce=None)["sub"] == "ann"


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://evil.example"},
        {"iss": f"{ISSUED.url}/"},
        {"iss": [ISSUED.url]},
        {"aud": "another"},
        {"aud": None},
        {"aud": []},
        {"aud": {CLIENT: 1}},
        {"aud": [CLIENT, "another"]},  # several audiences without azp
        {"azp": "another"},
        {"exp": NOW - 60},
        {"exp": None},
        {"exp": "tomorrow"},
        {"iat": None},
        {"iat": NOW + 3600},
        {"nbf": NOW + 3600},
        {"nonce": "of another browser"},
        {"nonce": None},
        {"nonce": ["n"]},
        {"sub": None},
        {"sub": ""},
        {"sub": 7},
        {"sub": "x" * 256},
        {"sub": "a\u202eb\n"},
        {"sid": 7},
        {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}},
    ],
    ids=" ".join,
)
def test_an_id_token_that_is_wrong_in_one_claim_is_refused(change: Change) -> None:
    with pytest.raises(WrongToken):
        check(ISSUED.sign(ISSUED.claims("n", **change)))


def test_a_token_of_another_kind_is_no_id_token() -> None:
    for kind in ("at+jwt", "logout+jwt", "dpop+jwt"):
        with pytest.raises(WrongToken):
            check(ISSUED.sign(ISSUED.claims("n"), typ=kind))
    assert check(ISSUED.sign(ISSUED.claims("n"), typ="JWT"))["sub"] == "ann"


def unsigned(claims: Change) -> str:
    return f"{encode_part({'alg': 'none'})}.{encode_part(claims)}."


def signed_with_the_public_key_as_a_secret(claims: Change) -> str:
    """Algorithm confusion: HS256 with the public key of the provider as the shared secret."""
    head = {"alg": "HS256", "kid": ISSUED.key.as_dict(private=False)["kid"]}
    text = f"{encode_part(head)}.{encode_part(claims)}"
    return f"{text}.{encode_part(hmac.digest(ISSUED.key.as_pem(private=False), text.encode(), 'sha256'))}"


def signed_by_a_key_of_its_own(claims: Change) -> str:
    own = make_key("RS256")
    public = own.as_dict(private=False)
    return sign({"alg": "RS256", "kid": ISSUED.key.as_dict(private=False)["kid"], "jwk": public}, claims, own)


def changed_after_the_signature(claims: Change) -> str:
    head, _, signature = ISSUED.sign(claims).split(".")
    return f"{head}.{encode_part(claims | {'sub': 'mallory'})}.{signature}"


FORGERIES: list[Callable[[Change], str]] = [
    unsigned,
    signed_with_the_public_key_as_a_secret,
    signed_by_a_key_of_its_own,
    changed_after_the_signature,
]


@pytest.mark.parametrize("forge", FORGERIES, ids=lambda forge: forge.__name__)
def test_a_forged_signature_is_refused(forge: Callable[[Change], str]) -> None:
    with pytest.raises(WrongToken):
        check(forge(ISSUED.claims("n")))
    claims = {"iss": ISSUED.url, "aud": CLIENT, "iat": NOW, "jti": "1", "sub": "ann"}
    claims["events"] = {"http://schemas.openid.net/event/backchannel-logout": {}}
    with pytest.raises(WrongToken):
        check_logout_token(forge(claims), PROVIDER, keys(), time.time())


def test_a_right_logout_token_names_a_person_a_session_or_both() -> None:
    for change in ({}, {"sub": None}, {"sid": None}, {"aud": ["another", CLIENT]}, {"exp": None}):
        found = check_logout_token(ISSUED.logout_token(**change), PROVIDER, keys(), time.time())
        assert found["jti"]


@pytest.mark.parametrize(
    "change",
    [
        {"iss": "https://evil.example"},
        {"aud": "another"},
        {"aud": None},
        {"iat": None},
        {"iat": NOW - 2 * int(LOGOUT_SECONDS)},
        {"iat": NOW + 3600},
        {"exp": NOW - 60},
        {"jti": None},
        {"jti": ""},
        {"jti": 7},
        {"events": None},
        {"events": {}},
        {"events": {"http://schemas.openid.net/event/backchannel-logout": "yes"}},
        {"events": ["http://schemas.openid.net/event/backchannel-logout"]},
        {"nonce": "n"},
        {"sub": None, "sid": None},
    ],
    ids=" ".join,
)
def test_a_logout_token_that_is_wrong_in_one_claim_is_refused(change: Change) -> None:
    with pytest.raises(WrongToken):
        check_logout_token(ISSUED.logout_token(**change), PROVIDER, keys(), time.time())


def test_an_id_token_is_no_logout_token() -> None:
    with pytest.raises(WrongToken):
        check_logout_token(ISSUED.sign(ISSUED.claims("n", jti="1")), PROVIDER, keys(), time.time())

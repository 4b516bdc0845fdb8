"""The keys of an issuer: fetched when they are needed, rotated without a failed call, kept while the issuer is down."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from patchbay.access.tokens.problems import IssuerUnavailable
from patchbay.access.tokens.signed_json import Malformed, SignedJson, load_public_key, parse_signed_json
from patchbay.access.tokens.signing_keys import COOL_DOWN_SECONDS, MAX_KEYS, REFRESH_SECONDS, SigningKeys, load_keys
from tests.access.tokens.issuers import PrivateKey, make_key, sign
from tests.waiting import until


class KeySet:
    """An issuer's key set in memory, its clock, and how often it was fetched."""

    def __init__(self, *keys: PrivateKey) -> None:
        self.keys = list(keys)
        self.fetches = 0
        self.now = 1000.0
        self.is_down = False
        self.gate = threading.Event()
        self.gate.set()
        self.lock = threading.Lock()

    def fetch(self) -> dict[str, Any]:
        with self.lock:
            self.fetches += 1
        assert self.gate.wait(60)
        if self.is_down:
            raise IssuerUnavailable("down")
        return {"keys": [json.loads(json.dumps(key.as_dict(private=False))) for key in self.keys]}

    def open(self) -> SigningKeys:
        return SigningKeys(self.fetch, lambda: self.now)


def token(key: PrivateKey, **header: Any) -> SignedJson:
    named = key.as_dict(private=False)
    head = {"alg": named["alg"], "kid": named["kid"]} | header
    return parse_signed_json(sign({name: value for name, value in head.items() if value is not None}, {}, key))


def test_keys_are_fetched_at_the_first_token_and_not_again() -> None:
    key = make_key("ES256")
    issuer = KeySet(key)
    keys = issuer.open()
    for _ in range(3):
        found = keys.find(token(key))
        assert found is not None and found.verifies(token(key))
    assert issuer.fetches == 1


def test_a_flood_of_unknown_key_ids_causes_one_fetch() -> None:
    key = make_key("ES256")
    issuer = KeySet(key)
    keys = issuer.open()
    keys.find(token(key))
    wrong = [token(key, kid=f"made up {number}") for number in range(500)]
    with ThreadPoolExecutor(32) as threads:
        assert set(threads.map(keys.find, wrong)) == {None}
    assert issuer.fetches == 2
    issuer.now += COOL_DOWN_SECONDS
    assert keys.find(wrong[0]) is None
    assert keys.find(wrong[1]) is None
    assert issuer.fetches == 3


def test_calls_with_a_new_key_share_one_fetch_and_each_finds_it() -> None:
    old, new = make_key("ES256"), make_key("ES256")
    issuer = KeySet(old)
    keys = issuer.open()
    keys.find(token(old))
    issuer.keys.insert(0, new)
    issuer.gate.clear()
    fresh = token(new)
    with ThreadPoolExecutor(16) as threads:
        waiting = [threads.submit(keys.find, fresh) for _ in range(16)]
        until(lambda: issuer.fetches == 2)
        issuer.gate.set()
        assert all(one.result() is not None for one in waiting)
    assert issuer.fetches == 2


def test_a_second_rotation_soon_after_the_first_needs_no_pause() -> None:
    issuer = KeySet(make_key("ES256"))
    keys = issuer.open()
    for _ in range(4):
        issuer.keys.insert(0, make_key("ES256"))
        assert keys.find(token(issuer.keys[0])) is not None


def test_the_last_keys_stay_in_use_while_the_issuer_is_down() -> None:
    key = make_key("ES256")
    issuer = KeySet(key)
    keys = issuer.open()
    found = keys.find(token(key))
    assert found is not None
    issuer.is_down = True
    issuer.now += REFRESH_SECONDS
    assert keys.find(token(key)) == found
    until(lambda: issuer.fetches == 2)
    assert keys.has(found.thumbprint)


def test_without_keys_a_token_cannot_be_checked_and_the_issuer_is_asked_once_in_a_while() -> None:
    issuer = KeySet(make_key("ES256"))
    issuer.is_down = True
    keys = issuer.open()
    for _ in range(5):
        with pytest.raises(IssuerUnavailable):
            keys.find(token(issuer.keys[0]))
    assert issuer.fetches == 1
    issuer.is_down = False
    issuer.now += COOL_DOWN_SECONDS
    assert keys.find(token(issuer.keys[0])) is not None


def test_a_key_that_the_issuer_withdraws_stops_working_in_the_background() -> None:
    old, new = make_key("ES256"), make_key("ES256")
    issuer = KeySet(old, new)
    keys = issuer.open()
    found = keys.find(token(old))
    assert found is not None
    issuer.keys = [new]
    issuer.now += REFRESH_SECONDS
    until(lambda: not keys.has(found.thumbprint))
    assert keys.find(token(old)) is None
    assert keys.find(token(new)) is not None


def test_a_token_without_a_key_id_fits_when_one_key_has_its_algorithm() -> None:
    one, rsa = make_key("ES256"), make_key("RS256")
    issuer = KeySet(one, rsa)
    assert issuer.open().find(token(one, kid=None)) is not None
    issuer.keys.append(make_key("ES256"))
    assert issuer.open().find(token(one, kid=None)) is None


@pytest.mark.parametrize("algorithm", ["ES256", "ES384", "ES512", "Ed25519", "RS256", "PS512"])
def test_each_algorithm_verifies_its_own_signature_only(algorithm: str) -> None:
    key = make_key(algorithm)
    public = load_public_key(key.as_dict(private=False))
    right = token(key)
    assert public.verifies(right)
    assert not load_public_key(make_key(algorithm).as_dict(private=False)).verifies(right)


def test_the_older_name_of_ed25519_is_accepted() -> None:
    key = make_key("Ed25519")
    public = {name: value for name, value in key.as_dict(private=False).items() if name != "alg"}
    assert load_public_key(public).verifies(token(key, alg="EdDSA"))


UNUSABLE: dict[str, Any] = {
    "a shared secret": {"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"},
    "an unknown type": {"kty": "AKP", "pub": "AAAA"},
    "no type": {"kid": "a"},
    "no object": "key",
    "a key for encryption": make_key("ES256").as_dict(private=False) | {"use": "enc"},
    "a key that may not verify": make_key("ES256").as_dict(private=False) | {"key_ops": ["encrypt"]},
    "an algorithm that is not accepted": make_key("ES256").as_dict(private=False) | {"alg": "ES256K"},
    "an algorithm of another type": make_key("ES256").as_dict(private=False) | {"alg": "RS256"},
    "a small RSA key": {"kty": "RSA", "n": "AQAB" * 30, "e": "AQAB"},
    "a member of a wrong type": make_key("ES256").as_dict(private=False) | {"x": 7},
    "no point of the curve": make_key("ES256").as_dict(private=False) | {"x": "AAAA"},
}


@pytest.mark.parametrize("name", UNUSABLE)
def test_an_unusable_key_is_left_out_and_the_others_stay(name: str) -> None:
    right = make_key("ES256")
    found = load_keys({"keys": [UNUSABLE[name], right.as_dict(private=False)]})
    assert [key.id for key in found] == [right.as_dict(private=False)["kid"]]


@pytest.mark.parametrize(
    "document", [{}, {"keys": {}}, {"keys": [{}] * (MAX_KEYS + 1)}], ids=["none", "object", "many"]
)
def test_a_document_that_is_not_a_key_set_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(IssuerUnavailable):
        load_keys(document)


def test_private_members_of_a_published_key_are_not_kept() -> None:
    key = load_public_key(make_key("ES256").as_dict(private=True))
    assert not key.key.is_private


def test_text_that_is_not_a_signature_is_refused() -> None:
    for text in ("", ".", "a.b", "a.b.c.d", "é.a.b", "YQ.YQ.YQ", "e30.W10.YQ"):
        with pytest.raises(Malformed):
            parse_signed_json(text)

"""The scheme with a running issuer: rotation, an issuer that is down, opaque tokens, and what is never shown."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from patchbay.access.authentication import Credentials, InsufficientScope, Unauthorized
from patchbay.access.tokens import access_tokens
from patchbay.access.tokens.access_tokens import AccessTokens, IssuerMetadata
from patchbay.access.tokens.issuer import Issuer as OutsideIssuer
from patchbay.access.tokens.problems import IssuerUnavailable
from patchbay.access.tokens.signing_keys import COOL_DOWN_SECONDS, REFRESH_SECONDS
from patchbay.access.tokens.token_cache import TokenCache, digest_token
from patchbay.store import Store
from tests.access.tokens.issuers import DpopClient, Issuer, make_key, running_issuer, sign
from tests.waiting import until

pytestmark = [pytest.mark.node, pytest.mark.process]

RESOURCE = "https://hub.example.org/mcp/echo"
OPAQUE = "https://hub.example.org/mcp/opaque"
SECRET = "hub: secret/%"


class Clock:
    """Two clocks that a test moves together; the steady one stands still otherwise."""

    def __init__(self) -> None:
        self.passed = 0.0

    def wall(self) -> float:
        return time.time() + self.passed

    def steady(self) -> float:
        return 1000.0 + self.passed


@pytest.fixture(scope="module")
def own_issuer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Issuer]:
    """An issuer that these tests may stop and whose keys they may change."""
    with running_issuer(tmp_path_factory.mktemp("issuer") / "own") as issuer:
        yield issuer


Open = Callable[..., AccessTokens]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def open_scheme(own_issuer: Issuer, store: Store, clock: Clock) -> Open:
    """Make a scheme for the issuer of these tests, with further settings."""

    def make(**settings: Any) -> AccessTokens:
        return AccessTokens(OutsideIssuer(own_issuer.url, **settings), store.journal, clock.wall, clock.steady)

    return make


def sent(token: str, resource: str = RESOURCE, scheme: str = "Bearer", **headers: str) -> Credentials:
    return Credentials("POST", resource, {"authorization": f"{scheme} {token}", **headers}, resource=resource)


def test_calls_that_wait_for_the_metadata_of_an_issuer_that_hangs_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_tokens, "MAX_WAITING_CALLS", 1)
    began, answers = threading.Event(), threading.Event()

    def discover() -> dict[str, Any]:
        began.set()
        assert answers.wait(30)
        return {"issuer": "https://id.example.org"}

    metadata = IssuerMetadata(discover, time.monotonic)
    waiting = threading.Thread(target=metadata.get)
    waiting.start()
    try:
        assert began.wait(30)
        with pytest.raises(IssuerUnavailable):
            metadata.get()
    finally:
        answers.set()
        waiting.join()
    assert metadata.get() == {"issuer": "https://id.example.org"}


def test_keys_are_rotated_while_calls_go_on_and_no_call_fails(own_issuer: Issuer, open_scheme: Open) -> None:
    scheme, rotations = open_scheme(), 8
    failures: list[Exception] = []
    done, calls = threading.Event(), [0]
    tokens = [own_issuer.mint(RESOURCE)]

    def has_called(before: int) -> bool:
        return calls[0] > before + 20 or bool(failures)

    def call() -> None:
        while not done.is_set():
            try:
                assert scheme.authenticate(sent(tokens[-1])) is not None
                assert scheme.authenticate(sent(tokens[0])) is not None
                calls[0] += 1
            except Exception as problem:
                failures.append(problem)

    threads = [threading.Thread(target=call) for _ in range(4)]
    for thread in threads:
        thread.start()
    for number in range(rotations):
        own_issuer.rotate(make_key(("ES256", "RS256", "Ed25519", "PS256")[number % 4]))
        seen = calls[0]
        tokens.append(own_issuer.get_token(RESOURCE) if number % 2 else own_issuer.mint(RESOURCE))
        until(partial(has_called, seen))
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_token_stays_valid_while_the_issuer_is_down_and_a_new_process_answers_503(
    own_issuer: Issuer, open_scheme: Open, clock: Clock
) -> None:
    scheme = open_scheme()
    first, second = own_issuer.mint(RESOURCE), own_issuer.mint(RESOURCE, sub="ben")
    assert scheme.authenticate(sent(first)) is not None
    own_issuer.control("down")
    try:
        clock.passed += REFRESH_SECONDS + 1
        assert scheme.authenticate(sent(first)) is not None
        assert scheme.authenticate(sent(second)) is not None
        late = open_scheme()
        for _ in range(3):
            with pytest.raises(IssuerUnavailable):
                late.authenticate(sent(first))
    finally:
        own_issuer.control("up")
    clock.passed += COOL_DOWN_SECONDS + 1
    assert late.authenticate(sent(first)) is not None


def test_wrong_tokens_cause_no_request_to_the_issuer(own_issuer: Issuer, open_scheme: Open) -> None:
    scheme, before = open_scheme(), own_issuer.count("/jwks")
    wrong: tuple[dict[str, Any], ...] = (
        {"exp": 1},
        {"aud": []},
        {"iss": "https://other.example"},
        {"nbf": 1e12},
        {"sub": None},
    )
    for changes in wrong:
        with pytest.raises(Unauthorized):
            scheme.authenticate(sent(own_issuer.mint(RESOURCE, **changes)))
    assert own_issuer.count("/jwks") == before


def test_unknown_key_ids_cause_one_request_to_the_issuer(own_issuer: Issuer, open_scheme: Open) -> None:
    scheme = open_scheme()
    scheme.authenticate(sent(own_issuer.mint(RESOURCE)))
    before = own_issuer.count("/jwks")
    for number in range(50):
        token = sign(own_issuer.header(kid=f"made up {number}"), own_issuer.claims(RESOURCE), own_issuer.keys[0])
        with pytest.raises(Unauthorized):
            scheme.authenticate(sent(token))
    assert own_issuer.count("/jwks") == before + 1


def test_a_checked_token_is_refused_after_its_expiry(own_issuer: Issuer, open_scheme: Open, clock: Clock) -> None:
    scheme = open_scheme()
    token = own_issuer.mint(RESOURCE)
    assert scheme.authenticate(sent(token)) is not None
    clock.passed += 620
    assert scheme.authenticate(sent(token)) is not None
    clock.passed += 20
    with pytest.raises(Unauthorized, match="expired"):
        scheme.authenticate(sent(token))


def test_a_checked_token_is_still_refused_at_another_resource(own_issuer: Issuer, open_scheme: Open) -> None:
    scheme = open_scheme()
    token = own_issuer.mint(RESOURCE)
    assert scheme.authenticate(sent(token)) is not None
    with pytest.raises(Unauthorized, match="audience"):
        scheme.authenticate(sent(token, "https://hub.example.org/mcp/notes"))
    with pytest.raises(Unauthorized, match="audience"):
        scheme.authenticate(sent(token, "https://other.example.org/mcp/echo"))


def test_opaque_tokens_are_checked_by_introspection_and_remembered(
    own_issuer: Issuer, open_scheme: Open, clock: Clock
) -> None:
    scheme = open_scheme(client_id="hub", client_secret=SECRET)
    token = own_issuer.get_token(OPAQUE)
    before = own_issuer.count("/token/introspection")
    for _ in range(3):
        principal = scheme.authenticate(sent(token, OPAQUE))
        assert principal is not None
        assert (principal.id, principal.agent) == (f"{own_issuer.url}#robot", "robot")
    assert own_issuer.count("/token/introspection") == before + 1
    for _ in range(3):
        with pytest.raises(Unauthorized, match="unknown to its issuer"):
            scheme.authenticate(sent("made-up", OPAQUE))
    assert own_issuer.count("/token/introspection") == before + 2
    with pytest.raises(Unauthorized, match="audience"):
        scheme.authenticate(sent(token, RESOURCE))
    clock.passed += 61
    assert scheme.authenticate(sent(token, OPAQUE)) is not None
    assert own_issuer.count("/token/introspection") == before + 3


def test_an_opaque_token_that_is_bound_to_a_key_needs_its_proof(own_issuer: Issuer, open_scheme: Open) -> None:
    scheme, sender = open_scheme(client_id="hub", client_secret=SECRET), DpopClient()
    token = own_issuer.get_token(OPAQUE, dpop=sender)
    with pytest.raises(Unauthorized, match="bound to a key"):
        scheme.authenticate(sent(token, OPAQUE))
    proof = sender.prove("POST", OPAQUE, token)
    assert scheme.authenticate(sent(token, OPAQUE, "DPoP", dpop=proof)) is not None


def test_a_wrong_secret_for_introspection_is_not_a_fault_of_the_caller(
    own_issuer: Issuer, open_scheme: Open, caplog: pytest.LogCaptureFixture
) -> None:
    scheme = open_scheme(client_id="hub", client_secret="wrong")
    with caplog.at_level(logging.WARNING), pytest.raises(IssuerUnavailable):
        scheme.authenticate(sent("opaque-token-of-a-caller", OPAQUE))
    assert "401" in caplog.text
    assert "opaque-token-of-a-caller" not in caplog.text


def test_scopes_that_every_token_needs_are_checked_for_opaque_tokens_too(own_issuer: Issuer, open_scheme: Open) -> None:
    scheme = open_scheme(client_id="hub", client_secret=SECRET, required_scopes=("mcp:use", "mcp:more"))
    with pytest.raises(InsufficientScope) as caught:
        scheme.authenticate(sent(own_issuer.get_token(OPAQUE), OPAQUE))
    assert 'scope="mcp:use mcp:more"' in caught.value.challenge
    assert "does not have the scope mcp:more" in caught.value.message
    assert scheme.authenticate(sent(own_issuer.get_token(OPAQUE, "mcp:use mcp:more"), OPAQUE)) is not None


def test_no_error_and_no_log_line_has_the_bytes_of_a_token(
    own_issuer: Issuer, open_scheme: Open, caplog: pytest.LogCaptureFixture
) -> None:
    scheme = open_scheme(client_id="hub", client_secret=SECRET)
    tokens = [own_issuer.mint(RESOURCE, exp=1), own_issuer.mint("https://other.example"), "opaque.token-of.caller"]
    with caplog.at_level(logging.DEBUG, logger="patchbay"):
        for token in tokens:
            with pytest.raises(Unauthorized) as caught:
                scheme.authenticate(sent(token))
            told = f"{caught.value} {caught.value.challenge} {caught.value.data} {caplog.text}"
            assert not [part for part in token.split(".") if part in told]
    principal = scheme.authenticate(sent(own_issuer.mint(RESOURCE)))
    assert "eyJ" not in repr(principal)
    assert SECRET not in repr(scheme.issuer)


def test_a_request_without_a_token_is_left_to_other_schemes(open_scheme: Open) -> None:
    assert open_scheme().authenticate(Credentials("POST", RESOURCE, {}, resource=RESOURCE)) is None
    basic = Credentials("POST", RESOURCE, {"authorization": "Basic YTpi"}, resource=RESOURCE)
    assert open_scheme().authenticate(basic) is None


def test_the_cache_is_bounded_and_forgets_what_is_unused_longest() -> None:
    cache: TokenCache[int] = TokenCache(3)
    names = [digest_token(str(number)) for number in range(5)]
    for number in range(3):
        cache.put(names[number], number, 10.0)
    assert cache.get(names[0], 0.0) == 0
    cache.put(names[3], 3, 10.0)
    assert [cache.get(name, 0.0) for name in names] == [0, None, 2, 3, None]
    assert cache.get(names[0], 10.0) is None
    assert len(cache) == 2

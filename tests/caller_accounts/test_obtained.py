"""A token that is made of a caller's own is obtained on another thread, once for all calls that wait for it."""

from __future__ import annotations

import base64
import json
import time
from threading import Event

import pytest

from patchbay.access.principals import Principal
from patchbay.activation import Call, Cancelled
from patchbay.caller_accounts.credentials import CallerCredential, Upstream
from patchbay.caller_accounts.obtained import ObtainedCredentials
from patchbay.caller_accounts.verified_tokens import VerifiedToken
from patchbay.caller_accounts.way import Require, WayContext, WaySettings
from patchbay.client.addresses.targets import Http
from patchbay.client.auth.obtained_tokens import ObtainedToken
from patchbay.client.errors import Unreachable
from patchbay.errors import TimedOut

ISSUER = "https://issuer.example"


def call_of(name: str, seconds: float = 60) -> Call:
    claims = json.dumps({"iss": ISSUER, "sub": name, "exp": time.time() + 600}).encode()
    token = f"e30.{base64.urlsafe_b64encode(claims).rstrip(b'=').decode()}.c2ln"
    headers = {"authorization": f"Bearer {token}"}
    sender = Principal(name, issuer=ISSUER)
    until = time.monotonic() + seconds
    return Call("far", {}, {}, until, principal=sender.id, sender=sender, find_header=headers.get)


class Made(ObtainedCredentials):
    """Tokens of an authorization server that answers for the caller `slow` only when it is let go."""

    def __init__(self) -> None:
        upstream = Upstream("far", Http("https://far.example/mcp"))
        super().__init__(WayContext("far", WaySettings("exchange"), lambda: upstream, None))
        self.go, self.asked = Event(), list[str]()

    def obtain(self, upstream: Upstream, token: VerifiedToken) -> ObtainedToken:
        name = json.loads(base64.urlsafe_b64decode(token.text.split(".")[1] + "=="))["sub"]
        self.asked.append(name)
        if name == "slow":
            assert self.go.wait(60)
        if name == "away":
            raise Unreachable("no answer")
        return ObtainedToken(f"made for {name}", time.time() + 60)


def finish(steps: Require) -> CallerCredential:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            assert isinstance(end.value, CallerCredential)
            return end.value


def test_a_call_that_waits_for_an_authorization_server_holds_up_no_other_caller() -> None:
    """One of 64 locks was held during the request: unrelated callers waited for a provider that gave no answer."""
    way = Made()
    slow = way.require(call_of("slow"))
    next(slow)
    calls = [call_of(f"person{number}") for number in range(100)]
    assert [finish(way.require(call)).principal for call in calls] == [call.principal for call in calls]
    way.go.set()
    finish(slow)


def test_calls_with_one_token_wait_for_one_answer() -> None:
    way = Made()
    call = call_of("slow")
    waiting = [way.require(call) for _ in range(3)]
    for each in waiting:
        next(each)
    way.go.set()
    assert len({finish(each).id for each in (*waiting, way.require(call))}) == 1
    assert way.asked == ["slow"]


def test_a_call_that_is_cancelled_or_has_no_time_left_waits_no_longer() -> None:
    way = Made()
    call = call_of("slow")
    waiting = way.require(call)
    next(waiting)
    call.cancelled.set("its client went away")
    with pytest.raises(Cancelled, match="its client went away"):
        next(waiting)
    with pytest.raises(TimedOut, match="an authorization server"):
        finish(way.require(call_of("slow", seconds=0)))
    way.go.set()


def test_a_failure_reaches_the_call_and_the_next_call_asks_again() -> None:
    way, call = Made(), call_of("away")
    for _ in range(2):
        with pytest.raises(Unreachable, match="no answer"):
            finish(way.require(call))
    assert way.asked == ["away", "away"]

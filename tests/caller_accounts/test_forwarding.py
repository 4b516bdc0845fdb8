"""The caller's token goes on only to a server that an outside issuer made it for too."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

import pytest

from patchbay.access.principals import Principal
from patchbay.activation import Call
from patchbay.caller_accounts.credentials import CallerCredential, Upstream
from patchbay.caller_accounts.way import Require, WayContext, WaySettings
from patchbay.caller_accounts.ways.forward import ForwardedHeaders
from patchbay.client.addresses.targets import Http
from patchbay.client.errors import CredentialsRefused, SignInNeeded
from patchbay.errors import ToolFailed

ISSUER, FAR = "https://issuer.example", "https://far.example/mcp"


def token(**claims: Any) -> str:
    """A token as the hub has verified it; its signature is not looked at again."""
    found = {"iss": ISSUER, "aud": ["https://hub.example/mcp", FAR], "exp": time.time() + 60} | claims
    part = base64.urlsafe_b64encode(json.dumps(found).encode()).rstrip(b"=").decode()
    return f"e30.{part}.c2ln"


def call_of(issuer: str = ISSUER, **headers: str) -> Call:
    sender = Principal("ann", issuer=issuer)
    known = {name.replace("_", "-"): value for name, value in headers.items()}
    return Call("far", {}, {}, time.monotonic() + 60, principal=sender.id, sender=sender, find_header=known.get)


def way_of(*names: str, trust: str = "same-issuer", audience: str = "") -> ForwardedHeaders:
    upstream = Upstream("far", Http(FAR), audience=audience)
    return ForwardedHeaders(WayContext("far", WaySettings("forward", (), names, trust), lambda: upstream, None))


def finish(steps: Require) -> CallerCredential:
    """The credential of a caller who is asked nothing."""
    try:
        next(steps)
    except StopIteration as end:
        assert isinstance(end.value, CallerCredential)
        return end.value
    raise AssertionError("the caller was asked")


def sent(way: ForwardedHeaders, call: Call) -> dict[str, str]:
    source = finish(way.require(call)).source
    assert source is not None
    return dict(source.get_parts().headers)


def test_a_token_for_the_server_too_goes_on() -> None:
    text = token()
    assert sent(way_of(), call_of(authorization=f"Bearer {text}")) == {"Authorization": f"Bearer {text}"}


def test_the_configured_identifier_of_the_server_counts() -> None:
    call = call_of(authorization=f"Bearer {token(aud=['https://hub.example/mcp', 'urn:far'])}")
    assert sent(way_of(audience="urn:far"), call)
    with pytest.raises(ToolFailed, match=r"expected https://far\.example/mcp among its audiences"):
        sent(way_of(), call)


@pytest.mark.parametrize(
    "wrong",
    [
        {"authorization": f"Bearer {token(aud='https://hub.example/mcp')}"},
        {"authorization": f"Bearer {token(aud=FAR + '/more')}"},
        {"authorization": f"Bearer {token(aud=None)}"},
        {"authorization": f"Bearer {token(cnf={'jkt': 'x'})}"},
        {"authorization": f"Bearer {token(iss='https://other.example')}"},
        {"authorization": f"DPoP {token()}"},
        {"authorization": "Bearer opaque"},
        {"authorization": "Bearer a.!.c"},
        {"authorization": f"Basic {token()}"},
        {},
    ],
)
def test_another_token_does_not_go_on(wrong: dict[str, str]) -> None:
    with pytest.raises(ToolFailed) as refused:
        sent(way_of(), call_of(**wrong))
    assert not any(value.partition(" ")[2] in refused.value.message for value in wrong.values())


def test_a_token_of_this_hub_never_goes_on() -> None:
    """A person or key of the hub has no issuer."""
    with pytest.raises(ToolFailed, match="not a key or an account of the hub"):
        sent(way_of(), call_of("", authorization=f"Bearer {token()}"))


def test_another_value_is_another_credential_and_another_caller_too() -> None:
    way = way_of("X-Tenant", trust="")
    first = finish(way.require(call_of(x_tenant="red"))).id
    assert finish(way.require(call_of(x_tenant="red"))).id == first
    assert finish(way.require(call_of(x_tenant="blue"))).id != first
    assert finish(way.require(call_of("https://other.example", x_tenant="red"))).id != first


def test_the_lists_are_read_with_the_token_of_a_caller_until_it_ends() -> None:
    way = way_of()
    assert not way.has_for_lists()
    with pytest.raises(SignInNeeded):
        way.find_for_lists(0)
    used = finish(way.require(call_of(authorization=f"Bearer {token()}")))
    assert way.find_for_lists(0) is used
    finish(way.require(call_of(authorization=f"Bearer {token(exp=time.time() - 1)}")))
    assert not way.has_for_lists()
    assert way_of("X-Tenant", trust="").find_for_lists(0) is None


def test_a_refused_header_is_not_sent_again_and_the_caller_is_told() -> None:
    way = way_of("X-Tenant", trust="")
    credential = finish(way.require(call_of(x_tenant="red")))
    assert credential.source is not None
    with pytest.raises(CredentialsRefused):
        credential.source.get_parts(credential.source.get_parts())
    with pytest.raises(ToolFailed, match="refused what your client sends"):
        finish(way.require(call_of(x_tenant="red"), refused=credential.id))

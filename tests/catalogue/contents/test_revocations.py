"""Revocations: their targets, their effects, and how to lift them."""

from __future__ import annotations

from typing import Any

import pytest

from patchbay.catalogue.contents.revocations import Revocations, RevokedServer
from patchbay.cid import cid_of
from patchbay.errors import InvalidParams, UnavailableServer, UnknownServer

CODE = 'def add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n'
MORE = CODE + "\n\ndef sub(a: int, b: int) -> int:\n    return a - b\n"


@pytest.fixture
def hub(bench: Any) -> Any:
    bench.plug("calc", CODE)
    hub = bench.open()
    bench.plug("calc", MORE)
    hub.refresh()
    return hub


def test_a_content_is_revoked_in_each_role_that_it_has(bench: Any, hub: Any) -> None:
    transform = bench.keep("def transform(tools):\n    return tools\n")
    bench.plug("made", CODE, config={"auto_discover": True, "tools_transform_cid": transform})
    hub.refresh()
    made = hub.find("made")
    for cid in (made.version, made.definition, made.config_cid, transform):
        hub.revocations.revoke(cid, "ann", "it is wrong")
        hub.refresh()
        with pytest.raises(UnavailableServer, match="it is wrong"):
            hub.find("made")
        with pytest.raises(RevokedServer, match="by ann: it is wrong"):
            hub.pinned("made", made.version, operator=True)
        hub.revocations.lift(cid, "ann", "")
        hub.refresh()
        assert hub.find("made").version == hub.pinned("made", made.version).version == made.version


def test_a_revocation_affects_no_other_content(bench: Any, hub: Any) -> None:
    hub.revocations.revoke(cid_of(CODE.encode()), "ann", "old")
    hub.refresh()
    assert set(hub.find("calc").tools) == {"add", "sub"}
    assert hub.pinned("calc", cid_of(MORE.encode())).tools
    with pytest.raises(RevokedServer):
        hub.pinned("calc", cid_of(CODE.encode()))


def test_a_rollback_does_not_serve_a_revoked_version(bench: Any, hub: Any) -> None:
    hub.revocations.revoke(cid_of(CODE.encode()), "ann", "old")
    bench.plug("calc", CODE)
    hub.refresh()
    assert "old" in str(next(one.broken for one in hub.all() if one.name == "calc"))


def test_versions_of_a_removed_name_are_for_the_operator_alone(bench: Any, hub: Any) -> None:
    version = hub.find("calc").version
    bench.change({"servers/calc": None})
    hub.refresh()
    with pytest.raises(UnknownServer, match="has never had the version"):
        hub.pinned("calc", version)
    assert hub.pinned("calc", version, operator=True).version == version
    hub.revocations.revoke("calc", "ann", "ended")
    with pytest.raises(RevokedServer, match="ended"):
        hub.pinned("calc", version, operator=True)


@pytest.mark.parametrize(
    ("target", "why"),
    [("nobody", "x"), ("", "x"), (cid_of(b"absent"), "x"), ("servers/", "x"), ("calc", ""), ("../calc", "x")],
)
def test_an_unknown_target_of_a_revocation_is_refused_and_changes_nothing(hub: Any, target: str, why: str) -> None:
    with pytest.raises(InvalidParams):
        hub.revocations.revoke(target, "ann", why)
    assert hub.revocations.all() == []
    with pytest.raises(InvalidParams):
        hub.revocations.lift(target, "ann", why)


def test_a_revocation_in_force_keeps_its_first_reason(hub: Any) -> None:
    hub.revocations.revoke("calc", "ann", "first")
    revocation = hub.revocations.revoke("servers/calc", "bob", "second")
    assert (revocation.what, revocation.who, revocation.why) == ("servers/calc", "ann", "first")
    assert [each.why for each in Revocations(hub.store).all()] == ["first"]

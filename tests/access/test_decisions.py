"""The one decision about access, by table and against an independent account of the same rules.

Sources: ACCESS section 3; issue 16 item 3.
"""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from patchbay.access.decisions import HUB, Object, decide, is_scope, rights_of
from patchbay.access.principals import LOCAL, LOCAL_OPERATOR, OPERATOR, Principal
from patchbay.boot.grants import ACTIONS, Grants, parse_grants
from tests.access.random_access import documents, principals
from tests.access.team import CALLS, READS, SERVERS, may

ANN = Principal("ann@example.org")
KEY = Principal("key:robot")
BEN = Principal("ben", issuer="https://issuer.example", groups=frozenset({"research"}))
FALSE_KEY = Principal(
    "eve", issuer="https://issuer.example", groups=frozenset({"key:robot", "operator", "*", "https://b.example#ann"})
)


def grants(document: Any) -> Grants | None:
    return None if document is None else parse_grants(orjson.dumps(document), "access")


def row(*to: str, may: list[str] | None = None, on: list[str] | None = None) -> Any:
    return {"to": list(to), "may": may or ["call"], "on": on or ["notes"]}


def denial(*to: str, on: list[str] | None = None) -> Any:
    return {"to": list(to), "on": on or ["notes"]}


@pytest.mark.parametrize(
    ("document", "who", "action", "server", "entry", "allowed", "because"),
    [
        (None, ANN, "call", "notes", "search", True, "no variable `access`"),
        (None, ANN, "operate", "", "", False, "no grant"),
        (None, OPERATOR, "operate", "", "", True, "the operator"),
        ({}, ANN, "call", "notes", "search", False, "no grant"),
        ({}, OPERATOR, "call", "notes", "search", True, "the operator"),
        ({}, LOCAL, "see", "notes", "", False, "no grant"),
        ({}, LOCAL_OPERATOR, "see", "notes", "", True, "the operator"),
        ({"grants": [row("ann@example.org")]}, ANN, "call", "notes", "search", True, "grant 1"),
        ({"grants": [row("ann@example.org")]}, KEY, "call", "notes", "search", False, "no grant"),
        ({"grants": [row("ann@example.org")]}, ANN, "read", "notes", "notes://plan", False, "no grant"),
        ({"grants": [row("*")]}, KEY, "call", "notes", "search", True, "grant 1"),
        ({"grants": [row("key:robot", on=["notes.search"])]}, KEY, "call", "notes", "search", True, "grant 1"),
        ({"grants": [row("key:robot", on=["notes.search"])]}, KEY, "call", "notes", "delete_note", False, "no grant"),
        # Groups: of the document, of an issuer; a group's name is not a principal.
        ({"groups": {"team": ["key:robot"]}, "grants": [row("team")]}, KEY, "call", "notes", "x", True, "grant 1"),
        ({"groups": {"team": []}, "grants": [row("team")]}, Principal("team"), "call", "notes", "x", False, "no grant"),
        ({"grants": [row("research")]}, BEN, "call", "notes", "x", True, "grant 1"),
        # An issuer puts nobody into a group of the document; its groups are no keys. They are denied all the same.
        ({"groups": {"research": ["ann"]}, "grants": [row("research")]}, BEN, "call", "notes", "x", False, "no grant"),
        ({"grants": [row("key:robot")]}, FALSE_KEY, "call", "notes", "x", False, "no grant"),
        (
            {"groups": {"research": []}, "grants": [row("*")], "denials": [denial("research")]},
            *(BEN, "call", "notes", "x", False, "denial 1"),
        ),
        ({"grants": [row("https://issuer.example#ben")]}, BEN, "call", "notes", "x", True, "grant 1"),
        ({"grants": [row("ben")]}, BEN, "call", "notes", "x", False, "no grant"),
        # Denials win.
        ({"grants": [row("*")], "denials": [denial("*")]}, ANN, "call", "notes", "x", False, "denial 1"),
        ({"grants": [row("*")], "denials": [denial("*")]}, OPERATOR, "call", "notes", "x", True, "the operator"),
        (
            {"grants": [row("*")], "denials": [denial("*", on=["*.delete_*"])]},
            *(ANN, "call", "notes", "delete_note", False, "denial 1"),
        ),
        # Administrators.
        ({"grants": [row("*", may=["operate"], on=["*"])]}, ANN, "operate", "", "", True, "grant 1"),
        ({"grants": [row("*", may=["operate"], on=["*"])]}, ANN, "call", "notes", "search", True, "grant 1"),
        (
            {"grants": [row("*", may=["operate"], on=["*"])], "denials": [denial("ann@example.org", on=["*"])]},
            *(ANN, "operate", "", "", False, "denial 1"),
        ),
        (
            {"grants": [row("*", may=["operate"], on=["*"])], "denials": [denial("*", on=["notes"])]},
            *(ANN, "operate", "", "", True, "grant 1"),
        ),
        # Scopes narrow, and never widen.
        (None, Principal("a", scopes=frozenset()), "see", "notes", "", False, "no scope"),
        (None, Principal("a", scopes=frozenset({"openid", "mcp"})), "call", "notes", "x", False, "no scope"),
        (None, Principal("a", scopes=frozenset({"call"})), "call", "notes", "x", True, "no variable"),
        (None, Principal("a", scopes=frozenset({"call:notes.s*"})), "call", "notes", "search", True, "no variable"),
        (None, Principal("a", scopes=frozenset({"call:notes.s*"})), "call", "notes", "x", False, "no scope"),
        ({}, Principal("a", scopes=frozenset({"call"})), "call", "notes", "x", False, "no grant"),
    ],
)
def test_a_decision_names_the_rule_that_made_it(
    document: Any, who: Principal, action: str, server: str, entry: str, allowed: bool, because: str
) -> None:
    found = decide(who, action, Object(server, entry), grants(document))
    assert bool(found) is found.allowed is allowed
    assert found.because.startswith(because)


@pytest.mark.parametrize(
    ("text", "good"),
    [
        *[(text, True) for text in ("see", "call", "read", "call:notes.*", "read:*", "see:a")],
        *[(text, False) for text in ("", "operate", "call:", "call: x", "mcp", "openid", "call:" + "x" * 600)],
    ],
)
def test_only_valid_texts_are_scopes(text: str, good: bool) -> None:
    assert is_scope(text) is good


@pytest.mark.slow
@settings(deadline=None, max_examples=3000)
@given(documents, principals, st.sampled_from(ACTIONS), st.sampled_from(SERVERS), st.data())
def test_decisions_agree_with_an_independent_account(
    document: Any, who: Principal, action: str, server: str, data: st.DataObject
) -> None:
    entry = data.draw(st.sampled_from(["", *CALLS[server], *READS[server]]))
    rights = rights_of(who, grants(document))
    expected = may(document, who, action, server, entry)
    assert rights.decide(action, Object(server, entry)).allowed is expected
    if action != "operate":
        assert (
            rights.allows(action, server, entry) is rights.only_about(server).allows(action, server, entry) is expected
        )


@settings(deadline=None, max_examples=500)
@given(documents, principals, principals)
def test_principals_with_one_digest_may_do_the_same(document: Any, one: Principal, other: Principal) -> None:
    first, second = (rights_of(who, grants(document)) for who in (one, other))
    if first.digest == second.digest:
        assert first.operates is second.operates
        for server in SERVERS:
            for entry in ("", *CALLS[server]):
                assert first.allows("call", server, entry) is second.allows("call", server, entry)


def test_only_a_pattern_of_everything_covers_the_hub() -> None:
    document = {"grants": [row("*", may=["operate"], on=["*"])]}
    assert decide(ANN, "operate", HUB, grants(document)).allowed
    assert not decide(ANN, "operate", HUB, grants({"grants": [row("*", may=["see"], on=["*.*"])]})).allowed


def test_who_operates_a_name_operates_nothing_else() -> None:
    """Issue 54: a grant on a name is for the toolset of this name."""
    rows = [row("*", may=["operate"], on=["mine", "theirs"])]
    rights = rights_of(ANN, grants({"grants": rows, "denials": [denial("*", on=["theirs"])]}))
    assert rights.operated_names() == ["mine"] and not rights.operates and not rights.is_unlimited
    assert [rights.operates_toolset(name) for name in ("mine", "theirs", "other", "mine.x", "")] == [
        *(True, False, False, False, False)
    ]
    assert rights.allows("call", "mine", "x") and not rights.allows("call", "other", "x")
    assert rights_of(ANN, grants({"grants": [row("*", may=["operate"], on=["*"])]})).operates_toolset("mine")

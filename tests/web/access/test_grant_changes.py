"""What a new document of grants changes is said in plain sentences before it is saved."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from patchbay.boot.grants import Grants, parse_grants
from patchbay.web.access.grant_changes import MAX_SENTENCES, describe_changes

Json = dict[str, Any]


def read(document: Json | None) -> Grants | None:
    return None if document is None else parse_grants(orjson.dumps(document), "access")


def grant(name: str, may: str, on: str, asks: bool = False) -> Json:
    return {"to": [name], "may": may.split(), "on": on.split()} | ({"call": "approve"} if asks else {})


def changes(old: Json | None, new: Json | None) -> list[str]:
    return describe_changes(read(old), read(new))


NONE: Json = {"grants": []}


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ([], [grant("ann", "call", "notes.search notes.find")], "ann may call notes.search and notes.find"),
        ([], [grant("ann", "see call read", "notes")], "ann may see, call and read notes"),
        ([grant("ann", "call read", "notes")], [], "ann may no longer call or read notes"),
        ([], [grant("*", "see", "*")], "Everyone may see everything"),
        (
            [],
            [grant("ann", "call", "notes", True)],
            "ann may call notes, with an approval if the tool may destroy something",
        ),
        (
            [grant("ann", "call", "notes")],
            [grant("ann", "call", "notes", True)],
            "Calls of notes by ann need an approval if the tool may destroy something",
        ),
        ([grant("*", "call", "a", True)], [grant("*", "call", "a")], "Everyone may call a without an approval"),
        ([grant("ann", "call", "a", True)], [], "ann may no longer call a"),
        ([], [grant("ann", "operate", "*")], "ann is an administrator of this hub from now on"),
        ([grant("ann", "operate", "*")], [], "ann is no administrator of this hub any more"),
        ([], [grant("ann", "operate", "mine")], "ann may make and change mine as a toolset"),
        ([grant("ann", "operate", "mine")], [], "ann may no longer change mine as a toolset"),
    ],
)
def test_a_changed_right_is_one_sentence(old: list[Json], new: list[Json], sentence: str) -> None:
    assert changes({"grants": old}, {"grants": new}) == [sentence]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ({}, {"groups": {"team": ["ann", "ben"]}}, "There is a new group team with ann and ben"),
        ({"groups": {"team": ["ann"]}}, {"groups": {"team": ["ann", "ben"]}}, "ben joins the group team"),
        ({"groups": {"team": ["ann", "ben"]}}, {"groups": {"team": []}}, "ann and ben leave the group team"),
        ({"groups": {"team": []}}, {}, "The group team is removed"),
        ({}, {"denials": [{"to": ["ann"], "on": ["*.delete_*"]}]}, "*.delete_* is forbidden for ann"),
        ({"denials": [{"to": ["*"], "on": ["a", "b"]}]}, {}, "a and b are no longer forbidden for everyone"),
        (
            {},
            {"quotas": [{"to": ["ann"], "calls_per_minute": 1000}]},
            "There is a new limit: calls_per_minute 1,000 for ann",
        ),
        (
            {"quotas": [{"on": ["notes"], "streams": 3}]},
            {},
            "A limit is removed: streams 3 for all callers together on notes",
        ),
    ],
)
def test_groups_denials_and_limits_have_sentences(old: Json, new: Json, sentence: str) -> None:
    assert changes(old, new) == [sentence]


def test_a_group_is_called_one() -> None:
    groups = {"groups": {"team": ["ann"]}}
    assert changes(groups, groups | {"grants": [grant("team", "see", "a")]}) == ["The group team may see a"]


def test_the_first_and_the_last_rules_say_what_that_means() -> None:
    first = changes(None, {"grants": [grant("ann", "see call read", "notes")]})
    assert first == [
        "From now on the hub has access rules: a caller may do only what a grant gives",
        "Everyone may no longer see, call or read everything",
        "ann may see, call and read notes",
    ]
    last = changes({"grants": []}, None)
    assert last[0].startswith("The hub has no access rules any more")


def test_another_form_of_the_same_rights_changes_nothing() -> None:
    one = {"grants": [grant("ann", "see call", "a b")]}
    other = {"grants": [grant("ann", "see", "a b"), grant("ann", "call", "b a")]}
    assert changes(one, other) == []


def test_a_document_with_very_many_changes_has_a_bounded_description() -> None:
    many = {"grants": [grant(f"p{n}", "see", f"a{n}") for n in range(MAX_SENTENCES + 50)]}
    found = changes(NONE, many)
    assert len(found) == MAX_SENTENCES + 1 and found[-1] == "50 more changes: compare the texts"
    wide = {"grants": [{"to": [f"p{n}" for n in range(200)], "may": ["see"], "on": [f"a{n}" for n in range(200)]}]}
    assert changes(NONE, wide) == ["The rights are too many to compare here: compare the texts"]

"""One button of the table of rights changes one right in the document, and nothing else."""

from __future__ import annotations

from itertools import product
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.boot.grants import parse_grants
from patchbay.web.access.grant_edits import RIGHTS, change_right, format_document, own_rights

Json = dict[str, Any]
NAMES, PATTERNS = ("ann", "ben", "*"), ("notes", "notes.search", "*")


def documents() -> st.SearchStrategy[Json]:
    """Documents of a few rows about few names and patterns, so that rows overlap."""

    def some(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
        return st.lists(st.sampled_from(values), min_size=1, max_size=3, unique=True)

    row = st.fixed_dictionaries(
        {"to": some(NAMES), "may": some(("see", "call", "read")), "on": some(PATTERNS)},
        optional={"call": st.just("approve")},
    )
    administrators = st.fixed_dictionaries({"to": some(NAMES), "may": st.just(["operate"]), "on": st.just(["*"])})
    return st.fixed_dictionaries(
        {"grants": st.lists(row | administrators, max_size=5)},
        optional={
            "groups": st.just({"team": ["ann"]}),
            "denials": st.just([{"to": ["ben"], "on": ["*.delete_*"]}]),
            "quotas": st.just([{"to": ["*"], "calls_per_minute": 10}]),
        },
    )


def rights_of(document: Json) -> dict[tuple[str, str], set[str]]:
    """What each name has on each pattern: written from the description of the document, without the code of the hub."""
    found: dict[tuple[str, str], set[str]] = {key: set() for key in product(NAMES, PATTERNS)}
    for row in document["grants"]:
        for name, pattern, action in product(row["to"], row["on"], row["may"]):
            found[name, pattern].add("ask" if action == "call" and "call" in row else action)
    return {key: rights - {"ask"} if "call" in rights else rights for key, rights in found.items()}


@given(documents(), st.sampled_from(NAMES), st.sampled_from(RIGHTS), st.sampled_from(PATTERNS))
def test_a_button_changes_one_right_of_one_name_on_one_pattern(
    document: Json, name: str, right: str, pattern: str
) -> None:
    before, untouched = rights_of(document), orjson.dumps(document)
    changed = change_right(document, name, right, pattern)
    after = rights_of(changed)
    assert orjson.dumps(document) == untouched
    assert {key: value for key, value in after.items() if key != (name, pattern)} == {
        key: value for key, value in before.items() if key != (name, pattern)
    }
    assert (right in own_rights(changed, name, pattern)) is not (
        right in own_rights(document, name, pattern)
        or (right == "call" and "ask" in own_rights(document, name, pattern))
    )
    others = {"see", "read", "operate"} - {right}
    assert after[name, pattern] & others == before[name, pattern] & others
    assert {key: changed[key] for key in changed if key != "grants"} == {
        key: document[key] for key in document if key != "grants"
    }
    assert orjson.loads(format_document(changed)) == changed
    assert parse_grants(format_document(changed).encode(), "access") is not None


@given(documents())
def test_the_text_of_a_document_says_the_same_as_the_document(document: Json) -> None:
    assert orjson.loads(format_document(document)) == document


def test_a_row_for_several_names_is_parted_and_rows_of_one_name_are_joined() -> None:
    document = {"grants": [{"to": ["ann", "ben"], "may": ["see", "call"], "on": ["notes"]}]}
    without = change_right(document, "ann", "see", "notes")
    assert without["grants"] == [
        {"to": ["ben"], "may": ["see", "call"], "on": ["notes"]},
        {"to": ["ann"], "may": ["call"], "on": ["notes"]},
    ]
    more = change_right(without, "ann", "call", "bash")
    assert more["grants"][1] == {"to": ["ann"], "may": ["call"], "on": ["notes", "bash"]}


@pytest.mark.parametrize(
    ("pressed", "rights"),
    [
        (("ask",), {"ask"}),
        (("call", "ask"), {"ask"}),
        (("ask", "ask"), {"call"}),
        (("ask", "call"), set()),
        (("see", "ask", "call"), {"see"}),
    ],
)
def test_asking_is_a_way_to_call(pressed: tuple[str, ...], rights: set[str]) -> None:
    document: Json = {}
    for right in pressed:
        document = change_right(document, "ann", right, "notes")
    assert own_rights(document, "ann", "notes") == rights
    assert all(("call" in row) <= ("call" in row["may"]) for row in document["grants"])


def test_a_long_row_has_a_line_for_each_field() -> None:
    document = {"grants": [{"to": [f"person{n}@example.org" for n in range(9)], "may": ["see"], "on": ["*"]}]}
    text = format_document(document)
    assert '      "may": ["see"],\n' in text and orjson.loads(text) == document

"""The page docs/requirements.md: it is current, and every acceptance test of the plan is there."""

from __future__ import annotations

import re

import pytest

from scripts.requirements_index import (
    PAGE,
    ROOT,
    deviation_faults,
    faults,
    found_in,
    ids_in,
    page,
    proofs,
    sections,
    shown_by,
)

GROUPS = (9, 5, 4, 6, 8, 6, 5, 5, 11, 5, 6, 6, 8, 5)
"""How many rows each group of the acceptance plan has, T1 to T14."""

PLAN = [f"T{group}.{row}" for group, rows in enumerate(GROUPS, 1) for row in range(1, rows + 1)]


def test_the_page_is_current() -> None:
    assert PAGE.exists() and PAGE.read_text("utf-8") == page(sections(), shown_by(), proofs()), (
        "run python scripts/requirements_index.py"
    )


def test_each_row_that_a_test_shows_has_one_proving_test() -> None:
    assert faults(sections(), shown_by(), proofs()) == []


def test_a_missing_and_a_wrong_proving_test_are_reported() -> None:
    tables = {"Rows": {"T1.1": "One.", "T1.2": "Two.", "T1.3": "No test yet."}}
    tests = {"T1.1": ["a.py::test_a"], "T1.2": ["a.py::test_b", "a.py::test_c"]}
    assert faults(tables, tests, {"T1.1": "a.py::test_a", "T1.2": "a.py::test_c"}) == []
    assert faults(tables, tests, {"T1.1": "a.py::test_c"}) == [
        "T1.2 has no proving test: name one of a.py::test_b, a.py::test_c",
        "T1.1 is proved by a.py::test_c, which does not carry its ID or is not there",
    ]


def test_a_requirement_without_a_proving_test_is_a_deviation_and_no_other_is() -> None:
    """34.22."""
    assert deviation_faults(sections(), proofs(), (ROOT / "docs" / "deviations.md").read_text("utf-8")) == []


def test_rows_that_the_page_of_deviations_lacks_or_names_wrongly_are_reported() -> None:
    """34.22."""
    tables = {"Rows": {"T1.1": "One.", "T1.2": "Two.", "T1.3": "Three."}}
    assert deviation_faults(tables, {"T1.1": "a.py::test_a"}, "| T1.1 | T1.2 |") == [
        "T1.3 has no proving test and no row in docs/deviations.md",
        "T1.1 has a proving test; docs/deviations.md names it as a deviation",
    ]


def test_the_plan_has_its_89_rows() -> None:
    assert len(PLAN) == 89
    assert [one for rows in sections().values() for one in rows if re.match(r"T\d", one)] == PLAN


def test_every_row_of_the_plan_has_a_test() -> None:
    tests = shown_by()
    assert [one for one in PLAN if one not in tests] == []


@pytest.mark.parametrize(
    ("name", "docstring", "found"),
    [
        ("test_x", "T5.2: a sentence.", {"T5.2"}),
        ("test_x", "T5.2, T5.21 and VWR-13 (SUB-C4).", {"T5.2", "T5.21", "VWR-13", "SUB-C4"}),
        ("test_x", "Ends with T5.2.", {"T5.2"}),
        ("test_t5_2_says_why", None, {"T5.2"}),
        ("test_x", "HT5.2 T5.2.1 T5 XVWR-1x", set()),
        ("test_at5_2", None, set()),
        ("test_t5_22x", None, set()),
    ],
)
def test_an_id_counts_as_a_whole_token(name: str, docstring: str | None, found: set[str]) -> None:
    assert ids_in(name, docstring) == found


def test_tests_in_classes_are_found_under_their_class() -> None:
    text = 'class TestEcho:\n    def test_it(self):\n        """T5.1"""\n\ndef helper():\n    """T5.2"""\n'
    assert list(found_in(text)) == [("TestEcho::test_it", {"T5.1"})]

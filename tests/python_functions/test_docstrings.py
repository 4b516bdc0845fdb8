"""Docstrings: three styles, the first line, and text in no style."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.python_functions.docstrings import MAX_DOCSTRING_CHARACTERS, Doc, read_docstring

GOOGLE = """Add two numbers.

    More about it.

    Args:
        a (int): The first
            number: yes.
        b: The second.

    Keyword Args:
        c: The third.

    Returns:
        int: The sum: all of it.
    """
NUMPY = """
    Add two numbers.

    Parameters
    ----------
    a : int
        The first
        number: yes.
    b : int, optional
        The second.

    Other Parameters
    ----------------
    c
        The third.

    Returns
    -------
    int
        The sum: all of it.
    """
SPHINX = """Add two numbers.

    :param a: The first
        number: yes.
    :type a: int
    :param int b: The second.
    :keyword c: The third.
    :returns: The sum: all of it.
    :rtype: int"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, SPHINX], ids=["Google", "NumPy", "Sphinx"])
def test_docstrings_of_each_style_give_the_same_result(docstring: str) -> None:
    """T11.5, VWR-22: the first line, the parameters, the result."""
    assert read_docstring(docstring) == Doc(
        "Add two numbers.",
        {"a": "The first number: yes.", "b": "The second.", "c": "The third."},
        "The sum: all of it.",
    )


@pytest.mark.parametrize(
    ("docstring", "first"),
    [
        (None, ""),
        ("", ""),
        ("  \n ", ""),
        ("One line", "One line"),
        ("\n\n    Two\n    lines.\n", "Two"),
        ("Note: not a section", "Note: not a section"),
        ("Lone \ud800 surrogate", "Lone ? surrogate"),
    ],
)
def test_a_docstring_without_sections_is_its_first_line(docstring: str | None, first: str) -> None:
    """T11.5."""
    assert read_docstring(docstring) == Doc(first)


def test_a_very_long_docstring_is_read_no_further_than_its_first_line() -> None:
    assert read_docstring("Long.\n\nArgs:\n    a: b\n" + "x" * MAX_DOCSTRING_CHARACTERS) == Doc("Long.")


def test_a_malformed_docstring_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    """A mistake in a docstring is not a warning of the hub."""
    with caplog.at_level(logging.DEBUG):
        assert read_docstring("F.\n\nArgs:\n    a (((: x\n    b c d\n    *e\n    f: good\n").parameters["f"] == "good"
        read_docstring("F.\n\nParameters\n----------\n: x\n  :\n")
        read_docstring("F.\n\n:param: x\n:param a b c d: y\n:returns\n:type :\n")
    assert caplog.records == []


HEADINGS = [
    "Args:",
    "Returns:",
    "Parameters",
    "----------",
    ":param x: y",
    ":returns: z",
    "    a: b",
    "  a : int",
    "(((",
    "",
]


@given(st.lists(st.sampled_from(HEADINGS) | st.text(max_size=12), max_size=12))
def test_any_text_is_read(lines: list[str]) -> None:
    doc = read_docstring("\n".join(["Begin.", *lines]))
    assert doc.first == "Begin."

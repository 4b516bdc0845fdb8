"""Parsing Python text in many threads, and while other code parses too."""

from __future__ import annotations

import ast
import gc
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from patchbay.python_functions.syntax import parse_expression, parse_source
from tests.checkout import ROOT

TEXT = (ROOT / "reference_templates/servers/definitions/cone.py").read_text("utf-8")


@pytest.fixture
def eager() -> Iterator[None]:
    """Run the garbage collector almost all the time, also while a tree is built."""
    before = gc.get_threshold()
    gc.set_threshold(10)
    yield
    gc.set_threshold(*before)


class Disturbs:
    """Garbage whose finalizer parses Python text, as libraries do."""

    count = 0

    def __init__(self) -> None:
        self.itself = self

    def __del__(self) -> None:
        Disturbs.count += 1
        ast.parse("[[[[[[[[1]]]]]]]]")


@pytest.mark.usefixtures("eager")
def test_a_text_whose_reading_was_disturbed_is_read_again() -> None:
    expected, before = ast.dump(ast.parse(TEXT)), Disturbs.count
    for _ in range(20):
        Disturbs()
        assert ast.dump(parse_source(TEXT)) == expected
    assert Disturbs.count > before


@pytest.mark.usefixtures("eager")
def test_many_threads_read_at_once() -> None:
    expected = ast.dump(ast.parse(TEXT))
    with ThreadPoolExecutor(8) as threads:
        assert {ast.dump(tree) for tree in threads.map(parse_source, [TEXT] * 32)} == {expected}


def test_an_expression_is_read_alone() -> None:
    assert ast.dump(parse_expression("a | None")) == ast.dump(ast.parse("a | None", mode="eval").body)
    with pytest.raises(SyntaxError):
        parse_expression("a = 1")

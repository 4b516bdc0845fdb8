"""The words for ids of callers, authors, reasons and names of the store."""

from __future__ import annotations

import pytest

from patchbay.web.rendering.names import describe_reason, name_author, name_caller, name_entry


@pytest.mark.parametrize(
    ("id", "mode", "words"),
    [
        ("local", "personal", "this machine"),
        ("local", "open", "someone who can reach this hub"),
        ("operator", "shared", "the operator"),
        ("key:ci", "shared", "the key ci"),
        ("schedule:town", "shared", "the schedule of town"),
        ("ann@example.org", "shared", "ann@example.org"),
    ],
)
def test_a_caller_has_words(id: str, mode: str, words: str) -> None:
    assert name_caller(id, mode) == words


@pytest.mark.parametrize(
    ("who", "words"),
    [
        ("start", "the start of the hub"),
        ("servers/", "a file in servers/"),
        ("operator", "the operator"),
        ("ann", "ann"),
    ],
)
def test_an_author_has_words(who: str, words: str) -> None:
    assert name_author(who) == words


def test_a_reason_of_the_hub_has_words_and_that_of_a_person_stays() -> None:
    assert describe_reason("boot image default") == "servers that ship with the hub"
    assert describe_reason("built by 48752b804f41464caf21cd1d7ddaf05e") == "built"
    assert describe_reason("built by ann") == "built by ann"
    assert describe_reason("a slip\u202e").startswith("a slip[U+202E]")
    assert name_caller("ann\u202e").startswith("ann[U+202E]")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("servers/echo", "server echo"),
        ("variables/mcps", "variable mcps"),
        ("root", "state of the hub"),
        ("pins/far", "pins of far"),
        ("x/y", "x/y"),
    ],
)
def test_a_name_of_the_store_has_words(name: str, words: str) -> None:
    assert name_entry(name) == words

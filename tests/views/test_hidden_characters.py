"""Characters that a reader does not see are found and shown; ordinary joiners of letters and emoji are not."""

from __future__ import annotations

import unicodedata

import orjson
import pytest

from patchbay.views.hidden_characters import escape_hidden_characters, find_hidden_character, show_hidden_characters

VISIBLE_SIGNS = {*range(0x600, 0x606), 0x6DD, 0x890, 0x891, 0x8E2}
"""Format characters of Arabic that are drawn."""


def test_every_control_and_format_character_is_found() -> None:
    ordinary = {ord("\t"), ord("\n"), ord("\r")} | VISIBLE_SIGNS
    hidden = (
        number for number in range(0x110000) if unicodedata.category(chr(number)) in ("Cc", "Cf", "Cs", "Zl", "Zp")
    )
    assert [
        hex(number) for number in hidden if find_hidden_character(chr(number)) is None and number not in ordinary
    ] == []


@pytest.mark.parametrize("character", ["\u115f", "\u3164", "\uffa0", "\u2800", "\u034f", "a\ufe0f", "\U000e0100"])
def test_letters_and_marks_that_look_empty_are_found(character: str) -> None:
    assert find_hidden_character(character) == f"U+{ord(character[-1]):04X}"


@pytest.mark.parametrize("text", ["plain\r\n\ttext", "é 日本語 עברית", "❤️ 👨‍👩‍👧 1️⃣ ©️", "می‌خواهم", "क्‍ष"])
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert find_hidden_character(text) is None
    assert show_hidden_characters(text) == text
    assert escape_hidden_characters(text) == text


def test_hidden_characters_are_shown_by_code_point() -> None:
    assert show_hidden_characters("a\u202eb") == "a[U+202E]b (1 hidden character is shown by code point.)"
    assert (
        show_hidden_characters("\x1b\U000e0041") == "[U+001B][U+E0041] (2 hidden characters are shown by code point.)"
    )


def test_escaped_json_means_the_same() -> None:
    value = {"a\u202e": "b\U000e0041\ufeff", "c": "❤️"}
    text = escape_hidden_characters(orjson.dumps(value).decode())
    assert find_hidden_character(text) is None
    assert orjson.loads(text) == value

"""The JSON value of what an author's code raised, which may come from an untrusted process, and its text."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from patchbay.raised.exceptions import MAX_EXCEPTIONS, MAX_FRAMES, CodeLine, RaisedException
from patchbay.raised.forms import format_raised, raised_from_json, raised_to_json


@pytest.mark.parametrize(
    "value",
    [
        None,
        "text",
        {"error": "x"},
        [1],
        [{"error": "x"}],
        [{"error": 1, "relation": "", "frames": []}],
        [{"error": "x", "relation": "", "frames": [{"file": "a", "line": "1", "function": "", "text": ""}]}],
        [{"error": "x", "relation": "", "frames": [{"file": "a", "line": -1, "function": "", "text": ""}]}],
        [{"error": "x", "relation": "", "frames": 1}],
    ],
)
def test_a_value_of_another_form_gives_no_exceptions(value: Any) -> None:
    assert raised_from_json(value) == ()


def test_a_value_of_another_process_is_cut_to_the_limits() -> None:
    frame = {"file": "f" * 9999, "line": 1, "function": "g", "text": "t" * 9999}
    value = [{"error": "e" * 9999, "relation": "", "frames": [frame] * 999}] * 999
    found = raised_from_json(value)
    assert len(found) == MAX_EXCEPTIONS and all(len(one.frames) == MAX_FRAMES for one in found)
    assert max(len(found[0].error), len(found[0].frames[0].file), len(found[0].frames[0].text)) == 500


def test_exceptions_survive_their_json_form_and_read_as_text() -> None:
    raised = (
        RaisedException(
            "ValueError: no: colour", "", (CodeLine("a.py", 3, "paint", "raise"), CodeLine("a.py", 9, "", ""))
        ),
        RaisedException("KeyError", "caused by", ()),
    )
    assert raised_from_json(raised_to_json(raised)) == raised
    assert raised_to_json(raised, with_messages=False)[0]["error"] == "ValueError"
    expected = """
        ValueError: no: colour
          a.py, line 3, in paint
            raise
          a.py, line 9
        caused by: KeyError
    """
    assert "\n".join(format_raised(raised)) == textwrap.dedent(expected).strip()

"""The question to a client about calls: what it ticks beforehand, and what an answer approves."""

from __future__ import annotations

import pytest

from patchbay.access.approval_questions import (
    CUT,
    MAX_QUESTION_CHARACTERS,
    MAX_TICK_CHARACTERS,
    ask_client,
    read_answer,
)
from patchbay.access.approvals import AskedCall, CallDigest
from patchbay.cid import cid_of


def asked(length: int) -> AskedCall:
    """A call whose arguments have this many characters."""
    arguments = b'{"a":"' + b"x" * (length - 8) + b'"}'
    return AskedCall(CallDigest("key:ann", "issues", "v", "close", "t", cid_of(arguments)), arguments)


@pytest.mark.parametrize(("others", "limit"), [(0, MAX_QUESTION_CHARACTERS), (2, MAX_TICK_CHARACTERS)])
def test_a_call_that_is_shown_in_part_needs_a_tick_of_the_user(others: int, limit: int) -> None:
    """A script can hide what is dangerous behind many harmless characters."""
    calls = [*[asked(20)] * others, asked(limit + 1)]
    params = ask_client(calls).params
    last = f"call_{len(calls)}"
    ticks = params["requestedSchema"]["properties"]
    assert [one["default"] for one in ticks.values()] == [True] * others + [False] and CUT in params["message"]
    for content in (None, {}, {"call_1": "yes", last: "yes"}, {last: False}):
        assert read_answer({"action": "accept", "content": content}, calls)[-1] is False
    assert read_answer({"action": "accept"}, calls) == [True] * others + [False]
    assert read_answer({"action": "accept", "content": {last: True}}, calls) == [True] * len(calls)
    assert read_answer({"action": "decline", "content": {last: True}}, calls) == [False] * len(calls)


@pytest.mark.parametrize(("others", "limit"), [(0, MAX_QUESTION_CHARACTERS), (2, MAX_TICK_CHARACTERS)])
def test_calls_that_are_shown_whole_need_no_tick(others: int, limit: int) -> None:
    calls = [*[asked(20)] * others, asked(limit)]
    params = ask_client(calls).params
    assert CUT not in params["message"] and len(params["requestedSchema"]["properties"]) == (
        len(calls) if others else 0
    )
    assert read_answer({"action": "accept"}, calls) == [True] * len(calls)

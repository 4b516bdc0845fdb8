"""Log messages and progress: only what the caller asked for, on the call's own stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.hubs import Hub


def logged(answer: Any) -> list[str]:
    return [each["params"]["data"] for each in answer.messages if each.get("method") == "notifications/message"]


def slow(hub: Hub, session: str) -> Any:
    return hub.legacy("zoo", "tools/call", {"name": "slow"}, session=session)


def test_a_session_gets_log_messages_at_or_above_its_level(zoo: Hub) -> None:
    """SUB-31."""
    session = zoo.open("zoo")
    assert logged(slow(zoo, session)) == ["did 2", "did 3"]
    assert zoo.legacy("zoo", "logging/setLevel", {"level": "debug"}, session=session).result == {}
    assert logged(slow(zoo, session)) == ["did 1", "did 2", "did 3"]
    zoo.legacy("zoo", "logging/setLevel", {"level": "error"}, session=session)
    assert logged(slow(zoo, session)) == []


def test_a_level_that_does_not_exist_is_an_error(zoo: Hub) -> None:
    assert zoo.legacy("zoo", "logging/setLevel", {"level": "loud"}, session=zoo.open("zoo")).error["code"] == -32602


def test_in_2026_07_28_nothing_is_logged_unless_the_request_says_a_level(zoo: Hub) -> None:
    """SPEC-DIGEST 6.1 row 16."""
    params = {"name": "slow"}
    assert logged(zoo.modern("zoo", "tools/call", params)) == []
    level = {"io.modelcontextprotocol/logLevel": "debug"}
    assert logged(zoo.modern("zoo", "tools/call", params, meta=level)) == ["did 1", "did 2", "did 3"]


def test_progress_uses_the_callers_token_and_is_never_sent_without_one(zoo: Hub) -> None:
    """SUB-27, X-13, SUB-C10."""
    without = zoo.modern("zoo", "tools/call", {"name": "slow"})
    assert all(each.get("method") != "notifications/progress" for each in without.messages)
    answer = zoo.modern("zoo", "tools/call", {"name": "slow"}, meta={"progressToken": 0})
    tokens = [each["params"]["progressToken"] for each in answer.messages if "method" in each]
    assert tokens == [0, 0, 0]


def test_2024_11_05_gets_progress_without_a_message(zoo: Hub) -> None:
    session = zoo.open("zoo", "2024-11-05")
    params = {"name": "slow", "_meta": {"progressToken": "t"}}
    answer = zoo.legacy("zoo", "tools/call", params, session=session, version=None)
    progress = [each["params"] for each in answer.messages if each.get("method") == "notifications/progress"]
    assert len(progress) == 3 and all("message" not in each for each in progress)


def test_an_authors_own_progress_goes_on_beside_the_pieces_of_text(tmp_path: Path) -> None:
    """X-13: nothing that the author says is dropped, and the numbers only grow."""
    source = """
def counts(context):
    for step in (1, 2, 3):
        yield "some "
        yield "words"
        context.progress(step, total=3, message=f"step {step}")
"""
    hub = Hub(tmp_path, {"counts.py": source})
    try:
        answer = hub.modern("counts", "tools/call", {"name": "counts"}, meta={"progressToken": 1})
    finally:
        hub.close()
    told = [each["params"] for each in answer.messages if each.get("method") == "notifications/progress"]
    assert [each["progress"] for each in told] == list(range(1, 10))
    assert [(each["progress"], each["total"], each["message"]) for each in told if "total" in each] == [
        (3, 5, "step 1"),
        (6, 7, "step 2"),
        (9, 9, "step 3"),
    ]


def test_large_numbers_of_an_author_stay_exact(tmp_path: Path) -> None:
    """X-13: two that are one as floating-point numbers are both told."""
    source = "def large(context):\n    for n in (1, 2):\n        context.progress(2**60 + n)\n"
    hub = Hub(tmp_path, {"large.py": source})
    try:
        answer = hub.modern("large", "tools/call", {"name": "large"}, meta={"progressToken": 1})
    finally:
        hub.close()
    told = [each["params"]["progress"] for each in answer.messages if each.get("method") == "notifications/progress"]
    assert told == [2**60 + 1, 2**60 + 2]

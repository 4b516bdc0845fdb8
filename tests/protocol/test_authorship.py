"""What a tool says on its way: each piece of text arrives as progress, in its place, and all of them are the result.

Sources: REQUIREMENTS SUB-22, SUB-24, SUB-27; SPEC-DIGEST on progress (it only grows).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.hubs import MODERN, Answer, Hub

SOURCE = '''
def said(pieces: list, context):
    """Say texts, tell numbers as progress, and log objects, in this order."""
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        elif isinstance(piece, dict):
            context.log(piece["said"], "warning")
        else:
            context.progress(piece, total=10.0)

async def said_async(pieces: list, context):
    """The same, asynchronously."""
    for piece in pieces:
        if isinstance(piece, str):
            yield piece
        elif isinstance(piece, dict):
            context.log(piece["said"], "warning")
        else:
            context.progress(piece, total=10.0)
'''

NUMBERS = st.integers(min_value=-5, max_value=60) | st.floats(-1e300, 1e300) | st.just(2.0**53)
PIECES = st.lists(st.text() | NUMBERS | st.fixed_dictionaries({"said": st.text(max_size=5)}), max_size=12)
FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

SERVERS, TOOLS, REVISIONS = ("inline", "hosted"), ("said", "said_async"), ("2025-03-26", "2025-11-25", MODERN)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {f"{name}.py": SOURCE for name in SERVERS}
    files["inline.mcp.json"] = '{"auto_discover": true, "isolation": "inline"}'
    hub = Hub(tmp_path_factory.mktemp("authors"), files)
    yield hub
    hub.close()


def called(hub: Hub, server: str, tool: str, pieces: list[Any], revision: str, token: str | None) -> Answer:
    """The answer to a call; a stream where there is a token, whose caller wants to see the log."""
    params: dict[str, Any] = {"name": tool, "arguments": {"pieces": pieces}}
    meta: dict[str, Any] = {} if token is None else {"progressToken": token}
    if revision == MODERN:
        level = {} if token is None else {"io.modelcontextprotocol/logLevel": "debug"}
        return hub.modern(server, "tools/call", params, meta=meta | level)
    return hub.legacy(server, "tools/call", params | ({"_meta": meta} if meta else {}), version=revision)


def arrived(answer: Answer, revision: str) -> list[Any]:
    """What came before the result, as the pieces that it was; the log only where a call can ask for it."""
    found: list[Any] = []
    for message in answer.messages[:-1]:
        params = message["params"]
        if message["method"] == "notifications/message":
            found.append({"said": params["data"]})
        elif "total" in params:
            found.append(float(params["progress"]))
        else:
            found.append(params["message"])
    return found if revision == MODERN else [piece for piece in found if not isinstance(piece, dict)]


def grown(pieces: list[Any], revision: str) -> list[Any]:
    """What has to arrive: every text that is not empty and, in 2026-07-28, the log; and the tool's numbers that are
    larger than its numbers before and, with the texts counted in, than the last number sent. Each text counts one, or
    the least that is more where one is too small to change the number.
    """
    expected: list[Any] = []
    reached, texts, largest = -math.inf, 0.0, -math.inf
    for piece in pieces:
        if isinstance(piece, (int, float)):
            grows, largest = piece > largest, max(piece, largest)
            if grows and piece + texts > reached:
                reached = float(piece + texts)
                expected.append(reached)
        elif piece and isinstance(piece, str):
            before = max(reached, 0.0)
            reached = max(before + 1, math.nextafter(before, math.inf))
            texts += reached - before
            expected.append(piece)
        elif isinstance(piece, dict) and revision == MODERN:
            expected.append(piece)
    return expected


@pytest.mark.parametrize("server", SERVERS)
@FEW
@given(pieces=PIECES, tool=st.sampled_from(TOOLS), revision=st.sampled_from(REVISIONS))
def test_text_that_is_streamed_is_the_text_of_the_result(
    hub: Hub, server: str, pieces: list[Any], tool: str, revision: str
) -> None:
    """SUB-22, SUB-24, SUB-27: with a token or without one, in every way to run a tool."""
    buffered = called(hub, server, tool, pieces, revision, None)
    streamed = called(hub, server, tool, pieces, revision, "t")
    assert streamed.result == buffered.result
    text = "".join(piece for piece in pieces if isinstance(piece, str))
    assert streamed.text == text
    progress = [one["params"] for one in streamed.messages[:-1] if one["method"] == "notifications/progress"]
    counted = [one["progress"] for one in progress]
    assert counted == sorted(set(counted)), "progress grows"
    assert {one["progressToken"] for one in progress} <= {"t"}
    assert "".join(one.get("message", "") for one in progress) == text


@pytest.mark.parametrize("server", SERVERS)
@FEW
@example(pieces=["0", 2.0**53, "0", 2.0**53], tool="said", revision=MODERN)
@given(pieces=PIECES, tool=st.sampled_from(TOOLS), revision=st.sampled_from(("2025-11-25", MODERN)))
def test_the_events_of_a_tool_arrive_in_order(
    hub: Hub, server: str, pieces: list[Any], tool: str, revision: str
) -> None:
    """SUB-24: texts, progress and log lines."""
    arrivals = arrived(called(hub, server, tool, pieces, revision, "t"), revision)
    assert arrivals == grown(pieces, revision)

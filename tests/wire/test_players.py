"""The player itself: a conversation that is not as it was fails, whatever kind of line is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hubs import Hub
from tests.wire.happenings import Stage
from tests.wire.players import Unexpected, play
from tests.wire.scripts import read
from tests.wire.test_conversations import SERVED

PROGRESS = """> modern 1 tools/call {"name": "steps", "arguments": {"numbers": [1, 2]}}
> _meta {"progressToken": "t"}
"""
ONE, TWO, DONE = '< {"params": {"progress": 1}}\n', '< {"params": {"progress": 2}}\n', '< {"id": 1, "result": {}}\n'
LISTENING = """one> modern 1 subscriptions/listen {"notifications": {"resourceSubscriptions": ["wire://readme"]}}
one< {"method": "notifications/subscriptions/acknowledged"}
! updated wire wire://readme
"""

WRONG = {
    "a message that differs": PROGRESS + ONE + '< {"params": {"progress": 3}}\n' + DONE,
    "messages in another order": PROGRESS + TWO + ONE + DONE,
    "a message too many": PROGRESS + ONE + TWO + DONE + DONE,
    "an unexpected message": PROGRESS + ONE + DONE,
    "an unexpected message at the end": PROGRESS + ONE + TWO,
    "a member too many": PROGRESS + '< = {"method": "notifications/progress", "params": {"progress": 1}}\n< ...\n',
    "an error where nothing is expected": '> modern 1 resources/read {"uri": "wire://nothing"}\n',
}
WRONG_OVER_HTTP = {
    "another status": "> modern 1 server/discover\n< 202\n",
    "an error under a status that fits": '> POST /mcp/wire\n> {"jsonrpc": "2.0", "id": 1, "method": "x"}\n< 200\n',
    "a header that differs": "> modern 1 server/discover\n< Content-Type: text/plain\n",
    "a header that is there": "> modern 1 server/discover\n< Content-Type: <absent>\n",
    "a header that is not there": "> modern 1 server/discover\n< Mcp-Session-Id: <any>\n",
    "a body where there is to be none": "> modern 1 server/discover\n< nothing\n",
    "an event without an id": PROGRESS + "< id x-1 " + ONE[2:] + "< ...\n",
    "an end that is none": LISTENING + "one< end\n",
    "another message on an open stream": LISTENING + 'one< {"params": {"uri": "wire://pixel"}}\n',
    "more than a text": "> modern 1 server/discover\n< text {}\n",
}


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(lambda: Hub(tmp_path, SERVED, keepalive=0.2))
    yield stage
    stage.hub.close()


@pytest.mark.parametrize("text", WRONG.values(), ids=list(WRONG))
def test_a_wrong_conversation_fails_over_http(stage: Stage, text: str) -> None:
    with pytest.raises(Unexpected, match=r"line \d+: "):
        play(stage, read(text), "http")


@pytest.mark.parametrize("text", WRONG_OVER_HTTP.values(), ids=list(WRONG_OVER_HTTP))
def test_a_wrong_answer_over_http_fails(stage: Stage, text: str) -> None:
    with pytest.raises(Unexpected, match=r"line \d+: "):
        play(stage, read(text), "http")


@pytest.mark.parametrize("what", ["an unexpected message", "an unexpected message at the end"])
def test_an_unexpected_message_fails_on_a_pipe(stage: Stage, what: str) -> None:
    with pytest.raises(Unexpected, match=r"more came than was expected"):
        play(stage, read(WRONG[what]), "stdio")


def test_another_order_fails_on_a_pipe(stage: Stage) -> None:
    with pytest.raises(Unexpected, match=r"line 4: nothing fits"):
        play(stage, read(WRONG["messages in another order"]), "stdio", seconds=0.5)


def test_a_message_that_never_comes_fails_on_a_pipe(stage: Stage) -> None:
    with pytest.raises(Unexpected, match=r"line 4: nothing fits"):
        play(stage, read(WRONG["a message that differs"]), "stdio", seconds=0.5)


@pytest.mark.parametrize("over", ["http", "stdio"])
def test_a_right_conversation_passes(stage: Stage, over: str) -> None:
    play(stage, read(PROGRESS + ONE + TWO + DONE), over)
    play(stage, read(PROGRESS + "< ...\n" + DONE), over)

"""Every conversation over HTTP with a hub as users start it: its own process, the front, one worker and two workers.

Each request has a connection of its own, so with two workers the requests of one session reach both. One hub per
number of workers and group of settings plays one conversation after the other. `tests/wire/test_conversations.py` plays
each of them by WSGI.
Requirements: X6; SUB-8 to SUB-43, X-1 to X-13, each as the conversation's comment says.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from tests.interaction.programs import nodes_of_run
from tests.waiting import until
from tests.wire.hub_stages import HubStage
from tests.wire.players import OverHttp
from tests.wire.scripts import Happening, Script, read
from tests.wire.test_conversations import FOLDER, SCRIPTS, SERVED

WORKERS = (1, 2)

GROUPS: tuple[dict[str, str], ...] = (
    {"allowed_origins": "https://app.example"},
    {"page_size": "2", "listeners": "1", "replay_minutes": "0"},
    {"page_size": "1"},
    {"body_limit": "64"},
)
"""Settings of the hubs. A conversation is played with the first group that has its settings."""

NOT_PLAYED = {
    ("streams/too_many", 2): "the setting `listeners` is a limit of each worker, so two streams have a place",
    **{
        ("headers/duplicates", workers): "the front refuses two headers of one name before it reads the message, so "
        "the error has no id and another code; test_the_front_refuses_two_routing_headers_of_one_name shows it"
        for workers in WORKERS
    },
}
"""Conversations that a number of workers cannot show, each with the reason."""

WHO = '"""Says where it runs."""\n\nimport os\n\n\ndef process() -> str:\n    """Give the id of the process."""\n'
WHO += "    return str(os.getpid())\n"

ASKED = """server: who
open 2025-11-25
> legacy 1 tools/call {"name": "process"}
< {"id": 1, "result": {"content": [{"text": "<process>"}]}}
"""


def title(file: Path) -> str:
    """The name of a conversation: its path without its suffix."""
    return str(file.relative_to(FOLDER / "conversations").with_suffix(""))


def happens(script: Script, what: str) -> bool:
    return any(isinstance(step, Happening) and step.words[0] == what for step in script.steps)


def grouped() -> list[tuple[int, Path]]:
    """The conversations over HTTP, each with the number of its group, in the order that starts the fewest hubs.

    A conversation that ends its hub is the last one of its group.
    """
    found, ends = [], 0
    for file, script in SCRIPTS.items():
        settings = {name: value for name, value in script.settings.items() if name != "store"}
        if "http" not in script.over:
            continue
        last = happens(script, "drain")
        group = ends if last else next(place for place, group in enumerate(GROUPS) if settings.items() <= group.items())
        if last:
            assert not settings, f"{title(file)} ends its hub, so it is played with the settings of any group"
        ends += last
        found.append((group, last, file))
    return [(group, file) for group, _, file in sorted(found, key=lambda one: one[:2])]


PLAYED = [
    pytest.param(workers, group, file, id=f"{workers}-{title(file)}")
    for workers in WORKERS
    for group, file in grouped()
    if (title(file), workers) not in NOT_PLAYED
    and not (nodes_of_run() > 1 and (title(file), 2) in NOT_PLAYED)  # two hubs are two processes, too
]


class Stages:
    """One stage at a time, for as long as the same is asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._last: tuple[tuple[int, int], HubStage] | None = None
        self._numbers = count(1)

    def take(self, workers: int, group: int) -> HubStage:
        """The stage of a group with so many workers, without traces of earlier conversations."""
        if self._last is None or self._last[0] != (workers, group):
            self.close()
            folder = self._folder / f"{next(self._numbers)}"
            settings = {"keepalive": "0.2", **GROUPS[group]}
            self._last = (workers, group), HubStage(folder, SERVED, workers, settings)
        stage = self._last[1]
        stage.clear()
        return stage

    def close(self) -> None:
        """Stop the hub."""
        if self._last is not None:
            self._last[1].close()
            self._last = None


@pytest.fixture(scope="module")
def stages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stages]:
    stages = Stages(tmp_path_factory.mktemp("hubs"))
    yield stages
    stages.close()


@pytest.mark.parametrize(("workers", "group", "file"), PLAYED)
def test_a_conversation_goes_as_it_is_written(stages: Stages, workers: int, group: int, file: Path) -> None:
    OverHttp(stages.take(workers, group), SCRIPTS[file]).play()


def test_the_conversations_that_are_not_played_exist() -> None:
    known = {title(file) for file, script in SCRIPTS.items() if "http" in script.over}
    assert {name for name, _ in NOT_PLAYED} <= known
    assert {workers for _, workers in NOT_PLAYED} <= set(WORKERS)


REFUSED = """> modern 1 tools/call {"name": "greet", "arguments": {"name": "Ada"}}
> Mcp-Name: greet
> Mcp-Name: greet
< 400
< {"id": null, "error": {"code": -32600, "message": "<any>several mcp-name headers<any>"}}
> modern 2 tools/list
> Mcp-Method: tools/list
> Mcp-Method: tools/call
< 400
< {"id": null, "error": {"code": -32600}}
> modern 3 tools/list
> MCP-Protocol-Version: 2026-07-28
> MCP-Protocol-Version: 2026-07-28
< 400
< {"id": null, "error": {"code": -32600}}
> modern 4 tools/call {"name": "routed", "arguments": {"region": "eu"}}
> Mcp-Param-Region: eu
> Mcp-Param-Region: us
< 400
< {"id": null, "error": {"code": -32600}}
"""


@pytest.mark.parametrize("workers", WORKERS[1:])
def test_the_front_refuses_two_routing_headers_of_one_name(stages: Stages, workers: int) -> None:
    OverHttp(stages.take(workers, len(GROUPS) - 2), read(REFUSED)).play()


def test_both_workers_answer_the_requests_of_one_conversation(stages: Stages) -> None:
    """The tool names the process that runs it; `isolation` inline means the web worker itself."""
    stage = stages.take(2, len(GROUPS) - 2)
    stage.serve("who", WHO, {"auto_discover": True, "isolation": "inline"})
    found: set[str] = set()

    def both() -> bool:
        player = OverHttp(stage, read(ASKED))
        player.play()
        found.add(str(player.words["process"]))
        return len(found) == 2

    until(both, lambda: f"answers of two processes; only {found} answered")

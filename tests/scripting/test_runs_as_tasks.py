"""A call of a client with tasks becomes a task when its script waits for a person: it works, asks, ends, is cancelled.

Source: issue 55; SEP-2663.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.activation import TASKS
from tests.hubs import Hub
from tests.scripting.asking import answered, asking_hub
from tests.scripting.asking import ask as ask_desk
from tests.scripting.closing import FILES, FORMS, close_issues, decide, ended, waiting, words
from tests.scripting.test_saved_runs import desk
from tests.waiting import until

KNOWS: dict[str, Any] = {"extensions": {TASKS: {}}}
ENDED = ("completed", "failed", "cancelled")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path / "hub", FILES | {"desk.json": desk("off")})
    found.catalogue.hub.gate.wait_seconds = 0.0  # a call that is no task ends at once
    yield found
    found.close()


def begin(hub: Hub, folder: Path, capabilities: dict[str, Any] = KNOWS) -> str:
    """The id of the task of the script, which waits."""
    made = close_issues(hub, folder, capabilities=capabilities).result
    assert made["resultType"] == "task", made
    until(lambda: waiting(hub), "the question")
    return str(made["taskId"])


def ask(hub: Hub, method: str, id: str, server: str = "issues", **more: Any) -> dict[str, Any]:
    answer = hub.modern(server, f"tasks/{method}", {"taskId": id, **more}, capabilities=KNOWS)
    return dict(answer.result)


def end_of(hub: Hub, id: str, server: str = "issues") -> dict[str, Any]:
    return dict(until(lambda: (one := ask(hub, "get", id, server))["status"] in ENDED and one, "the end of the task"))


def test_a_task_works_until_the_page_has_a_decision_and_has_the_value_then(hub: Hub, tmp_path: Path) -> None:
    id = begin(hub, tmp_path)
    assert ask(hub, "get", id)["status"] == "working"
    decide(hub, waiting(hub)[0]["question"])
    done = end_of(hub, id)
    assert done["status"] == "completed", done
    assert done["result"]["structuredContent"]["value"] == ["closed 1", "closed 2", "closed 3"]
    assert sorted(words(tmp_path)) == ["1", "2", "3"]


def test_a_task_of_a_client_with_forms_asks_for_input_and_goes_on_with_the_answer(hub: Hub, tmp_path: Path) -> None:
    id = begin(hub, tmp_path, KNOWS | FORMS)
    until(lambda: ask(hub, "get", id)["status"] == "input_required", "the question in the task")
    ((key, one),) = ask(hub, "get", id)["inputRequests"].items()
    assert one["method"] == "elicitation/create" and "these 3 calls of issues.close" in one["params"]["message"]
    ask(hub, "update", id, inputResponses={key: {"action": "accept", "content": {"call_2": False}}})
    value = end_of(hub, id)["result"]["structuredContent"]["value"]
    assert value == ["closed 1", "issues.close: did not run: its approval was refused", "closed 3"]


@pytest.mark.parametrize("capabilities", [KNOWS, KNOWS | FORMS], ids=["working", "asking"])
def test_a_cancelled_task_cancels_its_run(hub: Hub, tmp_path: Path, capabilities: dict[str, Any]) -> None:
    id = begin(hub, tmp_path, capabilities)
    run = waiting(hub)[0]["run"]
    ask(hub, "cancel", id)
    assert end_of(hub, id)["status"] == "cancelled"
    assert ended(hub, run).failure.startswith("the run was cancelled by local")
    assert waiting(hub) == [] and words(tmp_path) == []


def test_a_saved_script_is_a_task_too(hub: Hub, tmp_path: Path) -> None:
    wanted = {"name": "tidy", "arguments": {"folder": str(tmp_path)}}
    made = hub.modern("desk", "tools/call", wanted, capabilities=KNOWS).result
    assert made["resultType"] == "task", json.dumps(made)
    until(lambda: waiting(hub), "the question")
    decide(hub, waiting(hub)[0]["question"])
    done = end_of(hub, made["taskId"], "desk")
    assert done["result"]["content"] == [{"type": "text", "text": "closed 1"}] and words(tmp_path) == ["1"]


def test_a_script_that_does_not_wait_is_no_task(hub: Hub, tmp_path: Path) -> None:
    answer = close_issues(hub, tmp_path, count=0, capabilities=KNOWS)
    assert answer.result["resultType"] == "complete" and answer.result["structuredContent"]["value"] == []


def test_a_call_that_brings_answers_gives_them_before_it_could_become_a_task(tmp_path: Path) -> None:
    hub = asking_hub(tmp_path / "hub")
    try:
        asked = ask_desk(hub, tmp_path)
        answer = ask_desk(hub, tmp_path, capabilities=KNOWS | FORMS, **answered(asked, "Ann"))
        assert answer.result["resultType"] == "complete", answer.result
        assert answer.result["structuredContent"]["value"] == "A1 for Ann"
    finally:
        hub.close()

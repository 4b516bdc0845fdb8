"""A tool that asks inside a script: the caller's client gets the question, and the run waits for it without a process.

Source: issue 55; TOOLSETS section 4 (durable: "when a call inside needs a person").
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchbay.activation import Call
from patchbay.activity.records import Filter
from patchbay.protocol.script_replays import replay_run
from patchbay.scripting.front import KEPT_AS
from patchbay.scripting.suspended.tool_questions import capabilities_of_run
from tests.hubs import Hub
from tests.kinds.toolset.sets import write
from tests.scripting.asking import DESK, answered, ask, asking_hub, questions
from tests.scripting.closing import answers_to, ended, runs, waiting, words
from tests.scripting.hubs import failure, value
from tests.waiting import BOUND, until


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = asking_hub(tmp_path_factory.mktemp("asking"), activity_contents="keep")
    yield found
    found.close()


def waiting_run(hub: Hub) -> Any:
    """The head of the one run that waits for an answer."""
    (found,) = (one for one in runs(hub).heads.all() if one.waits_for_answers(runs(hub).approvals.now()))
    return found


def test_the_client_gets_the_question_and_the_run_goes_on_with_the_answer(hub: Hub, tmp_path: Path) -> None:
    asked = ask(hub, tmp_path)
    assert list(questions(asked).values()) == ["desk.book (line 4 of the script) asks: Who takes A1?"]
    assert hub.catalogue.hub.find_kept(KEPT_AS).interpreters.count() == 0
    assert words(tmp_path, "noted") == ["before"] and words(tmp_path, "booked") == []
    answer = ask(hub, tmp_path, **answered(asked, "Ann"))
    assert value(answer) == "A1 for Ann"
    assert [one["tool"] for one in answer.result["structuredContent"]["calls"]] == [
        "desk.note",
        "desk.book",
        "desk.note",
    ]
    assert words(tmp_path, "noted") == ["before", "after"] and words(tmp_path, "booked") == ["A1:Ann"]


def test_the_questions_of_several_calls_and_the_approval_of_another_come_at_the_same_time(
    hub: Hub, tmp_path: Path
) -> None:
    code = (
        "import asyncio\nimport both\n"
        "await asyncio.gather(both.book(folder=folder, place='A1'), both.close(folder=folder, number=1),"
        " both.book(folder=folder, place='B2'), both.note(folder=folder, word='one'))"
    )
    asked = ask(hub, tmp_path, code, server="both")
    approval, first, second = questions(asked).items()
    assert "Approve this call of both.close?" in approval[1]
    assert first[1].endswith("asks: Who takes A1?") and second[1].endswith("asks: Who takes B2?")
    retry = answered(asked, "", "Ann", "Ben")
    retry["inputResponses"][approval[0]] = {"action": "accept", "content": {}}
    assert value(ask(hub, tmp_path, code, server="both", **retry)) == ["A1 for Ann", "closed 1", "B2 for Ben", "one"]
    assert words(tmp_path, "noted") == ["one"] and words(tmp_path) == ["1"]
    assert sorted(words(tmp_path, "booked")) == ["A1:Ann", "B2:Ben"]


def test_a_call_that_ends_with_a_question_leaves_the_others_running(hub: Hub, tmp_path: Path) -> None:
    code = (
        "import asyncio\nimport desk\n"
        "await asyncio.gather(desk.book(folder=folder, place='A1'), desk.wait(folder=folder),"
        " desk.note(folder=folder, word='one'))"
    )

    def recorded() -> list[Any]:
        found = hub.activity.recent(Filter(tool="book"), 1000).records
        return [one for one in found if one.arguments == {"folder": str(tmp_path), "place": "A1"}]

    answers: list[Any] = []
    thread = threading.Thread(target=lambda: answers.append(ask(hub, tmp_path, code)))
    thread.start()
    until(lambda: [one.outcome for one in recorded()] == ["input_required"], "the question")
    (tmp_path / "go").touch()
    thread.join(BOUND)
    (asked,) = answers
    assert value(ask(hub, tmp_path, code, **answered(asked, "Ann"))) == ["A1 for Ann", "came", "one"]


def test_a_tool_may_ask_again_and_gets_all_its_answers(hub: Hub, tmp_path: Path) -> None:
    code = "import desk\nawait desk.twice()"
    first = ask(hub, tmp_path, code)
    second = ask(hub, tmp_path, code, **answered(first, "Ann"))
    assert list(questions(second).values()) == ["desk.twice (line 2 of the script) asks: Last name of Ann?"]
    assert value(ask(hub, tmp_path, code, **answered(second, "Smith"))) == "Ann Smith"


def test_one_approval_is_enough_for_a_call_whose_tool_asks(hub: Hub, tmp_path: Path) -> None:
    code = "import desk\nawait desk.reserve(folder=folder, place='A1')"
    first = ask(hub, tmp_path, code)
    ((key, words_of_question),) = questions(first).items()
    assert "Approve this call of desk.reserve?" in words_of_question
    approval: dict[str, Any] = {"inputResponses": {key: {"action": "accept", "content": {}}}}
    second = ask(hub, tmp_path, code, requestState=first.result["requestState"], **approval)
    assert list(questions(second).values()) == ["desk.reserve (line 2 of the script) asks: Who takes A1?"]
    assert value(ask(hub, tmp_path, code, **answered(second, "Ann"))) == "A1 for Ann"
    assert words(tmp_path, "booked") == ["A1:Ann"]


def test_an_approval_that_expires_before_the_answer_is_asked_for_again(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes in the time of the question, which begins later than that of the approval."""
    code = "import desk\nawait desk.reserve(folder=folder, place='A1')"
    first = ask(hub, tmp_path, code)
    (asked,) = waiting(hub)
    second = ask(hub, tmp_path, code, **answers_to(first))
    approvals, head = runs(hub).approvals, waiting_run(hub)
    (approval,) = approvals.find_question(asked["question"])
    between = (approval.expires + head.until) / 2
    assert approval.expires < between < head.until
    monkeypatch.setattr(approvals, "now", lambda: between)
    third = ask(hub, tmp_path, code, **answered(second, "Ann"))
    assert "Approve this call of desk.reserve?" in "".join(questions(third).values())
    assert words(tmp_path, "booked") == []
    assert value(ask(hub, tmp_path, code, **answers_to(third))) == "A1 for Ann"
    assert words(tmp_path, "booked") == ["A1:Ann"]


def test_no_two_records_of_a_run_have_the_same_number(hub: Hub, tmp_path: Path) -> None:
    code = (
        "import asyncio\nimport desk\n"
        "async def notes():\n"
        "    return [await desk.note(folder=folder, word=word) for word in ('one', 'two', 'three')]\n"
        "await asyncio.gather(desk.book(folder=folder, place='A1'), notes())\n"
        "await desk.note(folder=folder, word='four')"
    )
    asked = ask(hub, tmp_path, code)
    run = waiting_run(hub).id
    assert value(ask(hub, tmp_path, code, **answered(asked, "Ann"))) == "four"
    made = hub.activity.recent(Filter(run=run), 100).records
    numbers = sorted((one.number, one.name) for one in made if one.number)
    assert [number for number, _ in numbers] == [1, 2, 3, 4, 5, 6], numbers
    assert [name for _, name in numbers[-2:]] == ["book", "note"]


def test_a_tool_that_does_not_stop_asking_fails(hub: Hub, tmp_path: Path) -> None:
    code = "import desk\nawait desk.endless()"
    asked = ask(hub, tmp_path, code)
    for _ in range(9):
        asked = ask(hub, tmp_path, code, **answered(asked, "Ann"))
    assert "it asked 10 times for more input" in failure(ask(hub, tmp_path, code, **answered(asked, "Ann")))


def test_the_tool_learns_that_the_user_declined(hub: Hub, tmp_path: Path) -> None:
    asked = ask(hub, tmp_path)
    retry = answered(asked, "Ann")
    retry["inputResponses"] = {key: {"action": "decline"} for key in retry["inputResponses"]}
    assert value(ask(hub, tmp_path, **retry)) == "A1 is free: decline" and words(tmp_path, "booked") == []


def test_a_question_goes_on_after_a_restart(tmp_path: Path) -> None:
    first = asking_hub(tmp_path / "hub", store="sqlite")
    asked = ask(first, tmp_path)
    first.close()
    second = asking_hub(tmp_path / "hub", store="sqlite")
    try:
        assert value(ask(second, tmp_path, **answered(asked, "Ann"))) == "A1 for Ann"
        assert words(tmp_path, "noted") == ["before", "after"] and words(tmp_path, "booked") == ["A1:Ann"]
    finally:
        second.close()


def test_a_client_that_shows_no_questions_learns_where_its_user_answers(hub: Hub, tmp_path: Path) -> None:
    said = failure(ask(hub, tmp_path, capabilities={}))
    head = waiting_run(hub)
    assert "1 question of a tool has no answer yet" in said and "signed in to the hub as the operator" in said
    assert f"http://localhost/activity/runs/{head.id}, " in said and f"within 10 minutes (run {head.id})" in said
    assert "call run_script with the same script again to get its value" in said
    asked = ask(hub, tmp_path)
    assert list(questions(asked).values()) == ["desk.book (line 4 of the script) asks: Who takes A1?"]
    assert value(ask(hub, tmp_path, **answered(asked, "Ann"))) == "A1 for Ann"
    assert words(tmp_path, "noted") == ["before", "after"]


def test_a_client_for_urls_alone_is_not_asked_for_a_form(hub: Hub, tmp_path: Path) -> None:
    said = failure(ask(hub, tmp_path, capabilities={"elicitation": {"url": {}}}))
    assert "1 question of a tool has no answer yet" in said
    assert value(ask(hub, tmp_path, **answered(ask(hub, tmp_path), "Ann"))) == "A1 for Ann"


def test_a_schedule_has_no_person_who_answers(hub: Hub, tmp_path: Path) -> None:
    call = Call("desk", {}, {}, 0.0, principal="schedule:desk.book")
    assert capabilities_of_run(call) == {} and capabilities_of_run(replace(call, principal="local")) != {}


def test_a_tool_that_asks_the_model_of_the_client_fails_and_names_the_direct_call(hub: Hub, tmp_path: Path) -> None:
    said = failure(ask(hub, tmp_path, "import desk\nawait desk.sample()", {"elicitation": {}, "sampling": {}}))
    assert "a tool cannot ask for this inside a script: sampling. Call desk.sample directly" in said
    assert not [one for one in runs(hub).heads.all() if not one.ended]


def test_the_same_answers_count_once(hub: Hub, tmp_path: Path) -> None:
    asked = ask(hub, tmp_path)
    retry = answered(asked, "Ann")
    head = waiting_run(hub)
    del retry["requestState"]  # the answers alone, as another request of the same caller
    assert value(ask(hub, tmp_path, **retry)) == "A1 for Ann"
    assert "has ended" in failure(ask(hub, tmp_path, **retry)), "no second run"
    assert words(tmp_path, "booked") == ["A1:Ann"] and not runs(hub).answer(head, {"1": {}})


def test_the_page_of_the_run_says_that_a_tool_asked(hub: Hub, tmp_path: Path) -> None:
    asked = ask(hub, tmp_path)
    head = waiting_run(hub)
    until(lambda: hub.activity.recent(Filter(run=head.id, tool="run_script")).records, "the record")
    headers = {"Authorization": f"Bearer {hub.token}"}
    shown: Any = hub.client.get(f"/activity/runs/{head.id}.json", headers=headers).json
    assert [(one["name"], one["line"], one["needs"]) for one in shown["running"]] == [("desk.book", 4, "answer")]
    page = hub.client.get(f"/activity/runs/{head.id}", headers=headers | {"Accept": "text/html"}).text
    assert "waits for a person" in page and "its tool asked a question" in page
    assert value(ask(hub, tmp_path, **answered(asked, "Ann"))) == "A1 for Ann"
    assert ended(hub, head.id).value == "A1 for Ann"


def test_a_run_with_a_question_is_repeated_against_its_records_without_asking(hub: Hub, tmp_path: Path) -> None:
    asked = ask(hub, tmp_path)
    run = ask(hub, tmp_path, **answered(asked, "Ann")).result["structuredContent"]["run"]

    def outcomes() -> list[str]:
        found = hub.activity.recent(Filter(run=run), 100).records
        return sorted(one.outcome for one in found if one.number)

    until(lambda: outcomes() == ["input_required", "ok", "ok", "ok"], "the records")
    until(
        lambda: hub.activity.recent(Filter(run=run, tool="run_script")).records[0].way == "resumed", "the last record"
    )
    found = replay_run(hub.app.parts.dispatcher.services, run)
    assert found.differences == () and not found.is_partial
    assert words(tmp_path, "booked") == ["A1:Ann"]


def test_a_tool_that_asks_in_a_run_that_cannot_wait_names_the_direct_call(hub: Hub, tmp_path: Path) -> None:
    code = "import desk\nawait desk.book(folder=folder, place='A1')"
    said = failure(ask(hub, tmp_path, code, server=f"desk@{hub.catalogue.find('desk').version}"))
    assert "a tool cannot ask for this inside a script: elicitation. Call desk.book directly" in said


def test_an_answer_counts_for_the_question_that_the_user_saw(hub: Hub, tmp_path: Path) -> None:
    """A tool may ask for different things under one key, as a mounted server with several rounds does."""
    code = "import desk\nawait desk.delete(folder=folder)"
    first = ask(hub, tmp_path, code)
    assert list(questions(first).values()) == ["desk.delete (line 2 of the script) asks: Delete it?"]
    second = ask(hub, tmp_path, code, **answered(first, "yes"))
    assert list(questions(second).values()) == ["desk.delete (line 2 of the script) asks: Its backups too?"]
    assert words(tmp_path, "deleted") == []
    third = ask(hub, tmp_path, code, **answered(second, "no"))
    assert list(questions(third).values()) == ["desk.delete (line 2 of the script) asks: Its backups too?"], "once more"
    assert value(ask(hub, tmp_path, code, **answered(third, "yes"))) == "yes no yes"


def test_a_call_whose_tool_has_asked_is_not_said_to_be_not_run(tmp_path: Path) -> None:
    hub = asking_hub(tmp_path / "hub")
    code = (
        "import desk\ntry:\n    said = await desk.book(folder=folder, place='A1')\n"
        "except RuntimeError as problem:\n    said = str(problem)\nsaid"
    )
    try:
        asked = ask(hub, tmp_path, code)
        write(hub, "desk.py", DESK.replace("Book a place for", "Take a place for"))
        said = value(ask(hub, tmp_path, code, **answered(asked, "Ann")))
        assert said.startswith("desk.book: asked a question, and did not go on: it has changed since the script began")
    finally:
        hub.close()

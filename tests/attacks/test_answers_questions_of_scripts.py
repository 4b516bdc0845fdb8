"""Somebody answers questions that tools ask inside the script of another caller, answers twice, or changes answers.

Sources: issue 55; TOOLSETS section 5.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from patchbay.access.approvals import APPROVAL_SECONDS, Approvals
from patchbay.access.principals import LOCAL
from patchbay.errors import ToolFailed
from patchbay.scripting.suspended_runs import (
    DECIDED,
    EXPIRED,
    MAX_ANSWER_BYTES,
    MAX_SUSPENDED,
    SUSPENDED,
    RunHead,
    SuspendedRuns,
)
from patchbay.scripting.suspension import BudgetLeft, Suspension, WaitingCall
from patchbay.stores.memory import MemoryStore
from patchbay.topics import SCRIPT_RUN
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.scripting.asking import DESK_FILES, answered, ask, questions
from tests.scripting.closing import runs, words
from tests.scripting.hubs import failure, value


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = team_hub(tmp_path_factory.mktemp("answering"), DESK_FILES)
    found.catalogue.hub.gate.wait_seconds = 0.0
    set_grants(found, {"grants": [{"to": ["*"], "may": ["see", "call"], "on": ["desk"]}]})
    yield found
    found.close()


def test_somebody_else_cannot_answer(hub: Hub, tmp_path: Path) -> None:
    ann, eve = new_key(hub, f"ann-{tmp_path.name}"), new_key(hub, f"eve-{tmp_path.name}")
    asked = ask(hub, tmp_path, headers=ann)
    retry = answered(asked, "Ann")
    stolen = ask(hub, tmp_path, headers=eve, inputResponses=retry["inputResponses"])
    assert "has ended" in failure(stolen) and words(tmp_path, "booked") == []
    refused = ask(hub, tmp_path, headers=eve, **retry)
    assert "another call" in refused.error["message"] and words(tmp_path, "booked") == []
    theirs = ask(hub, tmp_path, headers=eve)
    assert questions(theirs).keys() != questions(asked).keys(), "a run of its own"
    assert value(ask(hub, tmp_path, headers=ann, **retry)) == "A1 for Ann"
    assert words(tmp_path, "booked") == ["A1:Ann"]


@pytest.mark.parametrize("key", ["ask-1", "script-question-.1", f"script-question-{'0' * 32}.1"])
def test_an_answer_under_a_guessed_key_answers_nothing(hub: Hub, tmp_path: Path, key: str) -> None:
    ann = new_key(hub, f"ann-{secrets.token_hex(4)}")
    asked = ask(hub, tmp_path, headers=ann)
    given = {key: {"action": "accept", "content": {"name": "Eve"}}}
    again = ask(hub, tmp_path, headers=ann, inputResponses=given)
    assert questions(again) == questions(asked) and words(tmp_path, "booked") == []


class Asking:
    """A run in memory whose tool has asked, with a clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = MemoryStore()
        self.approvals = Approvals(self.store, lambda: self.now)
        self.runs = SuspendedRuns(self.store, b"k" * 32, self.approvals)
        self.head = self.suspend()

    def suspend(self) -> RunHead:
        """Suspend a run whose one call waits for an answer."""
        question = {"method": "elicitation/create", "params": {"message": "Who?"}}
        call = WaitingCall(1, "desk.book", 1, {}, questions={"ask-1": question})
        suspension = Suspension(
            LOCAL, "1", {}, 1, "", [], [call], BudgetLeft(1, 1, 1, 1, 1.0, 1.0, 1), {}, "0", secret="s"
        )
        head = RunHead(secrets.token_hex(8), "ann", "desk", "v", 0, "", "script", self.now, self.now)
        return self.runs.suspend(head, suspension, b"snapshot", [], None)

    def answer(self, name: str, head: RunHead | None = None) -> bool:
        """Answer the question with a name."""
        return self.runs.answer(head or self.head, {"1": {"ask-1": {"action": "accept", "content": {"name": name}}}})

    def read(self) -> str:
        """The name in the stored answer."""
        state = self.runs.read(self.head.id)
        assert state is not None
        return str(self.runs.open_answers(state)["1"]["ask-1"]["content"]["name"])


def test_the_first_answer_counts_and_is_sealed() -> None:
    asking = Asking()
    assert asking.runs.state_of(asking.head) == SUSPENDED and asking.runs.claim(asking.head.id, "process") is None
    assert asking.answer("Ann") and not asking.answer("Eve") and asking.read() == "Ann"
    head = asking.runs.head(asking.head.id)
    assert head is not None and asking.runs.state_of(head) == DECIDED
    stored = b"".join(one.data for one in asking.store.journal.read(SCRIPT_RUN + head.id))
    assert b"Ann" not in stored and b"Who?" not in stored
    assert asking.runs.claim(head.id, "process") is not None


def test_an_answer_to_an_earlier_question_of_the_run_is_not_taken() -> None:
    asking = Asking()
    assert not asking.answer("Eve", replace(asking.head, number=asking.head.number + 1))
    assert not asking.answer("Eve", replace(asking.head, number=asking.head.number - 1))
    assert asking.answer("Ann")


@pytest.mark.parametrize("change", ["other bytes", "another run"])
def test_an_answer_that_this_hub_has_not_sealed_for_the_run_ends_it(change: str) -> None:
    asking = Asking()
    journal, topic = asking.store.journal, SCRIPT_RUN + asking.head.id
    assert asking.answer("Ann")
    asked, reply = (one.data for one in journal.read(topic))
    line, _, sealed = reply.partition(b"\n")
    if change == "another run":
        other = asking.suspend()
        assert asking.runs.answer(other, {"1": {"ask-1": {"action": "accept", "content": {"name": "Eve"}}}})
        sealed = journal.read(SCRIPT_RUN + other.id)[1].data.partition(b"\n")[2]
    else:
        sealed = sealed[:-1] + bytes([sealed[-1] ^ 1])
    journal.remove(topic, journal.last(topic) + 1)
    journal.append(topic, asked)
    journal.append(topic, line + b"\n" + sealed)
    state = asking.runs.read(asking.head.id)
    assert state is not None
    with pytest.raises(ToolFailed, match="the run cannot go on"):
        asking.runs.open_answers(state)


def test_a_question_without_an_answer_in_time_never_goes_on() -> None:
    asking = Asking()
    asking.now += APPROVAL_SECONDS
    assert asking.runs.state_of(asking.head) == EXPIRED and not asking.answer("Ann")
    assert asking.runs.claim(asking.head.id, "process") is None


def test_a_caller_has_a_limit_of_questions_and_of_the_bytes_of_answers() -> None:
    asking = Asking()
    with pytest.raises(ToolFailed, match="the answers have"):
        asking.answer("x" * MAX_ANSWER_BYTES)
    for _ in range(MAX_SUSPENDED - 1):
        asking.suspend()
    with pytest.raises(ToolFailed, match="limit suspended_runs"):
        asking.suspend()


def test_a_hub_forgets_the_words_of_an_answer_with_the_run(hub: Hub, tmp_path: Path) -> None:
    ann = new_key(hub, f"ann-{tmp_path.name}")
    asked = ask(hub, tmp_path, headers=ann)
    answer = ask(hub, tmp_path, headers=ann, **answered(asked, "Ann"))
    assert value(answer) == "A1 for Ann"
    entries = hub.catalogue.store.journal.read(SCRIPT_RUN + answer.result["structuredContent"]["run"])
    assert {one.data[:1] for one in entries} <= {b"e", b"f"}
    assert not [
        one for one in runs(hub).heads() if not one.ended and one.id == answer.result["structuredContent"]["run"]
    ]

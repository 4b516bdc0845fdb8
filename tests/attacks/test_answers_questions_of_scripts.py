"""Somebody answers questions that tools ask inside the script of another caller, answers twice, or changes answers.

By a client, and on the page of the run.

Sources: issue 55; TOOLSETS section 5.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from werkzeug.test import TestResponse

from patchbay.access.approvals import APPROVAL_SECONDS, Approvals
from patchbay.access.principals import LOCAL
from patchbay.errors import ToolFailed
from patchbay.scripting.suspended.run_records import DECIDED, EXPIRED, SUSPENDED, RunHead
from patchbay.scripting.suspended.suspended_runs import MAX_ANSWER_BYTES, MAX_SUSPENDED, SuspendedRuns
from patchbay.scripting.suspended.suspension import BudgetLeft, Suspension, WaitingCall
from patchbay.scripting.suspended.tool_questions import merge_answers
from patchbay.stores.memory import MemoryStore
from patchbay.topics import SCRIPT_RUN
from tests.access.team import new_key, set_grants, team_hub
from tests.access.upstreams.guarded import caller_of
from tests.hubs import Hub
from tests.scripting.asking import DESK_FILES, answered, ask, asking_hub, questions
from tests.scripting.closing import close_issues, decide, ended, runs, waiting, words
from tests.scripting.hubs import failure, value
from tests.signing_in import HTML, Browser, accounts_of, hidden_fields, make_account, signed_in
from tests.waiting import until
from tests.web.browsing import BROWSER


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = team_hub(tmp_path_factory.mktemp("answering"), DESK_FILES)
    found.catalogue.hub.gate.wait_seconds = 0.0
    set_grants(found, {"grants": [{"to": ["*"], "may": ["see", "call"], "on": ["desk", "issues"]}]})
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


def waiting_on_page(hub: Hub, folder: Path, headers: dict[str, str]) -> tuple[str, str]:
    """The id of a run that waits for its caller on its page, and the key of its question."""
    said = failure(ask(hub, folder, capabilities={}, headers=headers))
    run = said.partition("(run ")[2].partition(")")[0]
    shown: Any = hub.client.get(f"/activity/runs/{run}.json", headers=headers).json
    return run, str(shown["asked"][0]["key"])


def post_answer(hub: Hub, run: str, headers: dict[str, str], **fields: str) -> TestResponse:
    """The answer of the hub to one who answers a question on the page of a run."""
    form = {"do": "answer", "action": "accept", "content": '{"name": "Eve"}', **fields}
    known = {"Accept": "application/json", **headers}
    return hub.client.post(f"/activity/runs/{run}", data=form, headers=known)


def test_for_another_principal_the_page_of_the_run_and_its_questions_do_not_exist(hub: Hub, tmp_path: Path) -> None:
    ann, eve = new_key(hub, f"ann-{tmp_path.name}"), new_key(hub, f"eve-{tmp_path.name}")
    run, key = waiting_on_page(hub, tmp_path, ann)
    unknown = "0123456789abcdef"
    refused, missing = post_answer(hub, run, eve, question=key), post_answer(hub, unknown, eve, question=key)
    assert (refused.status_code, missing.status_code) == (404, 404)
    assert refused.text.replace(run, "") == missing.text.replace(unknown, "")
    assert post_answer(hub, run, {}, question=key).status_code == 401
    assert words(tmp_path, "booked") == []
    assert post_answer(hub, run, ann, question=key, content='{"name": "Ann"}').status_code == 200
    assert ended(hub, run).value == "A1 for Ann" and words(tmp_path, "booked") == ["A1:Ann"]


def wait_for_the_end_of_its_caller(hub: Hub, run: str, headers: dict[str, str], server: str = "desk") -> None:
    """Wait until the hub knows that the credentials with which a run began have ended, and refuses them."""
    scripts = hub.app.parts.dispatcher.services.scripts
    until(lambda: not scripts.has_caller(runs(hub).heads.get(run)), "the end of the credentials")
    until(lambda: hub.modern(server, "tools/list", headers=headers).status == 401, "the refusal of the credentials")


def test_a_key_that_was_revoked_after_the_question_can_neither_answer_nor_read_the_run(
    hub: Hub, tmp_path: Path
) -> None:
    name = f"ann-{tmp_path.name}"
    ann = new_key(hub, name)
    asked = ask(hub, tmp_path, headers=ann)
    run, key = waiting_on_page(hub, tmp_path, ann)
    hub.app.parts.keys.revoke(name)
    for params in ({}, answered(asked, "Ann")):
        assert ask(hub, tmp_path, headers=ann, **params).status == 401
    assert post_answer(hub, run, ann, question=key).status_code == 401
    for place in (f"/activity/runs/{run}.json", f"/activity/runs/{run}"):
        read = hub.client.get(place, headers=ann)
        assert read.status_code == 401 and "Who takes" not in read.text
    assert words(tmp_path, "noted") == ["before"] and words(tmp_path, "booked") == []


def test_a_new_key_with_the_name_of_a_revoked_one_gets_no_question_of_its_run(hub: Hub, tmp_path: Path) -> None:
    name = f"ann-{tmp_path.name}"
    asked = ask(hub, tmp_path, headers=(ann := new_key(hub, name)))
    run, key = waiting_on_page(hub, tmp_path, ann)
    hub.app.parts.keys.revoke(name)
    wait_for_the_end_of_its_caller(hub, run, ann)
    next_holder = new_key(hub, name)
    assert post_answer(hub, run, next_holder, question=key).status_code == 400
    shown = hub.client.get(f"/activity/runs/{run}.json", headers=next_holder)
    assert "Who takes" not in shown.text and key not in shown.text
    theirs = ask(hub, tmp_path, headers=next_holder)
    assert questions(theirs).keys() != questions(asked).keys(), "a run of its own"
    assert words(tmp_path, "noted") == ["before", "before"] and words(tmp_path, "booked") == []
    assert value(ask(hub, tmp_path, headers=next_holder, **answered(theirs, "Eve"))) == "A1 for Eve"


def test_a_run_whose_caller_was_removed_does_not_go_on_with_an_approval(hub: Hub, tmp_path: Path) -> None:
    person, name = signed_in(hub, person_name := f"ann{secrets.token_hex(4)}"), f"ann-{tmp_path.name}"
    of_person = {"Authorization": f"Bearer {caller_of(hub, person, 'issues').token}"}
    for headers, end in (
        (new_key(hub, name), lambda: hub.app.parts.keys.revoke(name)),
        (of_person, lambda: accounts_of(hub).people.remove(person_name)),
    ):
        before = {one["question"] for one in waiting(hub)}
        assert "need an approval" in failure(close_issues(hub, tmp_path, headers=headers))
        (first, *_) = [one for one in waiting(hub) if one["question"] not in before]
        end()
        wait_for_the_end_of_its_caller(hub, first["run"], headers, "issues")
        assert close_issues(hub, tmp_path, headers=headers).status == 401
        decide(hub, first["question"])
        assert "the credentials of the caller of this script are no longer valid" in ended(hub, first["run"]).failure
        assert words(tmp_path) == []


def test_a_person_who_was_removed_after_the_question_can_neither_answer_nor_read_the_run(
    hub: Hub, tmp_path: Path
) -> None:
    person = signed_in(hub, name := f"ann{secrets.token_hex(4)}")
    ann = {"Authorization": f"Bearer {caller_of(hub, person, 'desk').token}"}
    asked = ask(hub, tmp_path, headers=ann)
    (run,) = [one.id for one in runs(hub).heads.all() if one.principal == name]
    page = person.client.get(f"/activity/runs/{run}", headers=HTML).text
    assert "Who takes A1?" in page
    csrf = hidden_fields(page, "csrf")
    accounts_of(hub).people.remove(name)
    wait_for_the_end_of_its_caller(hub, run, ann)
    assert ask(hub, tmp_path, headers=ann, **answered(asked, "Ann")).status == 401
    for read in (
        person.client.get(f"/activity/runs/{run}", headers=HTML),
        person.client.post(f"/activity/runs/{run}", data={**csrf, "do": "answer", "action": "accept"}, headers=HTML),
    ):
        assert read.status_code in (302, 303, 401, 403) and "Who takes" not in read.text
    make_account(hub, name)
    again = Browser(hub)
    assert again.sign_in(name).status_code == 303
    assert "Who takes" not in again.client.get(f"/activity/runs/{run}", headers=HTML).text
    assert words(tmp_path, "noted") == ["before"] and words(tmp_path, "booked") == []


def test_the_operator_of_a_shared_hub_neither_reads_nor_answers_the_question_of_a_caller(
    hub: Hub, tmp_path: Path
) -> None:
    ann, operator = new_key(hub, f"ann-{tmp_path.name}"), {"Authorization": f"Bearer {hub.token}"}
    run, key = waiting_on_page(hub, tmp_path, ann)
    shown = hub.client.get(f"/activity/runs/{run}.json", headers=operator)
    assert shown.status_code == 200 and shown.get_json()["asked"] == [] and "Who takes" not in shown.text
    page = hub.client.get(f"/activity/runs/{run}", headers={**operator, "Accept": "text/html"}).text
    assert "asks in line" not in page and key not in page
    refused = post_answer(hub, run, operator, question=key)
    assert refused.status_code == 403 and "only the caller of this script" in refused.text
    assert words(tmp_path, "booked") == []


@pytest.mark.parametrize("csrf", ["", "forged", "of another session"])
def test_another_site_cannot_answer_with_the_session_of_the_caller(tmp_path: Path, csrf: str) -> None:
    own = asking_hub(tmp_path / "hub").log_in()
    try:
        operator = {"Authorization": f"Bearer {own.token}"}
        run, key = waiting_on_page(own, tmp_path, operator)
        page = own.client.get(f"/activity/runs/{run}", headers=BROWSER)
        given = page.text.partition('name="csrf" value="')[2].partition('"')[0]
        if csrf == "of another session":
            own.log_in()
            csrf = given
        refused = post_answer(own, run, BROWSER, question=key, csrf=csrf)
        assert refused.status_code == 403, refused.text
        far = {**BROWSER, "Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example"}
        fresh = own.client.get(f"/activity/runs/{run}", headers=BROWSER).text
        token = fresh.partition('name="csrf" value="')[2].partition('"')[0]
        assert token and post_answer(own, run, far, question=key, csrf=token).status_code == 403
        assert words(tmp_path, "booked") == []
        assert post_answer(own, run, BROWSER, question=key, csrf=token).status_code == 303, "the form itself is right"
    finally:
        own.close()


def test_an_answer_on_the_page_is_taken_once_and_for_its_question_alone(hub: Hub, tmp_path: Path) -> None:
    ann = new_key(hub, f"ann-{tmp_path.name}")
    code = "import desk\nawait desk.twice()"
    said = failure(ask(hub, tmp_path, code, capabilities={}, headers=ann))
    run = said.partition("(run ")[2].partition(")")[0]

    def asked() -> list[dict[str, Any]]:
        shown: Any = hub.client.get(f"/activity/runs/{run}.json", headers=ann).json
        return list(shown["asked"])

    (first,) = asked()
    assert post_answer(hub, run, ann, question=first["key"], content='{"name": "Ann"}').status_code == 200
    until(lambda: [one["message"] for one in asked()] == ["Last name of Ann?"], "the second question")
    replayed = post_answer(hub, run, ann, question=first["key"], content='{"name": "Eve"}')
    assert replayed.status_code == 400 and "not open any more" in replayed.text
    number = first["key"].rpartition(".")[2]
    for key in ("", "ask-2", f"script-question-.{number}", f"script-question-{'0' * 32}.{number}"):
        assert post_answer(hub, run, ann, question=key).status_code == 400
    (second,) = asked()
    assert post_answer(hub, run, ann, question=second["key"], content='{"name": "Smith"}').status_code == 200
    assert ended(hub, run).value == "Ann Smith"


@pytest.mark.parametrize("content", ['{"name": 1}', "{}", "[]", "{", '"Ann"', '{"name": {"$ref": "#"}}'])
def test_an_answer_on_the_page_that_does_not_fit_the_schema_reaches_no_tool(
    hub: Hub, tmp_path: Path, content: str
) -> None:
    ann = new_key(hub, f"ann-{secrets.token_hex(4)}")
    run, key = waiting_on_page(hub, tmp_path, ann)
    assert post_answer(hub, run, ann, question=key, content=content).status_code == 400
    assert words(tmp_path, "booked") == [] and runs(hub).state_of(runs(hub).heads.get(run)) == SUSPENDED


def test_an_answer_on_the_page_that_is_too_large_is_not_stored(hub: Hub, tmp_path: Path) -> None:
    ann = new_key(hub, f"ann-{tmp_path.name}")
    run, key = waiting_on_page(hub, tmp_path, ann)
    content = f'{{"name": "{"x" * MAX_ANSWER_BYTES}"}}'
    assert post_answer(hub, run, ann, question=key, content=content).status_code in (400, 413)
    assert runs(hub).state_of(runs(hub).heads.get(run)) == SUSPENDED


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
        return str(self.runs.seals.open_answers(state)["1"]["ask-1"]["content"]["name"])


def test_the_first_answer_counts_and_is_sealed() -> None:
    asking = Asking()
    assert asking.runs.state_of(asking.head) == SUSPENDED and asking.runs.claim(asking.head.id, "process") is None
    assert asking.answer("Ann") and not asking.answer("Eve") and asking.read() == "Ann"
    head = asking.runs.heads.get(asking.head.id)
    assert head is not None and asking.runs.state_of(head) == DECIDED
    stored = b"".join(one.data for one in asking.store.journal.read(SCRIPT_RUN + head.id))
    assert b"Ann" not in stored and b"Who?" not in stored
    assert asking.runs.claim(head.id, "process") is not None


def test_a_later_answer_to_several_questions_leaves_the_answers_that_came_first() -> None:
    first, later = {"action": "accept", "content": {"name": "Ann"}}, {"action": "decline"}
    found = merge_answers({"1": {"ask-1": first}}, {"1": {"ask-1": later, "ask-2": later}, "2": {"ask-1": later}})
    assert found == {"1": {"ask-1": first, "ask-2": later}, "2": {"ask-1": later}}


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
        asking.runs.seals.open_answers(state)


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
        one for one in runs(hub).heads.all() if not one.ended and one.id == answer.result["structuredContent"]["run"]
    ]

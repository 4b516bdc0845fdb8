"""A suspended run is cancelled by its owner or an operator: nothing of it runs then, and nothing of it asks any more.

Source: issue 55.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.approvals import APPROVED, WITHDRAWN, Approvals
from patchbay.errors import StaleUpdate
from patchbay.scripting.cancelling import cancel_run
from patchbay.scripting.suspended.run_records import CANCELLED
from patchbay.scripting.suspended.suspended_runs import LostClaim
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub
from tests.scripting.asking import answered, ask, asking_hub, questions
from tests.scripting.closing import (
    CODE,
    FILES,
    FORMS,
    answers_to,
    close_issues,
    closing_hub,
    decide,
    ended,
    runs,
    waiting,
    words,
)
from tests.scripting.hubs import failure, value
from tests.waiting import until
from tests.web.browsing import BROWSER
from tests.web.servers.test_editing import csrf

SAID = "the run was cancelled by key:ann\n1 call was made: issues.find (line 5)"


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = team_hub(tmp_path / "hub", FILES)
    found.catalogue.hub.gate.wait_seconds = 0.0
    set_grants(found, {"grants": [{"to": ["key:ann", "key:ben"], "may": ["see", "call"], "on": ["issues"]}]})
    yield found
    found.close()


@pytest.fixture
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


def cancel(hub: Hub, run: str, headers: dict[str, str]) -> Any:
    """The answer of the hub to a program that cancels a run."""
    known = {**headers, "Accept": "application/json"}
    return hub.client.post(f"/activity/runs/{run}", data={"do": "cancel"}, headers=known)


def seen(hub: Hub, run: str, headers: dict[str, str]) -> Any:
    """The run as a program sees it."""
    return hub.client.get(f"/activity/runs/{run}.json", headers=headers).json


def operator(hub: Hub) -> dict[str, str]:
    return {"Authorization": f"Bearer {hub.token}"}


def test_the_owner_cancels_a_run_which_asks_no_more_and_makes_no_call(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    failure(close_issues(hub, tmp_path, headers=ann))
    asked = waiting(hub)
    run = asked[0]["run"]
    answer = cancel(hub, run, ann)
    assert answer.status_code == 200 and answer.json["state"] == "cancelled"
    assert answer.json["outcome"]["failure"] == SAID and answer.json["outcome"]["printed"] == "looking\n"
    assert [one["tool"] for one in answer.json["outcome"]["calls"]] == ["issues.find"], "what was made stays"
    assert waiting(hub) == []
    headers = {**operator(hub), "Accept": "application/json"}
    late = hub.client.post("/approvals", data={"id": asked[0]["question"], "do": "approve"}, headers=headers)
    assert late.status_code == 404 and "no call of the question" in late.text
    assert len(hub.catalogue.store.journal.read(f"script-run/{run}")) == 1, "its snapshot is removed"
    assert SAID in failure(close_issues(hub, tmp_path, headers=ann)), "the caller that did not wait is told once"
    assert "need an approval" in failure(close_issues(hub, tmp_path, headers=ann)) and words(tmp_path) == []


def test_an_operator_cancels_the_run_of_another_and_learns_no_value(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    failure(close_issues(hub, tmp_path, headers=ann))
    run = waiting(hub)[0]["run"]
    told = cancel(hub, run, operator(hub)).json["outcome"]
    assert told == {"printed": "", "value": None, "calls": [], "failure": "the run was cancelled by operator"}
    assert seen(hub, run, ann)["outcome"]["failure"].startswith("the run was cancelled by operator\n1 call was made")


def test_for_another_person_the_run_does_not_exist(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    ben = new_key(hub, "ben")
    failure(close_issues(hub, tmp_path, headers=ann))
    asked = waiting(hub)
    run, unknown = asked[0]["run"], "0123456789abcdef"
    refused, missing = cancel(hub, run, ben), cancel(hub, unknown, ben)
    assert (refused.status_code, missing.status_code) == (404, 404)
    assert refused.text.replace(run, "") == missing.text.replace(unknown, "")
    assert cancel(hub, run, {}).status_code == cancel(hub, unknown, {}).status_code == 401
    assert [one["run"] for one in waiting(hub)] == [run] * 3
    decide(hub, asked[0]["question"], "refuse")
    ended(hub, run)


def test_the_page_of_a_run_and_the_page_of_approvals_have_a_button(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    hub.log_in()
    failure(close_issues(hub, tmp_path, headers=ann))
    asked = waiting(hub)
    run = asked[0]["run"]
    path = f"/activity/runs/{run}"
    page = hub.client.get("/approvals", headers=BROWSER).text
    assert f'formaction="{path}">Cancel the script' in page
    assert "Cancel the script" in hub.client.get(path, headers=BROWSER).text
    fields = {"csrf": csrf(hub, "/approvals"), "do": "cancel", "id": asked[0]["question"], "call.1": "on"}
    answer = hub.client.post(path, data=fields, headers=BROWSER)
    assert (answer.status_code, answer.headers["Location"]) == (303, path)
    shown = hub.client.get(path, headers=BROWSER).text
    assert "the run was cancelled by operator" in shown and "Cancel the script" not in shown
    assert "its script was cancelled" in hub.client.get("/approvals", headers=BROWSER).text
    without = hub.client.post(path, data={"do": "cancel"}, headers=BROWSER)
    assert without.status_code == 403, "another site could have sent it"


def test_a_run_that_has_ended_cannot_be_cancelled(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    failure(close_issues(hub, tmp_path, headers=ann))
    asked = waiting(hub)
    decide(hub, asked[0]["question"])
    assert ended(hub, asked[0]["run"]).failure == ""
    answer = cancel(hub, asked[0]["run"], ann)
    assert answer.status_code == 400 and "it has ended, or it never waited for a person" in answer.text
    assert seen(hub, asked[0]["run"], ann)["outcome"]["value"] == ["closed 1", "closed 2", "closed 3"]
    wrong = hub.client.post(f"/activity/runs/{asked[0]['run']}", data={"do": "stop"}, headers=operator(hub))
    assert wrong.status_code == 400 and "do must be repeat, cancel or answer" in wrong.text


def test_a_waiting_caller_is_told_that_its_run_was_cancelled(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    hub.catalogue.hub.gate.wait_seconds = 60.0
    answers: list[Any] = []
    caller = threading.Thread(target=lambda: answers.append(close_issues(hub, tmp_path, headers=ann)))
    caller.start()
    until(lambda: waiting(hub), "the question")
    cancel(hub, waiting(hub)[0]["run"], ann)
    caller.join(60)
    assert SAID in failure(answers[0]) and words(tmp_path) == []


def test_a_cancellation_and_a_claim_of_another_process_have_one_winner(
    hub: Hub, ann: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The claim of another node comes between the look of the cancellation and its entry: the run is cancelled then
    while it goes on, its process makes no further call, and the approvals are gone.
    """
    scripts = hub.app.parts.dispatcher.services.scripts
    scripts.close()  # nothing goes on by itself here
    failure(close_issues(hub, tmp_path, headers=ann))
    asked, known = waiting(hub), runs(hub)
    run = asked[0]["run"]
    decide(hub, asked[0]["question"])
    claims: list[Any] = []
    append = known.store.journal.append_all

    def claim_before(entries: Any, expected: Any) -> Any:
        if not claims and expected:
            claims.append(None)
            claims[0] = known.claim(run, scripts.process)
            claims[0].begin_call("a call")
        return append(entries, expected)

    monkeypatch.setattr(type(known.store.journal), "append_all", lambda self, *given: claim_before(*given))
    assert cancel_run(known, run, "key:ann")
    monkeypatch.undo()
    said = known.seals.open_outcome(known.read(run)).failure
    assert said.startswith("the run was cancelled by key:ann; 1 calls that began after its last approval")
    with pytest.raises(LostClaim):
        claims[0].begin_call("another call")
    approvals = Approvals(hub.catalogue.store)
    assert {one.state for one in approvals.find_question(asked[0]["question"])} == {WITHDRAWN}
    assert not cancel_run(known, run, "key:ann") and words(tmp_path) == []


def test_a_claim_after_a_cancellation_makes_no_call(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    """The other order: an approval on another node has its look before the cancellation, and its claim after it."""
    scripts = hub.app.parts.dispatcher.services.scripts
    scripts.close()
    failure(close_issues(hub, tmp_path, headers=ann))
    asked, known = waiting(hub), runs(hub)
    decide(hub, asked[0]["question"])
    state = known.read(asked[0]["run"])
    assert cancel_run(known, asked[0]["run"], "key:ann")
    with pytest.raises(StaleUpdate):
        known.store.journal.append_all(
            [(f"script-run/{state.head.id}", b"c{}\n", 60.0)], {f"script-run/{state.head.id}": state.seq}
        )
    assert known.claim(asked[0]["run"], scripts.process) is None
    assert known.heads.get(asked[0]["run"]).state == CANCELLED and words(tmp_path) == []


def test_an_approval_that_was_given_and_not_used_is_withdrawn(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    scripts = hub.app.parts.dispatcher.services.scripts
    scripts.close()
    failure(close_issues(hub, tmp_path, headers=ann))
    asked = waiting(hub)
    decide(hub, asked[0]["question"])
    approvals = Approvals(hub.catalogue.store)
    (first, *_) = approvals.find_question(asked[0]["question"])
    assert first.state == APPROVED
    cancel(hub, asked[0]["run"], ann)
    with pytest.raises(Exception, match="the approval of this call is withdrawn already"):
        approvals.use(first.id, replace(first.call))


def test_a_client_that_was_asked_and_answers_after_the_cancellation_begins_nothing(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    asked = close_issues(hub, tmp_path, capabilities=FORMS, headers=ann)
    cancel(hub, waiting(hub)[0]["run"], ann)
    answer = close_issues(hub, tmp_path, capabilities=FORMS, headers=ann, **answers_to(asked))
    assert SAID in failure(answer) and words(tmp_path) == []
    fresh = close_issues(hub, tmp_path, capabilities=FORMS, headers=ann)
    assert value(close_issues(hub, tmp_path, capabilities=FORMS, headers=ann, **answers_to(fresh))) is not None


class LegacyCall:
    """A call of the script in a session, whose caller waits for it in a thread until its approval."""

    def __init__(self, hub: Hub, folder: Path) -> None:
        hub.catalogue.hub.gate.wait_seconds = 60.0
        self.session = {"Mcp-Session-Id": hub.open("issues")}
        arguments = {"code": CODE, "inputs": {"folder": str(folder), "count": 3}}
        params = {"name": "run_script", "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
        headers = self.session | {"Accept": "application/json, text/event-stream"}
        self.thread = threading.Thread(target=hub.send, args=("issues", message, headers))
        self.thread.start()
        until(lambda: waiting(hub), "the question")
        self.run = str(waiting(hub)[0]["run"])


def test_a_client_that_cancels_its_call_cancels_the_run(tmp_path: Path) -> None:
    """The same call begins a new run then: its caller knows what became of the first one."""
    own = closing_hub(tmp_path / "hub")
    try:
        call = LegacyCall(own, tmp_path)
        notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
        assert own.send("issues", notice, call.session).status == 202
        assert ended(own, call.run).failure == SAID.replace("key:ann", "local")
        call.thread.join(60)
        assert waiting(own) == []
        own.catalogue.hub.gate.wait_seconds = 0.0
        assert "need an approval" in failure(close_issues(own, tmp_path)) and words(tmp_path) == []
        assert waiting(own)[0]["run"] != call.run
    finally:
        own.close()


def test_the_end_of_a_session_leaves_the_run(tmp_path: Path) -> None:
    own = closing_hub(tmp_path / "hub")
    try:
        call = LegacyCall(own, tmp_path)
        assert own.client.delete("/mcp/issues", headers=call.session).status_code in (200, 204)
        call.thread.join(60)
        assert [one["run"] for one in waiting(own)] == [call.run] * 3
        decide(own, waiting(own)[0]["question"])
        assert ended(own, call.run).value == ["closed 1", "closed 2", "closed 3"]
    finally:
        own.close()


def test_a_run_that_waits_for_an_answer_to_a_tool_is_cancelled_too(tmp_path: Path) -> None:
    own = asking_hub(tmp_path / "hub")
    try:
        asked = ask(own, tmp_path)
        (head,) = (one for one in runs(own).heads.all() if not one.ended)
        assert cancel(own, head.id, operator(own)).json["state"] == "cancelled"
        answer = ask(own, tmp_path, **answered(asked, "Ann"))
        assert "the run was cancelled by operator" in failure(answer) and words(tmp_path, "booked") == []
    finally:
        own.close()


def test_an_approval_of_an_earlier_question_of_the_run_is_withdrawn_too(tmp_path: Path) -> None:
    own = asking_hub(tmp_path / "hub")
    try:
        code = "import desk\nawait desk.reserve(folder=folder, place='A1')"
        first = ask(own, tmp_path, code)
        (asked,) = waiting(own)
        asks = ask(own, tmp_path, code, **answers_to(first))
        assert "Who takes A1?" in "".join(questions(asks).values()), "the run waits for an answer to its tool"
        approvals = Approvals(own.catalogue.store)
        assert [one.state for one in approvals.find_question(asked["question"])] == [APPROVED]
        cancel(own, asked["run"], operator(own))
        assert [one.state for one in approvals.find_question(asked["question"])] == [WITHDRAWN]
    finally:
        own.close()


def cancelled_at_the_next_look(hub: Hub, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let another node cancel a run just before this one reads its record."""
    known = runs(hub)
    whole = known.read

    def read(id: str) -> Any:
        monkeypatch.setattr(known, "read", whole)
        assert cancel_run(known, run, "operator")
        return whole(id)

    monkeypatch.setattr(known, "read", read)


def test_a_run_that_is_cancelled_while_its_page_is_made_has_no_waiting_calls(
    hub: Hub, ann: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure(close_issues(hub, tmp_path, headers=ann))
    run = waiting(hub)[0]["run"]
    cancelled_at_the_next_look(hub, run, monkeypatch)
    assert hub.app.parts.dispatcher.services.scripts.describe(run) == ("cancelled", [])


def test_a_run_that_is_cancelled_before_its_client_is_asked_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = asking_hub(tmp_path / "hub")
    try:
        ask(own, tmp_path)
        (head,) = (one for one in runs(own).heads.all() if not one.ended)
        cancelled_at_the_next_look(own, head.id, monkeypatch)
        assert "the run was cancelled by operator" in failure(ask(own, tmp_path))
    finally:
        own.close()


def test_a_run_whose_record_was_changed_has_a_page_on_which_it_can_be_cancelled(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    hub.log_in()
    failure(close_issues(hub, tmp_path, headers=ann))
    run = waiting(hub)[0]["run"]
    journal, topic = hub.catalogue.store.journal, f"script-run/{run}"
    (entry,) = journal.read(topic)
    journal.remove(topic, entry.seq + 1)
    journal.append(topic, entry.data[:-1] + bytes([entry.data[-1] ^ 1]))
    page = hub.client.get(f"/activity/runs/{run}", headers=BROWSER)
    assert page.status_code == 200 and "Cancel the script" in page.text
    assert cancel(hub, run, ann).json["state"] == "cancelled"

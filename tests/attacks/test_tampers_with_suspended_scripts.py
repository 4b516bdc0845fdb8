"""Somebody changes, moves or repeats what a suspended script has stored, or takes its approvals for something else.

A snapshot is memory of a program, so that only one that this hub has sealed for just this run may be loaded.
Sources: issue 55; TOOLSETS section 5.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.approvals import APPROVAL_SECONDS, Approvals, AskedCall, CallDigest, UnknownApproval
from patchbay.access.principals import LOCAL
from patchbay.cid import cid_of
from patchbay.errors import ToolFailed
from patchbay.scripting.suspended.run_records import EXPIRED, SUSPENDED, RunHead
from patchbay.scripting.suspended.run_seals import DAMAGED
from patchbay.scripting.suspended.suspended_runs import MAX_SUSPENDED, SuspendedRuns
from patchbay.scripting.suspended.suspension import BudgetLeft, Suspension, WaitingCall
from patchbay.stores.memory import MemoryStore
from patchbay.topics import SCRIPT_RUN
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub, modern_request
from tests.scripting.closing import (
    FILES,
    FORMS,
    ISSUES,
    answers_to,
    close_issues,
    decide,
    ended,
    runs,
    waiting,
    words,
)
from tests.scripting.hubs import failure, value
from tests.waiting import until

TWICE = "import issues\nawait issues.close(folder=folder, number=1)\nawait issues.close(folder=folder, number=2)"
TOOLSET = {"kind": "toolset", "include": ["issues.*"], "listing": {"scripts": "only"}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = FILES | {"desk.json": orjson.dumps(TOOLSET).decode()}
    found = team_hub(tmp_path_factory.mktemp("tampering"), files)
    found.catalogue.hub.gate.wait_seconds = 0.0
    set_grants(found, {"grants": [{"to": ["*"], "may": ["see", "call"], "on": ["issues", "desk"]}]})
    yield found
    found.close()


@pytest.fixture
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, f"ann-{secrets.token_hex(4)}")


def suspended(hub: Hub, folder: Path, headers: dict[str, str], **more: Any) -> dict[str, Any]:
    """Begin a script that waits; the first of its waiting calls."""
    known = {one["id"] for one in waiting(hub)}
    assert "need" in failure(close_issues(hub, folder, headers=headers, **more))
    return next(one for one in waiting(hub) if one["id"] not in known)


def entries(hub: Hub, run: str) -> list[bytes]:
    return [one.data for one in hub.catalogue.store.journal.read(SCRIPT_RUN + run)]


def replace_record(hub: Hub, run: str, data: bytes) -> None:
    """Put another record in the place of a run, as somebody who can write the store."""
    journal = hub.catalogue.store.journal
    journal.remove(SCRIPT_RUN + run, journal.last(SCRIPT_RUN + run) + 1)
    journal.append(SCRIPT_RUN + run, data)


def failed(hub: Hub, run: str) -> str:
    return str(ended(hub, run).failure)


def test_a_changed_snapshot_is_not_loaded(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    one = suspended(hub, tmp_path, ann)
    (data,) = entries(hub, one["run"])
    replace_record(hub, one["run"], data[:-1] + bytes([data[-1] ^ 1]))
    decide(hub, one["question"])
    assert failed(hub, one["run"]) == DAMAGED and words(tmp_path) == []


def test_the_snapshot_of_another_principal_is_not_loaded(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    ben = new_key(hub, f"ben-{tmp_path.name}")
    theirs, own = suspended(hub, tmp_path, ann), suspended(hub, tmp_path, ben)
    assert theirs["run"] != own["run"], "the same script of another caller is another run"
    head, _, _ = entries(hub, own["run"])[0].partition(b"\n")
    _, _, sealed = entries(hub, theirs["run"])[0].partition(b"\n")
    replace_record(hub, own["run"], head + b"\n" + sealed)
    decide(hub, own["question"])
    assert failed(hub, own["run"]) == DAMAGED and words(tmp_path) == []
    decide(hub, theirs["question"], "refuse")


@pytest.mark.parametrize(("field", "other"), [("server", "desk"), ("principal", "operator"), ("question", "x-1")])
def test_a_snapshot_is_not_moved_to_another_toolset_caller_or_question(
    hub: Hub, ann: dict[str, str], tmp_path: Path, field: str, other: str
) -> None:
    one = suspended(hub, tmp_path, ann)
    head, _, sealed = entries(hub, one["run"])[0][1:].partition(b"\n")
    replace_record(hub, one["run"], b"s" + orjson.dumps({**orjson.loads(head), field: other}) + b"\n" + sealed)
    state = runs(hub).read(one["run"])
    with pytest.raises(ToolFailed, match="the run cannot go on"):
        runs(hub).seals.open(state)
    decide(hub, one["question"], "refuse")


def test_an_older_snapshot_of_the_same_run_is_not_loaded(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    first = suspended(hub, tmp_path, ann, code=TWICE)
    (old,) = entries(hub, first["run"])
    decide(hub, first["question"])
    until(lambda: runs(hub).heads.get(first["run"]).number == 2, "the second question")
    hub.catalogue.store.journal.append(SCRIPT_RUN + first["run"], old)
    decide(hub, runs(hub).heads.get(first["run"]).question)
    assert failed(hub, first["run"]) == DAMAGED and words(tmp_path) == ["1"]


def test_a_whole_record_that_is_put_back_makes_no_call_again(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    first = suspended(hub, tmp_path, ann, code=TWICE)
    (old,) = entries(hub, first["run"])
    decide(hub, first["question"])
    until(lambda: runs(hub).heads.get(first["run"]).number == 2, "the second question")
    replace_record(hub, first["run"], old)
    decide(hub, runs(hub).heads.get(first["run"]).question, "refuse")
    assert "the approval of this call is used already" in failed(hub, first["run"]) and words(tmp_path) == ["1"]


def test_a_tool_that_changes_after_the_approval_is_not_called(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    scripts = hub.app.parts.dispatcher.services.scripts
    one = suspended(hub, tmp_path, ann)
    before = hub.catalogue.find("issues").version
    (hub.servers / "issues.py").write_text(ISSUES.replace("closed {", "really closed {"))
    until(lambda: hub.catalogue.find("issues").version != before, "the new version")
    decide(hub, one["question"])
    scripts.resume(one["run"])
    said = ended(hub, one["run"]).value
    assert all("the approval is for another call" in each for each in said) and words(tmp_path) == []
    assert value(close_issues(hub, tmp_path, headers=ann)) == said
    again = suspended(hub, tmp_path, ann)
    before = hub.catalogue.find("issues").version
    (hub.servers / "issues.py").write_text(ISSUES.replace("Close an issue.", "Close an issue for ever."))
    until(lambda: hub.catalogue.find("issues").version != before, "the other descriptor")
    decide(hub, again["question"])
    said = ended(hub, again["run"]).value
    assert all("has changed since the script began" in each for each in said) and words(tmp_path) == []


def test_an_approval_that_is_given_twice_lets_each_call_run_once(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    one, approvals = suspended(hub, tmp_path, ann), hub.app.parts.dispatcher.services.approvals
    decide(hub, one["question"])
    for id in (one["question"], one["id"]):
        with pytest.raises(UnknownApproval):
            approvals.decide_all(id, {one["id"]}, "operator") if id == one["question"] else approvals.decide(
                id, True, "operator"
            )
    scripts = hub.app.parts.dispatcher.services.scripts
    for _ in range(3):
        scripts.resume(one["run"])
    ended(hub, one["run"])
    scripts.resume(one["run"])
    assert sorted(words(tmp_path)) == ["1", "2", "3"]


def test_an_equal_call_outside_the_script_cannot_use_its_approval(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    one, approvals = suspended(hub, tmp_path, ann), hub.app.parts.dispatcher.services.approvals
    wanted = {"name": "close", "arguments": {"folder": str(tmp_path), "number": 1}}
    asked = hub.send("issues", *modern_request("tools/call", wanted, FORMS, headers=ann))
    ((key, _),) = asked.result["inputRequests"].items()
    known = approvals.find(one["id"])
    assert one["question"] not in key and known is not None and known.state == "waiting"
    decide(hub, one["question"], "refuse")


def test_another_caller_can_neither_answer_the_question_nor_get_the_value(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    eve = new_key(hub, f"eve-{tmp_path.name}")
    asked = close_issues(hub, tmp_path, headers=ann, capabilities=FORMS)
    retry = answers_to(asked)
    stolen = close_issues(hub, tmp_path, headers=eve, capabilities=FORMS, inputResponses=retry["inputResponses"])
    assert "has ended" in failure(stolen) and words(tmp_path) == []
    assert "another call" in close_issues(hub, tmp_path, headers=eve, capabilities=FORMS, **retry).error["message"]
    assert len(value(close_issues(hub, tmp_path, headers=ann, capabilities=FORMS, **retry))) == 3
    theirs = close_issues(hub, tmp_path, headers=eve, capabilities=FORMS)
    assert theirs.result["resultType"] == "input_required", "a run of its own"
    decide(hub, waiting(hub)[0]["question"], "refuse")


def test_the_rights_of_the_caller_are_those_of_the_moment_when_the_script_goes_on(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    one = suspended(hub, tmp_path, ann)
    name = one["principal"].removeprefix("key:")
    key = hub.app.parts.keys.find_named(name)
    assert key is not None
    hub.app.parts.keys.revoke(name)
    until(lambda: not hub.app.parts.dispatcher.services.access.is_current(key.principal), "the end of the key")
    decide(hub, one["question"])
    assert "credentials of the caller" in failed(hub, one["run"])
    ben = new_key(hub, f"ben-{tmp_path.name}")
    other = suspended(hub, tmp_path, ben)
    denial = {"to": [other["principal"]], "on": ["issues"]}
    grants = [{"to": ["*"], "may": ["see", "call"], "on": ["issues", "desk"]}]
    set_grants(hub, {"grants": grants, "denials": [denial]})
    try:
        decide(hub, other["question"])
        assert "there is no server 'issues'" in failed(hub, other["run"]) and words(tmp_path) == []
    finally:
        set_grants(hub, {"grants": grants})


def test_a_script_of_a_toolset_waits_and_goes_on_with_the_rights_of_the_toolset(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    code = "import desk\nawait desk.close(folder=folder, number=4)"
    one = suspended(hub, tmp_path, ann, code=code, server="desk")
    assert one["server"] == "desk" and one["origins"][0]["server"] == "issues"
    decide(hub, one["question"])
    assert ended(hub, one["run"]).value == "closed 4"


class Records:
    """The records of suspended runs over a store in memory, with a clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.store = MemoryStore()
        self.approvals = Approvals(self.store, lambda: self.now)
        self.runs = SuspendedRuns(self.store, b"k" * 32, self.approvals)

    def suspend(self, snapshot: bytes = b"snapshot") -> RunHead:
        """Suspend a run with one call."""
        left = BudgetLeft(1, 1, 1, 1, 1.0, 1.0, 1)
        call = WaitingCall(1, "issues.close", 1, {})
        suspension = Suspension(LOCAL, "1", {}, 1, "", [], [call], left, {}, "0")
        head = RunHead(secrets.token_hex(8), "ann", "issues", "v", 0, "", "script", self.now, self.now)
        exact = CallDigest("ann", "issues", "v", "close", "d", cid_of(b"{}"))
        return self.runs.suspend(head, suspension, snapshot, [AskedCall(exact, b"{}")], None)


def test_a_run_without_a_decision_in_time_never_goes_on() -> None:
    records = Records()
    head = records.suspend()
    assert records.runs.state_of(head) == SUSPENDED and records.runs.find("ann", "issues", "script") == head
    records.now += APPROVAL_SECONDS
    assert records.runs.state_of(head) == EXPIRED and records.runs.find("ann", "issues", "script") is None
    with pytest.raises(UnknownApproval):
        records.approvals.decide_all(head.question, {f"{head.question}.1"}, "operator")
    assert records.runs.claim(head.id, "process") is None


def test_a_decision_that_no_process_took_up_in_time_expires() -> None:
    records = Records()
    head = records.suspend()
    records.now += APPROVAL_SECONDS - 1
    records.approvals.decide_all(head.question, {f"{head.question}.1"}, "operator")
    records.now += 2 * APPROVAL_SECONDS
    assert records.runs.state_of(head) == EXPIRED and records.runs.claim(head.id, "process") is None


def test_a_hub_with_another_key_says_that_it_cannot_go_on() -> None:
    records = Records()
    head = records.suspend()
    other = SuspendedRuns(records.store, b"o" * 32, records.approvals)
    state = other.read(head.id)
    assert state is not None
    with pytest.raises(ToolFailed, match="the key of the hub"):
        other.seals.open(state)
    assert records.runs.seals.open(state)[1] == b"snapshot"


def test_a_caller_has_a_limit_of_suspended_runs_and_of_their_bytes() -> None:
    records = Records()
    for _ in range(15):
        records.suspend(b"x" * 4_000_000)
    records.suspend(b"x" * 4_000_000)
    with pytest.raises(ToolFailed, match="limit suspended_runs"):
        records.suspend(b"x" * 4_000_000)
    many = Records()
    for _ in range(MAX_SUSPENDED):
        many.suspend()
    with pytest.raises(ToolFailed, match="limit suspended_runs"):
        many.suspend()
    with pytest.raises(ToolFailed, match="limit snapshot_bytes"):
        Records().suspend(b"x" * 4 * 1024 * 1024)

"""Somebody takes the approval of a rehearsal for anything but the calls that a person has seen in it.

Sources: issue 55, item 4; TOOLSETS section 4 (rehearsal).
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.access.approvals import (
    APPROVAL_SECONDS,
    MAX_WAITING,
    Approvals,
    AskedCall,
    CallDigest,
)
from patchbay.boot import change_names
from patchbay.cid import cid_of
from patchbay.stores.memory import MemoryStore
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Answer, Hub, modern_request
from tests.scripting.closing import FILES, ISSUES, PLAIN, close_issues, decide, waiting, words
from tests.scripting.hubs import value
from tests.waiting import BOUND, until

CLOSED = ["closed 1", "closed 2", "closed 3"]
GRANTS = {"grants": [{"to": ["*"], "may": ["see", "call"], "on": ["issues", "desk"]}]}
DESK = {"kind": "toolset", "include": ["issues.*"], "rights": "caller", "listing": {"scripts": "also"}}
AT_DESK = PLAIN.replace("issues", "desk")


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = team_hub(tmp_path / "hub", FILES | {"desk.json": orjson.dumps(DESK).decode()})
    found.catalogue.hub.gate.wait_seconds = 0.0
    set_grants(found, GRANTS)
    yield found
    found.close()


@pytest.fixture
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, f"ann-{secrets.token_hex(4)}")


def approved(hub: Hub, folder: Path, headers: dict[str, str], do: str = "approve", **more: Any) -> None:
    """Rehearse the script, and let an administrator decide about all its calls."""
    more = {"code": PLAIN} | more
    answer = close_issues(hub, folder, headers=headers, rehearse=True, **more)
    assert not answer.result["isError"], answer.text
    (question,) = {one["question"] for one in waiting(hub)}
    decide(hub, question, do)


def run(hub: Hub, folder: Path, headers: dict[str, str], **more: Any) -> Answer:
    return close_issues(hub, folder, headers=headers, **{"code": PLAIN} | more)


def asks(answer: Answer) -> bool:
    """Whether all three calls of a script wait for an approval of their own."""
    return answer.result["isError"] and "3 calls of it need an approval" in answer.text


def test_the_run_that_was_rehearsed_is_let_through(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann)
    assert value(run(hub, tmp_path, ann)) == CLOSED


def test_other_code_with_equal_calls_asks(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann)
    assert asks(run(hub, tmp_path, ann, code=PLAIN + "\n# the same calls")) and words(tmp_path) == []


def test_other_inputs_with_equal_calls_ask(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    code = PLAIN.replace("count + 1", "4")
    approved(hub, tmp_path, ann, code=code)
    assert asks(run(hub, tmp_path, ann, code=code, count=9)) and words(tmp_path) == []


def test_the_same_script_at_another_endpoint_asks(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    store = hub.catalogue.store
    listing = store.blobs.put(b'{"scripts": "also"}')
    change_names(store, {"variables/listing": listing}, "tests", "scripts at /mcp")
    hub.catalogue.refresh()
    approved(hub, tmp_path, ann)
    assert asks(run(hub, tmp_path, ann, server="")) and words(tmp_path) == []


def test_a_call_without_the_script_asks(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann)
    wanted = {"name": "close", "arguments": {"folder": str(tmp_path), "number": 1}}
    answer = hub.send("issues", *modern_request("tools/call", wanted, headers=ann))
    assert "needs an approval" in answer.text and words(tmp_path) == []


def test_another_principal_asks(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann)
    assert asks(run(hub, tmp_path, new_key(hub, "bob"))) and words(tmp_path) == []


def test_refused_calls_ask(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann, do="refuse")
    assert asks(run(hub, tmp_path, ann)) and words(tmp_path) == []


def test_a_changed_tool_asks(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann)
    before = hub.catalogue.find("issues").version
    (hub.servers / "issues.py").write_text(ISSUES.replace('"Close an issue."', '"Close an issue for ever."'))
    until(lambda: hub.catalogue.find("issues").version != before, "the new version")
    assert asks(run(hub, tmp_path, ann)) and words(tmp_path) == []


def test_one_more_rehearsal_gives_no_second_approval(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann)
    close_issues(hub, tmp_path, headers=ann, code=PLAIN, rehearse=True)
    assert waiting(hub) == []
    assert value(run(hub, tmp_path, ann)) == CLOSED and asks(run(hub, tmp_path, ann))
    assert sorted(words(tmp_path)) == ["1", "2", "3"]


def test_a_rehearsal_after_a_refusal_replaces_what_was_approved(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    close_issues(hub, tmp_path, headers=ann, code=PLAIN, rehearse=True)
    decide(hub, waiting(hub)[0]["question"], "ticked", call_1="on")
    close_issues(hub, tmp_path, headers=ann, code=PLAIN, rehearse=True)
    assert len(waiting(hub)) == 3, "all calls are asked about again"
    assert asks(run(hub, tmp_path, ann)) and words(tmp_path) == []


def test_of_many_runs_at_once_one_makes_each_call(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    approved(hub, tmp_path, ann)
    together = threading.Barrier(6)

    def go() -> None:
        together.wait(BOUND)
        run(hub, tmp_path, ann)

    threads = [threading.Thread(target=go) for _ in range(6)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(BOUND)
    assert sorted(words(tmp_path)) == ["1", "2", "3"]


@pytest.mark.parametrize(
    ("server", "code", "left"),
    [("issues", PLAIN, []), ("desk", AT_DESK, []), ("desk", AT_DESK, ["desk", "issues.find"])],
    ids=["of the server", "of the toolset", "of the caller behind the toolset"],
)
def test_an_approval_gives_no_right_that_has_ended(
    hub: Hub, ann: dict[str, str], tmp_path: Path, server: str, code: str, left: list[str]
) -> None:
    approved(hub, tmp_path, ann, code=code, server=server)
    set_grants(hub, {"grants": [{"to": ["*"], "may": ["see", "call"], "on": [*left, "notes"]}]})
    answer = run(hub, tmp_path, ann, code=code, server=server)
    assert "error" in answer.last or answer.result["isError"]
    assert words(tmp_path) == []


def test_a_caller_with_too_many_questions_gets_the_table_and_the_reason(
    hub: Hub, ann: dict[str, str], tmp_path: Path
) -> None:
    approvals = hub.app.parts.dispatcher.services.approvals
    close_issues(hub, tmp_path, headers=ann, code=PLAIN, rehearse=True)
    principal = approvals.all()[0].call.principal
    for number in range(MAX_WAITING):
        approvals.ask(f"{number:016x}", [asked(principal)])
        if approvals.count_waiting() >= MAX_WAITING:
            break
    answer = close_issues(hub, tmp_path, headers=ann, code=PLAIN + "\n# another", rehearse=True)
    assert "wait for decisions first" in answer.text
    assert len(answer.result["structuredContent"]["rehearsed"]) == 3


# The store of the approvals alone, with a clock.


def asked(principal: str = "key:ann", arguments: bytes = b"{}") -> AskedCall:
    return AskedCall(CallDigest(principal, "issues", "v", "close", "t", cid_of(arguments)), arguments)


class Clock:
    """A clock that stands still."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_it_expires() -> None:
    clock = Clock()
    approvals = Approvals(MemoryStore(), clock)
    (one, other) = approvals.ask_rehearsed("1" * 16, "script", [asked(), asked()])
    approvals.decide_all(one.question, {one.id, other.id}, "local")
    clock.now += APPROVAL_SECONDS - 1
    assert approvals.take_rehearsed("script", asked().exact) == one.id
    clock.now += 1
    assert approvals.take_rehearsed("script", asked().exact) == ""


def test_a_question_without_a_decision_lets_nothing_through() -> None:
    approvals = Approvals(MemoryStore(), Clock())
    approvals.ask_rehearsed("1" * 16, "script", [asked()])
    assert approvals.take_rehearsed("script", asked().exact) == ""


def test_another_process_of_the_hub_sees_what_is_taken() -> None:
    store = MemoryStore()
    first, second = Approvals(store, Clock()), Approvals(store, Clock())
    (one,) = first.ask_rehearsed("1" * 16, "script", [asked()])
    second.decide(one.id, True, "local")
    assert first.take_rehearsed("script", asked().exact) == one.id
    assert second.take_rehearsed("script", asked().exact) == ""
    second.use(one.id, asked().exact)
    assert second.ask_rehearsed("2" * 16, "script", [asked()])[0].id != one.id


def test_a_rehearsal_with_other_calls_replaces_the_approvals_of_the_last_one() -> None:
    approvals = Approvals(MemoryStore(), Clock())
    (one,) = approvals.ask_rehearsed("1" * 16, "script", [asked()])
    approvals.decide(one.id, True, "local")
    (other,) = approvals.ask_rehearsed("2" * 16, "script", [asked(arguments=b'{"a":1}')])
    assert other.id != one.id and approvals.take_rehearsed("script", asked().exact) == ""
    (bob,) = approvals.ask_rehearsed("3" * 16, "script", [asked("key:bob")])
    assert bob.id != other.id and approvals.find_question(other.question)[0].state == "waiting"

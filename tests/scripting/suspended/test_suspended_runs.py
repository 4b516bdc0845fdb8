"""Scripts that wait for an approval hold no process, go on with what was approved, and give their callers the value.

Source: issue 55, items 3 and 4; TOOLSETS section 4 (durable, one decision for many calls).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.approvals import Approvals
from patchbay.activation import CancelFlag, Events
from patchbay.activity.records import Filter
from patchbay.scripting import script_run
from patchbay.scripting.front import KEPT_AS
from patchbay.scripting.script_run import ScriptRun
from patchbay.scripting.suspended.run_records import DECIDED
from patchbay.scripting.suspended.run_seals import UNKNOWN_RESULT
from patchbay.scripting.suspended.suspension import digest_of_call
from tests.hubs import Hub
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
from tests.scripting.hubs import failure, script, value
from tests.waiting import until


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = closing_hub(tmp_path_factory.mktemp("suspended"))
    yield found
    found.close()


def question(hub: Hub) -> str:
    """The id of the one question that waits."""
    (id,) = {one["question"] for one in waiting(hub)}
    return str(id)


def test_a_script_that_waits_holds_no_interpreter_and_goes_on_when_the_page_has_a_decision(
    hub: Hub, tmp_path: Path
) -> None:
    said = failure(close_issues(hub, tmp_path))
    assert "3 calls of it need an approval" in said and "call run_script with the same script again" in said
    assert hub.catalogue.hub.find_kept(KEPT_AS).interpreters.count() == 0
    assert words(tmp_path) == [] and words(tmp_path, "found") == ["found"]
    asked = waiting(hub)
    assert [(one["tool"], one["arguments"]) for one in asked] == [
        ("close", f'{{"folder":"{tmp_path}","number":{number}}}') for number in (1, 2, 3)
    ]
    assert failure(close_issues(hub, tmp_path)) == said, "the same call finds the run that waits"
    decide(hub, question(hub))
    ended(hub, asked[0]["run"])
    answer = close_issues(hub, tmp_path)
    assert value(answer) == ["closed 1", "closed 2", "closed 3"]
    assert answer.result["content"][0]["text"] == "looking\n"
    structured = answer.result["structuredContent"]
    assert structured["run"] == asked[0]["run"]
    assert [one["tool"] for one in structured["calls"]] == ["issues.find", *["issues.close"] * 3]
    assert sorted(words(tmp_path)) == ["1", "2", "3"] and words(tmp_path, "found") == ["found"]
    assert "need an approval" in failure(close_issues(hub, tmp_path)), "the outcome is given once"
    decide(hub, question(hub), "refuse")


def test_a_client_is_asked_one_question_and_the_same_call_goes_on(hub: Hub, tmp_path: Path) -> None:
    asked = close_issues(hub, tmp_path, capabilities=FORMS)
    ((_, one),) = asked.result["inputRequests"].items()
    assert one["method"] == "elicitation/create" and "these 3 calls of issues.close" in one["params"]["message"]
    ticks = one["params"]["requestedSchema"]["properties"]
    assert [tick["default"] for tick in ticks.values()] == [True] * 3
    assert f'"folder":"{tmp_path}","number":2' in ticks["call_2"]["title"]
    retry = answers_to(asked)
    assert value(close_issues(hub, tmp_path, capabilities=FORMS, **retry)) == ["closed 1", "closed 2", "closed 3"]
    assert sorted(words(tmp_path)) == ["1", "2", "3"] and words(tmp_path, "found") == ["found"]
    del retry["requestState"]
    assert "has ended" in failure(close_issues(hub, tmp_path, capabilities=FORMS, **retry)), "no second run"
    assert words(tmp_path, "found") == ["found"]


def test_fifty_calls_are_one_question_and_one_of_them_is_refused(hub: Hub, tmp_path: Path) -> None:
    """55.4"""
    asked = close_issues(hub, tmp_path, 50, capabilities=FORMS)
    assert len(asked.result["inputRequests"]) == 1
    assert len(waiting(hub)) == 50 and question(hub)
    answer = close_issues(hub, tmp_path, 50, capabilities=FORMS, **answers_to(asked, content={"call_13": False}))
    said = value(answer)
    assert said[12] == "issues.close: did not run: its approval was refused"
    assert sum(one.startswith("closed") for one in said) == 49 and "13" not in words(tmp_path)
    rows = [one for one in answer.result["structuredContent"]["calls"] if one["tool"] == "issues.close"]
    assert len(rows) == 50 and [one["failed"] for one in rows if one.get("refused")] == [True]


def test_the_page_has_one_entry_with_a_table_and_its_ticks_decide(hub: Hub, tmp_path: Path) -> None:
    """55.4"""
    failure(close_issues(hub, tmp_path, 5))
    id, run = question(hub), waiting(hub)[0]["run"]
    page = hub.client.get("/approvals", headers={"Authorization": f"Bearer {hub.token}", "Accept": "text/html"}).text
    assert page.count("Approve all 5") == 1 and page.count('name="call.') == 5
    assert page.count("Digest of the arguments") > 1 and "&#34;number&#34;:5" in page
    decide(hub, id, "ticked", call_1="on", call_5="on")
    outcome = ended(hub, run)
    assert [one.startswith("closed") for one in outcome.value] == [True, False, False, False, True]
    assert sorted(words(tmp_path)) == ["1", "5"]


def test_the_table_shows_what_is_behind_each_call_and_offers_no_approval_that_the_page_refuses(tmp_path: Path) -> None:
    team = {"kind": "toolset", "include": ["issues.close"], "listing": {"scripts": "also"}}
    found = Hub(tmp_path, {**FILES, "team.json": json.dumps(team)})
    found.catalogue.hub.gate.wait_seconds = 0.0
    who = {"Authorization": f"Bearer {found.token}", "Accept": "text/html"}
    code = (
        "import asyncio\nimport team\n"
        "calls = [team.close(folder=folder, number=number) for folder, number in FOLDERS]\n"
        "await asyncio.gather(*calls)"
    )
    try:
        failure(script(found, "team", code.replace("FOLDERS", '[("a", 1), ("b", 2)]')))
        page = found.client.get("/approvals", headers=who).text
        assert "Approve all 2" in page and page.count("<code>close</code> of <code>issues</code>") == 2
        digest = json.loads(Approvals(found.catalogue.store).find_question(question(found))[0].call.origins)[0]["tool"]
        # In each row as that of the origin and of the tool: the toolset shapes nothing.
        assert page.count(digest) == 4 and page.count('data-label="Digest of the tool"') == 2
        decide(found, question(found), "refuse")
        failure(script(found, "team", code.replace("FOLDERS", '[("a", 1), ("b" * 20_000, 2)]')))
        page = found.client.get("/approvals", headers=who).text
        assert "too long to be shown" in page and "Approve only those with a tick" in page
        assert "Approve all" not in page and page.count('name="call.') == 1
    finally:
        found.close()


def test_a_client_that_declines_refuses_all_calls(hub: Hub, tmp_path: Path) -> None:
    asked = close_issues(hub, tmp_path, capabilities=FORMS)
    said = value(close_issues(hub, tmp_path, capabilities=FORMS, **answers_to(asked, "decline")))
    assert said == ["issues.close: did not run: its approval was refused"] * 3 and words(tmp_path) == []


def test_a_run_waits_again_for_the_calls_of_its_next_await(hub: Hub, tmp_path: Path) -> None:
    code = (
        "import issues\n"
        "first = await issues.close(folder=folder, number=1)\n"
        "print(first)\n"
        "await issues.close(folder=folder, number=2)"
    )
    asked = close_issues(hub, tmp_path, capabilities=FORMS, code=code)
    assert "Approve this call of issues.close?" in str(asked.result["inputRequests"])
    again = close_issues(hub, tmp_path, capabilities=FORMS, code=code, **answers_to(asked))
    assert words(tmp_path) == ["1"]
    answer = close_issues(hub, tmp_path, capabilities=FORMS, code=code, **answers_to(again))
    assert value(answer) == "closed 2" and answer.result["content"][0]["text"] == "closed 1\n"
    assert [one["line"] for one in answer.result["structuredContent"]["calls"]] == [2, 4]


def test_a_suspended_run_goes_on_after_a_restart(tmp_path: Path) -> None:
    """55.3"""
    first = closing_hub(tmp_path / "hub", store="sqlite")
    failure(close_issues(first, tmp_path))
    id, run = question(first), waiting(first)[0]["run"]
    first.close()
    second = closing_hub(tmp_path / "hub", store="sqlite")
    try:
        decide(second, id)
        assert ended(second, run).value == ["closed 1", "closed 2", "closed 3"]
        assert value(close_issues(second, tmp_path)) == ["closed 1", "closed 2", "closed 3"]
        assert sorted(words(tmp_path)) == ["1", "2", "3"] and words(tmp_path, "found") == ["found"]
    finally:
        second.close()


def test_a_call_that_a_lost_process_may_have_made_is_not_made_again(tmp_path: Path) -> None:
    """55.3"""
    hub = closing_hub(tmp_path / "hub")
    scripts = hub.app.parts.dispatcher.services.scripts
    scripts.close()  # nothing goes on by itself here
    try:
        failure(close_issues(hub, tmp_path))
        asked, known = waiting(hub), runs(hub)
        decide(hub, asked[0]["question"])
        head = known.heads.get(asked[0]["run"])
        assert known.state_of(head) == DECIDED
        lost = known.claim(head.id, "a process without signs of life")
        first, second = (
            digest_of_call("issues", "close", {"folder": str(tmp_path), "number": number}) for number in (1, 2)
        )
        assert lost.begin_call(first) is None and lost.begin_call(second) is None
        lost.end_call(second, {"return_value": "closed before"})
        hub.catalogue.hub.resumed_scripts._loop.ending.clear()
        scripts.resume(head.id)
        assert ended(hub, head.id).value == [f"issues.close: {UNKNOWN_RESULT}", "closed before", "closed 3"]
        assert words(tmp_path) == ["3"]
    finally:
        hub.close()


def test_of_two_processes_one_claims_a_run(hub: Hub, tmp_path: Path) -> None:
    failure(close_issues(hub, tmp_path))
    asked, known = waiting(hub), runs(hub)
    state = known.read(asked[0]["run"])
    assert known.claim(asked[0]["run"], "one") is None, "it waits for its decision"
    decide(hub, asked[0]["question"], "refuse")
    ended(hub, asked[0]["run"])
    assert known.claim(asked[0]["run"], "two") is None and state.head is not None


def test_the_record_of_each_call_has_the_run_and_the_resumed_script_has_one_of_its_own(
    hub: Hub, tmp_path: Path
) -> None:
    failure(close_issues(hub, tmp_path))
    asked = waiting(hub)
    decide(hub, asked[0]["question"])
    ended(hub, asked[0]["run"])

    def recorded() -> list[Any]:
        return [one for one in hub.activity.recent(Filter(), 1000).records if one.run == asked[0]["run"]]

    until(lambda: len(recorded()) == 6, "the records")
    assert sorted((one.name, one.way) for one in recorded()) == [
        *[("close", "script")] * 3,
        ("find", "script"),
        ("run_script", "http"),
        ("run_script", "resumed"),
    ]


def test_a_script_with_too_many_values_cannot_wait_and_says_so(hub: Hub, tmp_path: Path) -> None:
    code = f"x = [str(one) * 100 for one in range(20000)]\n{CODE}"
    said = value(close_issues(hub, tmp_path, 1, code=code))
    assert "limit snapshot_bytes" in said[0] and waiting(hub) == []


def test_a_run_of_another_version_of_the_interpreter_ends_with_a_sentence(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close_issues(hub, tmp_path, count=1)
    (asked,) = waiting(hub)
    monkeypatch.setattr("patchbay.scripting.script_run.__version__", "99.0")
    decide(hub, asked["question"])
    failed = ended(hub, asked["run"]).failure
    assert "it was suspended with pydantic-monty" in failed and "and this hub has 99.0" in failed
    assert words(tmp_path) == []


def test_the_page_of_a_run_that_waits_shows_its_waiting_calls(hub: Hub, tmp_path: Path) -> None:
    close_issues(hub, tmp_path, count=1)
    (asked,) = waiting(hub)
    headers = {"Authorization": f"Bearer {hub.token}"}
    until(lambda: hub.activity.recent(Filter(run=asked["run"], tool="run_script")).records, "the record")

    shown: Any = hub.client.get(f"/activity/runs/{asked['run']}.json", headers=headers).json
    assert shown["state"] == "suspended"
    assert [(one["name"], one["line"]) for one in shown["running"]] == [("issues.close", asked_line())]
    decide(hub, asked["question"], "refuse")
    ended(hub, asked["run"])
    shown = hub.client.get(f"/activity/runs/{asked['run']}.json", headers=headers).json
    assert shown["state"] == "done" and shown["running"] == []


def asked_line() -> int:
    """The line of CODE that calls the tool which needs an approval."""
    return next(number for number, line in enumerate(CODE.split("\n"), 1) if "issues.close(" in line)


def test_a_call_that_begins_while_the_script_ends_is_cancelled(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The flag of another call is made on its own thread, at the moment at which the first flag is set."""
    begun: list[ScriptRun] = []
    late: list[CancelFlag] = []
    whole = ScriptRun.events

    class Flag(CancelFlag):
        def set(self, reason: str = "cancelled", is_by_caller: bool = False) -> None:
            if begun and not late:
                late.append(self)
                late[0] = begun[0]._new_flag()
            super().set(reason, is_by_caller)

    def events(run: ScriptRun) -> Events:
        begun.append(run)
        return whole(run)

    monkeypatch.setattr(ScriptRun, "events", events)
    monkeypatch.setattr(script_run, "CancelFlag", Flag)
    assert value(script(hub, "issues", "1 + 1")) == 2
    assert late[0].reason == "the script ended"

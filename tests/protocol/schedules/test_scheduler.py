"""Scheduled calls in a whole hub: their principal, their records, and what they may reach."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams, ReadOnly, StaleUpdate
from patchbay.protocol.schedules.records import Run
from patchbay.protocol.schedules.scheduler import Scheduler
from patchbay.protocol.schedules.schedules import Key, Schedule, list_schedules
from tests.hubs import Hub
from tests.waiting import until

DESK = '''
import time


def greet(context, name: str) -> str:
    """Greet somebody."""
    return f"hello {name}"


def ask(context) -> str:
    """Call a tool of another server."""
    return context.call("vault", "open")["content"][0]["text"]


def wait(context) -> str:
    """Wait for a resource."""
    while not context.state.get("may-end"):
        context.progress(1, 2)
        time.sleep(0.05)
    return "ended"


def release(context) -> str:
    """End `wait`."""
    context.state["may-end"] = True
    return "released"


def fail() -> str:
    """Fail."""
    raise ValueError("no paper")
'''
VAULT = 'def open() -> str:\n    """Open it."""\n    return "gold"\n'
RARELY = "0 0 29 2 *"
CONFIG: dict[str, Any] = {
    "auto_discover": True,
    "tools": {
        "greet": {"schedule": "* * * * * *", "arguments": {"name": "Ada"}},
        "ask": {"schedule": RARELY},
        "wait": {"schedule": RARELY},
        "fail": {"schedule": RARELY},
    },
}


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    one = Hub(tmp_path, {"desk.py": DESK, "desk.mcp.json": json.dumps(CONFIG), "vault.py": VAULT})
    yield one
    one.close()


def scheduler(hub: Hub) -> Scheduler:
    found = hub.app.parts.dispatcher.services.scheduler
    assert isinstance(found, Scheduler)
    return found


def run_to_end(hub: Hub, tool: str) -> Run:
    begun = scheduler(hub).run_now("desk", tool, "operator")
    done: Run = until(lambda: next((one for one in runs(hub, tool) if one.due == begun.due and one.ended), None), tool)
    return done


def runs(hub: Hub, tool: str) -> tuple[Run, ...]:
    state = scheduler(hub).records.find("desk", tool)
    return state.runs if state is not None else ()


def test_a_tool_runs_at_its_times_with_its_arguments_and_a_record_under_its_own_principal(hub: Hub) -> None:
    """36.1"""
    until(lambda: [one.outcome for one in runs(hub, "greet")].count("ok") >= 2, "two runs")
    first, second = [one for one in runs(hub, "greet") if one.outcome == "ok"][-2:][::-1]
    assert second.due > first.due and first.due == int(first.due) and first.message == "hello Ada"
    hub.as_operator()
    records = hub.client.get("/activity.json").get_json()["records"]
    found = [one for one in records if one["name"] == "greet"]
    assert {(one["way"], one["principal"], one["outcome"]) for one in found} == {
        ("schedule", "schedule:desk.greet", "ok")
    }


def test_a_run_by_hand_gives_its_result_and_who_asked_for_it(hub: Hub) -> None:
    done = run_to_end(hub, "ask")
    assert (done.outcome, done.message, done.by) == ("ok", "gold", "operator")


def test_a_failed_run_says_what_the_tool_said(hub: Hub) -> None:
    done = run_to_end(hub, "fail")
    assert (done.outcome, done.message) == ("tool_error", "ValueError: no paper")


def test_a_run_does_not_begin_by_hand_while_another_one_runs(hub: Hub) -> None:
    begun = scheduler(hub).run_now("desk", "wait", "operator")
    with pytest.raises(StaleUpdate, match=f"runs now, on {begun.node}"):
        scheduler(hub).run_now("desk", "wait", "operator")
    hub.call("desk", "release")
    until(lambda: runs(hub, "wait")[0].outcome == "ok", "the end")


def test_a_tool_without_a_schedule_has_no_run_by_hand(hub: Hub) -> None:
    with pytest.raises(InvalidParams, match=r"desk\.release has no schedule"):
        scheduler(hub).run_now("desk", "release", "operator")


def allow(hub: Hub, *grants: dict[str, Any]) -> None:
    """Make these the only grants."""
    before = hub.catalogue.grants
    answer = hub.client.put("/variables/access", data=json.dumps({"grants": grants}))
    assert answer.status_code in (200, 201), answer.text
    until(lambda: hub.catalogue.grants is not before, "the grants")


def test_grants_decide_what_a_scheduled_call_reaches(tmp_path: Path) -> None:
    """36.1: its principal has no other rights than those that the variable `access` names."""
    files = {"desk.py": DESK, "desk.mcp.json": json.dumps(CONFIG), "vault.py": VAULT}
    hub = Hub(tmp_path, files).as_operator()
    try:
        assert run_to_end(hub, "ask").outcome == "ok", "without grants, there is no limit"
        allow(hub, {"to": ["key:robot"], "may": ["call"], "on": ["vault"]})
        assert run_to_end(hub, "ask").outcome == "tool_error"
        allow(hub, {"to": ["schedule:desk.ask"], "may": ["call"], "on": ["vault"]})
        assert run_to_end(hub, "ask").outcome == "ok"
    finally:
        hub.close()


def test_a_change_of_the_schedule_counts_without_a_restart(hub: Hub) -> None:
    until(lambda: runs(hub, "greet"), "a run")
    changed = {"auto_discover": True, "tools": {"fail": {"schedule": "* * * * * *"}}}
    (hub.servers / "desk.mcp.json").write_text(json.dumps(changed))
    until(lambda: runs(hub, "fail"), "a run of the other tool")
    assert [one.tool.name for one in scheduler(hub).all()] == ["fail"]


@pytest.mark.parametrize(
    ("entry", "place", "reason"),
    [
        ({"schedule": "0 77 * * *"}, "tools.greet.schedule", "bad hour"),
        ({"schedule": "@daily", "timezone": "Mars/Base"}, "tools.greet.schedule", "Europe/Berlin"),
        ({"schedule": "@daily", "arguments": {"nam": 1}}, "tools.greet.arguments", "name"),
        ({"schedule": "@daily", "max_delay": 0}, "tools.greet.max_delay", "1"),
        ({"arguments": {"name": "Ada"}}, "tools.greet.arguments.name", "object"),
        ({"max_delay": 60}, "tools.greet", "schedule"),
    ],
)
def test_a_wrong_schedule_is_a_problem_with_its_place(
    tmp_path: Path, entry: dict[str, Any], place: str, reason: str
) -> None:
    hub = Hub(tmp_path, {"desk.py": DESK, "desk.mcp.json": json.dumps({"tools": {"greet": entry}})})
    try:
        server = hub.catalogue.find_any("desk")
        found = [server.broken or "", *(one.reason for one in server.problems)]
        assert any(place in one and reason in one for one in found), found
        assert scheduler(hub).all() == ()
    finally:
        hub.close()


def test_a_read_only_hub_runs_no_schedules(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub.catalogue, "readonly", True)
    with pytest.raises(ReadOnly):
        scheduler(hub).run_now("desk", "ask", "operator")


def test_a_run_that_the_end_of_the_hub_cancels_is_left_to_the_next_start(hub: Hub) -> None:
    """36.1"""
    scheduler(hub).run_now("desk", "wait", "operator")
    until(lambda: any(one.name == "wait" for one in hub.activity.running), "the call runs")
    scheduler(hub).close()
    until(lambda: runs(hub, "wait")[0].alive_until <= scheduler(hub).now(), "the run to be left")
    assert [one.ended for one in runs(hub, "wait")] == [None]


def test_the_pages_read_the_tools_once_for_each_state_of_the_catalogue(hub: Hub) -> None:
    """Issue 53: every page counts the schedules whose last run failed."""
    one = scheduler(hub)
    assert {each.key for each in one.all()} == {("desk", tool) for tool in CONFIG["tools"]}
    assert one.all() is one.all()
    servers = hub.catalogue.settings.servers
    (servers / "vault.py").write_text(VAULT + "\n")
    fields = {"auto_discover": True, "tools": {"open": {"schedule": RARELY}}}
    (servers / "vault.mcp.json").write_text(json.dumps(fields))
    until(lambda: ("vault", "open") in {each.key for each in one.all()}, "the schedule of vault")


def test_a_changed_server_has_its_schedules_read_again_and_the_others_keep_theirs(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """51.7"""
    one = scheduler(hub)
    until(lambda: one._schedules.keys() == {("desk", tool) for tool in CONFIG["tools"]}, "the schedules of desk")
    listed: list[set[str]] = []

    def list_some(served: Mapping[str, Server]) -> dict[Key, Schedule]:
        listed.append({*served})
        return list_schedules(served)

    monkeypatch.setattr(f"{Scheduler.__module__}.list_schedules", list_some)
    kept = one._schedules["desk", "greet"]
    servers = hub.catalogue.settings.servers
    (servers / "vault.py").write_text(VAULT + "\n")
    (servers / "vault.mcp.json").write_text(
        json.dumps({"auto_discover": True, "tools": {"open": {"schedule": RARELY}}})
    )
    until(lambda: ("vault", "open") in one._schedules, "the schedule of vault")
    assert {*map(frozenset, listed)} == {frozenset({"vault"})}
    assert one._schedules["desk", "greet"] is kept
    (servers / "vault.mcp.json").unlink()
    until(lambda: ("vault", "open") not in one._schedules, "the end of the schedule of vault")
    assert one._schedules["desk", "greet"] is kept

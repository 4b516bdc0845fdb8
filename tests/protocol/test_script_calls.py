"""A call of a script is a call: the rights, quotas, approvals, records and the end of its caller hold for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.access.audit.chain import read_lines
from patchbay.activity.records import Filter, Record
from patchbay.cid import cid_of
from tests.access.team import new_key, set_grants, team_hub
from tests.hubs import Hub, modern_request
from tests.scripting.hubs import SCRIPTED, failure, script, value
from tests.waiting import BOUND, until

SAFE = {
    "safe.py": 'def open_safe(number: int = 1) -> str:\n    """Open the safe."""\n    return f"opened {number}"\n',
    "safe.mcp.json": '{"auto_discover": true, "isolation": "inline", "tools": {"open_safe": {"approve": true}},'
    ' "listing": {"scripts": "also"}}',
}
LATCH = '''"""Waits for its test."""

from pathlib import Path


def hold(folder: str) -> str:
    """Wait until there is a file."""
    import time

    (Path(folder) / "begun").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return "held"


def step(context, folder: str) -> str:
    """Wait until the call is cancelled."""
    import time

    (Path(folder) / "begun").touch()
    while True:
        time.sleep(0.01)
        context.progress(time.monotonic())
'''
CLOSE = "import git\nawait git.close(number=1)"


def on(*patterns: str, **more: Any) -> dict[str, Any]:
    return {"to": ["key:ann"], "may": ["call"], "on": list(patterns)} | more


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {**SCRIPTED, **SAFE, "latch.py": LATCH, "latch.mcp.json": SCRIPTED["git.mcp.json"]}
    found = team_hub(tmp_path_factory.mktemp("calls"), files)
    found.catalogue.hub.gate.wait_seconds = 0.0
    yield found
    found.close()


@pytest.fixture(scope="module")
def ann(hub: Hub) -> dict[str, str]:
    return new_key(hub, "ann")


def test_a_script_sees_and_calls_what_its_caller_may(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("git.close")]})
    assert value(script(hub, "git", CLOSE, headers=ann)) == "closed 1"
    assert "has no member `log`" in failure(script(hub, "git", "import git\nawait git.log()", headers=ann))
    listed = hub.modern("git", "tools/call", {"name": "find_tools", "arguments": {"query": ""}}, headers=ann).text
    assert "close" in listed and "log" not in listed


def test_a_toolset_gives_its_scripts_what_it_lists_without_a_right_on_the_origin(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("release")]})
    assert value(script(hub, "release", "import release\nawait release.shut(issue=1)", headers=ann)) == "closed 1"
    assert "result" not in script(hub, "git", CLOSE, headers=ann).last or failure(
        script(hub, "git", CLOSE, headers=ann)
    )


def test_a_denial_during_a_run_holds_for_its_next_call(hub: Hub, ann: dict[str, str], tmp_path: Path) -> None:
    set_grants(hub, {"grants": [on("latch", "git")]})
    answers: list[Any] = []
    code = "import latch\nawait latch.hold(folder=folder)\nawait latch.hold(folder=folder)"
    thread = threading.Thread(
        target=lambda: answers.append(script(hub, "latch", code, {"folder": str(tmp_path)}, headers=ann))
    )
    thread.start()
    until((tmp_path / "begun").exists, "the first call")
    set_grants(hub, {"grants": [on("latch")], "denials": [{"to": ["key:ann"], "on": ["latch"]}]})
    (tmp_path / "go").touch()
    thread.join(BOUND)
    said = failure(answers[0])
    assert said.startswith("line 3: RuntimeError: latch.hold: ") and "there is no server 'latch'" in said


def test_each_call_of_a_script_counts_for_the_quota_of_its_caller(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("git")], "quotas": [{"to": ["key:ann"], "calls_per_minute": 4}]})
    said = failure(script(hub, "git", "import git\nfor one in range(9):\n    await git.close(number=one)", headers=ann))
    assert "line 3: RuntimeError: git.close: " in said and "4 calls in a minute" in said
    assert said.count("git.close (line 3)") == 3


def test_a_quota_of_calls_in_flight_counts_a_script_once(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("git")], "quotas": [{"to": ["key:ann"], "calls_in_flight": 1}]})
    assert value(script(hub, "git", CLOSE, headers=ann)) == "closed 1"


def test_a_call_that_needs_an_approval_suspends_its_script_and_runs_once_with_it(hub: Hub) -> None:
    operator = {"Authorization": f"Bearer {hub.token}", "Accept": "application/json"}
    headers = {"Authorization": f"Bearer {hub.token}"}
    set_grants(hub, {"grants": [on("safe")]})
    code = "import safe\nawait safe.open_safe(number=3)"
    assert "1 call of it needs an approval" in failure(script(hub, "safe", code, headers=headers))
    found: Any = hub.client.get("/approvals", headers=operator).json
    waiting = [one for one in found["approvals"] if one["waits"]]
    assert [(one["server"], one["tool"], one["arguments"]) for one in waiting] == [
        ("safe", "open_safe", '{"number":3}')
    ]
    hub.client.post("/approvals", data={"id": waiting[0]["id"], "do": "approve"}, headers=operator)
    assert value(script(hub, "safe", code, headers=headers)) == "opened 3"
    assert "needs an approval" in failure(script(hub, "safe", code, headers=headers))


def recorded(hub: Hub, run: str) -> list[Record]:
    return [one for one in hub.activity.recent(Filter(), 1000).records if one.run == run]


def test_the_script_and_its_calls_have_records_with_the_id_of_the_run(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("git")]})
    answer = script(hub, "git", "import git\nawait git.close(number=5)\nawait git.log(count=1)", headers=ann)
    run = answer.result["structuredContent"]["run"]
    found = until(lambda: len(recorded(hub, run)) == 3 and recorded(hub, run), "the records of the run")
    assert {(one.name, one.way, one.principal) for one in found} == {
        ("run_script", "http", "key:ann"),
        ("close", "script", "key:ann"),
        ("log", "script", "key:ann"),
    }
    assert next(one for one in found if one.name == "close").arguments_cid == cid_of(b'{"number":5}')
    page = hub.client.get(
        f"/activity/{found[0].id}", headers={"Authorization": f"Bearer {hub.token}", "Accept": "text/html"}
    )
    assert run in page.text


def test_each_call_of_a_script_has_its_audit_row(hub: Hub, ann: dict[str, str]) -> None:
    set_grants(hub, {"grants": [on("git")]})
    value(script(hub, "git", "import git\nawait git.close(number=77)", headers=ann))

    def row() -> Any:
        return [one for one in read_lines(hub.catalogue.store.journal) if b'"close"' in one and b'"key:ann"' in one]

    assert until(row, "the row of the call")


def test_the_end_of_the_caller_ends_the_calls_of_its_script(hub: Hub, tmp_path: Path) -> None:
    arguments = {"code": "import latch\nawait latch.step(folder=folder)", "inputs": {"folder": str(tmp_path)}}
    message, headers = modern_request("tools/call", {"name": "run_script", "arguments": arguments})
    stream = hub.stream("latch", message, {**headers, "Authorization": f"Bearer {hub.token}"})
    until((tmp_path / "begun").exists, "the call")
    stream.close()
    ended = until(lambda: hub.activity.recent(Filter(server="latch", tool="step")).records, "the record")
    assert ended[0].outcome in ("cancelled", "tool_error")
    until(lambda: not hub.activity.running, "the end of all calls")

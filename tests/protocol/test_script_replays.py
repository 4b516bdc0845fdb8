"""A run of a script is repeated against its records: no call is made, and each difference is a sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from patchbay.activity.records import Filter, Record
from patchbay.activity.script_runs import RunRecords, find_run
from patchbay.errors import InvalidParams
from patchbay.protocol.script_replays import ReplayedRun, repeat, replay_run
from patchbay.scripting.replay import Replay
from tests.hubs import Hub
from tests.scripting.closing import close_issues, closing_hub, decide, ended, waiting
from tests.scripting.closing import words as closed
from tests.scripting.hubs import SCRIPTED, script

CODE = """import asyncio
import git

found = await asyncio.gather(*[git.log(count=number) for number in (1, 2, 3)])
await git.close(number=len(found))
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    found = Hub(tmp_path_factory.mktemp("replays"), SCRIPTED, activity_contents="keep")
    yield found
    found.close()


def recorded(hub: Hub, code: str = CODE, **inputs: Any) -> RunRecords:
    """The records of a run of this script, which is made."""
    script(hub, "git", code, inputs or None)
    (record,) = hub.activity.recent(Filter(tool="run_script"), 1).records
    run = find_run(hub.activity, record.run)
    assert run is not None
    return run


def repeated(hub: Hub, run: RunRecords) -> ReplayedRun:
    return repeat(hub.app.parts.dispatcher.services, run)


def with_code(run: RunRecords, code: str) -> RunRecords:
    """The run as if its script had been another one."""
    assert run.script is not None
    return run._replace(script=replace(run.script, arguments={**run.script.arguments, "code": code}))


def with_call(run: RunRecords, place: int, **changes: Any) -> RunRecords:
    """The run with one record of a call changed."""
    calls: list[Record] = list(run.calls)
    calls[place] = replace(calls[place], **changes)
    return run._replace(calls=calls)


def test_an_unchanged_run_has_no_difference_and_makes_no_call(hub: Hub) -> None:
    run = recorded(hub)
    before = len(hub.activity.recent(Filter(server="git"), 1000).records)
    assert repeated(hub, run).differences == ()
    assert len(hub.activity.recent(Filter(server="git"), 1000).records) == before


def test_a_run_with_a_refused_call_has_no_difference(tmp_path: Path) -> None:
    found = closing_hub(tmp_path, activity_contents="keep")
    try:
        close_issues(found, tmp_path, count=3)
        asked = waiting(found)[0]
        decide(found, asked["question"], "ticked", call_1="on", call_2="on")
        assert sum(one.get("refused", False) for one in ended(found, asked["run"]).calls) == 1
        replayed = replay_run(found.app.parts.dispatcher.services, asked["run"])
        assert (replayed.differences, replayed.is_partial) == ((), False)
        assert closed(tmp_path) == ["1", "2"]
    finally:
        found.close()


def test_a_run_with_inputs_and_one_that_fails_are_repeated(hub: Hub) -> None:
    assert repeated(hub, recorded(hub, "import git\nawait git.close(number=issue)", issue=7)).differences == ()
    assert repeated(hub, recorded(hub, "import git\nawait git.close(number=13)")).differences == ()
    handled = "import git\ntry:\n    await git.close(number=13)\nexcept RuntimeError as problem:\n    str(problem)\n1"
    assert repeated(hub, recorded(hub, handled)).differences == ()


@pytest.mark.parametrize(
    ("code", "differences"),
    [
        (CODE.replace("len(found)", "9"), ["other arguments: git.close in line 5 with number=9, recorded number=3"]),
        (f"{CODE}await git.note(what=1)\n", ["one more call: git.note in line 6 with what=1"]),
        ("1 + 1", ["one call less: git.log in line 4", "one call less: git.close", "another value: 2, recorded"]),
        (f"{CODE}'new'\n", ["another value: 'new', recorded 'closed 3'"]),
        (f"{CODE}1 / 0\n", ["another end: it failed now: line 6: ZeroDivisionError"]),
    ],
)
def test_each_difference_is_told(hub: Hub, code: str, differences: list[str]) -> None:
    found = repeated(hub, with_code(recorded(hub), code)).differences
    for words in differences:
        assert any(one.startswith(words) for one in found), found


def test_what_the_records_did_not_keep_is_told(hub: Hub) -> None:
    run = recorded(hub)
    lost = repeated(hub, with_call(run, 3, answer=None))
    assert lost.is_partial and lost.differences == ("not kept: the record has no result of git.close in line 5",)
    assert repeated(hub, with_call(run, 3, arguments=None)).differences == ()
    assert run.script is not None
    value = repeated(hub, run._replace(script=replace(run.script, answer=None)))
    assert value.differences == ("not kept: the record has no value of the script",)
    with pytest.raises(InvalidParams, match="has no script or no inputs"):
        repeated(hub, run._replace(script=replace(run.script, arguments=None)))
    with pytest.raises(InvalidParams, match="has not ended"):
        repeated(hub, run._replace(script=None))
    with pytest.raises(InvalidParams, match="there is no run 0123456789abcdef"):
        replay_run(hub.app.parts.dispatcher.services, "0123456789abcdef")


def test_a_repeated_run_takes_the_share_of_the_interpreters_that_its_caller_has(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = recorded(hub, "1 + 1")
    assert run.script is not None
    callers: list[str] = []

    def note(runs: Any, server: Any, call: Any, recorded: Any) -> Replay:
        callers.append(call.principal)
        return Replay(2, "", (), False)

    monkeypatch.setattr("patchbay.scripting.replay.replay_run", note)
    repeated(hub, run._replace(script=replace(run.script, principal="key:ann")))
    assert callers == ["key:ann"]

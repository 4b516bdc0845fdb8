"""`patchbay approvals`: the calls that wait at a running hub, and decisions about them (issue 47 item 16)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay import exit_codes
from patchbay.access.approvals import Approvals, AskedCall, CallDigest
from patchbay.cid import cid_of
from patchbay.stores import open_store
from tests.cli.servers.commands import run_command
from tests.serving.running import Hub, running

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("approving")


@pytest.fixture(scope="module")
def hub(folder: Path) -> Iterator[Hub]:
    with running(folder) as started:
        yield started


def ask(folder: Path, **arguments: Any) -> str:
    """Store a call that waits, as another process of the hub does; its id."""
    text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
    store = open_store("sqlite", folder / "data")
    try:
        call = CallDigest("key:robot", "safe", "v", "open_safe", "d", cid_of(text))
        return Approvals(store).request(call, text).id
    finally:
        store.close()


def test_a_waiting_call_is_listed_and_approved_or_refused(hub: Hub, folder: Path) -> None:
    assert run_command(folder, "approvals", "list").out == "No call waits for an approval.\n"
    first, second = ask(folder, code="1"), ask(folder, code="2")
    listed = [json.loads(line) for line in run_command(folder, "approvals", "list", "--json").out.splitlines()]
    assert {one["id"]: one["arguments"] for one in listed} == {first: '{"code":"1"}', second: '{"code":"2"}'}
    table = run_command(folder, "approvals", "list").out
    assert table.splitlines()[0].split() == ["ID", "ASKED", "BY", "TOOL", "ARGUMENTS", "ASKED", "STATE"]
    assert "key:robot" in table and "safe.open_safe" in table and '{"code":"1"}' in table
    yes = run_command(folder, "approvals", "approve", first)
    assert (yes.code, yes.out) == (0, "The call of safe.open_safe by key:robot is approved.\n")
    assert run_command(folder, "approvals", "refuse", second).out.endswith("is refused.\n")
    assert run_command(folder, "approvals", "list").out == "No call waits for an approval.\n"
    states = run_command(folder, "approvals", "list", "--all").out
    assert "approved, not run yet" in states and "refused" in states


def test_the_calls_of_a_rehearsal_are_listed_as_such_and_approved_together(hub: Hub, folder: Path) -> None:
    """55.4"""
    call = CallDigest("key:robot", "safe", "v", "open_safe", "d", cid_of(b"{}"))
    store = open_store("sqlite", folder / "data")
    try:
        asked = Approvals(store).ask_rehearsed("0" * 16, "script", [AskedCall(call, b"{}")] * 2)
    finally:
        store.close()
    assert run_command(folder, "approvals", "list").out.count("waits, from a rehearsal") == 2
    said = run_command(folder, "approvals", "approve", asked[0].question).out
    assert said == f"The calls of the rehearsal {'0' * 16} are approved: 2 approved, not run yet.\n"


def test_a_decision_about_an_unknown_call_is_refused(hub: Hub, folder: Path) -> None:
    ended = run_command(folder, "approvals", "approve", "absent")
    assert ended.code == exit_codes.USAGE, ended
    assert "'absent' is unknown" in ended.err and ended.out == ""


def test_without_a_running_hub_the_command_says_what_to_start(tmp_path: Path) -> None:
    ended = run_command(tmp_path, "approvals", "list")
    assert ended.code == exit_codes.UNREACHABLE
    assert "`patchbay serve`" in ended.err

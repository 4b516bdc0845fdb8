"""Busy, silent and slow servers stay mounted, with the process that they have. Issue 32, items 1 to 3."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection import negotiation
from patchbay.client.sources import mcp
from patchbay.client.sources.mcp import McpSource
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.lists.unread_lists import UnreadLists
from patchbay.upstreams.liveness import Patience
from tests.client.peers import open_context
from tests.hubs import Hub
from tests.waiting import BOUND, until

ODD = Path(__file__).with_name("odd_server.py")
EVERYTHING: dict[str, Any] = {"tools": {}, "resources": {}, "prompts": {}}
BRIEF = Patience(probe=0.05, answer=1.0, confirmation=1.0)
"""An idle server is dead after two seconds of silence."""

LONG_WORK_SECONDS = 2.5


class Odd:
    """An odd server mounted as `odd`. `options` are those of `odd_server.py`."""

    def __init__(self, hub: Hub, folder: Path, era: str, options: dict[str, Any]) -> None:
        self.hub = hub
        self.log = folder / "log"
        self.options = {"log": str(self.log), **options}
        self.command = (sys.executable, "-S", str(ODD), json.dumps(self.options))
        fields: dict[str, Any] = {"kind": "upstream", "era": era, "writes": [str(folder)]}
        fields["address"] = f"mcp+stdio:{shlex.join(self.command)}"
        (hub.servers / "odd.json").write_text(json.dumps(fields), "utf-8")

    @property
    def server(self) -> Any:
        return next((server for server in self.hub.catalogue.all() if server.name == "odd"), None)

    @property
    def standing(self) -> Any:
        return until(lambda: self.server is not None and self.server.upstream, "the mount")

    @property
    def problems(self) -> dict[str, str]:
        return {problem.where: problem.reason for problem in self.server.problems}

    def wait_until_up(self) -> None:
        until(lambda: self.standing.health.state == "up" and self.server.tools, "its tools")

    def count(self, what: str) -> int:
        """How often it was started, or received a method."""
        return self.log.read_text("utf-8").splitlines().count(what) if self.log.exists() else 0

    def work(self, seconds: float) -> str:
        return self.hub.call("odd", "work", {"seconds": seconds}).text


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Odd]]:
    """Mounts an odd server."""
    hub = Hub(tmp_path / "hub")

    def mount(era: str = "legacy", **options: Any) -> Odd:
        return Odd(hub, tmp_path, era, {"capabilities": {"tools": {}}, **options})

    yield mount
    hub.close()


@pytest.mark.process
def test_a_server_that_works_on_a_call_is_not_taken_for_dead(
    mounted: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its silence during a call proves nothing: both calls end, one after the other, in the first process."""
    monkeypatch.setattr(StandingConnection, "patience", BRIEF)
    odd = mounted()
    odd.wait_until_up()
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(odd.work, [LONG_WORK_SECONDS] * 2)) == ["worked"] * 2
    assert odd.count("start") == 1


@pytest.mark.process
def test_a_server_that_still_works_on_a_call_whose_caller_left_is_not_ended(
    mounted: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not hear of the cancellation before its work is done."""
    monkeypatch.setattr(StandingConnection, "patience", BRIEF)
    odd = mounted()
    odd.wait_until_up()
    connection = odd.standing.connection
    running = connection.request(
        "tools/call", {"name": "work", "arguments": {"seconds": LONG_WORK_SECONDS}}, pauses=iter([0.01] * 9999)
    )
    until(lambda: next(running) is not None and odd.count("tools/call"), "the call to begin")
    running.close()
    until(lambda: odd.count("notifications/cancelled") or odd.count("start") > 1, "it to hear of the cancellation")
    assert odd.work(0) == "worked"
    assert odd.count("start") == 1


@pytest.mark.process
def test_an_idle_server_that_answers_nothing_is_started_again(
    mounted: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The first probe without an answer is confirmed by a second one of another kind."""
    monkeypatch.setattr(StandingConnection, "patience", BRIEF)
    stuck = tmp_path / "stuck"
    odd = mounted(stuck=str(stuck))
    odd.wait_until_up()
    before = odd.count("tools/list")
    stuck.touch()
    until(lambda: odd.standing.health.state == "down" or odd.count("start") > 1, "it to be found dead")
    assert odd.count("tools/list") > before
    stuck.unlink()
    odd.wait_until_up()


@pytest.mark.process
def test_a_server_that_never_answers_ping_keeps_its_process_and_is_asked_for_its_tools_instead(
    mounted: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StandingConnection, "patience", Patience(probe=0.05, answer=1.0, confirmation=BOUND))
    odd = mounted(mute=["ping"])
    odd.wait_until_up()
    until(lambda: odd.count("tools/list") >= 5, "probes with the list of tools")
    assert (odd.count("ping"), odd.count("start")) == (1, 1)
    words = "it does not answer ping, so the hub sends tools/list to check it"
    assert words in odd.standing.health.sentence
    page = odd.hub.client.get("/servers/odd", headers={"Host": "localhost", "Accept": "text/html"})
    assert words in page.text
    assert odd.work(0) == "worked"
    # The memory is that of the mount: a new process is not pinged again.
    odd.hub.call("odd", "crash")
    until(lambda: odd.count("start") == 2 and odd.count("tools/list") >= 10, "probes of the next process")
    assert odd.count("ping") == 1


@pytest.mark.process
def test_only_declared_lists_are_read(mounted: Callable[..., Odd]) -> None:
    odd = mounted(mute=["resources/list", "resources/templates/list", "prompts/list"])
    odd.wait_until_up()
    assert not any(odd.count(method) for method in ("resources/list", "resources/templates/list", "prompts/list"))
    assert odd.problems == {}


@pytest.mark.process
def test_a_server_that_declares_nothing_is_asked_for_its_tools(tmp_path: Path) -> None:
    """`capabilities` are required, and some servers leave them out."""
    hub = Hub(tmp_path / "hub")
    try:
        odd = Odd(hub, tmp_path, "legacy", {})
        odd.wait_until_up()
        assert odd.work(0) == "worked"
        assert not any(odd.count(method) for method in ("resources/list", "prompts/list", "logging/setLevel"))
    finally:
        hub.close()


@pytest.mark.process
def test_a_list_without_an_answer_is_a_problem_of_the_server_and_is_read_later(
    mounted: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    patience = Patience(list=1.0, next_list=0.5, retried_list=1.0, first_retry=0.1, last_retry=0.5)
    monkeypatch.setattr(StandingConnection, "patience", patience)
    speaks = tmp_path / "speaks"
    silent = ["resources/list", "resources/templates/list", "prompts/list"]
    odd = mounted(capabilities=EVERYTHING, mute=silent, speaks=str(speaks))
    odd.wait_until_up()
    until(lambda: set(odd.problems) == set(silent), lambda: f"the problems, not {odd.problems}")
    assert "no answer within" in odd.problems["prompts/list"] and "asks again later" in odd.problems["prompts/list"]
    assert odd.work(0) == "worked"
    speaks.touch()
    until(lambda: not odd.problems and "x://a" in odd.server.resources, "the lists to be read")
    assert odd.count("start") == 1


@pytest.mark.process
def test_a_server_that_ignores_the_newest_revision_or_starts_slowly_is_reached_in_its_first_process(
    mounted: Callable[..., Odd], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The probe for the newest revision has a bound; then `initialize` is sent to the same process, which may start."""
    monkeypatch.setattr(negotiation, "DISCOVER_SECONDS", 0.2)
    starts = tmp_path / "starts"
    odd = mounted("auto", mute=["server/discover"], starts=str(starts))
    until(lambda: odd.count("start"), "the process")
    assert odd.standing.health.state == "connecting"
    starts.touch()
    odd.wait_until_up()
    assert (odd.count("start"), odd.count("server/discover"), odd.count("initialize")) == (1, 1, 1)


@pytest.mark.process
def test_inspect_shows_what_a_server_answers_and_names_the_list_without_an_answer(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(negotiation, "DISCOVER_SECONDS", 0.2)
    monkeypatch.setattr(mcp, "INSPECTED_LIST_SECONDS", 0.5)
    declared: dict[str, Any] = {"tools": {}, "prompts": {}}
    options = {"log": str(tmp_path / "log"), "capabilities": declared, "mute": ["server/discover", "prompts/list"]}
    target = Stdio(sys.executable, ("-S", str(ODD), json.dumps(options)))
    with open_context(tmp_path) as context:
        found = McpSource().inspects(f"mcp+stdio:{shlex.join([target.command, *target.args])}", context)
    assert [tool["name"] for tool in found["tools"]] == ["work", "crash"]
    assert found["problems"] == {"prompts": "not read: no answer within 0.5 s"}
    assert "resources/list" not in (tmp_path / "log").read_text("utf-8")


def test_lists_without_an_answer_are_asked_for_less_and_less_often() -> None:
    now = 0.0
    unread = UnreadLists(Patience(first_retry=10, last_retry=60), lambda: now)
    pauses = []
    for _ in range(6):
        unread.note_silence("prompts/list")
        unread.note_silence("resources/list")
        pauses.append(unread.seconds_left())
        now += pauses[-1]
        due = {"notifications/prompts/list_changed", "notifications/resources/list_changed"}
        assert unread.get_due() == due and not unread.get_due()
    assert pauses == [10, 20, 40, 60, 60, 60]
    unread.note_answer("prompts/list")
    unread.note_answer("resources/list")
    assert unread.seconds_left() == float("inf")

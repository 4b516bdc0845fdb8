"""The state that a mounted server keeps belongs to the client's session. Issue 32, item 6."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.events import Log, Question
from patchbay.upstreams.connections.description import describe_sessions
from tests.client.reaching import text
from tests.hubs import MODERN, Hub
from tests.interaction.programs import Hub as RunningHub
from tests.interaction.programs import running_hub
from tests.scripting.closing import ended
from tests.scripting.hubs import script
from tests.waiting import until
from tests.web.browsing import read_json

STATEFUL = Path(__file__).with_name("stateful_server.py")
COMMAND = (sys.executable, "-S", str(STATEFUL))


class Stateful:
    """The stateful server mounted as `stateful` in a hub of this process."""

    def __init__(self, hub: Hub, fields: Mapping[str, Any]) -> None:
        self.hub = hub
        config = {"kind": "upstream", "address": f"mcp+stdio:{shlex.join(COMMAND)}", **fields}
        (hub.servers / "stateful.json").write_text(json.dumps(config), "utf-8")
        until(lambda: self.server is not None and self.server.tools, "its tools")

    @property
    def server(self) -> Any:
        return next((server for server in self.hub.catalogue.all() if server.name == "stateful"), None)

    def open(self) -> str:
        """Open a session of the hub."""
        return self.hub.open("stateful")

    def count(self, session: str | None = None) -> tuple[str, int]:
        """Count in a session; return the name of the process, and its number."""
        answer = self.hub.legacy("stateful", "tools/call", {"name": "count"}, session)
        process, number = answer.text.split()
        return process, int(number)

    def end(self, session: str) -> None:
        """End a session of the hub."""
        assert self.hub.client.delete("/mcp/stateful", headers={"Mcp-Session-Id": session}).status_code == 204

    def is_running(self, process: str) -> bool:
        """Whether a process of this machine has this name."""
        for file in Path("/proc").glob("[0-9]*/comm"):
            with suppress(OSError):
                if file.read_text().strip() == process:
                    return True
        return False


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Callable[..., Stateful]]:
    """Mounts the stateful server; the arguments are fields of the mount."""
    hub = Hub(tmp_path / "hub")
    yield lambda **fields: Stateful(hub, fields)
    hub.close()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningHub]:
    """A hub in its own process with the stateful server."""
    folder = tmp_path_factory.mktemp("stateful")
    entry = folder / "stateful.json"
    entry.write_text(json.dumps({"command": sys.executable, "args": ["-S", str(STATEFUL)]}), "utf-8")
    with running_hub(folder / "hub", [entry]) as hub:
        with Connection.open(Http(hub.endpoint("stateful"))) as caller:
            until(caller.list_tools, "its tools")
        yield hub


pytestmark = pytest.mark.process


def test_all_calls_of_a_session_reach_one_process_and_no_other_session_does(mounted: Callable[..., Stateful]) -> None:
    server = mounted()
    one, other = server.open(), server.open()
    with ThreadPoolExecutor(4) as crowd:
        found = list(crowd.map(server.count, [one] * 4))
    assert sorted(number for _, number in found) == [1, 2, 3, 4]
    assert len({process for process, _ in found}) == 1
    assert server.count(other)[1] == 1
    assert server.count(one)[1] == 5


def test_callers_without_a_session_share_one_process(mounted: Callable[..., Stateful]) -> None:
    server = mounted()
    numbers = [server.count()[1], server.count()[1]]
    modern = server.hub.call("stateful", "count", version=MODERN).text.split()[1]
    asked = server.hub.modern("stateful", "tools/call", {"name": "count"}, {"elicitation": {}}).text.split()[1]
    assert [*numbers, int(modern), int(asked)] == [1, 2, 3, 4]
    assert server.count(server.open())[1] == 1


def test_calls_of_a_script_without_forms_share_one_process_and_the_page_answers_its_question(
    mounted: Callable[..., Stateful],
) -> None:
    """A client that shows no questions does not make the hub start a process for each of the calls at the same time."""
    server = mounted(listing={"scripts": "also"})
    hub = server.hub
    hub.catalogue.hub.gate.wait_seconds = 0.0
    code = (
        "import asyncio\nimport stateful\n"
        "counted = await asyncio.gather(*[stateful.count() for _ in range(8)])\n[await stateful.ask(), *counted]"
    )
    waits = script(hub, "stateful", code)
    assert waits.result["isError"] and "1 question of a tool has no answer yet" in waits.text
    run = waits.text.partition("(run ")[2].partition(")")[0]
    headers = {"Authorization": f"Bearer {hub.token}", "Accept": "application/json"}
    (asked,) = read_json(hub.client.get(f"/activity/runs/{run}.json", headers=headers))["asked"]
    assert (asked["name"], asked["message"]) == ("stateful.ask", "Who?")
    form = {"do": "answer", "action": "accept", "question": asked["key"], "content": '{"name": "Ann"}'}
    assert hub.client.post(f"/activity/runs/{run}", data=form, headers=headers).status_code == 200
    name, *counted = (one.split() for one in ended(hub, run).value)
    assert name[1] == "Ann" and sorted(int(number) for _, number in counted) == [*range(1, 9)]
    assert {process for process, _ in counted} == {name[0]}


def test_the_process_of_a_session_ends_with_the_session(mounted: Callable[..., Stateful]) -> None:
    server = mounted()
    session, lasting = server.open(), server.open()
    process, kept = server.count(session)[0], server.count(lasting)[0]
    server.end(session)
    until(lambda: not server.is_running(process), "the end of the process")
    assert server.count(lasting) == (kept, 2)


def test_an_idle_process_ends_after_the_time_that_the_mount_says(mounted: Callable[..., Stateful]) -> None:
    server = mounted(session_idle=1)
    session = server.open()
    process = server.count(session)[0]
    until(lambda: server.server.upstream.check_soon() or not server.is_running(process), "the end of the process")
    assert server.count(session)[1] == 1


def test_a_new_session_takes_the_place_of_the_longest_idle_one_at_the_limit(mounted: Callable[..., Stateful]) -> None:
    server = mounted(session_limit=2)
    sessions = [server.open() for _ in range(3)]
    processes = [server.count(session)[0] for session in sessions]
    until(lambda: not server.is_running(processes[0]), "the end of the first process")
    assert server.is_running(processes[1])
    assert server.is_running(processes[2])


def test_shared_sessions_have_one_process_for_everything(mounted: Callable[..., Stateful]) -> None:
    server = mounted(sessions="shared")
    sessions = [server.open(), server.open(), None]
    found = [server.count(session) for session in sessions]
    assert [number for _, number in found] == [1, 2, 3]
    assert len({process for process, _ in found}) == 1
    assert describe_sessions(server.server.upstream) == "All callers share one process"


def test_the_page_says_who_shares_a_process_and_how_many_run(mounted: Callable[..., Stateful]) -> None:
    server = mounted(session_limit=7, session_idle=90)
    server.count(server.open())
    page = server.hub.as_operator().client.get("/servers/stateful").text
    assert "Each session of a client has its own process; 2 processes are running (at most 8), and one" in page
    assert "ends after 1.5 minutes without a call" in page


def test_a_session_is_told_when_its_process_had_ended(hub: RunningHub) -> None:
    heard: list[Any] = []
    with Connection.open(Http(hub.endpoint("stateful")), era="legacy", log_level="info") as caller:
        assert text(caller.call_tool("count")).endswith(" 1")
        assert "exit code 3" in text(caller.call_tool("crash"))
        assert text(caller.call_tool("count", on_event=heard.append)).endswith(" 1")
    (told,) = [item for item in heard if isinstance(item, Log)]
    assert told.level == "warning"
    assert "without its earlier state: it was ended because" in str(told.data)
    assert "exit code 3" in str(told.data)


def test_two_questions_at_once_of_one_session_are_answered_by_its_client(hub: RunningHub) -> None:
    def answer_as(name: str) -> Callable[[str, Any], Any]:
        return lambda *_: {"action": "accept", "content": {"name": name}}

    def ask(caller: Connection) -> str:
        return text(caller.call_tool("ask")).split()[1]

    url = Http(hub.endpoint("stateful"))
    with (
        Connection.open(url, era="legacy", ask=answer_as("Ada")) as ada,
        Connection.open(url, era="legacy", ask=answer_as("Bob")) as bob,
        ThreadPoolExecutor(4) as crowd,
    ):
        assert list(crowd.map(ask, [ada, bob, ada, bob])) == ["Ada", "Bob", "Ada", "Bob"]
        processes = {text(one.call_tool("count")).split()[0] for one in (ada, bob)}
    assert len(processes) == 2


def test_a_cancelled_call_leaves_the_process_of_its_session(hub: RunningHub) -> None:
    url = Http(hub.endpoint("stateful"))
    with Connection.open(url, era="legacy", ask=lambda *_: {"action": "decline"}) as caller:
        before = text(caller.call_tool("count"))
        running = caller.request("tools/call", {"name": "ask"}, pauses=iter([0.05] * 999))
        until(lambda: isinstance(next(running), Question), "the question")
        running.close()
        after = text(caller.call_tool("count"))
    assert (before.split()[0], "2") == tuple(after.split())

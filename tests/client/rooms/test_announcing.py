"""A server on a laptop behind a closed network, shared by `patchbay room announce`, called by clients of others."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import mcp
import pytest
from click.testing import CliRunner

from patchbay.cli.commands.rooms.group import room as room_command
from patchbay.client.rooms.address import parse_room_address
from patchbay.client.rooms.connection import RoomConnection
from tests.cli.rooms.breakable_line import breakable_line
from tests.cli.rooms.laptops import Laptop, laptop
from tests.interaction.peers import MODERN, PEERS, Peer, texts
from tests.interaction.programs import Hub, free_port, running, running_hub
from tests.waiting import until, until_async

TALKER = '''"""Text in pieces."""

import time
from pathlib import Path


def talk(path: str):
    """Say a word, wait for a file, and say many words quickly."""
    yield "first "
    while not Path(path).exists():
        time.sleep(0.02)
    yield from (f"{number} " for number in range(300))
'''
TOOLS = ["laptop__count", "laptop__fail", "laptop__learn", "laptop__read_note", "laptop__wait"]
PEER_NAMES = ("python-sdk-handshake", "python-sdk-2026-07-28", "fastmcp", "typescript-sdk-handshake")


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that runs, with the room demo."""
    with running_hub(tmp_path_factory.mktemp("hub") / "run") as hub:
        done = CliRunner().invoke(room_command, ["create", f"{hub.url}/rooms/demo"])
        assert done.exit_code == 0, done.output
        assert f"{hub.url}/mcp/room.demo" in done.output
        yield hub


@pytest.fixture(scope="module")
def shared(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Laptop]:
    """The laptop whose server is announced in the room demo."""
    with laptop(tmp_path_factory.mktemp("laptop"), hub.url) as made:
        made.announce("demo", "--as", "laptop")
        yield made


@pytest.fixture(scope="module", params=PEER_NAMES)
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with ExitStack() as stack:
        yield stack.enter_context(PEERS[request.param](tmp_path_factory.mktemp("home")))


def room_of(hub: Hub) -> str:
    return f"{hub.url}/rooms/demo"


def run_room(*words: str) -> Any:
    return CliRunner().invoke(room_command, list(words))


def test_clients_of_others_list_and_call_the_tools_of_a_laptop(hub: Hub, shared: Laptop, peer: Peer) -> None:
    """ENS-7, ENS-8, ENS-9, ENS-12: two Python SDK clients, FastMCP, the TypeScript SDK."""
    endpoint = hub.endpoint("room.demo")
    until(lambda: set(TOOLS) <= set(peer.tools(endpoint)), "the tools of the laptop")
    assert peer.call(endpoint, "laptop__read_note", {"name": "plans"}) == "the note plans"
    shared.line_with("laptop.read_note worked")


def test_clients_of_others_read_the_resources_and_list_the_prompts_of_a_laptop(
    hub: Hub, shared: Laptop, peer: Peer
) -> None:
    """ENS-7, ENS-8: not tools alone: a resource keeps its URI, a prompt has the name of its server before its own."""
    endpoint = hub.endpoint("room.demo")
    until(lambda: "laptop__review" in peer.prompts(endpoint), "the prompt of the laptop")
    assert peer.read(endpoint, "note://plans") == "move, then have a party"
    shared.line_with("laptop.note://plans worked")


def test_the_laptop_listens_on_no_port(shared: Laptop) -> None:
    """ENS-7: everything goes out from the laptop; nothing has to reach it."""
    assert shared.listening_ports() == set()


def test_progress_arrives_at_the_client(hub: Hub, shared: Laptop) -> None:
    """ENS-11: progress of the laptop's server."""
    told: list[tuple[float, float | None, str | None]] = []

    async def listen(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))

    async def converse() -> Any:
        async with mcp.Client(hub.endpoint("room.demo"), mode=MODERN, read_timeout_seconds=60) as client:
            result = await client.call_tool("laptop__count", {"to": 5}, progress_callback=listen)
            # The client calls the callback in a task of its own, which may run after the result.
            await until_async(lambda: (5, 5, "at 5") in told, lambda: f"the last progress; it has {told}")
            return result

    result = asyncio.run(converse())
    assert texts(result.content) == "counted to 5"
    assert told == sorted(told)


def test_a_cancelled_call_is_cancelled_on_the_laptop(hub: Hub, shared: Laptop) -> None:
    """ENS-9, ENS-17: the tool itself notices that its caller has gone."""

    async def converse() -> None:
        async with mcp.Client(hub.endpoint("room.demo"), mode=MODERN, read_timeout_seconds=60) as client:
            call = asyncio.create_task(client.call_tool("laptop__wait", {"mark": "gone"}))
            while not (shared.folder / "gone.begun").exists():
                await asyncio.sleep(0.02)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call

    asyncio.run(converse())
    until((shared.folder / "gone.cancelled").exists, "the mark of the cancelled tool")
    shared.line_with("laptop.wait was cancelled")


def test_the_ttl_ends_a_call_on_the_laptop_too(hub: Hub, shared: Laptop) -> None:
    """ENS-17: the deadline of the call is enforced by the hub, and the laptop stops working."""
    done = run_room("call", room_of(hub), "laptop", "wait", "mark=slow", "--ttl", "1")
    assert done.exit_code == 1
    assert "timeout: the call took longer than its ttlMs" in done.output
    until((shared.folder / "slow.cancelled").exists, "the mark of the tool that took too long")


def test_a_member_calls_by_the_command_line_and_failures_have_sentences(hub: Hub, shared: Laptop) -> None:
    """ENS-9, ENS-12, ENS-19: arguments take the types of the tool's schema."""
    done = run_room("call", room_of(hub), "laptop", "count", "to=2")
    assert (done.exit_code, done.stdout) == (0, "counted to 2\n"), done.output
    assert "1 of 2 at 1" in done.stderr
    failed = run_room("call", room_of(hub), "laptop", "fail")
    assert failed.exit_code == 1
    assert "Error executing tool fail" in failed.output
    unknown = run_room("call", room_of(hub), "nowhere", "fail")
    assert unknown.exit_code == 1
    assert "nowhere" in unknown.output


def test_a_call_of_the_command_line_goes_on_after_its_connection_was_lost(hub: Hub, shared: Laptop) -> None:
    """ENS-9, ENS-12: the session stays, the tool is not cancelled and runs once, and the result comes afterwards."""
    with breakable_line(hub.url) as line, ThreadPoolExecutor(1) as pool:
        call = pool.submit(run_room, "call", f"{line.url}/rooms/demo", "laptop", "wait", "mark=line")
        until((shared.folder / "line.begun").exists, "the begin of the tool")
        line.break_all()
        (shared.folder / "line.go").touch()
        done = call.result(60)
    assert (done.exit_code, done.stdout) == (0, "waited for line\n"), done.output
    assert "trying again in" in done.stderr
    assert not (shared.folder / "line.cancelled").exists()


def test_a_result_that_is_too_large_is_a_sentence(hub: Hub, shared: Laptop) -> None:
    """ENS-19: what a room does not take is answered, and the laptop stays connected."""
    done = run_room("call", room_of(hub), "laptop", "read_note", "name=x", "size=200000")
    assert done.exit_code == 1
    assert "which rooms do not take" in done.output
    assert run_room("call", room_of(hub), "laptop", "read_note", "name=y").stdout == "the note y\n"


def test_a_tool_that_comes_later_is_announced(hub: Hub, shared: Laptop) -> None:
    """ENS-8: a changed list of the laptop's server reaches the clients of the hub."""
    assert run_room("call", room_of(hub), "laptop", "learn").exit_code == 0
    peer = PEERS["python-sdk-2026-07-28"](shared.folder)
    with peer as client:
        until(lambda: "laptop__learned" in client.tools(hub.endpoint("room.demo")), "the tool that came later")


def test_a_laptop_that_is_shut_fails_its_calls_at_once_and_comes_back(hub: Hub, shared: Laptop) -> None:
    """ENS-19: open calls end with a sentence, members are notified of list changes, and the tools work again."""
    changes: list[str] = []

    async def converse() -> None:
        async def handle(message: Any) -> None:
            changes.append(type(message).__name__)

        async with mcp.Client(
            hub.endpoint("room.demo"), mode="legacy", read_timeout_seconds=60, message_handler=handle
        ) as client:
            call = asyncio.create_task(client.call_tool("laptop__wait", {"mark": "shut"}))
            while not (shared.folder / "shut.begun").exists():
                await asyncio.sleep(0.02)
            await asyncio.to_thread(shared.kill)
            ended = await call
            assert ended.is_error
            assert "the owner of the server has left the room" in texts(ended.content)
            while (await client.list_tools()).tools:
                await asyncio.sleep(0.05)
            failed = await client.call_tool("laptop__read_note", {"name": "x"})
            assert failed.is_error
            assert "there is no tool 'laptop__read_note' on room.demo" in texts(failed.content)
            await asyncio.to_thread(shared.announce, "demo", "--as", "laptop")
            while not (await client.list_tools()).tools:
                await asyncio.sleep(0.05)
            back = await client.call_tool("laptop__read_note", {"name": "again"})
            assert texts(back.content) == "the note again"
            while changes.count("ToolListChangedNotification") < 2:
                await asyncio.sleep(0.05)

    asyncio.run(converse())


def test_the_owner_is_asked_before_each_call(hub: Hub, tmp_path: Path) -> None:
    """ENS-14: `--ask` lets the person at the laptop decide."""
    with laptop(tmp_path, hub.url) as made:
        made.announce("demo", "--as", "asked", "--ask", answers="n\ny\n")
        # The laptop says that the server is announced once the hub lists its tools.
        with PEERS["python-sdk-2026-07-28"](tmp_path) as client:
            assert "asked__read_note" in client.tools(hub.endpoint("room.demo"))
        denied = run_room("call", room_of(hub), "asked", "read_note", "name=secret")
        assert denied.exit_code == 1
        assert "denied the call" in denied.output
        assert run_room("call", room_of(hub), "asked", "read_note", "name=open").stdout == "the note open\n"
        assert made.stop() == 0


def test_several_servers_go_to_several_rooms(hub: Hub, tmp_path: Path) -> None:
    """ENS-2, ENS-7: a file of tools and a program, in two rooms, by one command."""
    (tmp_path / "tools.py").write_text(
        'def double(number: int) -> int:\n    """Double a number."""\n    return 2 * number\n'
    )
    assert run_room("create", f"{hub.url}/rooms/second").exit_code == 0
    with laptop(tmp_path, hub.url) as made:
        options = ["--server", f"program={made.server}", "--room", f"{hub.url}/rooms/second"]
        made.announce("demo", *options, address=str(tmp_path / "tools.py"))
        for room in ("demo", "second"):
            for server in ("tools", "program"):
                made.line_with(f"{server} is announced in {hub.url}/rooms/{room}")
            done = run_room("call", f"{hub.url}/rooms/{room}", "tools", "double", "number=21")
            assert done.stdout == "42\n", done.output
        assert made.stop() == 0


def test_text_of_a_laptop_arrives_while_its_tool_runs(hub: Hub, tmp_path: Path) -> None:
    """34.12: the tool goes on when its first word has arrived as a stream envelope; many quick words are not lost."""
    (tmp_path / "talker.py").write_text(TALKER)
    (tmp_path / "talker.mcp.json").write_text('{"isolation": "inline"}')
    address = parse_room_address(room_of(hub))
    with laptop(tmp_path, hub.url) as made:
        made.announce("demo", "--as", "talker", address=str(tmp_path / "talker.py"))
        member = RoomConnection.open(address, ["tool.call", "can.text.stream"], {"name": "a member"})
        call = {"callId": "talk", "serverId": "talker", "name": "talk", "args": {"path": str(tmp_path / "go")}}
        member.send_new("tool.call", call)
        heard: list[Any] = []
        while not heard or heard[-1]["type"] != "tool.result":
            found = member.receive(60)
            assert found is not None
            if found["type"] == "tool.stream":
                heard.append(found)
                (tmp_path / "go").touch()
            elif found["type"] == "tool.result" and found["payload"]["callId"] == "talk":
                heard.append(found)
        member.close()
        assert made.stop() == 0
    *frames, last = (one["payload"] for one in heard)
    assert frames[0]["data"] == "first "
    assert last["ok"] and "".join(one["data"] for one in frames) == last["result"]["content"][0]["text"]
    assert frames[-1]["eof"]


def test_two_announcers_of_one_server_run_a_call_once(hub: Hub, tmp_path: Path) -> None:
    """34.9: the older one ends with a sentence, after the calls that run on it; the newer one serves."""
    with ExitStack() as stack:
        for name in ("older", "newer"):
            (tmp_path / name).mkdir()
        older, newer = (stack.enter_context(laptop(tmp_path / name, hub.url)) for name in ("older", "newer"))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        older.announce("demo", "--as", "bank")
        running = pool.submit(run_room, "call", room_of(hub), "bank", "wait", "mark=before")
        until((older.folder / "before.begun").exists, "the begin of the call on the older one")
        newer.announce("demo", "--as", "bank")
        assert run_room("call", room_of(hub), "bank", "read_note", "name=once").stdout == "the note once\n"
        (older.folder / "before.go").touch()
        assert running.result(60).stdout == "waited for before\n"
        older.line_with(f"another session shares bank in {room_of(hub)} now; this one has stopped sharing them")
        assert older.end() == 1
        assert [len([line for line in one.lines if "calls bank.read_note" in line]) for one in (older, newer)] == [0, 1]
        assert newer.stop() == 0


def test_an_announcer_that_was_away_leaves_the_server_to_the_newer_one(hub: Hub, tmp_path: Path) -> None:
    """34.9: it comes back after a lost connection, finds a newer session, and ends."""
    with ExitStack() as stack:
        for name in ("away", "newer"):
            (tmp_path / name).mkdir()
        line = stack.enter_context(breakable_line(hub.url))
        away = stack.enter_context(laptop(tmp_path / "away", line.url))
        newer = stack.enter_context(laptop(tmp_path / "newer", hub.url))
        away.announce("demo", "--as", "bank")
        line.hold()
        line.break_all()
        away.line_with("trying again in")
        newer.announce("demo", "--as", "bank")
        line.let_pass()
        away.line_with("another session shares bank")
        assert away.end() == 1
        assert run_room("call", room_of(hub), "bank", "read_note", "name=kept").stdout == "the note kept\n"
        assert newer.stop() == 0


@contextmanager
def hub_at(port: int, folder: Path) -> Iterator[str]:
    """A hub at a port that stays the same when it starts again; gives its address."""
    command = [sys.executable, "-m", "patchbay", "serve", "--port", str(port), "--data", str(folder / "data")]
    command += ["--servers", str(folder / "servers"), "--room-idle", "1"]
    url = f"http://127.0.0.1:{port}"
    with running(command, f"{url}/readyz", folder):
        yield url


def test_an_announcer_finds_its_room_again_after_the_hub_was_away(tmp_path: Path) -> None:
    """ENS-7: it connects again by itself, and its calls work again."""
    (tmp_path / "hub" / "servers").mkdir(parents=True)
    (tmp_path / "laptop").mkdir()
    port = free_port()
    with ExitStack() as stack:
        with hub_at(port, tmp_path / "hub") as url:
            assert run_room("create", f"{url}/rooms/demo").exit_code == 0
            made = stack.enter_context(laptop(tmp_path / "laptop", url))
            made.announce("demo", "--as", "laptop")
        made.line_with("trying again in")
        made.lines.clear()
        with hub_at(port, tmp_path / "hub") as url:
            made.line_with("is announced in")
            done = run_room("call", f"{url}/rooms/demo", "laptop", "read_note", "name=back")
            assert done.stdout == "the note back\n", done.output
            assert made.stop() == 0

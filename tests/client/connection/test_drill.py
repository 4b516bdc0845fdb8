"""The drill: 2,000 connections opened and dropped in every way, over pipes, HTTP and in process; nothing is left."""

from __future__ import annotations

import os
import random
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import Http, Local
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.programs.stdio import REAPER
from patchbay.client.errors import McpFailure, ServerTimeout, Unreachable
from patchbay.messages.callers import TransportInfo
from tests import hubs
from tests.client.connection.dropping import abandoned, closed, crashed, missing, overdue, vanished
from tests.client.reaching import children, descendants, opened
from tests.interaction.programs import Hub, free_port, running_hub
from tests.waiting import until

pytestmark = pytest.mark.process

CONNECTIONS = 2000
AT_ONCE = 16
PIPES, HTTP = 10, 5
"""One in so many connections is to a program, and one to a URL: these take longest."""

Drop = Callable[[], None]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub as users start it, for the connections over HTTP."""
    with running_hub(tmp_path_factory.mktemp("hub") / "run") as hub:
        yield hub


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the hub in this process."""
    return tmp_path_factory.mktemp("own")


@pytest.fixture(scope="module")
def own(folder: Path) -> Iterator[hubs.Hub]:
    """A hub in this process."""
    hub = hubs.Hub(folder)
    yield hub
    hub.close()


def over_pipes() -> list[Drop]:
    """Every way in which a program and its connection may part."""

    def never() -> None:
        with pytest.raises(ServerTimeout):
            opened("never", start_timeout=0.1)

    def refused() -> None:
        with opened() as connection, pytest.raises(McpFailure):
            connection.call_tool("error")

    return [closed, abandoned, vanished, crashed, overdue, never, missing, refused]


def over_http(hub: Hub) -> list[Drop]:
    """Every way in which a URL and its connection may part."""
    unused = f"http://127.0.0.1:{free_port()}/mcp"

    def reached(era: Any = "modern", place: str | None = None, **options: Any) -> Connection:
        return Connection.open(Http(place or hub.endpoint("echo")), era=era, start_timeout=30, **options)

    def closed() -> None:
        with reached() as connection:
            connection.call_tool("echo", {"message": "hi"})

    def serve_legacy() -> None:
        with reached("legacy") as connection:
            connection.list_tools()

    def listening() -> None:
        with reached() as connection, connection.listen():
            connection.list_tools()

    def overdue() -> None:
        with reached(place=hub.endpoint("everything")) as connection, pytest.raises(ServerTimeout):
            connection.call_tool("slow_compute", {"seconds": 30, "label": "x"}, timeout=0.05)

    def unknown() -> None:
        with pytest.raises((Unreachable, McpFailure)):
            reached(place=hub.endpoint("no-such-server"))

    def refused() -> None:
        with pytest.raises(Unreachable):
            reached(place=unused)

    return [closed, serve_legacy, listening, overdue, unknown, refused]


def in_process(own: hubs.Hub) -> list[Drop]:
    """The same for a server of this process."""
    exchange = own.app.parts.dispatcher.exchange(TransportInfo("echo", connection="drill"))

    def reached() -> Connection:
        return Connection.open(Local("echo"), era="modern", exchange=exchange, start_timeout=30)

    def closed() -> None:
        with reached() as connection:
            connection.call_tool("echo", {"message": "hi"})

    def closed_twice() -> None:
        connection = reached()
        connection.close()
        connection.close()
        with pytest.raises(Unreachable):
            connection.list_tools()

    def no_hub() -> None:
        with pytest.raises(Unreachable):
            Connection.open(Local("echo"))

    return [closed, closed_twice, no_hub]


POOL = "AnyIO worker thread"
"""Threads of one bounded pool of this process, which carry messages to a server in it; idle ones are kept a while."""


def is_hub(pid: int) -> bool:
    """Whether a child of this process belongs to a hub. The client starts every program below a reaper."""
    try:
        return REAPER not in Path(f"/proc/{pid}/cmdline").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def left(own: Path, hubs: set[int]) -> dict[str, Counter[str]]:
    """What this process holds, by kind. `own` is the folder of the hub in it, whose files its threads keep open.

    `hubs` are the process of the other hub and the fork server of the hub in this process. The hosts below them come
    and go with the calls; they belong to the hubs and not to the client.
    """
    handles = []
    for handle in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            handles.append(str(handle.readlink()))
    return {
        "processes": Counter(str(pid) for pid in descendants(hubs)),
        "descriptors": Counter(one.partition("[")[0] for one in handles if not one.startswith(str(own))),
        "threads": Counter(one.name for one in threading.enumerate() if not one.name.startswith(POOL)),
        "files": Counter(path.name for path in Path(tempfile.gettempdir()).iterdir()),
    }


def more(before: dict[str, Counter[str]], own: Path, hubs: set[int]) -> dict[str, Counter[str]]:
    """What is there beyond what was there before."""
    now = left(own, hubs)
    return {kind: now[kind] - before[kind] for kind in now if now[kind] - before[kind]}


def test_two_thousand_connections_leave_nothing_behind(
    hub: Hub, own: hubs.Hub, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JN-1: no child process, descriptor, thread or temporary file, whichever way the connections ended."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    pipes, web, own_ways = over_pipes(), over_http(hub), in_process(own)
    drops = [
        pipes[number // PIPES % len(pipes)]
        if number % PIPES == 0
        else web[number // HTTP % len(web)]
        if number % HTTP == 1
        else own_ways[number % len(own_ways)]
        for number in range(CONNECTIONS)
    ]
    assert set(drops) == {*pipes, *web, *own_ways}
    random.Random(5).shuffle(drops)

    def run(some: list[Drop]) -> None:
        with ThreadPoolExecutor(AT_ONCE) as executor:
            for done in [executor.submit(drop) for drop in some]:
                done.result()

    run([*pipes, *web, *own_ways] * 2)
    hubs = {pid for pid in children(os.getpid()) if is_hub(pid)}
    before = left(folder, hubs)
    run(drops)
    with suppress(AssertionError):
        until(lambda: not more(before, folder, hubs), "everything is as before")
    assert more(before, folder, hubs) == {}

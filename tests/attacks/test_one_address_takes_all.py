"""One address takes all it can get: connections, memory by bodies, memory by answers, threads by calls.

Under each of these attacks the hub answers `/healthz` and `/readyz`, serves other addresses, and recovers everything
afterwards. The tests use two loopback addresses.
"""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.serving.running import ONE_WORKER, Hub, Worker, running
from tests.waiting import BOUND, until

THREADS, CONNECTIONS = 64, 96
MIB = 1024 * 1024
ATTACKER, OTHER = "127.0.0.1", "127.0.0.2"
SOURCE = '''"""Slow."""

import threading
import time
from pathlib import Path


def wait(path: str) -> str:
    """Wait until a file is there."""
    pause = threading.Event()
    while not Path(path).exists():
        pause.wait(0.05)
    return "waited"


def much(kilobytes: int) -> str:
    """Give a lot."""
    return "x" * kilobytes * 1024


def swallow(value: list) -> int:
    """Count."""
    return len(value)
'''


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("hub")
    (folder / "servers").mkdir()
    for server in ("slow", "other"):
        (folder / "servers" / f"{server}.py").write_text(SOURCE)
    limits = ["--threads", str(THREADS), "--connections", str(CONNECTIONS), "--write-timeout", "1"]
    limits += ["--isolation", "inline", "--inline-limit", str(8 * MIB), "--timeout", str(BOUND)]
    # One worker: each worker has its own threads, connections and memory for bodies.
    with running(folder, *limits, *ONE_WORKER) as started:
        called(started, "much", {"kilobytes": 1})
        yield started


def connected(hub: Hub, address: str = ATTACKER, small: bool = False) -> socket.socket:
    """Connect from an address; `small` limits what it can receive before it reads."""
    made = socket.socket()
    made.settimeout(BOUND)
    if small:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    made.bind((address, 0))
    made.connect(("127.0.0.1", hub.port))
    return made


def send_call(connection: socket.socket, tool: str, arguments: object, server: str = "slow") -> None:
    """Send a call; ignore a connection that is closed meanwhile."""
    params = {"name": tool, "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    body = json.dumps(message, separators=(",", ":")).encode()
    head = f"POST /mcp/{server} HTTP/1.1\r\nHost: localhost\r\n"
    head += "Content-Type: application/json\r\nAccept: application/json\r\n"
    with suppress(ConnectionError):
        connection.sendall(f"{head}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body)


def answer(connection: socket.socket) -> bytes:
    """Return everything that arrives."""
    pieces = []
    with suppress(ConnectionError):
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


def status(answer: bytes) -> int:
    """The status of an answer, 0 without one."""
    found = re.match(rb"HTTP/1\.1 (\d+)", answer)
    return int(found[1]) if found else 0


def called(hub: Hub, tool: str, arguments: object, address: str = OTHER, server: str = "slow") -> bytes:
    """The answer to a call."""
    with connected(hub, address) as connection:
        send_call(connection, tool, arguments, server)
        return answer(connection)


def is_refused(answer: bytes) -> bool:
    """Whether an answer says when to come back."""
    return b"retry-after: " in answer.partition(b"\r\n\r\n")[0].lower()


def served(hub: Hub) -> None:
    """Check that health is answered to the attacker's address, and that another address is served."""
    assert hub.get("/healthz")[0] == 200
    assert hub.get("/readyz")[0] == 200
    found = called(hub, "much", {"kilobytes": 1}, server="other")
    assert status(found) == 200 and not is_refused(found), found[:500]


def check_health(hub: Hub, is_exhausted: Callable[[], object]) -> None:
    """Check that health is answered, to any address, while the attack continues."""
    assert is_exhausted()
    for address in (ATTACKER, OTHER):
        for path in ("/healthz", "/readyz"):
            with connected(hub, address) as connection:
                connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
                assert status(answer(connection)) == 200, path
    assert is_exhausted(), "health is answered while the hub is still exhausted"


@contextmanager
def many(hub: Hub, count: int, small: bool = False) -> Iterator[list[socket.socket]]:
    """Open this many connections of the attacker."""
    with ExitStack() as stack:
        yield [stack.enter_context(connected(hub, small=small)) for _ in range(count)]


def closed(connection: socket.socket) -> bool:
    """Whether the hub has closed a connection without a request."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_connections(hub: Hub) -> None:
    """X5: connections beyond the limit of an address are closed, and the others stay."""
    count = 3 * CONNECTIONS
    with many(hub, count) as idle:
        served(hub)
        until(lambda: sum(map(closed, idle)) >= count - CONNECTIONS, "those that are too many are closed")
        served(hub)
        check_health(hub, lambda: not all(map(closed, idle)))
    hub.line_with("the limit is 96")


def test_calls(hub: Hub, tmp_path: Path) -> None:
    """X13: an address gets no more than its share of the threads; other addresses get theirs at once."""
    ended = tmp_path / "go"
    with many(hub, CONNECTIONS - 8) as callers:
        for caller in callers:
            send_call(caller, "wait", {"path": str(ended)})
        refused = [caller for caller in callers if _comes(caller)]
        assert refused, "some are refused while the others wait"
        served(hub)
        check_health(hub, lambda: sum(map(_comes, callers)) < len(callers))
        ended.touch()
        answers = [answer(caller) for caller in callers]
    answered = sum(b"waited" in one for one in answers)
    assert answered + sum(map(is_refused, answers)) == len(answers)
    assert THREADS // 2 <= answered <= THREADS
    served(hub)


def test_every_caller_waits_for_one_server(hub: Hub, tmp_path: Path) -> None:
    """38.4: callers of many addresses that wait for one server leave threads; the others are told when to come back."""
    ended = tmp_path / "go"
    addresses = [f"127.0.1.{number}" for number in range(1, 17)]
    with ExitStack() as stack:
        callers = [stack.enter_context(connected(hub, address)) for address in addresses for _ in range(8)]
        for caller in callers:
            send_call(caller, "wait", {"path": str(ended)})
        stack.callback(ended.touch)  # a test that fails leaves no call behind for the next one
        # Until the hub has read all calls, it may refuse this one because all threads are taken for a moment.
        until(lambda: b"slow is busy" in called(hub, "much", {"kilobytes": 1}), "the server has no place for a call")
        served(hub)
        check_health(hub, lambda: is_refused(called(hub, "much", {"kilobytes": 1})))
        ended.touch()
        answers = [answer(caller) for caller in callers]
    refused = [one for one in answers if is_refused(one)]
    # A call that comes while all threads are taken for a moment is refused for that.
    assert any(b"slow is busy" in one for one in refused) and all(b"try again" in one for one in refused)
    assert len(refused) + sum(b"waited" in one for one in answers) == len(answers)
    served(hub)


def _comes(caller: socket.socket) -> bool:
    """Whether an answer arrives within the time that a request waits for its place; the test does not depend on it
    alone.
    """
    caller.settimeout(0.05)
    try:
        return bool(caller.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False
    finally:
        caller.settimeout(BOUND)


def test_bodies(hub: Hub) -> None:
    """M10: twelve bodies of almost 4 MiB with millions of values took 1.5 GiB. Each body takes its own memory only."""
    worker = Worker(hub)
    value = json.loads("[" + "[]," * (1300 * 1024) + "[]]")
    alone = peak(worker, lambda: called(hub, "swallow", {"value": value}, ATTACKER))
    statuses: list[int] = []

    def send() -> None:
        statuses.append(status(called(hub, "swallow", {"value": value}, ATTACKER)))

    def attack() -> None:
        senders = [threading.Thread(target=send) for _ in range(12)]
        for sender in senders:
            sender.start()
        served(hub)
        for sender in senders:
            sender.join()

    together = peak(worker, attack)
    assert set(statuses) <= {200, 503} and 200 in statuses
    assert together < 4 * alone + 64 * 1024, f"{together} KiB together, {alone} KiB alone"
    served(hub)


def peak(worker: Worker, attack: object) -> int:
    """Return the maximum growth of the worker during an attack, in KiB."""
    assert callable(attack)
    Path(f"/proc/{worker.pid}/clear_refs").write_text("5")  # the peak is now its present size
    before = worker.memory()
    attack()
    text = Path(f"/proc/{worker.pid}/status").read_text()
    return int(text.split("\nVmHWM:")[1].split()[0]) - before


def test_bodies_that_arrive_slowly(hub: Hub) -> None:
    """M17: large bodies that stop midway do not delay the large body of another client."""
    with many(hub, CONNECTIONS - 8) as senders:
        for sender in senders:
            head = "POST /mcp/slow HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            sender.sendall(f"{head}Accept: application/json\r\nContent-Length: {4 * MIB}\r\n\r\n[".encode())
        served(hub)
        until(lambda: status(called(hub, "swallow", {"value": ["x" * MIB]})) == 200, "a large body is served")
        check_health(hub, lambda: not all(map(closed, senders)))


def test_answers_that_are_not_read(hub: Hub) -> None:
    """X6: the memory is released when the clients are disconnected."""
    worker = Worker(hub)
    before, connections = worker.memory(), worker.descriptors()["socket:"]
    with many(hub, 40, small=True) as readers:
        for reader in readers:
            send_call(reader, "much", {"kilobytes": 4096})
        served(hub)
        hub.line_with("its client has not read for 1 s")
        until(lambda: worker.descriptors()["socket:"] < connections + 10, "all are cut off")
    until(lambda: worker.memory() < before + 40 * 1024, lambda: f"{before} KiB became {worker.memory()} KiB")
    served(hub)

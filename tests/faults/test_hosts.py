"""A thousand calls that do everything wrong, to a hub as users start it: every caller is told, and nothing is left.

Sources: THREATS X2, X3.
"""

from __future__ import annotations

import http.client
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.hubs import BOTH, sse_messages
from tests.kinds.python.workers.conversing import family
from tests.serving.holding import back_to, settled
from tests.serving.running import ONE_WORKER, Hub, Worker, alive, running
from tests.waiting import BOUND, until

CALLS = 1000
WICKED = '''"""Does everything wrong."""

import ctypes, os, signal, subprocess, sys, time

kept = []


def hangs() -> str:
    time.sleep(600)


def spins() -> str:
    while True:
        pass


def blocks() -> str:
    reader, _ = os.pipe()
    return os.read(reader, 1).decode()


def ignores() -> str:
    for number in range(1, 32):
        if number not in (9, 19):
            signal.signal(number, signal.SIG_IGN)
    while True:
        time.sleep(600)


def crashes() -> str:
    ctypes.string_at(0)


def exits() -> str:
    os._exit(7)


def forks() -> str:
    for _ in range(3):
        if os.fork() == 0:
            time.sleep(600)
    return "forked"


def daemonizes() -> str:
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.setsid()
            time.sleep(600)
        os._exit(0)
    os.wait()
    return "daemonized"


def dies_with_daemons() -> str:
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    os._exit(8)


def eats() -> str:
    while True:
        kept.append(bytearray(10_000_000))


def floods() -> str:
    print("head")
    while True:
        sys.stdout.write("y" * 1_000_000)


def floods_below() -> str:
    subprocess.run(["yes"])


def leaves_open() -> str:
    kept.extend(os.dup(0) for _ in range(20))
    return "left open"


def raises() -> str:
    raise RuntimeError("on purpose")


def fine(text: str) -> str:
    return text
'''

EXPECTED = {
    "hangs": "timed out after",
    "spins": "timed out after",
    "blocks": "timed out after",
    "ignores": "timed out after",
    "crashes": "the tool's process was ended by SIGSEGV",
    "exits": "the tool ended its process with exit code 7",
    "forks": "forked",
    "daemonizes": "daemonized",
    "dies_with_daemons": "the tool ended its process with exit code 8",
    "eats": "wicked ran out of memory (limit 128 MiB)",
    "floods": "the tool was stopped: it printed more than",
    "floods_below": "the tool was stopped: it printed more than",
    "leaves_open": "left open",
    "raises": "RuntimeError: on purpose",
    "fine": "it works",
}
GOOD = {"forks", "daemonizes", "leaves_open", "fine"}
ARGUMENTS = {"fine": {"text": "it works"}}
DEADLINE = 0.4
"""Seconds for the tools that never end."""

CONFIG: dict[str, Any] = {
    "auto_discover": True,
    "timeout": 30,
    "memory": 128,
    "tools": {
        name: {"description": "Never end", "timeout": DEADLINE, "inputSchema": {"type": "object"}}
        for name in ("hangs", "spins", "blocks", "ignores")
    },
}
KIND = 'def main() -> str:\n    """Be kind."""\n    return "k"\n'


def call(hub: Hub, server: str, tool: str) -> tuple[str, bool]:
    """What came back within `BOUND`: its text, and whether it is an error."""
    request = {"method": "tools/call", "params": {"name": tool, "arguments": ARGUMENTS.get(tool, {})}}
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1} | request)
    with closing(http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)) as connection:
        connection.request("POST", f"/mcp/{server}", body, {"Content-Type": "application/json", "Accept": BOTH})
        answer = connection.getresponse()
        said = answer.read()
    streamed = answer.headers.get_content_type() == "text/event-stream"
    result = (sse_messages(said)[-1] if streamed else orjson.loads(said))["result"]
    text = "".join(item.get("text", "") for item in result["content"])
    return text, result.get("isError", False)


def judged(hub: Hub, tool: str) -> tuple[str, str]:
    """One call of a tool: `right`, or the text that came instead."""
    text, failed = call(hub, "wicked", tool)
    right = text.startswith(EXPECTED[tool]) and failed == (tool not in GOOD)
    return tool, "right" if right else text[:300]


def many(hub: Hub, calls: int) -> list[tuple[str, str]]:
    """So many calls of all tools in turn, from many threads."""
    tools = list(EXPECTED)
    with ThreadPoolExecutor(32) as callers:
        return list(callers.map(lambda n: judged(hub, tools[n % len(tools)]), range(calls)))


@pytest.mark.process
def test_a_thousand_failing_calls_affect_no_other_call(tmp_path: Path) -> None:
    """X2, X3: the right answer in time, the same worker, no descriptor, thread or child more, memory within 10 %."""
    (tmp_path / "servers").mkdir()
    for name, text in (("wicked.py", WICKED), ("wicked.mcp.json", orjson.dumps(CONFIG).decode()), ("kind.py", KIND)):
        (tmp_path / "servers" / name).write_text(text)
    # One worker: what it holds is compared with what it held before the failures.
    with running(tmp_path, "--hosts-idle", "1", *ONE_WORKER) as hub:
        worker = Worker(hub)
        many(hub, 20 * len(EXPECTED))  # resources that are created once exist before the count
        rest = settled(worker, 3)
        memory = worker.memory()
        found = many(hub, CALLS)
        wrong = Counter((tool, what) for tool, what in found if what != "right")
        assert not wrong
        assert call(hub, "kind", "kind") == ("k", False)
        back_to(rest, worker)
        assert hub.workers() == {worker.pid}
        assert worker.memory() < memory * 1.1
        standing_by = family(worker.pid)
        assert hub.end() == 0
    until(lambda: not [pid for pid in standing_by if alive(pid)], "what stood by has ended too")

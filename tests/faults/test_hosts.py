"""A thousand calls that do everything wrong, through the whole hub: every caller is told, and nothing is left.

Sources: THREATS X2, X3.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.handlers.hosts.pool import SPARES, Hosts
from tests.handlers.hosts.conversing import descriptors, family
from tests.hubs import Hub, until

CALLS = 1000
LATE = 4.0
"""Seconds beyond its deadline in which a caller has to have its answer, on a machine with everything else going on."""

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


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    files = {"wicked.py": WICKED, "wicked.mcp.json": orjson.dumps(CONFIG).decode(), "kind.py": KIND}
    hosts = Hosts(idle=1.0)
    hub = Hub(tmp_path, files, hosts)
    yield hub
    hub.close()
    hosts.close()


def resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def call(hub: Hub, tool: str) -> tuple[str, str, float]:
    """What came back (in one word where it is right), and how long it took."""
    begun = time.monotonic()
    answer = hub.call("wicked", tool, {"text": "it works"} if tool == "fine" else {})
    took = time.monotonic() - begun
    right = answer.text.startswith(EXPECTED[tool]) and answer.result.get("isError", False) == (tool not in GOOD)
    return tool, "right" if right else answer.text[:300], took


def many(hub: Hub, calls: int) -> list[tuple[str, str, float]]:
    """So many calls of all tools in turn, from many threads."""
    tools = list(EXPECTED)
    with ThreadPoolExecutor(32) as callers:
        return list(callers.map(lambda n: call(hub, tools[n % len(tools)]), range(calls)))


def test_a_thousand_calls_that_go_wrong_hurt_nobody(hub: Hub) -> None:
    """X2, X3: the right answer in time, the same process, no descriptor, thread or child more, memory within 10 %."""
    many(hub, 20 * len(EXPECTED))  # what is made once is there before anything is counted
    until(lambda: len(family(*hub.hosts.pids)) == SPARES, "the hosts of the first round end")
    gc.collect()
    before = (os.getpid(), descriptors(), threading.active_count())
    memory = resident()
    found = many(hub, CALLS)
    wrong = Counter((tool, what) for tool, what, _ in found if what != "right")
    assert not wrong
    assert max(took for tool, _, took in found if tool in CONFIG["tools"]) < DEADLINE + LATE
    assert hub.call("kind", "kind").text == "k"
    until(lambda: len(family(*hub.hosts.pids)) == SPARES, "no process is left but those that stand by")
    until(lambda: descriptors() <= before[1], f"no descriptor is left open: {before}")
    until(lambda: threading.active_count() <= before[2], f"no thread is left: {before}")
    assert os.getpid() == before[0]
    gc.collect()
    assert resident() < memory * 1.1

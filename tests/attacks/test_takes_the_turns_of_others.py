"""One key holds what all callers share: the budget for large bodies, and the processes that complete arguments.

Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.attacks.leftovers import attacker
from tests.hubs import Answer, Hub, modern_request
from tests.waiting import BOUND, until

BODIES_LIMIT = 1024 * 1024
PADDING = "x" * (BODIES_LIMIT // 4)
LISTENERS = 60
HONEST_BYTES = 17_000
CALLS = 4

DEFINITION = '''"""Waits at a gate: a lock on a file, which the test holds."""

import fcntl


def wait(text: str = "") -> str:
    """Wait until the gate opens."""
    with open("GATE", "ab") as gate:
        gate.write(b"x")
        gate.flush()
        fcntl.flock(gate, fcntl.LOCK_SH)
    return text


def size(text: str) -> int:
    """Count characters."""
    return len(text)


def _words(value, arguments):
    wait()
    return ["word"]
'''

PROMPT = {"arguments": [{"name": "a"}], "messages": [{"content": "x"}]}
CONFIG = {
    "auto_discover": True,
    "isolation": "inline",
    "prompts": {"ask": PROMPT},
    "completions": {"ask": {"a": {"function": "_words"}}},
}


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A closed gate. Its file has one byte for each call that reached it."""
    path = tmp_path / "gate"
    path.touch()
    yield path


@pytest.fixture
def hub(tmp_path: Path, gate: Path) -> Iterator[Hub]:
    files = {"gate.py": DEFINITION.replace("GATE", str(gate)), "gate.mcp.json": orjson.dumps(CONFIG).decode()}
    # A quarter of the threads is what one key may use.
    hub = Hub(tmp_path, files, access="shared", bodies_limit=BODIES_LIMIT, threads=4 * CALLS, store="sqlite")
    yield hub
    hub.close()


@contextmanager
def closed(gate: Path) -> Iterator[None]:
    """Keep the gate closed."""
    with gate.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def call(hub: Hub, headers: dict[str, str], tool: str, text: str, padding: Any = "") -> Answer:
    sent = modern_request(
        "tools/call", {"name": tool, "arguments": {"text": text}}, meta={"padding": padding}, headers=headers
    )
    return hub.send("gate", *sent)


def test_idle_streams_do_not_hold_the_bodies_that_began_them(hub: Hub) -> None:
    """48.4: 60 streams with 256 KiB of padding each, where 1 MiB is the limit of all bodies."""
    headers, other = attacker(hub), attacker(hub, "other")
    with ExitStack() as streams:
        for number in range(LISTENERS):
            sent = modern_request(
                "subscriptions/listen",
                {"notifications": {"toolsListChanged": True}},
                meta={"padding": PADDING},
                headers=headers,
                id=number,
            )
            stream = hub.stream("gate", *sent)
            streams.callback(stream.close)
            assert b"acknowledged" in next(stream)
        assert call(hub, other, "size", "y" * HONEST_BYTES).result["structuredContent"] == HONEST_BYTES
        assert call(hub, headers, "size", "y" * HONEST_BYTES).result["structuredContent"] == HONEST_BYTES


@pytest.mark.parametrize("padding", [PADDING, [[]] * (BODIES_LIMIT // 8)], ids=["text", "lists"])
def test_running_calls_of_one_key_leave_room_for_the_bodies_of_others(hub: Hub, gate: Path, padding: Any) -> None:
    """48.4: a text takes little memory, empty lists much; neither keeps another caller away."""
    headers, other = attacker(hub), attacker(hub, "other")
    with ThreadPoolExecutor(CALLS) as pool:
        with closed(gate):
            begun = [pool.submit(call, hub, headers, "wait", "x", padding) for _ in range(CALLS)]
            until(lambda: gate.stat().st_size + sum(one.done() for one in begun) == CALLS)
            found = call(hub, other, "size", "y" * HONEST_BYTES)
            assert found.result["structuredContent"] == HONEST_BYTES
        statuses = [one.result(BOUND).status for one in begun]
    assert statuses == [200] * CALLS if padding is PADDING else sorted(statuses) == [200, 429, 429, 429]


def complete(hub: Hub, headers: dict[str, str]) -> Answer:
    params = {"ref": {"type": "ref/prompt", "name": "ask"}, "argument": {"name": "a", "value": ""}}
    return hub.send("gate", *modern_request("completion/complete", params, headers=headers))


def test_completions_by_a_function_count_as_calls(hub: Hub, gate: Path) -> None:
    """48.4: of 12 completions at once, 4 run, as many as calls of one key; the others are refused."""
    headers, other = attacker(hub), attacker(hub, "other")
    with ThreadPoolExecutor(3 * CALLS) as pool:
        with closed(gate):
            begun = [pool.submit(complete, hub, headers) for _ in range(3 * CALLS)]
            until(lambda: gate.stat().st_size + sum(one.done() for one in begun) == 3 * CALLS)
            assert gate.stat().st_size == CALLS
            assert call(hub, other, "size", "four").result["structuredContent"] == 4
        answers = [one.result(BOUND) for one in begun]
    assert sorted(answer.status for answer in answers) == [200] * CALLS + [429] * 2 * CALLS
    assert all(answer.headers["Retry-After"] for answer in answers if answer.status == 429)

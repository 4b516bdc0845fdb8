"""No test sleeps for a fixed time: it waits for an event with one generous bound (`tests/waiting.py`).

A wait for a time is too short on a busy machine and too long on every other one. Text that a test gives to a program
does not count, and the modules of the table below may sleep: most of them are programs that tests run.
"""

from __future__ import annotations

import ast

import pytest

from tests.source_modules import Module, read

SLEEPERS = {
    "tests/acceptance/jobs.py": "repeats the command of a person until it shows what is expected, with a bound",
    "tests/acceptance/__main__.py": "polls a hub until its bound is over; no test",
    "tests/acceptance/apis.py": "polls an API until its bound is over; no test",
    "tests/access/oauth/test_foreign_clients.py": "a client that calls again and again while a tool runs",
    "tests/attacks/flooding_server.py": "a server that leaves its answers a moment before it floods",
    "tests/browser/lively_room.py": "people in a room, as slow as a picture of it needs",
    "tests/cli/changing.py": "a server with a slow tool",
    "tests/cli/rooms/laptop_server.py": "a server with a slow tool",
    "tests/client/rooms/test_announcing.py": "polls a room; the client has a bound",
    "tests/client/scripted.py": "a server that never answers",
    "tests/content/claude_program.py": "a program that hangs",
    "tests/interaction/mounts.py": "polls a mount until its bound is over",
    "tests/upstreams/odd_server.py": "a server with a slow tool, and one that starts slowly",
    "tests/protocol/events/pushing_server.py": "a program of its own that looks at its file until a line is added",
    "tests/upstreams/connections/upstream_definition.py": "a definition with a slow tool",
    "tests/threads/test_interrupts.py": "a tool that never ends, in the process of the test",
    "tests/wire/front/test_incoming_frames.py": "gives its turn to the event loop of the test",
    "tests/waiting.py": "polls a condition until its bound is over",
    "tests/wire/servers/wire.py": "a definition with a slow tool",
}
"""The modules that may sleep, with the reason."""


def find_sleeps(module: Module) -> list[int]:
    """Return the lines of calls of a `sleep`, of whatever module: time, asyncio, anyio."""
    return [
        node.lineno
        for node in (ast.walk(module.tree) if "sleep" in module.text else ())
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Attribute) and node.func.attr == "sleep")
            or (isinstance(node.func, ast.Name) and node.func.id == "sleep")
        )
    ]


def test_only_the_modules_of_the_table_sleep() -> None:
    found = {module.path: lines for module in read("tests/**/*.py") if (lines := find_sleeps(module))}
    wrong = [f"{path}:{line}" for path in found.keys() - SLEEPERS for line in found[path]]
    assert sorted(wrong) == [], "use tests/waiting.py, or name the module in SLEEPERS with the reason"
    assert SLEEPERS.keys() - found.keys() == set(), "these sleep no more: take them out of SLEEPERS"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("import time\ntime.sleep(1)", [2]),
        ("from time import sleep\nsleep(1)", [2]),
        ("async def f():\n    await asyncio.sleep(0.1)", [2]),
        ("SOURCE = 'import time; time.sleep(600)'", []),
        ("clock = SimpleNamespace(sleep=time.sleep)", []),
    ],
)
def test_each_form_of_a_sleep_is_found(text: str, lines: list[int]) -> None:
    assert find_sleeps(Module("tests/test_x.py", text)) == lines

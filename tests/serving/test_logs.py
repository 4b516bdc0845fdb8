"""Log lines: where they go and what they look like."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from collections import Counter

import pytest

from patchbay.serving.logs import MAX_KINDS, RepeatedLines

PROGRAM = """
import logging
from patchbay.serving import logs
from patchbay.settings import Settings
logs.begin(Settings(log_format={style!r}, log_level={level!r}))
logging.getLogger("patchbay.boot").debug("quiet")
logging.getLogger("patchbay.boot").info("loaded %s", "echo", extra={{"server": "echo"}})
logging.getLogger("patchbay.room").warning("late", extra={{"member": "ann"}})
logging.getLogger("watchfiles.main").info("5042 changes detected")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("patchbay.cid").exception("broke")
"""


def run(style: str, level: str = "info") -> subprocess.CompletedProcess[str]:
    """A program that logs, in a process of its own: logging is a matter of the whole process."""
    program = PROGRAM.format(style=style, level=level)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


def test_json_is_one_object_per_line() -> None:
    done = run("json")
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["logger"], line["level"], line["event"]) for line in lines] == [
        ("patchbay.boot", "info", "loaded echo"),
        ("patchbay.room", "warning", "late"),
        ("patchbay.cid", "error", "broke"),
    ]
    assert lines[0]["server"] == "echo"
    assert lines[1]["member"] == "ann"
    assert "ZeroDivisionError" in lines[2]["exception"]
    assert all(line["timestamp"].endswith("Z") for line in lines)
    assert all(re.fullmatch(rf"{re.escape(os.uname().nodename)}:\d+", line["node"]) for line in lines)


@pytest.mark.parametrize("style", ["json", "console", "auto"])
def test_nothing_goes_to_stdout(style: str) -> None:
    assert run(style).stdout == ""


def test_auto_is_json_where_there_is_no_terminal() -> None:
    assert all(json.loads(line) for line in run("auto").stderr.splitlines())


def test_console_lines_are_for_people() -> None:
    text = run("console").stderr
    assert "loaded echo" in text
    assert not text.startswith("{")


def test_lines_below_the_level_are_left_out() -> None:
    assert [json.loads(line)["event"] for line in run("json", "error").stderr.splitlines()] == ["broke"]


FLOOD = """
import logging
from patchbay.serving import logs
from patchbay.settings import Settings
logs.begin(Settings(log_format="json"))
for number in range(1000):
    logging.getLogger("asyncio").warning(f"{object()!r} {number}: socket.send() raised exception.")
    logging.getLogger("patchbay.wire.front.websockets").info("a WebSocket is closed: %d bytes", number)
    logging.getLogger("patchbay.boot").info("loaded %s", number)
"""


def test_connections_log_one_line_of_a_kind() -> None:
    """Clients decide how often such a line comes; a minute has one. Other lines all come."""
    done = subprocess.run([sys.executable, "-c", FLOOD], capture_output=True, text=True, check=True)
    counts = Counter(json.loads(line)["logger"] for line in done.stderr.splitlines())
    assert counts == {"asyncio": 1, "patchbay.wire.front.websockets": 1, "patchbay.boot": 1000}


def test_lines_of_one_place_in_the_code_are_one_kind_and_few_kinds_are_kept() -> None:
    """Messages have addresses of objects in them; a level, a place and a class of exceptions make a kind."""
    lines = RepeatedLines()

    def passes(message: str, place: int, level: int = logging.ERROR, raised: Exception | None = None) -> bool:
        info = (type(raised), raised, None) if raised is not None else None
        return lines.filter(logging.LogRecord("asyncio", level, "events.py", place, message, None, info))

    assert [passes(f"transport <{number:#x}>", 1) for number in range(1000)] == [True, *[False] * 999]
    assert passes("another place", 2) and passes("another level", 1, logging.CRITICAL)
    assert passes("another exception", 1, raised=ValueError("a"))
    assert not passes("another exception", 1, raised=ValueError("b"))
    assert all(passes("x", place) for place in range(3, 3 + 2 * MAX_KINDS))
    assert len(lines._kinds) == MAX_KINDS


def test_the_next_line_says_how_many_were_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = RepeatedLines()
    records = [logging.LogRecord("asyncio", logging.INFO, "", 0, "closed: %d", (number,), None) for number in range(4)]
    assert [lines.filter(record) for record in records[:3]] == [True, False, False]
    monkeypatch.setattr("patchbay.serving.logs.REPEAT_SECONDS", 0.0)
    assert lines.filter(records[3])
    assert records[3].getMessage() == "closed: 3 (and 2 more such lines before it)"

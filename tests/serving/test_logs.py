"""Log lines: where they go and what they look like."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import pytest

PROGRAM = """
import logging
from patchbay.serving import logs
from patchbay.settings import Settings
logs.begin(Settings(log_format={style!r}, log_level={level!r}))
logging.getLogger("granian").debug("quiet")
logging.getLogger("patchbay.boot").info("loaded %s", "echo", extra={{"server": "echo"}})
logging.getLogger("patchbay.room").warning("late", extra={{"member": "ann"}})
logging.getLogger("watchfiles.main").info("5042 changes detected")
logging.getLogger("_granian").warning("Configuration allows spawning up to 256 Python threads")
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

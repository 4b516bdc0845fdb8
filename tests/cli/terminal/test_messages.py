"""Texts of servers on the terminal: none of their lines looks like a line of the program."""

from __future__ import annotations

import pytest

from patchbay.cli.terminal.messages import indent_lines
from patchbay.cli.terminal.progress_display import Display
from patchbay.events import Log


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\u2028", "\u2029"])
def test_each_line_but_the_first_is_indented(end: str) -> None:
    assert indent_lines(f"one{end}patchbay: forged") == "one\n    patchbay: forged"


def test_a_message_of_a_server_forges_no_line_of_the_program(capsys: pytest.CaptureFixture[str]) -> None:
    Display("info").show(Log("info", "working\npatchbay: the hub asks for your password", "a\nerror: logger"))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.startswith("    ") for line in lines[1:])

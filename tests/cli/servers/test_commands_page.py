"""docs/commands.md: its examples run in order in one folder, and every command of this group is on it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click

from patchbay.cli.commands.patchbay import HUB
from patchbay.cli.terminal.messages import LateCommandGroup
from tests.checkout import ROOT
from tests.cli.servers.commands import run_command

PAGE = (ROOT / "docs" / "commands.md").read_text("utf-8")


def test_the_examples_run_and_print_the_lines_of_the_page(tmp_path: Path) -> None:
    count = 0
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for example in re.split(r"(?m)^\$ ", block)[1:]:
            line, *shown = example.splitlines()
            ended = run_command(tmp_path, *shlex.split(line)[1:])
            assert ended.code == 0, (line, ended)
            assert [text for text in shown if text not in ended.out.splitlines()] == [], (line, ended.out)
            count += 1
    assert count >= 8


def test_every_command_about_servers_and_its_options_are_on_the_page() -> None:
    names = [name for name, late in HUB.items() if ".commands.servers." in late.place]
    assert len(names) >= 10
    group = LateCommandGroup("patchbay", late=HUB)
    for name in names:
        assert f"`patchbay {name}" in PAGE
        command = group.get_command(click.Context(group), name)
        assert command is not None
        options = [word for one in command.params if not getattr(one, "hidden", False) for word in one.opts]
        own = {word for word in options if word.startswith("--")} - {"--data", "--servers", "--yes"}
        assert {word for word in own if word not in PAGE} == set(), name

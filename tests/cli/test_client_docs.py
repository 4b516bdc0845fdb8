"""docs/client.md and the help pages: the examples run, every command is there, each help page has examples."""

from __future__ import annotations

import re
import shutil
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from patchbay import exit_codes
from patchbay.cli import jn, main
from patchbay.cli.terminal.messages import LateCommandGroup
from patchbay.client.connection.programs.environment import make_launch_environment
from tests.checkout import ROOT
from tests.cli.workspace import SEARCH, Workspace, launch
from tests.client.peers import fetched

PAGE = (ROOT / "docs" / "client.md").read_text("utf-8")


def every(group: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """A command and all below it."""
    yield name, group
    if isinstance(group, click.Group):
        context = click.Context(group)
        for one in group.list_commands(context):
            command = group.get_command(context, one)
            assert command is not None
            yield from every(command, f"{name} {one}")


@pytest.mark.process
def test_the_examples_of_the_page_run_and_write_what_it_says(workspace: Workspace) -> None:
    """JN-6, JN-32, JN-38, JN-56, JN-60, JN-72: in order, in one folder; lines shown there stand in the output."""
    workspace.environment |= fetched("mcp-server-time")
    commands = 0
    for block in re.findall(r"```console\n(.*?)```", PAGE, re.DOTALL):
        for example in re.split(r"(?m)^\$ ", block)[1:]:
            line, *shown = example.splitlines()
            ended = workspace.run(line)
            assert ended.code == exit_codes.OK, (line, ended)
            missing = [one for one in shown if one not in ended.out]
            assert not missing, (line, missing, ended.out)
            commands += 1
    assert commands > 8


@pytest.mark.parametrize(("name", "command"), [*every(jn, "jn"), *every(main, "patchbay")], ids=str)
def test_every_help_page_has_examples_and_the_exit_codes(name: str, command: click.Command) -> None:
    """JN-32, JN-63: for each of them, a sentence too. A program has the whole table, a command a line and its page."""
    page = command.get_help(click.Context(command, info_name=name))
    assert command.help
    if command in (jn, main):
        assert all(f"  {code:<3}  {meaning}" in page for code, meaning in exit_codes.ROWS.items())
        assert "Examples:" in page
    else:
        assert re.search(r"\n *Examples.*:\n.*^Options:", page, re.DOTALL | re.MULTILINE)
        assert "docs/exit-codes.md" in " ".join(page.split())


def test_the_help_page_has_each_command_in_one_section_on_one_line() -> None:
    """Issue 17 item 4: grouped by purpose, one line each on a terminal of 80 columns."""
    page = main.get_help(click.Context(main, info_name="patchbay", terminal_width=80)).splitlines()
    assert list(main.sections()) == ["Start", "Servers", "Call", "Share", "Maintain"]
    assert sorted(name for names in main.sections().values() for name in names) == sorted(main.late)
    for name in main.late:
        assert [line for line in page if line.startswith(f"  {name} ") and not line.endswith("...")], name


@pytest.mark.parametrize("group", [jn, main], ids=lambda group: group.name)
def test_the_list_of_commands_says_of_each_what_it_says_itself(group: LateCommandGroup) -> None:
    """The list is written without loading the commands."""
    context = click.Context(group)
    for name, late in group.late.items():
        command = group.get_command(context, name)
        assert command is not None and command.get_short_help_str(1000) == late.short(1000)


def test_the_examples_of_patchbay_name_no_other_program() -> None:
    """Issue 47 item 14: the examples in the help of `patchbay` run with `patchbay`."""
    for name, command in every(main, "patchbay"):
        page = command.get_help(click.Context(command, info_name=name))
        assert [line for line in page.splitlines() if re.search(r"(?<![.\w`])jn ", line)] == [], name


def test_the_reader_is_told_where_the_programs_are_before_they_are_used() -> None:
    """Issue 47 item 14."""
    for file in ("README.md", "docs/tutorial.md"):
        page = (ROOT / file).read_text("utf-8")
        used = [page.index(line) for line in re.findall(r"^(?:\$ )?(?:patchbay|jn) .*|.*\| jn .*", page, re.MULTILINE)]
        assert page.index('export PATH="$PWD/.venv/bin:$PATH"') < min(used), file
        assert page.index("`jn`") < min(used), file
    assert "export PATH=" in (ROOT / "scripts" / "run").read_text("utf-8")


def test_every_command_and_option_of_the_client_is_on_the_page() -> None:
    for name, command in every(jn, "jn"):
        if not isinstance(command, click.Group):
            assert name.removeprefix("jn ") in PAGE, name
    options = {word for one in jn.get_command(click.Context(jn), "cat").params for word in one.opts}  # type: ignore[union-attr]
    assert {word for word in options if word.startswith("--") and f"`{word}" not in PAGE} == set()


def test_both_programs_are_installed_and_share_their_commands() -> None:
    """The commands of `jn` are those of the document, and `patchbay` has all of them."""
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"patchbay": "patchbay.cli:main", "jn": "patchbay.cli:jn"}
    names = set(jn.list_commands(click.Context(jn)))
    assert names >= {"inspect", "cat", "head", "tail", "filter", "put", "mcp", "profile"}
    assert names <= set(main.list_commands(click.Context(main)))


def test_launchers_are_found_without_an_installation() -> None:
    """JN-6: uv beside this Python, npx and node in the Node wheel, on an otherwise empty PATH; uv has no project."""
    environment = make_launch_environment({"PATH": ""})
    assert all(shutil.which(name, path=environment["PATH"]) for name in ("uv", "npx", "node", "python"))
    assert environment["UV_NO_PROJECT"] == "1"
    assert make_launch_environment({"PATH": "/first", "UV_NO_PROJECT": "0"})["PATH"].startswith("/first:")
    assert make_launch_environment({"UV_NO_PROJECT": "0"})["UV_NO_PROJECT"] == "0"


@pytest.mark.process
def test_a_shell_is_offered_profiles_and_their_tools(workspace: Workspace) -> None:
    """Shell completion, as bash asks for it."""
    workspace.profile("biomcp", launch(workspace.serve(SEARCH)), search={})
    assert "_JN_COMPLETE=bash_complete" in workspace.quick("jn completion bash").out
    for words, offered in [
        ("jn cat @b", "@biomcp"),
        ("jn cat @biomcp/", "@biomcp/search"),
        ("jn profile info b", "biomcp"),
    ]:
        count = len(words.split()) - 1
        line = f"COMP_WORDS='{words}' COMP_CWORD={count} _JN_COMPLETE=bash_complete jn"
        assert f"plain,{offered}" in workspace.run(line).out.split(), words


def test_the_page_names_no_place_of_one_machine() -> None:
    assert str(Path.home()) not in PAGE

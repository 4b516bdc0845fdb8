"""Every example in a help text can be typed by a new user (issue 47 item 14).

Each one is parsed by the program's own parser. What it names is in the default boot image, is made by an earlier
example, or by the commands that the heading of the examples names.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import pytest

from patchbay.assets import REFERENCE_TEMPLATES
from patchbay.cli import jn, main
from patchbay.cli.completion.values import LOCAL, complete_removed, complete_server
from patchbay.client.rooms.address import RoomAddress, is_room_name
from tests.cli.test_client_docs import every

PROGRAMS = {"patchbay": main, "jn": jn}
PLACEHOLDER = "ID"
"""Stands for what a command named in the heading lists."""

HEADING = re.compile(r"Examples(?:, after (?P<after>.*))?:")
COMMANDS = re.compile(r"`((?:patchbay|jn) [^`]+)`")


def shipped_servers() -> set[str]:
    """The names of the servers of the default boot image."""
    image = json.loads((REFERENCE_TEMPLATES / "default.boot.json").read_text("utf-8"))
    return {row["name"] for row in image["servers"]}


@dataclass
class Made:
    """What exists when an example is typed."""

    servers: set[str] = field(default_factory=shipped_servers)
    profiles: set[str] = field(default_factory=set)
    rooms: set[str] = field(default_factory=set)
    files: set[str] = field(default_factory=set)
    lists_ids: bool = False

    def add(self, words: list[str]) -> None:
        """Note what a command makes."""
        match words:
            case ["new", name, *_] | ["mount", name, *_] | ["toolset", "new", name, *_]:
                self.servers.add(name)
            case ["profile", "new", _, name, *_] | ["profile", "create", name, *_] | ["profile", "update", name, *_]:
                self.profiles.add(name)
            case ["profile", "remove", name]:
                self.profiles.add(name)
            case ["remove", name, *_]:
                self.servers.add(name)
            case ["room", "create", name, *_]:
                self.rooms.add(name.rpartition("/")[2])
            case ["room", "announce", room, _, "--as", name]:
                self.rooms.add(room)
                self.servers.add(name)
            case ["put", name] | [*_, "--output", name]:
                self.files.add(name)
            case [*_, "list"]:
                self.lists_ids = True
            case _:
                pass


def split_line(line: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the words of each stage of a pipe, and the files into which it writes; `$(...)` is looked into."""
    inner = re.search(r'"\$\((.*)\)"', line)
    lexer = shlex.shlex(inner[1] if inner else line, posix=True, punctuation_chars="|<>")
    lexer.whitespace_split = True
    stage: list[str] = []
    written: list[str] = []
    words = iter(lexer)
    for word in words:
        if word == "|":
            yield stage, written
            stage, written = [], []
        elif word == ">":
            written.append(next(words))
        elif word == "<":
            next(words)
        else:
            stage.append(word)
    yield stage, written


def parse(program: click.Group, words: list[str]) -> tuple[click.Command, click.Context]:
    """Parse the words after the name of a program. Raises ClickException for words that it refuses."""
    context: click.Context = click.Context(program, info_name="patchbay")
    command: click.Command = program
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        if found is None:
            raise click.UsageError(f"there is no command {words[0]}")
        command, words = found, words[1:]
        context = click.Context(command, parent=context, **command.context_settings)
    parent = context.parent
    if parent is not None and parent.command.name == "room" and words and is_room_name(words[0]):
        words = [f"http://127.0.0.1:8000/rooms/{words[0]}", *words[1:]]  # a bare name needs a running hub
    command.parse_args(context, list(words))
    return command, context


def describe_unknown(command: click.Command, context: click.Context, made: Made) -> Iterator[str]:
    """Yield what an example names and what does not exist."""
    for parameter in command.params:
        value = context.params.get(parameter.name or "")
        values = value if isinstance(value, tuple) else (value,)
        if parameter.nargs == -1 and not context.allow_interspersed_args:
            values = values[:1]  # the others are words for another program
        if command.name == "mount" and parameter.nargs == -1 and len(values) > 1:
            continue  # a command line
        for one in values:
            if isinstance(one, RoomAddress) and one.name not in made.rooms and command.name != "create":
                yield f"the room {one.name}"
            if not isinstance(one, str) or not one:
                continue
            completes = getattr(parameter, "_custom_shell_complete", None)
            if completes in (complete_server, complete_removed) and one not in made.servers:
                yield f"the server {one}"
            local = LOCAL.search(one)
            if local is not None and local[1] not in made.servers and ".example" not in one:
                yield f"the server {local[1]}"
            if one.startswith("@") and re.split("[/?]", one[1:])[0] not in made.profiles:
                yield f"the profile {one}"
            if parameter.name == "reference" and one.removeprefix("@") not in made.profiles:
                yield f"the profile {one}"
            if re.fullmatch(r"[\w-]+\.(nd)?json", one) and command.name != "put" and one not in made.files:
                yield f"the file {one}"
            if one == PLACEHOLDER and not made.lists_ids:
                yield "an ID without the command that lists it"


def find_faults(page: str) -> list[str]:
    """What is wrong with the examples of a help page, one sentence each."""
    with TemporaryDirectory() as folder, chdir(folder):
        return _find_faults(page)


def _find_faults(page: str) -> list[str]:
    block = re.split(r"\n\s*(?=Examples)", page, maxsplit=1)[1].split("\n\n")[0].splitlines()
    heading = HEADING.fullmatch(" ".join(block[0].split()))
    assert heading is not None, block[0]
    made, faults = Made(), list[str]()
    for line in COMMANDS.findall(heading["after"] or ""):
        _check(line, made, faults)
    made.servers |= {"crafts"} if "skills" in (heading["after"] or "") else set()
    made.lists_ids |= "/activity for the ID" in (heading["after"] or "")
    for line in filter(str.strip, block[1:]):
        _check(line.strip(), made, faults)
    return faults


def _check(line: str, made: Made, faults: list[str]) -> None:
    for stage, written in split_line(line):
        if stage[0] in PROGRAMS:
            try:
                command, context = parse(PROGRAMS[stage[0]], stage[1:])
                faults += [f"{line}: {one} does not exist" for one in describe_unknown(command, context, made)]
                context.close()
            except click.ClickException as problem:
                faults.append(f"{line}: {problem.format_message()}")
            made.add(stage[1:])
        elif stage[0] not in ("echo", "cat", "source"):
            faults.append(f"{line}: starts {stage[0]}")
        made.files.update(written)
        for name in written:
            Path(name).touch()


@pytest.mark.parametrize(("name", "command"), [*every(jn, "jn"), *every(main, "patchbay")], ids=str)
def test_every_example_can_be_typed_by_a_new_user(name: str, command: click.Command) -> None:
    assert find_faults(command.get_help(click.Context(command, info_name=name, terminal_width=200))) == []


@pytest.mark.parametrize(("name", "command"), list(every(main, "patchbay")), ids=str)
def test_the_help_of_patchbay_never_says_jn(name: str, command: click.Command) -> None:
    """The program, not the folder `.jn`; the help of completion says which programs it is for."""
    page = command.get_help(click.Context(command, info_name=name, terminal_width=200))
    said = re.findall(r"(?<![.\w/])jn\b", page.replace("the programs `patchbay` and `jn`", ""))
    assert said == [], page


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("patchbay show notes", "the server notes does not exist"),
        ("patchbay call @todo add text=x", "the profile @todo does not exist"),
        ("patchbay call /mcp/hello greet", "the server hello does not exist"),
        ("patchbay room join demo", "the room demo does not exist"),
        ("patchbay cat results.json", "the file results.json does not exist"),
        ("patchbay approvals approve ID", "an ID without the command that lists it"),
        ("patchbay show echo --colour", "No such option"),
        ("patchbay shwo echo", "there is no command shwo"),
        ("curl http://127.0.0.1:8000", "starts curl"),
    ],
)
def test_an_example_that_a_new_user_cannot_type_is_found(line: str, fault: str) -> None:
    [found] = find_faults(f"Help.\n\nExamples:\n  {line}\n\nOptions:\n")
    assert fault in found

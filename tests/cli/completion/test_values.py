"""Shell completion: servers, addresses, tools, arguments and their values (issue 47 item 4).

Real shells show what a shell asks and how it reads an answer. What the program answers for each command is asked of it
without a shell.
"""

from __future__ import annotations

import json
import subprocess
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchbay.access.keys import PersonalKeys
from patchbay.access.people.people import People
from patchbay.access.providers.invited import InvitedPeople
from patchbay.cli.commands.client import jn
from patchbay.cli.commands.patchbay import main
from patchbay.cli.completion.values import _fitting
from patchbay.stores import open_store
from tests.cli.shells import (
    ASK_BASH,
    answer_shell,
    ask_bash,
    ask_program,
    environment,
    program,
    run_bash,
    type_lines,
    write_script,
)
from tests.waiting import BOUND

pytestmark = pytest.mark.process

NOTES = '''from typing import Literal


def search(kind: Literal["book", "bulletin", "film"], loud: bool = False) -> str:
    """Search."""
    return ""


def seal() -> str:
    """Seal."""
    return ""
'''

HOSTILE = {
    "Substitution": "$(touch ran)",
    "Backquotes": "`touch ran`",
    "Ends": 'it\'s "so"; touch ran #',
    "Foreign": "é\u0416$(touch ran)",
    "Blank": "a  b",
    "Pattern": "s*",
    "Braces": "{x,y}",
    "Home": "~",
    "Comma": "x,y,",
    "History": "a!b",
}
"""Values of arguments, as a mounted server may declare them."""

HIDDEN = ["line\nplain,other", "back\rspace", "bell\x07", "\x1b[2J"]
"""Values that are not offered."""

PICK = f'''from typing import Literal


def pick(kind: Literal[{", ".join(map(repr, [*HOSTILE.values(), *HIDDEN]))}]) -> str:
    """Pick."""
    return ""
'''

SINGLE = f'''from typing import Literal


def runs(kind: Literal[{HOSTILE["Foreign"] + HOSTILE["Backquotes"]!r}]) -> str:
    """Take the value that would run a program."""
    return ""


def rest(kind: Literal[{" ".join(HOSTILE.values())!r}]) -> str:
    """Take the value that has all other syntax too."""
    return ""


def home(kind: Literal["~"]) -> str:
    """Take the value that would be a folder."""
    return ""


def reads(kind: Literal["@servers/notes.py"]) -> str:
    """Take the value that would be a file."""
    return ""
'''
"""Tools with one value each, so that a shell inserts it."""

SINGLE_VALUES = {
    "runs": HOSTILE["Foreign"] + HOSTILE["Backquotes"],
    "rest": " ".join(HOSTILE.values()),
    "home": "~",
    "reads": "@@servers/notes.py",
}

TYPED = """
for mark in '' "'" '"'; do
    printf '\\n\\0'
    for one in "${COMPREPLY[@]}"; do eval "printf '%s\\\\0' $mark$one$mark"; done
done
"""
"""Give bash each offered word, alone and with each quotation mark around it, as a person does with Enter."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub with servers of its own and a removed one, keys, accounts and a profile, and the script for bash."""
    made = tmp_path_factory.mktemp("completing")
    (made / "servers").mkdir()
    (made / "servers" / "notes.py").write_text(NOTES)
    (made / "servers" / "picks.py").write_text(PICK)
    (made / "servers" / "single.py").write_text(SINGLE)
    (made / "servers" / "tasks.py").write_text(NOTES)
    for words in (["remove", "tasks", "--yes"], ["disable", "notes"], ["enable", "notes"]):
        ended = subprocess.run([program("patchbay"), *words], env=environment(made), check=False, timeout=BOUND)
        assert ended.returncode == 0
    with closing(open_store("sqlite", made / "data")) as store:
        for name in ("ann-laptop", "robot", "lost"):
            PersonalKeys(store).make(name)
        PersonalKeys(store).revoke("lost")
        people = People(store.journal)
        for name in ("ann", "bob"):
            people.create(name, people.generation(name), password="hash")
        for issuer in ("https://id.example", "https://other.example"):
            InvitedPeople(store.journal).add("eve@example.org", issuer)
    shelf = made / ".local" / "jn" / "profiles" / "mcp" / "shelf"
    shelf.mkdir(parents=True)
    (shelf / "_meta.json").write_text('{"command": "shelf", "transport": "stdio"}')
    genre = {"anyOf": [{"enum": ["poem", "prose", None]}, {"$ref": "#/properties/genre"}]}
    find = {"type": "object", "properties": {"text": {"type": "string"}, "genre": genre}}
    (shelf / "find.json").write_text(json.dumps({"description": "Find.", "inputSchema": find}))
    (shelf / "lend.json").write_text('{"description": "Lend."}')
    write_script(made, "bash")
    return made


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("patchbay show no", ["notes"]),
        ("patchbay call /mcp/notes search kind=b", ["book", "bulletin"]),
        ("patchbay call /mcp/single reads kind=", ["@@servers/notes.py"]),
        ("patchbay call notes/sea", ["notes/seal", "notes/search"]),
        ("jn call /mcp/notes sear", ["search"]),
        ("jn call @shelf/find genre=p", ["poem", "prose"]),
        ("patchbay people withdraw ", ["eve@example.org"]),
        ("patchbay rollb", ["rollback"]),
        ("patchbay show --js", ["--json"]),
    ],
)
def test_bash_is_offered_names_tools_arguments_and_values(folder: Path, line: str, offered: list[str]) -> None:
    """Each form of a word: bash splits some of them."""
    assert sorted(ask_bash(folder, line)) == offered


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("patchbay show no", ["notes"]),
        ("patchbay logs no", ["notes"]),
        ("patchbay remove no", ["notes"]),
        ("patchbay restart no", ["notes"]),
        ("patchbay rollback no", ["notes"]),
        ("patchbay stdio no", ["notes"]),
        ("patchbay restore ta", ["tasks"]),
        ("patchbay rollback notes 1", ["1"]),
        ("patchbay schedule run notes sea", ["seal", "search"]),
        ("patchbay call /mcp/no", ["/mcp/notes"]),
        ("jn call /mcp/no", ["/mcp/notes"]),
        ("patchbay call no", ["notes"]),
        ("patchbay call notes sear", ["search"]),
        ("patchbay call notes search kind=b", ["book", "bulletin"]),
        ("patchbay inspect no", ["notes"]),
        ("jn cat /mcp/notes/sea", ["/mcp/notes/seal", "/mcp/notes/search"]),
        ("patchbay call /mcp/notes ", ["seal", "search"]),
        ("patchbay call /mcp/notes search ", ["kind=", "loud="]),
        ("patchbay call /mcp/notes search kind=book l", ["loud="]),
        ("jn call /mcp/notes search loud=", ["false", "true"]),
        ("patchbay diff notes ", ["1", "2", "3"]),
        ("jn call shelf ", ["find", "lend"]),
        ("jn call @shelf ", ["find", "lend"]),
        ("jn mcp schema @shelf l", ["lend"]),
        ("jn call sh", ["shelf"]),
        ("jn call @shelf find ", ["genre=", "text="]),
        ("patchbay key revoke ", ["ann-laptop", "robot"]),
        ("patchbay people remove ", ["ann", "bob"]),
        ("patchbay invite a", ["ann"]),
        ("patchbay show zzz", []),
        ("patchbay call /mcp/zzz ", []),
    ],
)
def test_the_program_offers_names_tools_arguments_and_values(folder: Path, line: str, offered: list[str]) -> None:
    """Nothing for what is not there."""
    assert sorted(ask_program(folder, line)) == offered


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bash_reads_an_offered_value_as_the_server_wrote_it(folder: Path, locale: str) -> None:
    """A value of a mounted server is text, whatever its characters mean to a shell; CWE-78.

    After an opening quotation mark it may be another text, but runs nothing either.
    """
    printed = run_bash(folder, ASK_BASH + TYPED, "patchbay call /mcp/picks pick kind=", LC_ALL=locale)
    _, alone, *marked = printed.split("\n\0")
    assert alone.split("\0")[:-1] == list(HOSTILE.values())
    assert len(marked) == 2 and all("touch" in words for words in marked)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_one_script_completes_both_programs(shell: str) -> None:
    """Either program prints the script of a shell for both."""
    printed = [CliRunner().invoke(each, ["completion", shell]).stdout for each in (main, jn)]
    assert printed[0] == printed[1]
    assert f"_PATCHBAY_COMPLETE={shell}_complete" in printed[0] and f"_JN_COMPLETE={shell}_complete" in printed[0]


LINES = {
    "patchbay show no\t": ["show", "notes"],
    "patchbay rollb\t": ["rollback"],
    "patchbay call /mcp/notes search lo\tf\t": ["call", "/mcp/notes", "search", "loud=false"],
    "jn call /mcp/notes search kind=bul\t": ["call", "/mcp/notes", "search", "kind=bulletin"],
    "patchbay pins import servers/not\t": ["pins", "import", "servers/notes.py"],
}
"""Lines as a person types them, with tabs, and the words that the program gets."""


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_complete_names_tools_arguments_values_and_files(folder: Path, shell: str) -> None:
    """A value goes on directly after its `NAME=`."""
    assert type_lines(shell, folder, list(LINES)) == list(LINES.values())


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_zsh_and_fish_read_an_offered_value_as_the_server_wrote_it(folder: Path, shell: str) -> None:
    """A value of a mounted server is text, whatever its characters mean to a shell; CWE-78."""
    lines = [f"patchbay call /mcp/single {name} kind=\t" for name in SINGLE_VALUES]
    found = [words[-1] for words in type_lines(shell, folder, lines)]
    assert found == [f"kind={value}" for value in SINGLE_VALUES.values()]
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_a_value_after_an_opening_quotation_mark_runs_nothing_in_zsh_and_fish(folder: Path, shell: str) -> None:
    lines = [f"patchbay call /mcp/single runs {mark}kind=\t" for mark in ("'", '"')]
    for words in type_lines(shell, folder, lines):
        assert words[:-1] == ["call", "/mcp/single", "runs"] and "touch ran" in words[-1]
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("name", ["patchbay", "jn"])
def test_zsh_and_fish_are_offered_the_values_with_the_name_of_the_argument(folder: Path, shell: str, name: str) -> None:
    """As the scripts of these shells ask: the words so far, and the one that is typed."""
    words, typed = f"{name} call /mcp/notes search ", "kind=b"
    asked = (words, typed) if shell == "fish" else (words + typed, "4")
    printed = answer_shell(folder, shell, name, *asked)
    assert "kind=book" in printed and "kind=bulletin" in printed and "film" not in printed


@pytest.mark.parametrize(("shell", "lines"), [("zsh", 3), ("fish", 1)])
def test_zsh_and_fish_get_no_value_that_looks_like_several_answers(folder: Path, shell: str, lines: int) -> None:
    current = "kind=" if shell == "fish" else "4"
    printed = answer_shell(folder, shell, "patchbay", "patchbay call /mcp/picks pick kind=", current).split("\n")[:-1]
    assert len(printed) == lines * len(HOSTILE)
    assert not any("other" in line for line in printed)


def test_a_name_that_would_be_an_option_is_not_offered(folder: Path) -> None:
    assert [item.value for item in _fitting(["--yes", "yes", ""], "")] == ["yes"]

"""Shell completion by real shells: servers, addresses, tools, arguments and their values (issue 47 item 4)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchbay.cli.commands.client import jn
from patchbay.cli.commands.patchbay import main
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

ASK = """
source "$1"
COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:'
COMP_LINE="$2"
COMP_POINT=${#2}
compopt() { :; }
_${2%% *}_completion "${2%% *}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hub with one server of its own and a removed one, and the script for bash."""
    made = tmp_path_factory.mktemp("completing")
    (made / "servers").mkdir()
    (made / "servers" / "notes.py").write_text(NOTES)
    (made / "servers" / "tasks.py").write_text(NOTES)
    for words in (["remove", "tasks", "--yes"], ["disable", "notes"], ["enable", "notes"]):
        ended = subprocess.run([program("patchbay"), *words], env=environment(made), check=False, timeout=BOUND)
        assert ended.returncode == 0
    (made / "script").write_text(CliRunner().invoke(main, ["completion", "bash"], prog_name="patchbay").stdout)
    return made


def program(name: str) -> str:
    return str(Path(sys.executable).parent / name)


def environment(folder: Path) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATCHBAY_DATA": str(folder / "data"), "PATCHBAY_SERVERS": str(folder / "servers"), "HOME": str(folder)}
    return {**os.environ, **own, "PATH": path}


def ask(folder: Path, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    command = ["bash", "--norc", "-c", ASK, "bash", str(folder / "script"), line]
    ended = subprocess.run(
        command, env=environment(folder), cwd=folder, capture_output=True, text=True, check=True, timeout=BOUND
    )
    return ended.stdout.split()


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
        ("jn cat /mcp/notes/sea", ["/mcp/notes/seal", "/mcp/notes/search"]),
        ("patchbay call /mcp/notes ", ["seal", "search"]),
        ("jn call /mcp/notes sear", ["search"]),
        ("patchbay call /mcp/notes search ", ["kind=", "loud="]),
        ("patchbay call /mcp/notes search kind=book l", ["loud="]),
        ("patchbay call /mcp/notes search kind=b", ["book", "bulletin"]),
        ("jn call /mcp/notes search loud=", ["false", "true"]),
        ("patchbay rollb", ["rollback"]),
        ("patchbay show --js", ["--json"]),
    ],
)
def test_bash_is_offered_names_tools_arguments_and_values(folder: Path, line: str, offered: list[str]) -> None:
    assert sorted(ask(folder, line)) == offered


def test_completion_of_what_is_not_there_offers_nothing(folder: Path) -> None:
    assert ask(folder, "patchbay show zzz") == []
    assert ask(folder, "patchbay call /mcp/zzz ") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_one_script_completes_both_programs(shell: str) -> None:
    """Either program prints the script of a shell for both."""
    printed = [CliRunner().invoke(each, ["completion", shell]).stdout for each in (main, jn)]
    assert printed[0] == printed[1]
    assert f"_PATCHBAY_COMPLETE={shell}_complete" in printed[0] and f"_JN_COMPLETE={shell}_complete" in printed[0]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
@pytest.mark.parametrize("name", ["patchbay", "jn"])
def test_zsh_and_fish_are_offered_the_values_with_the_name_of_the_argument(folder: Path, shell: str, name: str) -> None:
    """As the scripts of these shells ask: the words so far, and the one that is typed."""
    typed = "kind=b"
    words = f"{name} call /mcp/notes search {typed}"
    asked = {"COMP_WORDS": words, "COMP_CWORD": typed if shell == "fish" else "4"}
    if shell == "fish":
        asked["COMP_WORDS"] = words.removesuffix(typed)
    own = environment(folder) | asked | {f"_{name.upper()}_COMPLETE": f"{shell}_complete"}
    ended = subprocess.run([program(name)], env=own, cwd=folder, capture_output=True, text=True, timeout=BOUND)
    assert "kind=book" in ended.stdout and "kind=bulletin" in ended.stdout and "film" not in ended.stdout

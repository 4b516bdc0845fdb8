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
from patchbay.cli.completion import _fitting
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

TYPED = """
printf '\\0'
for one in "${COMPREPLY[@]}"; do eval "printf '%s\\\\0' $3$one$3"; done
"""
"""Give bash each offered word, with a quotation mark around it or not, as a person does with Enter."""

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
    (made / "servers" / "picks.py").write_text(PICK)
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


def run_bash(folder: Path, script: str, *arguments: str, **variables: str) -> str:
    """The output of a script in bash, which may fail."""
    command = ["bash", "--norc", "-c", script, "bash", str(folder / "script"), *arguments]
    own = environment(folder) | variables
    return subprocess.run(
        command, env=own, cwd=folder, stdout=subprocess.PIPE, check=False, timeout=BOUND
    ).stdout.decode()


def ask(folder: Path, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    return run_bash(folder, ASK, line).split()


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


@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_bash_reads_an_offered_value_as_the_server_wrote_it(folder: Path, locale: str) -> None:
    """A value of a mounted server is text, whatever its characters mean to a shell; CWE-78."""
    printed = run_bash(folder, ASK + TYPED, "patchbay call /mcp/picks pick kind=", "", LC_ALL=locale)
    assert printed.split("\0")[1:-1] == list(HOSTILE.values())
    assert not (folder / "ran").exists()


@pytest.mark.parametrize("mark", ["'", '"'])
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_a_value_after_an_opening_quotation_mark_runs_nothing(folder: Path, mark: str, locale: str) -> None:
    printed = run_bash(folder, ASK + TYPED, "patchbay call /mcp/picks pick kind=", mark, LC_ALL=locale)
    assert "touch" in printed
    assert not (folder / "ran").exists()


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


@pytest.mark.parametrize(("shell", "lines"), [("zsh", 3), ("fish", 1)])
def test_zsh_and_fish_get_no_value_that_looks_like_several_answers(folder: Path, shell: str, lines: int) -> None:
    asked = {"COMP_WORDS": "patchbay call /mcp/picks pick kind=", "COMP_CWORD": "kind=" if shell == "fish" else "4"}
    own = environment(folder) | asked | {"_PATCHBAY_COMPLETE": f"{shell}_complete"}
    ended = subprocess.run([program("patchbay")], env=own, cwd=folder, stdout=subprocess.PIPE, timeout=BOUND)
    printed = ended.stdout.decode().splitlines()
    assert len(printed) == lines * len(HOSTILE)
    assert not any("other" in line for line in printed)


def test_a_name_that_would_be_an_option_is_not_offered(folder: Path) -> None:
    assert [item.value for item in _fitting(["--yes", "yes", ""], "")] == ["yes"]

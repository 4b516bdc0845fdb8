"""Real shells that complete words of `patchbay` and `jn`: bash by its variables, zsh and fish on a terminal.

What a program answers a shell is also read without the shell, in this process, which takes a fraction of the time.

On a terminal, a line with Tab and Enter is typed as a person does; a function in place of the program notes the words
that the shell gives it, so that a test sees how the shell reads what was completed.
"""

from __future__ import annotations

import os
import pty
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from patchbay.cli.commands.client import jn
from patchbay.cli.commands.patchbay import main
from tests.waiting import BOUND, until

PROMPT = "ready> "

ASK_BASH = """
source "$1"
COMP_WORDBREAKS=$' \\t\\n"\\'@><=;|&(:'
COMP_LINE="$2"
COMP_POINT=${#2}
compopt() { :; }
_${2%% *}_completion "${2%% *}"
printf '%s\\n' "${COMPREPLY[@]}"
"""
"""Ask the function for bash at the end of the line $2; print what it offers."""

ZSH_START = f"""
PROMPT='{PROMPT}'
source "$FOLDER/script.zsh"
patchbay() {{ printf '%s\\0' "$@" >>"$FOLDER/typed"; printf '\\n' >>"$FOLDER/typed" }}
jn() {{ patchbay "$@" }}
"""

FISH_START = f"""
function fish_prompt; echo '{PROMPT}'; end
source "$FOLDER/script.fish"
function patchbay; printf '%s\\0' $argv >>"$FOLDER/typed"; printf '\\n' >>"$FOLDER/typed"; end
function jn; patchbay $argv; end
"""


def program(name: str) -> str:
    """The path of `patchbay` or `jn`."""
    return str(Path(sys.executable).parent / name)


def environment(folder: Path) -> dict[str, str]:
    """The variables of a person whose hub is in a folder, and whose programs are those of this Python."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATCHBAY_DATA": str(folder / "data"), "PATCHBAY_SERVERS": str(folder / "servers"), "HOME": str(folder)}
    return {**os.environ, **own, "PATH": path}


def write_script(folder: Path, shell: str) -> None:
    """Write the script of a shell into a folder, as `script.SHELL`."""
    printed = CliRunner().invoke(main, ["completion", shell], prog_name="patchbay")
    assert printed.exit_code == 0
    (folder / f"script.{shell}").write_text(printed.stdout)


def run_bash(folder: Path, script: str, *arguments: str, **variables: str) -> str:
    """The output of a script in bash, which may fail; its first argument is the script of completion."""
    command = ["bash", "--norc", "-c", script, "bash", str(folder / "script.bash"), *arguments]
    own = environment(folder) | variables
    return subprocess.run(
        command, env=own, cwd=folder, stdout=subprocess.PIPE, check=False, timeout=BOUND
    ).stdout.decode()


def ask_bash(folder: Path, line: str) -> list[str]:
    """What bash offers at the end of a line."""
    return run_bash(folder, ASK_BASH, line).split()


def ask_program(folder: Path, line: str) -> list[str]:
    """The words that the program gives the function for bash at the end of a line."""
    answer = answer_shell(folder, "bash", line.split()[0], f"{line}.", "-1", COMP_BREAKS="=:")
    return [one.removeprefix("plain,") for one in answer.splitlines() if one.startswith("plain,")]


def answer_shell(folder: Path, shell: str, name: str, words: str, current: str, **variables: str) -> str:
    """What a program prints for a shell; `words` and `current` are the variables that the shell's script sets."""
    asked = {"COMP_WORDS": words, "COMP_CWORD": current, f"_{name.upper()}_COMPLETE": f"{shell}_complete"}
    with chdir(folder):
        answered = CliRunner().invoke(
            {"patchbay": main, "jn": jn}[name], [], env=environment(folder) | asked | variables, prog_name=name
        )
    assert answered.exit_code == 0, answered
    return answered.stdout


def type_lines(shell: str, folder: Path, lines: Sequence[str]) -> list[list[str]]:
    """Type lines, in which a tab completes, into zsh or fish; the words that the program gets from each line."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is missing; on Debian: apt-get install {shell}")
    write_script(folder, shell)
    typed = folder / "typed"
    typed.write_bytes(b"")
    pid, terminal = pty.fork()
    if pid == 0:
        _become_shell(shell, folder)
    shown = bytearray()
    reader = threading.Thread(target=_read_all, args=(terminal, shown))
    reader.start()
    try:
        for count, line in enumerate(lines):
            until(lambda count=count: shown.count(PROMPT.encode()) > count, lambda: bytes(shown))  # type: ignore[misc]
            os.write(terminal, f"{line}\r".encode())
            until(lambda count=count: typed.read_bytes().count(b"\n") > count, lambda: bytes(shown))  # type: ignore[misc]
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        reader.join()
        os.close(terminal)
    return [line.split("\0")[:-1] for line in typed.read_text("utf-8").splitlines()]


def _become_shell(shell: str, folder: Path) -> None:
    """Replace this process with an interactive shell whose configuration is in the folder."""
    own = {"FOLDER": str(folder), "ZDOTDIR": str(folder), "XDG_CONFIG_HOME": str(folder), "TERM": "dumb"}
    (folder / ".zshrc").write_text(ZSH_START)
    (folder / "fish").mkdir(exist_ok=True)
    (folder / "fish" / "config.fish").write_text(FISH_START)
    os.chdir(folder)
    os.execvpe(shell, [shell, "-i"], environment(folder) | own | {"LC_ALL": "C.UTF-8"})


def _read_all(terminal: int, shown: bytearray) -> None:
    """Collect what a terminal shows until its last program has ended."""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            return
        if not piece:
            return
        shown += piece

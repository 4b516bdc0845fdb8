"""A process that becomes an interpreter of scripts has nothing of this machine but its memory and its streams."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from patchbay.processes.confinement import landlock
from patchbay.processes.confinement.kernel import LINUX

pytestmark = pytest.mark.skipif(not LINUX, reason="only Linux restricts a process so")

START = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); "
    "from patchbay.processes.script_start import main; main(sys.argv[2], sys.argv[3:])"
)


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a program as the pool starts an interpreter."""
    words = [sys.executable, "-I", "-S", "-c", START, json.dumps(sys.path), str(Path(program).resolve()), *arguments]
    return subprocess.run(
        words, capture_output=True, text=True, env={"SECRET": "told"}, check=False, stdin=subprocess.DEVNULL
    )


def test_it_gets_its_arguments_and_no_environment() -> None:
    assert run("/usr/bin/env").stdout == ""
    assert run("/bin/echo", "a", "b c").stdout == "a b c\n"


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
@pytest.mark.parametrize("path", ["/etc/passwd", "/proc/self/environ", str(Path(__file__)), "/tmp"])
def test_it_opens_no_file_and_no_folder(path: str) -> None:
    found = run("/bin/cat" if path != "/tmp" else "/bin/ls", path)
    assert found.returncode != 0 and "Permission denied" in found.stderr and not found.stdout


@pytest.mark.skipif(not landlock.version(), reason="this kernel has no Landlock")
def test_it_starts_no_other_program() -> None:
    assert run("/usr/bin/env", "/bin/echo", "x").returncode == 126


def test_it_may_begin_with_a_lower_priority() -> None:
    start = START.replace("sys.argv[3:])", "sys.argv[4:], int(sys.argv[3]))")
    words = [sys.executable, "-I", "-S", "-c", start, json.dumps(sys.path), str(Path("/bin/nice").resolve()), "19"]
    assert subprocess.run(words, capture_output=True, text=True, check=False).stdout == "19\n"


def test_a_silent_one_writes_nothing_to_the_log_and_says_why_it_cannot_begin(tmp_path: Path) -> None:
    start = START.replace("sys.argv[3:])", "sys.argv[3:], is_silent=True)")
    words = [sys.executable, "-I", "-S", "-c", start, json.dumps(sys.path)]

    def errors_of(*program: str) -> str:
        return subprocess.run([*words, *program], capture_output=True, text=True, check=False).stderr

    assert errors_of(str(Path("/bin/bash").resolve()), "-c", "echo noise >&2") == ""
    assert "No such file" in errors_of(str(tmp_path / "gone"))


def test_it_has_no_network() -> None:
    script = "exec 3<>/dev/tcp/127.0.0.1/1 && echo reached"
    found = run("/bin/bash", "-c", script)
    assert "reached" not in found.stdout and ("unreachable" in found.stderr or "denied" in found.stderr), found.stderr


def test_its_memory_and_its_files_have_limits() -> None:
    limits = run("/bin/bash", "-c", "ulimit -d; ulimit -f; ulimit -c; ulimit -n").stdout.split()
    assert limits == [str(1024 * 1024), "0", "0", "64"]

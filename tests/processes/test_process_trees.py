"""Process trees: finding, ending and reaping processes, also on systems without /proc and `waitid`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from patchbay.errors import ToolFailed
from patchbay.processes import process_trees
from patchbay.processes.process_trees import children_of, descendants, environment_of, kill_marked, process_ids
from patchbay.processes.program import Command, run
from tests.waiting import BOUND, until

REAPS_WITHOUT_WAITID = """
import os, time
from patchbay.processes.process_trees import reap_child
if hasattr(os, "waitid"):
    del os.waitid
child = os.fork()
if not child:
    os._exit(3)
seen = []
while (ended := reap_child(seen.append)) is None:
    time.sleep(0.01)
print(seen == [child] == [ended[0]], os.waitstatus_to_exitcode(ended[1]))
try:
    reap_child()
except ChildProcessError:
    print("no child")
"""


@pytest.fixture
def without_proc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A system without /proc and `waitid`, such as macOS."""
    monkeypatch.setattr(process_trees, "PROC", str(tmp_path / "absent"))
    monkeypatch.delattr(os, "waitid", raising=False)


@pytest.fixture
def tree() -> Iterator[subprocess.Popen[bytes]]:
    """A shell with a child of its own."""
    with subprocess.Popen(["sh", "-c", "sleep 600 & echo; wait"], stdout=subprocess.PIPE) as shell:
        assert shell.stdout is not None
        shell.stdout.readline()
        yield shell
        for pid in (*descendants(shell.pid), shell.pid):
            process_trees.kill_process_and_group(pid)


def is_running(pid: int) -> bool:
    """Whether a process exists and is not a zombie."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def describe_processes(proc: Path) -> None:
    """Write a /proc without lists of children: 1 is the parent of 10 and 13, 10 of 11, and 11 of 12."""
    for pid, parent in (("10", 1), ("11", 10), ("12", 11), ("13", 1)):
        (proc / pid / "task" / pid).mkdir(parents=True)
        (proc / pid / "stat").write_text(f"{pid} (a name) with) S {parent} 0 0")


def test_children_of_children_are_descendants(tree: subprocess.Popen[bytes]) -> None:
    [sleep] = children_of(tree.pid)
    assert descendants(tree.pid) == [sleep]
    assert {tree.pid, sleep} <= set(descendants(os.getpid()))
    assert {tree.pid, sleep} <= set(process_ids())


def test_children_are_found_by_their_parent_where_the_kernel_lists_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    describe_processes(tmp_path)
    monkeypatch.setattr(process_trees, "PROC", str(tmp_path))
    assert children_of(10) == [11]
    assert descendants(10) == [11, 12]


def test_a_thread_that_ends_meanwhile_hides_no_child(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    describe_processes(tmp_path)
    (tmp_path / "10" / "task" / "10" / "children").write_text("")
    (tmp_path / "10" / "task" / "14").mkdir()
    monkeypatch.setattr(process_trees, "PROC", str(tmp_path))
    assert children_of(10) == [11]


@pytest.mark.usefixtures("without_proc")
def test_a_system_without_proc_shows_no_process() -> None:
    assert process_ids() == children_of(os.getpid()) == descendants(os.getpid()) == []
    assert environment_of(os.getpid()) is None
    kill_marked(0, b"PATCHBAY_CALL=none")


def test_a_command_may_write_exactly_as_much_as_its_limit(tmp_path: Path) -> None:
    command = Command(["printf", "0123456789"], {}, tmp_path)
    assert b"".join(data for _, data in filter(None, run(command, cap=10))) == b"0123456789"
    with pytest.raises(ToolFailed, match="it wrote more than 9 bytes"):
        list(run(command, cap=9))


@pytest.mark.usefixtures("without_proc")
def test_a_command_and_its_group_end_without_proc_and_waitid(tmp_path: Path) -> None:
    command = Command(["sh", "-c", "sleep 600 > /dev/null 2>&1 & echo $!"], {}, tmp_path)
    pieces = [piece for piece in run(command) if piece is not None]
    pid = int(b"".join(data for _, data in pieces))
    until(lambda: not is_running(pid), f"the end of process {pid}")


def test_a_child_is_reaped_without_waitid() -> None:
    done = subprocess.run(
        [sys.executable, "-c", REAPS_WITHOUT_WAITID], capture_output=True, text=True, timeout=BOUND, check=True
    )
    assert done.stdout == "True 3\nno child\n"

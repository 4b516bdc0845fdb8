"""The checks of jq expressions: one process of the hub makes them all."""

from __future__ import annotations

import json
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from patchbay.errors import ConfigError
from patchbay.shaping.results import CHECKS, STOPPED_SECONDS, _find_fault, _StoppedChecks, check_result
from tests.waiting import BOUND, until

FORKED = """
import json, os
from patchbay.errors import ConfigError
from patchbay.shaping.results import CHECKS, STOPPED_SECONDS, _find_fault, _StoppedChecks, check_result

def check(expression):
    try:
        check_result(expression, None)
    except ConfigError:
        return "wrong"
    return "right"

said = [check(".a"), CHECKS.processes.pids()]
receiver, sender = os.pipe()
child = os.fork()
if child == 0:
    os.write(sender, json.dumps([check(".b"), check("]"), CHECKS.processes.pids()]).encode())
    os._exit(0)
os.waitpid(child, 0)
said += [json.loads(os.read(receiver, 10000)), check(".c"), CHECKS.processes.pids()]
print(json.dumps(said))
"""


def test_one_process_checks_all_expressions_also_after_one_that_is_wrong() -> None:
    check_result(".first", None)
    pids = CHECKS.processes.pids()
    assert len(pids) == 1
    check_result(".second", {"type": "object"})
    with pytest.raises(ConfigError, match="is not valid"):
        check_result(".third ]", None)
    check_result(".fourth", None)
    assert CHECKS.processes.pids() == pids


def test_a_forked_process_checks_in_a_process_of_its_own_which_ends_with_it() -> None:
    ended = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=BOUND, check=True)
    before, pids, (right, wrong, pids_of_child), after, pids_after = json.loads(ended.stdout)
    assert (before, right, wrong, after) == ("right", "right", "wrong", "right")
    assert len(pids) == 1 and pids_after == pids and len(pids_of_child) == 1 and pids_of_child != pids
    for pid in (*pids, *pids_of_child):
        until(partial(_has_ended, pid), "the process has ended")


def _has_ended(pid: int) -> bool:
    """Whether a process has ended; one that has ended may wait for its parent."""
    try:
        return ") Z " in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return True


def test_a_check_that_a_limit_ended_is_remembered_for_a_short_time_only() -> None:
    stopped, key = _StoppedChecks(), (".a", b"{}")
    stopped.add(key, 100.0, "cannot be used: it takes too long")
    assert stopped.find(key, 100.0 + STOPPED_SECONDS - 1) == "cannot be used: it takes too long"
    assert stopped.find(key, 100.0 + STOPPED_SECONDS + 1) == ""
    assert stopped.find((".b", b"{}"), 100.0) == ""


def test_a_check_that_a_limit_ended_is_not_in_the_cache_of_checks() -> None:
    before = _find_fault.cache_info().currsize
    with pytest.raises(ConfigError, match="it takes more than 2 s of processor time"):
        check_result("def f: f; f", {"type": "integer"})
    assert _find_fault.cache_info().currsize == before

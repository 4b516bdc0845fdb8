"""The limit of open files: raised as far as it is needed, and listeners that do not fit are refused from the start.

Requirements: issue 14 item 1.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from patchbay.serving.descriptors import needed_descriptors
from patchbay.settings import Settings
from tests.checkout import ROOT

PROGRAM = """
import json, logging, resource, sys
from patchbay.serving.descriptors import ensure_descriptors
from patchbay.settings import Settings

logging.basicConfig(format="%(message)s")
soft, hard, listeners = map(int, sys.argv[1:])
resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
settings = ensure_descriptors(Settings(listeners=listeners, threads=16))
print(json.dumps([settings.listeners, *resource.getrlimit(resource.RLIMIT_NOFILE)]))
"""

NEEDED = needed_descriptors(Settings(listeners=500, threads=16))


def ensured(soft: int, hard: int, listeners: int = 500) -> tuple[list[int], str]:
    """Places for listeners, and both limits, after the check in a process with these limits; and what it logged."""
    command = [sys.executable, "-c", PROGRAM, str(soft), str(hard), str(listeners)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout), done.stderr


def test_a_limit_that_is_enough_stays() -> None:
    assert ensured(NEEDED, NEEDED + 10) == ([500, NEEDED, NEEDED + 10], "")


def test_a_limit_is_raised_to_what_is_needed() -> None:
    assert ensured(64, NEEDED + 10) == ([500, NEEDED, NEEDED + 10], "")


@pytest.mark.parametrize("missing", [1, 300])
def test_listeners_that_do_not_fit_have_no_place_and_the_log_says_what_to_do(missing: int) -> None:
    hard = NEEDED - missing
    found, said = ensured(64, hard)
    assert found == [max(500 - missing, min(500, hard // 2)), hard, hard]
    assert f"lets a process open {hard} files" in said
    assert f"ulimit -n {NEEDED}" in said and f"LimitNOFILE={NEEDED}" in said

"""tests/conftest.py: what the environment of the machine must not change in the tests, and the order of the tests."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.checkout import ROOT

VARIABLE = "PYTHONDONTWRITEBYTECODE"


def test_programs_that_tests_start_may_store_their_compiled_modules() -> None:
    assert VARIABLE not in os.environ


@pytest.mark.slow
def test_this_holds_where_the_machine_forbids_it() -> None:
    name = test_programs_that_tests_start_may_store_their_compiled_modules.__name__
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", f"{__file__}::{name}"]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, VARIABLE: "1"}, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_modules_that_run_alone_begin_before_the_others() -> None:
    """Otherwise each of them would wait until the tests of the other workers end, while nothing new begins."""
    names = ("test_topics.py", "zoo/test_programs_that_end.py", "conformance/test_conformance_alone.py")
    files = [f"tests/{name}" for name in names]
    command = [sys.executable, "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "--collect-only", *files]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    found = [line.partition("::")[0] for line in done.stdout.splitlines() if "::" in line]
    assert list(dict.fromkeys(found)) == files[::-1], done.stdout

"""Failed tests run once more at the end, alone: runs of pytest on small files, as `scripts/test` starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.checkout import ROOT

pytestmark = pytest.mark.slow

ONCE = """
from pathlib import Path
def first(name: str) -> bool:
    path = Path(__file__).parent / f"{name}.ran"
    known = path.exists()
    path.touch()
    return not known
"""
"""Defines `first`, which is true once for each name, whatever process asks."""

BOTH = pytest.mark.parametrize("workers", ["-n0", "-n1"])
"""Without and with a worker. A second worker would get no test: the tests of one file stay together."""


def run(folder: Path, workers: str, *options: str, **files: str) -> subprocess.CompletedProcess[str]:
    """Run pytest with the plugin on test files whose texts are given."""
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\naddopts = -p xdist -ra --dist loadfile\n")
    (folder / "conftest.py").write_text('pytest_plugins = ["tests.second_run"]\n')
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(ONCE + text)
    command = [sys.executable, "-m", "pytest", "--failed-again", workers, *options]
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, env=environment)


def ending(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the run printed below the title `unstable`, with pytest's last line, without its time."""
    lines = done.stdout.splitlines()
    title = next(n for n, line in enumerate(lines) if re.fullmatch(r"=+ unstable =+", line))
    return [re.sub(r" in \d.*", "", line).strip("= ") for line in lines[title + 1 :]]


MEND = "These failed and then passed alone. Mend them in the next change."


@pytest.mark.parametrize("workers", ["-n0", "-n2"])
def test_a_test_that_passes_the_second_time_is_named_and_the_run_passes(tmp_path: Path, workers: str) -> None:
    done = run(
        tmp_path,
        workers,
        a="def test_wobbles():\n    assert not first('a'), 'it was\\nthe first time'\n\ndef test_stands(): pass\n",
        b="def test_stands(): pass\n",
    )
    assert ending(done) == [
        MEND,
        "UNSTABLE test_a.py::test_wobbles - AssertionError: it was",
        "2 passed, 1 unstable",
    ]
    assert "failed" not in done.stdout.splitlines()[-1]
    assert "first run of unstable tests" in done.stdout
    assert "the first time" in done.stdout
    assert done.returncode == 0


@BOTH
def test_a_test_that_fails_twice_fails_the_run_with_both_tracebacks(tmp_path: Path, workers: str) -> None:
    text = "def test_falls():\n    assert 0, 'the first time' if first('a') else 'and again'\n"
    done = run(tmp_path, workers, a=text)
    assert done.returncode == 1
    assert "AssertionError: the first time" in done.stdout
    assert "the second run, alone" in done.stdout
    assert "AssertionError: and again" in done.stdout
    assert "FAILED test_a.py::test_falls - AssertionError: the first time" in done.stdout
    assert re.search(r"= 1 failed in ", done.stdout.splitlines()[-1])
    assert "UNSTABLE" not in done.stdout


@BOTH
def test_four_unstable_tests_fail_the_run(tmp_path: Path, workers: str) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range({}))\ndef test_wobbles(n):\n    assert not first(n)\n"
    (tmp_path / "three").mkdir()
    (tmp_path / "four").mkdir()
    three, four = (run(tmp_path / name, workers, a=text.format(n)) for name, n in (("three", 3), ("four", 4)))
    assert (three.returncode, ending(three)[-1]) == (0, "3 unstable")
    assert four.returncode == 1
    assert ending(four)[-2:] == ["4 are unstable, more than 3: the run fails.", "4 failed"]
    assert len([line for line in ending(four) if line.startswith("UNSTABLE test_a.py::test_wobbles[")]) == 4


@BOTH
def test_an_unstable_test_does_not_hide_one_that_fails_twice(tmp_path: Path, workers: str) -> None:
    done = run(
        tmp_path, workers, a="def test_wobbles():\n    assert not first('a')\n\ndef test_falls():\n    assert 0\n"
    )
    assert done.returncode == 1
    assert ending(done)[1].startswith("UNSTABLE test_a.py::test_wobbles - ")
    assert ending(done)[2:] == ["1 failed, 1 unstable"]


@BOTH
@pytest.mark.parametrize("scope", ["module", "session", "function"])
def test_the_tests_of_a_shared_fixture_that_failed_once_are_one_unstable_failure(
    tmp_path: Path, workers: str, scope: str
) -> None:
    fixture = (
        f"import pytest\n@pytest.fixture(scope='{scope}')\ndef hub():\n    if first('hub'): raise OSError('no port')\n"
    )
    tests = "@pytest.mark.parametrize('n', range(6))\ndef test_uses(hub, n): pass\n"
    done = run(tmp_path, workers, a=fixture + tests)
    assert done.returncode == 0
    if scope == "function":
        assert ending(done)[1:] == ["UNSTABLE test_a.py::test_uses[0] - OSError: no port", "5 passed, 1 unstable"]
    else:
        line = "UNSTABLE test_a.py::test_uses[0] and 5 more with the same fixture - OSError: no port"
        assert ending(done)[1:] == [line, "6 unstable"]


@BOTH
def test_a_fixture_that_fails_at_its_end_is_named_and_its_test_counts_once(tmp_path: Path, workers: str) -> None:
    fixture = "import pytest\n@pytest.fixture(scope='module')\ndef hub():\n    yield\n"
    fixture += "    assert not first('hub'), 'left over'\n"
    done = run(tmp_path, workers, a=fixture + "def test_one(hub): pass\ndef test_two(hub): pass\n")
    assert ending(done)[1:] == ["UNSTABLE test_a.py::test_two - AssertionError: left over", "1 passed, 1 unstable"]
    assert done.returncode == 0


def test_a_crashed_worker_is_unstable_when_its_test_passes_alone(tmp_path: Path) -> None:
    text = "import os\ndef test_ends():\n    if first('a'): os._exit(3)\n\ndef test_stands(): pass\n"
    done = run(tmp_path, "-n2", a=text)
    assert re.fullmatch(
        r"UNSTABLE test_a.py::test_ends - worker 'gw\d' crashed while running 'test_a.py::test_ends'", ending(done)[1]
    )
    assert ending(done)[2] == "1 passed, 1 unstable"
    assert done.returncode == 0


def test_a_test_that_ends_its_process_twice_fails_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, "-n2", a="import os\ndef test_ends():\n    os._exit(3)\n\ndef test_stands(): pass\n")
    assert done.returncode == 1
    assert "The process ended with code 3 before the test did" in done.stdout
    assert done.stdout.count("replacing crashed worker") == 1
    assert re.search(r"= 1 failed, 1 passed in ", done.stdout.splitlines()[-1])


def test_tests_that_did_not_run_because_workers_crashed_are_not_forgiven(tmp_path: Path) -> None:
    text = "import os\ndef test_ends():\n    if first('a'): os._exit(3)\n\ndef test_never_runs(): pass\n"
    done = run(tmp_path, "-n1", "--max-worker-restart=0", a=text)
    assert done.returncode != 0
    assert "UNSTABLE" not in done.stdout
    assert "1 failed" in done.stdout.splitlines()[-1]


@BOTH
def test_an_error_of_collection_is_never_forgiven(tmp_path: Path, workers: str) -> None:
    done = run(
        tmp_path,
        workers,
        a="assert not first('a')\ndef test_one(): pass\n",
        b="def test_b():\n    assert not first('b')\n",
    )
    assert done.returncode not in (0, 5)
    assert re.search(r"\b\d errors?\b", done.stdout.splitlines()[-1])


@BOTH
def test_an_error_of_pytest_itself_is_never_forgiven(tmp_path: Path, workers: str) -> None:
    plugin = (
        "def pytest_runtest_logfinish(nodeid):\n    if nodeid.endswith('test_two'): raise OSError('broken plugin')\n"
    )
    (tmp_path / "broken_plugin.py").write_text(plugin)
    text = "def test_one():\n    assert not first('a')\ndef test_two(): pass\n"
    done = run(tmp_path, workers, "-p", "broken_plugin", a=text)
    assert done.returncode not in (0, 5)
    assert "UNSTABLE" not in done.stdout


@BOTH
def test_a_test_that_is_skipped_the_second_time_did_not_pass(tmp_path: Path, workers: str) -> None:
    done = run(
        tmp_path, workers, a="import pytest\ndef test_a():\n    assert not first('a')\n    pytest.skip('no port')\n"
    )
    assert done.returncode == 1
    assert "no port" in done.stdout
    assert re.search(r"= 1 failed in ", done.stdout.splitlines()[-1])


@BOTH
def test_a_run_that_stops_at_the_first_failure_runs_nothing_again(tmp_path: Path, workers: str) -> None:
    done = run(tmp_path, workers, "-x", a="def test_a():\n    assert not first('a')\n\ndef test_b(): pass\n")
    assert done.returncode not in (0, 5)
    assert "1 failed" in done.stdout.splitlines()[-1]


def test_at_most_ten_failures_run_again(tmp_path: Path) -> None:
    text = "import pytest\n@pytest.mark.parametrize('n', range(12))\ndef test_falls(n):\n    assert 0\n"
    done = run(tmp_path, "-n0", a=text)
    assert "Running 10 of 12 failures again, each alone." in done.stdout
    assert done.stdout.count("the second run, alone") == 10
    assert (done.returncode, "12 failed" in done.stdout.splitlines()[-1]) == (1, True)


def test_a_passing_run_prints_nothing_about_a_second_one(tmp_path: Path) -> None:
    done = run(tmp_path, "-n0", a="def test_a(): pass\n")
    assert (done.returncode, "again" in done.stdout, "unstable" in done.stdout) == (0, False, False)

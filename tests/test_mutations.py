"""scripts/mutations: its faults still fit the code, and a run on a small checkout says which test finds what."""

from __future__ import annotations

import ast
import subprocess
from pathlib import Path

import pytest

from scripts.mutation_runs import DATA, Mutation, Unusable, load, main
from tests.checkout import ROOT

FOUND, MUTATIONS = load(ROOT)


def test_there_are_sixty_faults_in_all_parts_of_the_package() -> None:
    assert 0 < FOUND <= len(MUTATIONS) == 60
    parts = {Path(mutation.path).parts[1] for mutation in MUTATIONS}
    assert {"cid.py", "errors.py", "jsonrpc.py", "activation.py", "stores", "views", "processes", "client"} <= parts
    assert {"kinds", "pins", "catalogue", "boot", "access", "protocol", "messages", "activity", "rooms"} <= parts
    assert {"documents", "wire", "web", "serving", "cli"} <= parts


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: f"{mutation.path}: {mutation.why}")
def test_a_fault_fits_its_file_and_leaves_a_module(mutation: Mutation) -> None:
    assert mutation.line(ROOT) > 0
    text = (ROOT / mutation.path).read_text("utf-8")
    changed = ast.parse(text.replace(mutation.old, mutation.new))
    assert ast.dump(changed) != ast.dump(ast.parse(text))
    assert mutation.tests and all((ROOT / test).exists() for test in mutation.tests)


@pytest.mark.parametrize("old", ["no such text", "import"])
def test_a_text_that_does_not_occur_once_is_named(old: str) -> None:
    with pytest.raises(Unusable, match=r"patchbay/cid\.py: expected this text once, found it \d+ times"):
        Mutation("patchbay/cid.py", old, "", (), "").line(ROOT)


CODE = "def double(number: int) -> int:\n    assert number < 100\n    return 2 * number\n"
TESTS = "import subprocess, sys\nfrom code_under_test import double\n\ndef test_four():\n    assert double(2) == 4\n"
PROGRAM = """
def test_a_program_runs_the_same_code():
    program = "from code_under_test import double; print(double(3))"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, cwd="/").stdout == b"6\\n"
"""
ROW = '[[mutation]]\npath = "code_under_test.py"\nold = "{}"\nnew = "{}"\ntests = ["test_code.py"]\nwhy = "{}"\n'


def checkout(folder: Path, found: int, tests: str = TESTS + PROGRAM) -> Path:
    """A small checkout with two faults, of which its tests find one."""
    (folder / "scripts").mkdir()
    rows = [ROW.format("2 * number", "3 * number", "Too much."), ROW.format("< 100", "< 900", "The limit is off.")]
    (folder / DATA).write_text(f"found = {found}\n" + "".join(rows))
    (folder / "code_under_test.py").write_text(CODE)
    (folder / "test_code.py").write_text(tests)
    subprocess.run(["git", "init", "-q", str(folder)], check=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(("recorded", "code"), [(1, 0), (2, 1)])
def test_a_run_names_the_test_that_finds_a_fault_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], recorded: int, code: int
) -> None:
    assert main(["--jobs", "1"], checkout(tmp_path, recorded)) == code
    first, second, last = capsys.readouterr().out.splitlines()
    assert first.startswith("code_under_test.py:3 ") and "Too much." in first
    assert "test_code.py::test_four" in first
    assert second.startswith("code_under_test.py:2 ") and "NOT FOUND" in second
    assert last.startswith(f"found 1 of 2; expected {recorded}; ")
    assert (tmp_path / "code_under_test.py").read_text() == CODE


@pytest.mark.slow
def test_programs_that_a_test_starts_run_the_code_with_the_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tests = TESTS.replace("double(2) == 4", "True") + PROGRAM
    assert main(["--jobs", "1", "--only", "Too much"], checkout(tmp_path, 2, tests)) == 0
    assert "test_code.py::test_a_program_runs_the_same_code" in capsys.readouterr().out


@pytest.mark.slow
def test_tests_that_fail_without_a_fault_show_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = checkout(tmp_path, 2, "def test_never(): assert 0\n")
    assert main(["--jobs", "1"], broken) == 2
    assert "the tests fail without any mutation" in capsys.readouterr().err


def test_the_list_has_a_line_for_each_fault_and_an_unknown_text_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small = checkout(tmp_path, 2)
    assert main(["--list"], small) == 0
    assert capsys.readouterr().out.splitlines() == [
        "code_under_test.py:3  Too much.  test_code.py",
        "code_under_test.py:2  The limit is off.  test_code.py",
    ]
    assert main(["--only", "nothing like it"], small) == 2
    assert "no mutation has 'nothing like it'" in capsys.readouterr().err

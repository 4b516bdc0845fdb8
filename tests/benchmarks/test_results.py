"""benchmarks/reporting/results.py: the file of a run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.contenders import INLINE
from benchmarks.load import MODERN, condition_of
from benchmarks.reporting.results import ResultsError, read_run, write_run
from tests.benchmarks.runs import run_of_calls


def test_a_run_is_read_as_it_was_written(tmp_path: Path) -> None:
    run = run_of_calls()
    write_run(run, tmp_path / "run.json")
    found = read_run(tmp_path / "run.json")
    assert found.rows == list(run.rows)
    assert (found.began, found.machine, found.effort, found.is_quick) == (run.began, run.machine, run.effort, False)
    assert found.figure("calls", INLINE, condition_of(MODERN, 16), "processor_us") == 200.0
    assert found.figure("calls", INLINE, condition_of(MODERN, 17), "processor_us") is None


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot read JSON"),
        ("[]", "expected format 1"),
        ('{"format": 2}', "expected format 1"),
        ('{"format": 1}', "missing or unknown: 'rows'"),
        ('{"format": 1, "rows": [{"part": "calls"}]}', "missing or unknown"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_name(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "run.json"
    file.write_text(text, "utf-8")
    with pytest.raises(ResultsError, match=reason) as found:
        read_run(file)
    assert str(file) in str(found.value)


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match="No such file"):
        read_run(tmp_path / "absent.json")


def test_the_file_holds_the_date_and_the_machine(tmp_path: Path) -> None:
    write_run(run_of_calls(), tmp_path / "run.json")
    found = json.loads((tmp_path / "run.json").read_text("utf-8"))
    assert found["began"].startswith("2026-11-22")
    assert found["machine"]["processor"] == "a processor"

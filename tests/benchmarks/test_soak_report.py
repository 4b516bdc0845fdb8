"""benchmarks/reporting/soak_report.py: the report of a soak test, its file, and its section of docs/performance.md."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.reporting.performance_page import make_page
from benchmarks.reporting.results import ResultsError, write_run
from benchmarks.reporting.soak_report import Sample, SoakReport, read_soak, soak_table, write_soak
from tests.benchmarks.runs import run_of_calls

REPORT = SoakReport(
    began="2026-11-23T03:22:00+00:00",
    machine={"processor": "a processor"},
    duration_seconds=600.0,
    listeners=10_000,
    calls_per_second=300.0,
    workers=1,
    calls=178_339,
    wrong_answers={},
    repeated_calls=63,
    changes=586,
    lost_notifications=0,
    slowest_notification_seconds=2.51,
    replaced_workers=9,
    samples=[Sample(5.0, 370 * 1024, 10_064), Sample(10.0, 380 * 1024, 10_066), Sample(15.0, 450 * 1024, 10_122)],
)


def values_of(report: SoakReport) -> dict[str, str]:
    return {name: value for name, _, value in soak_table(report).rows}


def test_a_report_is_read_as_it_was_written(tmp_path: Path) -> None:
    write_soak(REPORT, tmp_path / "soak.json")
    assert read_soak(tmp_path / "soak.json") == REPORT


def test_the_table_shows_memory_and_descriptors_as_minimum_median_and_maximum() -> None:
    values = values_of(REPORT)
    assert values["memory of the workers, minimum / median / maximum"] == "370 / 380 / 450"
    assert values["descriptors, minimum / median / maximum"] == "10,064 / 10,066 / 10,122"
    assert (values["began"], values["processor"]) == (REPORT.began, "a processor")
    assert (values["lost notifications"], values["wrong answers"]) == ("0", "0")


def test_a_report_without_samples_says_so() -> None:
    assert values_of(replace(REPORT, samples=[]))["descriptors, minimum / median / maximum"] == "not measured"


def test_a_wrong_answer_is_counted_by_its_fault_and_the_report_is_not_correct() -> None:
    report = replace(REPORT, wrong_answers={"status 500": 2})
    assert values_of(report)["wrong answers"] == "2 status 500"
    assert [REPORT.is_correct, report.is_correct, replace(REPORT, lost_notifications=1).is_correct] == [
        True,
        False,
        False,
    ]


def test_the_section_of_the_soak_test_is_the_only_difference_of_the_page() -> None:
    without, _ = make_page([run_of_calls()], {})
    page, _ = make_page([run_of_calls()], {}, REPORT)
    before, section, after = page.partition("## Soak\n")
    section, machine, rest = (section + after).partition("## Machine")
    assert "| slowest notification | s | 2.51 |" in section
    assert before + machine + rest == without


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "cannot read JSON"),
        ('{"calls": 1}', "expected format 1 of a soak test"),
        ('{"format": 1}', "missing or unknown: 'samples'"),
        ('{"format": 1, "samples": [{"second": 1}]}', "missing or unknown"),
    ],
)
def test_a_file_of_another_form_is_refused_with_its_name(tmp_path: Path, text: str, reason: str) -> None:
    file = tmp_path / "soak.json"
    file.write_text(text, "utf-8")
    with pytest.raises(ResultsError, match=reason) as caught:
        read_soak(file)
    assert str(file) in str(caught.value)


def test_the_command_adds_the_report_to_the_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, soak, docs = tmp_path / "run.json", tmp_path / "soak.json", tmp_path / "docs"
    write_run(run_of_calls(), run)
    write_soak(REPORT, soak)
    assert main(["--page", str(run), "--soak", str(soak), "--into", str(docs)]) == 0
    assert "| answered calls |  | 178,339 |" in (docs / "performance.md").read_text("utf-8")
    with pytest.raises(SystemExit):
        main(["--soak", str(soak)])
    assert "name the runs with --page" in capsys.readouterr().err
    soak.write_text(json.dumps({}), "utf-8")
    with pytest.raises(SystemExit):
        main(["--page", str(run), "--soak", str(soak), "--into", str(docs)])
    assert "expected format 1" in capsys.readouterr().err

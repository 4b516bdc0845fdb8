"""benchmarks/reporting/performance_page.py: docs/performance.md is written from the files of runs."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from benchmarks.__main__ import main
from benchmarks.reporting.performance_page import make_page, read_notes, write_page
from benchmarks.reporting.pictures import Bar, draw_bars
from benchmarks.reporting.results import ResultsError, write_run
from tests.benchmarks.runs import run_of_calls, run_with

SVG = "{http://www.w3.org/2000/svg}"


def line_with(page: str, text: str) -> str:
    return next(line for line in page.splitlines() if text in line)


def test_the_table_shows_aim_and_figure_of_each_run_and_the_verdict() -> None:
    page, _ = make_page([run_of_calls(inline=200.0), run_of_calls(inline=260.0)], {})
    row = line_with(page, "| An inline call beside one of FastMCP")
    assert row.split(" | ")[1:] == ["at least 12 times", "13 times", "10 times", "**no**, by 17%", "10, 10 |"]
    assert "| run 1 | run 2 | met | by the clock |" in page


def test_a_figure_without_a_run_is_shown_as_not_measured() -> None:
    page, _ = make_page([run_of_calls()], {})
    assert line_with(page, "1,000 tools beside FastMCP").count("not measured") == 2


def test_the_reason_of_a_missed_target_stands_in_the_page() -> None:
    notes = read_notes("# Missed\n\n## inline-fastmcp\nThe handover costs 60 µs.\n\n## inline-flask\nSwitches.\n")
    assert notes == {"inline-fastmcp": "The handover costs 60 µs.", "inline-flask": "Switches."}
    page, _ = make_page([run_of_calls(inline=260.0)], notes)
    assert "10 times, aim 12 times. The handover costs 60 µs." in page
    assert "## Missed targets" in page


def test_a_reason_for_a_target_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ResultsError, match="no target has the name 'inlined'"):
        make_page([run_of_calls()], {"inlined": "?"})


def test_details_are_the_medians_of_the_runs() -> None:
    page, _ = make_page([run_of_calls(inline=one) for one in (200.0, 300.0, 210.0)], {})
    assert line_with(page, "| Patchbay inline | 2026-07-28, 16 connections").split(" | ")[2] == "210"
    assert "the median of the runs" in page


def test_the_page_says_date_and_machine_of_each_run() -> None:
    page, _ = make_page([run_of_calls(), run_with(began="2026-11-23T12:00:00+00:00")], {})
    assert "2026-11-22T12:00:00+00:00 | 2026-11-23T12:00:00+00:00" in line_with(page, "| began")
    assert "| processor |  | a processor | a processor |" in page


def test_a_quick_run_is_marked_and_a_failed_part_is_named() -> None:
    run = run_with(is_quick=True)
    page, _ = make_page([run], {})
    assert "quick run" in page
    failed = run_of_calls().__class__(run.began, run.machine, run.effort, False, [], {"streams": "OSError: full"})
    assert (
        "The part `streams` of the run of 2026-11-22T12:00:00+00:00 failed: OSError: full" in make_page([failed], {})[0]
    )


@pytest.mark.parametrize("count", [0, 4])
def test_a_page_is_of_one_to_three_runs(count: int) -> None:
    with pytest.raises(ResultsError, match=f"{count} runs"):
        make_page([run_of_calls()] * count, {})


def test_every_picture_is_linked_and_no_picture_is_empty(tmp_path: Path) -> None:
    run = run_of_calls()
    page, pictures = make_page([run], {})
    assert sorted(pictures) == [
        "performance-calls-2026.svg",
        "performance-calls-many.svg",
        "performance-calls-session.svg",
        "performance-calls-stateless.svg",
    ]
    assert write_page([run], {}, tmp_path) == tmp_path / "performance.md"
    for name in pictures:
        assert f"](images/{name})" in page
        assert ET.parse(tmp_path / "images" / name).findall(f"{SVG}rect")


def test_bars_are_as_long_as_their_values_and_the_hub_stands_out() -> None:
    root = ET.fromstring(draw_bars("Cost & <more>", "µs", [Bar("peer < 2", 400.0), Bar("hub", 100.0, is_own=True)]))
    bars = root.findall(f"{SVG}rect")
    peer, hub = (float(bar.attrib["width"]) for bar in bars)
    assert peer == pytest.approx(4 * hub, rel=0.01)
    assert [bar.attrib["class"] for bar in bars] == ["bar", "bar own"]
    assert [text.text for text in root.iter(f"{SVG}text")] == ["Cost & <more>", "peer < 2", "400 µs", "hub", "100 µs"]


def test_the_command_writes_the_page_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(run_of_calls(), tmp_path / "run.json")
    assert main(["--page", str(tmp_path / "run.json"), "--into", str(tmp_path / "docs")]) == 0
    assert "# Performance" in (tmp_path / "docs" / "performance.md").read_text("utf-8")
    (tmp_path / "run.json").write_text("{}", "utf-8")
    with pytest.raises(SystemExit):
        main(["--page", str(tmp_path / "run.json"), "--into", str(tmp_path / "docs")])
    assert "expected format 1" in capsys.readouterr().err

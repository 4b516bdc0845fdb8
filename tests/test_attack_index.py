"""docs/security.md lists every attack that is tested, and SECURITY.md says how to report another one."""

from __future__ import annotations

import ast
from pathlib import Path

from scripts.attack_index import ATTACKS, BEGIN, PAGE, ROOT, in_words, page, section


def test_the_table_of_attacks_is_current() -> None:
    assert PAGE.read_text("utf-8") == page(PAGE.read_text("utf-8")), "run python scripts/attack_index.py"


def test_every_test_of_an_attack_has_a_row() -> None:
    rows = PAGE.read_text("utf-8").partition(BEGIN)[2]
    files = sorted(ATTACKS.glob("test_*.py"))
    names = [line.split("(")[0] for path in files for line in path.read_text("utf-8").splitlines()]
    tests = [name.removeprefix("async ").removeprefix("def ") for name in map(str.strip, names) if "def test_" in name]
    assert len(tests) > 20
    assert [name for name in tests if f"| `{name}` |" not in rows] == []
    assert rows.count("| `test_") == len(tests)


def test_every_file_of_attacks_says_what_it_tries() -> None:
    for path in ATTACKS.glob("test_*.py"):
        assert (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").strip(), path.name


def test_a_section_has_the_intention_of_its_file_and_a_row_for_each_test() -> None:
    text = section(ATTACKS / "test_acts_as_the_operator.py")
    assert text.startswith("### Acts as the operator\n\nA program without the operator's token tries to act")
    assert "| A program on the machine changes nothing. | `test_a_program_on_the_machine_changes_nothing` |" in text


def test_names_are_read_as_sentences() -> None:
    assert in_words("test_a_tool_runs") == "A tool runs"


def test_the_policy_at_the_top_leads_to_the_page() -> None:
    policy = Path(ROOT / "SECURITY.md").read_text("utf-8")
    assert "docs/security.md" in policy and "Report" in policy

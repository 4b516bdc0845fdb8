"""Writes the table of attacks in docs/security.md: every test of tests/attacks, one row each.

    python scripts/attack_index.py            writes the table
    python scripts/attack_index.py --check    exits 1 when the table is stale

The heading of a file is its name in words, and the text below it the first paragraph of its docstring. A row is the
name of a test in words.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

from scripts.generated_files import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "security.md"
ATTACKS = ROOT / "tests" / "attacks"

BEGIN = "<!-- Written by scripts/attack_index.py from tests/attacks; do not edit below. -->"


def in_words(name: str) -> str:
    """`test_a_tool_runs` -> `A tool runs`."""
    words = name.removeprefix("test_").replace("_", " ")
    return words[:1].upper() + words[1:]


def tests_of(tree: ast.Module) -> Iterator[str]:
    """The names of the tests of a file, in its order; those of classes too."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            yield node.name


def section(path: Path) -> str:
    """What one file of attacks tries, and its tests."""
    tree = ast.parse(path.read_text("utf-8"))
    said = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    about = " ".join(line for line in said.splitlines() if not line.startswith("Source"))
    place = path.relative_to(ROOT).as_posix()
    lines = [
        f"### {in_words(path.stem)}",
        "",
        about,
        "",
        f"| [{path.name}](../{place}) shows | Test |",
        "| --- | --- |",
    ]
    lines += [f"| {in_words(name)}. | `{name}` |" for name in tests_of(tree)]
    return "\n".join(lines) + "\n"


def tables() -> str:
    """The sections of all files of attacks, sorted by name."""
    return "\n".join(section(path) for path in sorted(ATTACKS.glob("test_*.py")))


def page(text: str) -> str:
    """The page, given as it is, with the sections as they have to be."""
    return f"{text.partition(BEGIN)[0]}{BEGIN}\n\n{tables()}"


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, lambda: page(PAGE.read_text("utf-8")), __doc__))

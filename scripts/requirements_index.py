"""Writes docs/requirements.md: every requirement with the test that shows it.

    python scripts/requirements_index.py            writes the page
    python scripts/requirements_index.py --check    exits 1 when the page is stale

A test shows a requirement when its name or its docstring carries the ID as a whole token: `T5.2` in a docstring,
`t5_2` in a name. The IDs and their sentences are in docs/requirements.json. docs/proofs.json names for each ID the one
test that shows the whole row; the page counts the others.
"""

from __future__ import annotations

import ast
import json
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from scripts.generated_files import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "requirements.md"
SOURCE = ROOT / "docs" / "requirements.json"
PROOFS = ROOT / "docs" / "proofs.json"

IN_TEXT = re.compile(r"(?<![\w.-])(T\d+\.\d+|[A-Z]{2,6}-[A-Z]?\d+)(?![\w-]|\.\d)")
IN_NAME = re.compile(r"(?:^|_)[tT](\d+)_(\d+)(?=_|$)")

Sections = dict[str, dict[str, str]]


def sections() -> Sections:
    """Section title to requirement ID to sentence."""
    found: Sections = json.loads(SOURCE.read_text("utf-8"))
    return found


def deviation_faults(tables: Sections, proved: Mapping[str, str], deviations: str) -> list[str]:
    """What disagrees between the index and the page of deviations, which names each unproved row and no other."""
    known = [one for rows in tables.values() for one in rows]
    named = set(IN_TEXT.findall(deviations)) & set(known)
    missing = [f"{one} has no proving test and no row in docs/deviations.md" for one in known if one not in proved]
    return [line for line in missing if line.split()[0] not in named] + [
        f"{one} has a proving test; docs/deviations.md names it as a deviation"
        for one in known
        if one in named & set(proved)
    ]


def proofs() -> dict[str, str]:
    """Requirement ID to the test that shows the whole row."""
    found: dict[str, str] = json.loads(PROOFS.read_text("utf-8"))
    return found


def faults(tables: Sections, tests: dict[str, list[str]], chosen: dict[str, str]) -> list[str]:
    """What is wrong with the choice of the tests, a sentence each."""
    shown = [one for rows in tables.values() for one in rows if one in tests]
    missing = [f"{one} has no proving test: name one of {', '.join(tests[one])}" for one in shown if one not in chosen]
    wrong = [
        f"{one} is proved by {test}, which does not carry its ID or is not there"
        for one, test in chosen.items()
        if test not in tests.get(one, ())
    ]
    return missing + wrong


def ids_in(name: str, docstring: str | None) -> set[str]:
    """The requirement IDs that a test's name and docstring carry."""
    named = {f"T{group}.{row}" for group, row in IN_NAME.findall(name)}
    return named | set(IN_TEXT.findall(docstring or ""))


def found_in(text: str) -> Iterator[tuple[str, set[str]]]:
    """Every test of a file, as pytest names it within the file, with its IDs."""
    for node in ast.parse(text).body:
        inner = node.body if isinstance(node, ast.ClassDef) and node.name.startswith("Test") else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        for test in inner:
            if isinstance(test, ast.FunctionDef) and test.name.startswith("test_"):
                yield prefix + test.name, ids_in(test.name, ast.get_docstring(test))


@cache
def shown_by() -> dict[str, list[str]]:
    """Requirement ID to the tests that show it, in the order of files and lines; read once for each process."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for name, ids in found_in(path.read_text("utf-8")):
            for one in ids:
                found.setdefault(one, []).append(f"{path.relative_to(ROOT).as_posix()}::{name}")
    return found


def page(tables: Sections, tests: dict[str, list[str]], chosen: dict[str, str]) -> str:
    """The page in Markdown."""
    lines = [
        "# Requirements and their tests",
        "",
        "Written by `scripts/requirements_index.py`; do not edit.",
        "`docs/proofs.json` names the test that shows the whole row. Other tests that carry the ID show details.",
    ]
    for title, rows in tables.items():
        done = sum(1 for one in rows if one in tests)
        lines += ["", f"## {title}", "", f"{done} of {len(rows)} are shown by a test.", ""]
        lines += ["| ID | What | Shown by | Details |", "| --- | --- | --- | --- |"]
        for one, what in rows.items():
            proof = f"`{chosen[one]}`" if one in chosen else "no test of its own"
            more = len(tests.get(one, ())) - 1
            lines.append(f"| {one} | {what} | {proof} | {f'{more} more' if more > 0 else ''} |")
    return "\n".join(lines) + "\n"


def made() -> str:
    """Return the page from the files of the repository. Exits with 1 when docs/proofs.json is wrong."""
    tables, tests, chosen = sections(), shown_by(), proofs()
    wrong = faults(tables, tests, chosen)
    if wrong:
        sys.exit("docs/proofs.json: " + "\n".join(wrong))
    return page(tables, tests, chosen)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, made, __doc__))

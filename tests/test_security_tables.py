"""docs/security.md: each row of its tables of assets, attackers and protections names the tests that show it.

The tests exist, each name in one place, and limits have the names of settings and quotas.
"""

from __future__ import annotations

import re

import pytest

from patchbay.access.credentials.validity import LOOK_SECONDS
from patchbay.access.keys import CHECK_SECONDS
from patchbay.access.limits.usage import LABELS
from patchbay.access.quotas import ROOM_BYTES_PER_SECOND
from patchbay.client.rate_limit import MESSAGES_PER_SECOND
from patchbay.settings import Settings
from patchbay.web.rendering.icons import MAX_ICON_BYTES
from scripts.attack_index import BEGIN
from tests.checkout import ROOT
from tests.named_tests import names_in, places_of, rows_of

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8").partition(BEGIN)[0]
COLUMNS = {"Protected assets": 3, "Attackers": 4, "Protections": 3}
"""The columns of each table; the last one has the tests."""

SETTINGS = Settings.__dataclass_fields__.keys()
OPTIONS_OF_COMMANDS = {"--keep"}


def section_of(heading: str) -> str:
    """Return the text below a heading, up to the next one."""
    return PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def find_faults(section: str, columns: int) -> list[str]:
    """Return what is wrong with a table: rows of another form, and names that no test has, or more than one."""
    faults = []
    for row in rows_of(section):
        named = names_in(row[-1])
        if len(row) != columns or not all(row) or not named:
            faults.append(f"a row without its {columns} cells, or without names of tests in the last one: {row}")
        faults += [f"{name}: expected one test, found {places_of(name)}" for name in named if len(places_of(name)) != 1]
    return faults


@pytest.mark.parametrize("heading", COLUMNS)
def test_each_row_names_tests_that_exist_once(heading: str) -> None:
    """49.4"""
    section = section_of(heading)
    assert rows_of(section)
    assert find_faults(section, COLUMNS[heading]) == []


def test_nothing_but_rows_stands_among_the_protections() -> None:
    """49.4: a sentence beside the table would need no test."""
    assert [line for line in section_of("Protections").splitlines() if line and not line.startswith("|")] == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ("| **Pins** | A list is recorded. |", "a row without its 3 cells"),
        ("| **Pins** | A list is recorded. | see above |", "without names of tests"),
        (
            "| **Pins** | A list is recorded. | in part `test_the_policy_at_the_top_leads_to_the_page` |",
            "without names",
        ),
        ("| **Pins** | A list is recorded. | `test_that_nobody_wrote` |", "expected one test, found []"),
        (
            "| **Pins** | A list is recorded. | `test_a_key_ends_when_it_expires` |",
            "expected one test, found ['access/",
        ),
    ],
)
def test_a_row_without_a_test_is_found(row: str, fault: str) -> None:
    """49.4"""
    good = "| **Keys** | A key expires. | `access/test_keys.py::test_a_key_ends_when_it_expires` |"
    table = f"| Protection | What it does | Test |\n| --- | --- | --- |\n{good}\n"
    assert find_faults(table, 3) == []
    [found] = find_faults(table + row, 3)
    assert fault in found


def test_each_limit_has_the_name_of_a_setting_or_a_quota() -> None:
    """49.4: a name with `_` is one of them, and an option that begins a word of code is that of a setting."""
    known = LABELS.keys() | {ROOM_BYTES_PER_SECOND} | SETTINGS
    named = set(re.findall(r"`([a-z]+(?:_[a-z]+)+)`", PAGE)) - set(re.findall(r"`(test_\w+)`", PAGE))
    assert named and named <= known
    options = set(re.findall(r"`(--[a-z-]+)", PAGE)) - OPTIONS_OF_COMMANDS
    assert options and options <= {f"--{name.replace('_', '-')}" for name in SETTINGS}


@pytest.mark.parametrize(
    ("sentence", "number"),
    [
        ("it looks for revoked keys every half second", CHECK_SECONDS == 0.5),
        ("each looks for ended credentials four times a second", LOOK_SECONDS == 0.25),
        ("(PNG, JPEG, GIF, WebP, SVG), up to 64 KiB", MAX_ICON_BYTES == 64 * 1024),
        ("at most 1,000 messages of it a second", MESSAGES_PER_SECOND == 1000),
    ],
)
def test_the_numbers_of_the_page_are_those_of_the_code(sentence: str, number: bool) -> None:
    """49.4: limits that are no setting."""
    assert sentence in " ".join(PAGE.split()) and number

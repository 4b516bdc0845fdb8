"""Which SQLite library the package uses: the one that pysqlite3 brings, else the platform's (issue "acceptance", 3)."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from patchbay.sqlite import known_defect, sqlite3
from tests.checkout import ROOT
from tests.waiting import BOUND

WITHOUT = """
import logging, sys
from pathlib import Path
sys.modules["pysqlite3"] = None
from patchbay.sqlite import sqlite3
from patchbay.stores.sqlite import SqliteStore
logging.basicConfig(format="%(message)s")
store = SqliteStore(Path(sys.argv[1]))
print(sqlite3.__name__)
print(store.blobs.get(store.blobs.put(b"kept")))
store.close()
"""


def pinned() -> Requirement:
    """The line of requirements.txt that installs pysqlite3."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return Requirement(next(line for line in lines if line.startswith("pysqlite3")))


@pytest.mark.parametrize(
    ("version", "bad"),
    [((3, 6, 23), False), ((3, 7, 0), True), ((3, 40, 1), True), ((3, 51, 2), True), ((3, 51, 3), False)],
)
def test_versions_with_the_wal_reset_bug_are_known(version: tuple[int, int, int], bad: bool) -> None:
    sentence = known_defect(version)
    assert (sentence is not None) is bad
    assert sentence is None or "3.51.3" in sentence


def test_the_library_of_pysqlite3_comes_first_and_has_no_known_defect() -> None:
    marker = pinned().marker
    assert marker is not None
    wheel_exists = marker.evaluate()
    try:
        installed = version("pysqlite3")
    except PackageNotFoundError:
        installed = ""
    assert bool(installed) is wheel_exists, "requirements.txt and this environment differ: run scripts/setup"
    assert sqlite3.__name__ == ("pysqlite3.dbapi2" if wheel_exists else "sqlite3")
    if wheel_exists:
        assert known_defect() is None, f"pysqlite3 {installed} brings SQLite {sqlite3.sqlite_version}"


@pytest.mark.parametrize(
    ("system", "machine", "python", "installed"),
    [
        ("linux", "x86_64", "3.11", True),
        ("linux", "x86_64", "3.14", True),
        ("darwin", "arm64", "3.13", True),
        ("linux", "aarch64", "3.12", False),
        ("darwin", "x86_64", "3.12", False),
        ("linux", "x86_64", "3.15", False),
    ],
)
def test_pysqlite3_is_installed_only_where_a_wheel_of_it_exists(
    system: str, machine: str, python: str, installed: bool
) -> None:
    marker = pinned().marker
    assert marker is not None
    place = {"sys_platform": system, "platform_machine": machine, "implementation_name": "cpython"}
    known = {"python_version": python, "python_full_version": f"{python}.0"}
    assert marker.evaluate({**place, **known}) is installed


def test_without_pysqlite3_the_library_of_the_platform_serves_and_its_defect_is_named(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
        cwd=ROOT,
    )
    assert done.stdout.split() == ["sqlite3", "b'kept'"]
    platform = subprocess.run(
        [sys.executable, "-c", "import sqlite3; print(*sqlite3.sqlite_version_info)"],
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=True,
    )
    major, minor, patch = map(int, platform.stdout.split())
    assert done.stderr.strip() == (known_defect((major, minor, patch)) or "")

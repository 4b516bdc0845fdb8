"""The plugin `mcp_` as a program: what it says about the programs that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.plugin import CONFINE
from tests.checkout import ROOT

pytestmark = pytest.mark.process

PROGRAM = ROOT / "tests" / "attacks" / "spying_program.py"


def inspect(folder: Path, confine: str = "") -> tuple[dict[str, Any], str]:
    """Inspect a program that changes `changed` in a folder; return the record and what is on standard error."""
    address = f"mcp+stdio:{sys.executable} {PROGRAM} 'change>{folder}/changed'"
    done = subprocess.run(
        [sys.executable, "-m", "patchbay.client.plugin", "--mode", "inspect", address],
        env={**os.environ, "HOME": str(folder), "PYTHONPATH": str(ROOT), CONFINE: confine},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        cwd=folder,
    )
    record: dict[str, Any] = json.loads(done.stdout)
    return record, done.stderr


def test_it_says_once_on_standard_error_that_a_program_is_not_confined(tmp_path: Path) -> None:
    record, said = inspect(tmp_path)
    assert said.startswith("mcp_.py: spying_program.py runs with all rights of your user.") and said.count("\n") == 1
    assert [tool["name"] for tool in record["tools"]] == ["spied"] and (tmp_path / "changed").exists()


def test_a_user_who_says_that_nothing_is_confined_gets_no_line(tmp_path: Path) -> None:
    record, said = inspect(tmp_path, "off")
    assert said == "" and [tool["name"] for tool in record["tools"]] == ["spied"]


def test_it_starts_no_program_for_a_user_who_requires_confinement(tmp_path: Path) -> None:
    record, said = inspect(tmp_path, "required")
    assert record["_error"] and "mcp_.py confines no program" in json.dumps(record)
    assert not (tmp_path / "changed").exists() and said == ""

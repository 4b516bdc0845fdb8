"""Pictures of every page: each page opens at both widths and in both colour schemes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.screenshots import PAGES, WIDTHS
from tests.checkout import ROOT

pytestmark = [pytest.mark.full, pytest.mark.process, pytest.mark.browser]


def test_a_picture_of_every_page_is_taken(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.browser.screenshots", "--all", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    taken = {path.name for path in tmp_path.iterdir()}
    assert len(taken) >= len(PAGES) * len(WIDTHS) * 2
    assert all((tmp_path / name).stat().st_size > 1000 for name in taken)

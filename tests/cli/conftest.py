"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.desk import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A folder to run commands in."""
    return Desk(tmp_path)

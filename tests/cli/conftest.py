"""What the tests of the command line share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A folder to run commands in."""
    return Workspace(tmp_path)

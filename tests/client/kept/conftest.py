"""The folder in which commands run, for these tests: a command keeps connections for the next one."""

from __future__ import annotations

from tests.cli.conftest import workspace

__all__ = ["workspace"]

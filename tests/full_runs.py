"""Pytest plugin: tests with the marker `full` run with `--full` only; without it, the run says how many it left out.

These tests are needed before a release, not to protect a change. CONTRIBUTING.md says which they are and why.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

LEFT_OUT = "left_out_without_full"
"""The name of the number of tests in what a worker of pytest-xdist tells at its end."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--full", action="store_true", help="also run the tests that are needed before a release only")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--full"):
        config.pluginmanager.register(WithoutFull(config))


class WithoutFull:
    """Deselects the tests with the marker `full`. With pytest-xdist the workers do that, and each tells the number."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._left_out = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        left_out = [item for item in items if item.get_closest_marker("full")]
        if left_out:
            self._config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not item.get_closest_marker("full")]
        self._left_out = len(left_out)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self._config, "workeroutput"):
            self._config.workeroutput[LEFT_OUT] = self._left_out

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        told = getattr(node, "workeroutput", {})
        self._left_out = max(self._left_out, told.get(LEFT_OUT, 0))

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        yield
        if self._left_out:
            noun = "test is" if self._left_out == 1 else "tests are"
            terminalreporter.write_line(f"{self._left_out} {noun} left out; scripts/test --full runs all (marker full)")

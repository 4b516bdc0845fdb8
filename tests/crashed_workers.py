"""Pytest plugin: a run goes on when one of its workers ends in the middle of a test, such as by its time limit.

pytest-xdist 3.8 starts another worker, and gives it also the files that the ended one had finished, and the test that
ended it once more. The other worker then waits for a next test without end; and the run fails when two workers are
replaced at once (https://github.com/pytest-dev/pytest-xdist/issues/1378 and pull requests 1328, 1364 and 1371). This
goes with a release that has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from xdist.workermanage import WorkerController


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Return what shares the files between the workers, for `--dist loadfile`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):  # type: ignore[misc]
        def remove_node(self, node: WorkerController) -> str | None:
            """Take a worker that has ended out; return the test that it was running, if there was one."""
            unfinished = keep_unfinished(self.assigned_work[node])
            self.assigned_work[node] = {}
            super().remove_node(node)
            if not unfinished:
                return None
            first = next(iter(unfinished.values()))
            crashed = next(test for test, is_done in first.items() if not is_done)
            first[crashed] = True
            self.workqueue.update(keep_unfinished(unfinished))
            for other in self.nodes:
                self._reschedule(other)
            return str(crashed)

        def _reschedule(self, node: WorkerController) -> None:
            """Give a worker more to do: it runs a test when it knows the next one, or that it is the last."""
            if node not in self.registered_collections:
                return  # it collects its tests, and gets its first file after that
            super()._reschedule(node)
            while self.workqueue and not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                self._assign_work_unit(node)
            if not self.workqueue and not node.shutting_down:
                node.shutdown()

    return Files(config, log)


def keep_unfinished(units: dict[str, dict[str, bool]]) -> dict[str, dict[str, bool]]:
    """Return the files that have a test that has not run."""
    return {file: tests for file, tests in units.items() if not all(tests.values())}

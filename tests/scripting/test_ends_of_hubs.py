"""A hub that stops lets approved scripts end, and begins no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.hubs import Hub
from tests.interaction.test_suspended_scripts_of_nodes import HOLDING
from tests.scripting.closing import FILES, close_issues, decide, ended, runs, waiting, words
from tests.waiting import until

CLOSE = "import holding\nawait holding.close(folder=folder, number=1)"


def holding_hub(folder: Path) -> Hub:
    """A hub whose tool holds its call until there is the file `go`."""
    hub = Hub(folder, {"holding.py": HOLDING, "holding.mcp.json": FILES["issues.mcp.json"]})
    hub.catalogue.hub.gate.wait_seconds = 0.0
    return hub


def scripts(hub: Hub) -> Any:
    return hub.app.parts.dispatcher.services.scripts


def test_a_hub_that_stops_waits_for_an_approved_run_and_for_its_call(tmp_path: Path) -> None:
    hub = holding_hub(tmp_path / "hub")
    try:
        close_issues(hub, tmp_path, server="holding", code=CLOSE)
        (asked,) = waiting(hub)
        decide(hub, asked["question"])
        until(lambda: words(tmp_path, "holder"), "the call")

        def left() -> float:
            (tmp_path / "go").touch()  # only a hub that waits lets the call end
            return 60.0

        scripts(hub)._left = left
        scripts(hub).close()
        assert runs(hub).heads.get(asked["run"]).ended
        assert ended(hub, asked["run"]).value == "closed 1"
    finally:
        (tmp_path / "go").touch()
        hub.close()


def test_a_hub_that_drains_goes_on_with_no_further_run(tmp_path: Path) -> None:
    hub = holding_hub(tmp_path / "hub")
    try:
        close_issues(hub, tmp_path, server="holding", code=CLOSE)
        (asked,) = waiting(hub)
        hub.app.parts.drain.begin()
        scripts(hub).resume(asked["run"])
        assert not scripts(hub)._running
    finally:
        (tmp_path / "go").touch()
        hub.close()

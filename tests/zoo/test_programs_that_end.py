"""A mounted program that ends after each call, as some do, is started again, and the next call waits for that."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.checkout import ROOT
from tests.hubs import Hub
from tests.waiting import until
from tests.zoo.habitat import OVER_STDIO

pytestmark = pytest.mark.process


@pytest.fixture(name="hub")
def hub_with_the_program(tmp_path: Path) -> Iterator[Hub]:
    hub = Hub(tmp_path / "hub")
    words = (sys.executable, "-S", str(OVER_STDIO), "ends-after-each-call", "direct")
    entry = {
        "kind": "upstream",
        "address": f"mcp+stdio:{shlex.join(words)}",
        "environment": {"PYTHONPATH": str(ROOT)},
        "sessions": "shared",
    }
    (hub.servers / "brief.json").write_text(json.dumps(entry))
    yield hub
    hub.close()


def mounted(hub: Hub) -> Any:
    """Return the mount; None until the hub has read its file."""
    return next((one for one in hub.catalogue.all() if one.name == "brief"), None)


def test_a_call_waits_for_the_new_start_of_a_program_that_ends_after_each_call(hub: Hub) -> None:
    until(lambda: mounted(hub) and mounted(hub).tools, "its tools")
    for _ in range(3):
        assert hub.call("brief", "greet", {"name": "Ann"}).text == "Hello Ann"
        until(lambda: mounted(hub).upstream.health.state == "down", "the end of the program")

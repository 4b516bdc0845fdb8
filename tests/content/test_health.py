"""The reference server `health`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

import patchbay
from tests.hubs import MODERN, Hub


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("health"))
    yield hub
    hub.close()


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", MODERN])
def test_the_hub_says_that_it_is_healthy_and_since_when(hub: Hub, version: str) -> None:
    """SUB-7 (S-F3): `check` answers `status{status, uptime_seconds, timestamp}`."""
    before = int(time.monotonic() - patchbay.STARTED)
    status = hub.call("health", "check", version=version).result["structuredContent"]
    assert status.keys() == {"type", "status", "uptime_seconds", "timestamp"}
    assert (status["type"], status["status"]) == ("status", "healthy")
    assert before <= status["uptime_seconds"] <= time.monotonic() - patchbay.STARTED
    assert abs((datetime.fromisoformat(status["timestamp"]) - datetime.now(UTC)).total_seconds()) < 10


def test_it_describes_its_own_methods(hub: Hub) -> None:
    """SUB-7 (S-F3, S-F8)."""
    schema = hub.call("health", "schema").result["structuredContent"]
    assert schema["namespace"] == "health"
    methods = {method["name"]: method for method in schema["methods"]}
    assert methods.keys() == {"check", "schema"}
    assert all(method["inputSchema"]["type"] == "object" for method in methods.values())
    assert all(method["annotations"]["readOnlyHint"] for method in methods.values())
    assert set(methods["check"]["outputSchema"]["required"]) == {"type", "status", "uptime_seconds", "timestamp"}


def test_a_store_that_does_not_answer_is_not_healthy(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> None:
    sick = Hub(tmp_path_factory.mktemp("sick"), store="sqlite")
    assert sick.call("health", "check").result["structuredContent"]["status"] == "healthy"
    server, store = sick.catalogue.find("health"), sick.catalogue.store
    sick.catalogue.close()
    store.close()
    assert server.tools["check"].read_only
    assert sick.call("health", "check").result["structuredContent"]["status"] == "unhealthy"

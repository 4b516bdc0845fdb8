"""Watching a hub of several workers: each asked worker tells of all, and an end loses no record."""

from __future__ import annotations

import http.client
import json
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from patchbay.activity.recorder import Activity
from patchbay.activity.records import Filter
from patchbay.settings import Settings
from patchbay.stores import open_store
from tests.serving.running import Hub, running
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {"message": "x"}}}


def call(hub: Hub) -> None:
    """One call, on a connection of its own, so that any worker may get it."""
    connection = http.client.HTTPConnection("127.0.0.1", hub.port, timeout=BOUND)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    try:
        connection.request("POST", "/mcp/echo", json.dumps(CALL), headers)
        assert connection.getresponse().read().startswith(b'{"jsonrpc"')
    finally:
        connection.close()


def counted(hub: Hub) -> dict[str, float]:
    """The calls that each worker counted, and under `all` the number of workers that answered."""
    families = text_string_to_metric_families(hub.get("/metrics")[1].decode())
    samples = [sample for family in families for sample in family.samples]
    found = {one.labels["worker"]: one.value for one in samples if one.name == "patchbay_calls_total"}
    return found | {"all": next(one.value for one in samples if one.name == "patchbay_workers")}


def by_worker(hub: Hub) -> dict[str, float]:
    return {worker: calls for worker, calls in counted(hub).items() if worker != "all"}


def test_each_worker_reports_the_numbers_of_all_workers(tmp_path: Path) -> None:
    with running(tmp_path, "--workers", "2") as hub:
        until(lambda: counted(hub)["all"] == 2, "both workers tell")
        for _ in range(40):
            call(hub)
        # A worker that has no time to answer is left out, and told of the next time.
        until(lambda: sum(by_worker(hub).values()) == 40, "all calls are told")
        assert {int(worker) for worker in by_worker(hub)} <= hub.workers()
        until(lambda: len(json.loads(hub.get("/activity.json")[1])["records"]) == 40, "all records are seen")
        assert hub.end() == 0


def test_the_records_of_the_last_moment_outlive_a_hub_that_ends(tmp_path: Path) -> None:
    """X22"""
    with running(tmp_path) as hub:
        for _ in range(20):
            call(hub)
        assert hub.end() == 0
    store = open_store("sqlite", tmp_path / "data")
    assert len(Activity(store, Settings()).recent(Filter()).records) == 20
    store.close()

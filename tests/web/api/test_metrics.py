"""/metrics: the numbers match the calls, and callers cannot choose labels."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from patchbay import __version__
from tests.access.team import new_key
from tests.hubs import Hub, modern_request
from tests.waiting import until

FILES = {
    "meter.py": '''"""Some tools."""

import os
import time


def say(text: str = "hello") -> str:
    """Say."""
    return text


def dies() -> str:
    """End the process."""
    os._exit(3)


def hangs() -> str:
    """Hang."""
    while True:
        time.sleep(0.01)
''',
    "meter.mcp.json": '{"auto_discover": true, "timeout": 5}',
}

Samples = Mapping[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    with closing(Hub(tmp_path, FILES)) as hub:
        yield hub


def samples(hub: Hub) -> Samples:
    answer = hub.client.get("/metrics")
    assert answer.status_code == 200 and answer.headers["Content-Type"].startswith("text/plain; version=")
    families = text_string_to_metric_families(answer.get_data(as_text=True))
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(found: Samples, sample: str, /, **labels: str) -> float:
    return found[sample, frozenset(labels.items())]


def test_calls_are_counted_by_what_ran_and_how_it_ended(hub: Hub) -> None:
    for _ in range(3):
        hub.call("meter", "say")
    hub.call("meter", "say", {"text": 7})
    found = samples(hub)
    tool = {"server": "meter", "method": "tools/call", "name": "say"}
    assert value(found, "patchbay_calls_total", **tool, outcome="ok") == 3
    assert value(found, "patchbay_calls_total", **tool, outcome="tool_error") == 1
    assert value(found, "patchbay_call_duration_seconds_count", **tool) == 4
    assert value(found, "patchbay_call_duration_seconds_bucket", **tool, le="+Inf") == 4
    assert value(found, "patchbay_call_duration_seconds_sum", **tool) > 0


def test_a_name_that_a_stranger_made_up_is_not_a_label(hub: Hub) -> None:
    """THREATS 1.6"""
    for number in range(20):
        hub.call("meter", f"canary-{number}")
        hub.legacy("meter", "resources/read", {"uri": f"canary://{number}"})
        hub.legacy("meter", "prompts/get", {"name": f"canary-{number}"})
    assert "canary" not in hub.client.get("/metrics").get_data(as_text=True)
    found = samples(hub)
    unknown = {"server": "meter", "method": "tools/call", "name": ""}
    assert value(found, "patchbay_calls_total", **unknown, outcome="tool_error") == 20


def test_running_calls_are_counted_while_they_run(hub: Hub) -> None:
    stream = hub.stream("meter", *modern_request("tools/call", {"name": "hangs"}, meta={"progressToken": 1}))
    next(stream)
    found = samples(hub)
    assert value(found, "patchbay_calls_running") == value(found, "patchbay_streams_open") == 1
    assert value(found, "patchbay_hosts", state="busy") >= 1
    stream.close()
    assert value(samples(hub), "patchbay_calls_running") == 0


def test_hosts_that_end_are_counted_by_reason(hub: Hub) -> None:
    lost = ("patchbay_hosts_ended_total", frozenset({("reason", "lost")}))
    before = samples(hub)[lost]
    assert "exit code 3" in hub.call("meter", "dies").text
    until(lambda: samples(hub)[lost] == before + 1, "the host that ended by itself is counted")


def test_metrics_name_the_version_and_the_root(hub: Hub) -> None:
    found = samples(hub)
    root = hub.catalogue.store.names.get("root")
    (labels,) = [dict(labels) for name, labels in found if name == "patchbay_build_info"]
    assert (labels["version"], labels["root"]) == (__version__, root)
    assert value(found, "patchbay_store_up") == 1
    assert value(found, "patchbay_bus_up") == 1
    assert value(found, "patchbay_activity_dropped_total") == 0
    assert value(found, "process_open_fds") > 0


def test_limits_have_numbers_without_the_names_of_callers(tmp_path: Path) -> None:
    """48.4: the series are as many as limits, whatever callers there are."""
    with closing(Hub(tmp_path, FILES, access="shared", own_rooms=4)) as hub:
        hub.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {hub.token}"
        before = samples(hub).keys()
        for name in ("ann", "ben"):
            key = new_key(hub, name)
            statuses = [hub.client.put(f"/rooms/{name}{n}", json={}, headers=key).status_code for n in range(6)]
            assert statuses == [201] * 4 + [429] * 2
        found = samples(hub)
        assert value(found, "patchbay_limit_used_ratio", limit="rooms") == 1
        assert value(found, "patchbay_limit_callers_near", limit="rooms") == 2
        assert value(found, "patchbay_limit_refusals_total", limit="rooms") == 4
        limits = {labels for name, labels in found if name.startswith("patchbay_limit_")}
        assert limits == {labels for name, labels in before if name.startswith("patchbay_limit_")}
        assert not [labels for _, labels in found if "ann" in str(labels)]


def test_openmetrics_is_served_to_who_asks_for_it(hub: Hub) -> None:
    answer = hub.client.get("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text")
    assert answer.get_data(as_text=True).endswith("# EOF\n")


def test_the_numbers_are_only_for_who_may_talk_to_the_hub(hub: Hub) -> None:
    """T14.4"""
    assert hub.client.get("/metrics", headers={"Host": "evil.example"}).status_code == 421


def test_workers_of_one_hub_answer_each_other_and_no_other_hub_on_the_same_database(
    tmp_path: Path, database: str
) -> None:
    """35.18: pids of two machines may be equal."""
    (tmp_path / "key").write_text("ab" * 32)

    def start(name: str) -> Hub:
        folder = tmp_path / name
        return Hub(folder, FILES, store=database, key_file=tmp_path / "key", workers=2)

    with ExitStack() as stack:
        first, second = (stack.enter_context(closing(start(name))) for name in ("first", "second"))
        mailbox = stack.enter_context(first.catalogue.store.bus.subscribe(["metrics/told/*"]))
        found = samples(second)
        assert {dict(labels).get("node") for name, labels in found if name == "patchbay_calls_running"} == {
            socket.gethostname()
        }
        assert value(found, "patchbay_workers") == 1
        assert mailbox.get(0) is None

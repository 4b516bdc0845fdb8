"""Counting calls: by what ran and how it ended, with labels that no stranger chooses."""

from __future__ import annotations

from patchbay.activity.call_counters import BOUNDS, OTHERS, CallCounters
from patchbay.activity.call_recording import CallRecording
from patchbay.activity.recorder import Activity
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.settings import Settings
from patchbay.stores.memory import MemoryStore

TOOL = Descriptor("tool", "known", {"name": "known", "inputSchema": {"type": "object"}})
SERVER = Server("s", "bafk", "static", tools={"known": TOOL})


def a_run(name: str, seconds: float, server: Server = SERVER) -> CallRecording:
    run = Activity(MemoryStore(), Settings(activity_days=0)).begin("tools/call", name, server, TransportInfo("s"))
    run.end(Result(1, {"content": []}))
    run.ended = run.begun + seconds
    return run


def test_durations_are_in_the_bucket_whose_bound_they_do_not_pass() -> None:
    counters = CallCounters()
    counters.count(a_run("known", BOUNDS[0] / 2), a_run("known", BOUNDS[-1] - 1), a_run("known", BOUNDS[-1] + 1))
    count = counters.counts()["s", "tools/call", "known"]
    assert count.outcomes == {"ok": 3}
    assert (count.buckets[0], count.buckets[-2], count.buckets[-1], sum(count.buckets)) == (1, 1, 1, 3)
    assert abs(count.seconds - 2 * BOUNDS[-1]) < 0.01


def test_names_that_a_server_does_not_have_are_counted_together() -> None:
    """THREATS 1.6: an invented name does not become a label."""
    counters = CallCounters()
    counters.count(*(a_run(f"made up {number}", 0.1) for number in range(50)))
    assert list(counters.counts()) == [("s", "tools/call", "")]


def test_beyond_the_bound_the_rest_is_counted_together() -> None:
    counters = CallCounters(max_names=3)
    counters.count(*(a_run("", 0.1, Server(f"s{number}", "bafk", "static")) for number in range(10)))
    counts = counters.counts()
    assert len(counts) == 4
    assert counts[OTHERS, "tools/call", OTHERS].outcomes == {"ok": 7}

"""The faults: what each needs, what it does to a cluster under load, and when it is over."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.checking import Figures, check, is_audited
from benchmarks.faults.cluster import Cluster, Parts, running_cluster
from benchmarks.faults.log import Log
from benchmarks.faults.racing import race
from benchmarks.faults.running import running_load
from benchmarks.processes import find_descendants
from patchbay.access.audit.chain import read_lines
from patchbay.stores.postgresql import PostgresqlStore
from tests.serving.running import Hub
from tests.waiting import until


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of load before a fault, of the fault where it lasts, and of load after it.

    On a slow machine the load lasts until more than `least` operations are acknowledged.
    """

    before: float = 4.0
    fault: float = 16.0
    after: float = 14.0
    least: int = 30


FULL, BRIEF = Timing(), Timing(before=1.0, fault=3.0, after=3.0)
"""The usual timing, whose outages are longer than a write waits, and that of quick tests."""

HIT = 0
"""The number of the node that a fault of one node hits."""

AUDIT_WRITES = rb"append_entries.*\baudit\b"

CLOCKS = ("", "+3600s", "-3600s")

WRITES = (b"append_entries", b"move_names")


def end_connections(cluster: Cluster, seconds: float) -> None:
    """End every connection to PostgreSQL, twenty times in 16 seconds."""
    for _ in range(20):
        cluster.postgresql.end_connections()
        time.sleep(seconds / 20)


def restart_postgresql(cluster: Cluster, seconds: float) -> None:
    """Stop PostgreSQL as a crash does, and start it again at once."""
    cluster.postgresql.stop("immediate")
    cluster.postgresql.start()


def stop_postgresql(cluster: Cluster, seconds: float) -> None:
    """Stop PostgreSQL for longer than a write waits."""
    cluster.postgresql.stop("immediate")
    time.sleep(seconds)
    cluster.postgresql.start()


def freeze_postgresql(cluster: Cluster, seconds: float) -> None:
    """Suspend every process of PostgreSQL: connections stay open, answers do not come."""
    assert cluster.postgresql.pid is not None
    pids = [cluster.postgresql.pid, *find_descendants(cluster.postgresql.pid)]
    for what in (signal.SIGSTOP, signal.SIGCONT):
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, what)
        if what == signal.SIGSTOP:
            time.sleep(seconds)


def cut_answers(cluster: Cluster, seconds: float) -> None:
    """Cut the answers to a number of writes: each is repeated, and looked up by its id."""
    for _ in range(20):
        cluster.relays[0].cut_answer_to(*WRITES)
        time.sleep(seconds / 20)


def cut_all_answers(cluster: Cluster, seconds: float) -> None:
    """Cut the answer to every write, for longer than a write waits: whether it is stored stays open."""
    cluster.relays[0].cut_answer_to(*WRITES, times=1_000_000)
    time.sleep(seconds)
    cluster.relays[0].cut_answer_to(times=0)


def cut_audit_answers(cluster: Cluster, seconds: float) -> None:
    """Cut the answer to every write of audit rows, for longer than a write waits."""
    cluster.relays[0].cut_answer_to(AUDIT_WRITES, times=1_000_000)
    time.sleep(seconds)
    cluster.relays[0].cut_answer_to(times=0)


def cut_listening(cluster: Cluster, seconds: float) -> None:
    """Cut the connections that listen for messages, and let no new one through."""
    assert cluster.bus_relay is not None
    cluster.bus_relay.hold(True)
    cluster.bus_relay.cut_all()
    time.sleep(seconds)
    cluster.bus_relay.cut_all()
    cluster.bus_relay.hold(False)


def kill_redis(cluster: Cluster, seconds: float) -> None:
    """Kill Redis, and start it again later."""
    assert cluster.redis is not None
    cluster.redis.stop()
    time.sleep(seconds)
    cluster.redis.start()


def slow_bucket(cluster: Cluster, seconds: float) -> None:
    """Let every answer of the bucket, and every piece of a request, wait for a second and a half."""
    assert cluster.bucket_relay is not None
    cluster.bucket_relay.slow_down(1.5)
    time.sleep(seconds)
    cluster.bucket_relay.slow_down(0)


def kill_bucket(cluster: Cluster, seconds: float) -> None:
    """Kill the S3 server, and start it again later."""
    assert cluster.bucket is not None
    cluster.bucket.stop()
    time.sleep(seconds)
    cluster.bucket.start()


def wait_long(cluster: Cluster, seconds: float) -> None:
    """Let the load run: the cluster has its fault from the start."""
    time.sleep(seconds)


def kill_node(cluster: Cluster, seconds: float) -> None:
    """Kill every process of a node at once."""
    cluster.send_signal(HIT, signal.SIGKILL)


def suspend_node(cluster: Cluster, seconds: float) -> None:
    """Suspend every process of a node, and let it go on later."""
    cluster.send_signal(HIT, signal.SIGSTOP)
    time.sleep(seconds)
    cluster.send_signal(HIT, signal.SIGCONT)


def cut_node(cluster: Cluster, seconds: float) -> None:
    """Pass nothing between a node and PostgreSQL, without telling either."""
    cluster.relays[HIT].hold(True)
    time.sleep(seconds)
    cluster.relays[HIT].hold(False)


def lose_packets(cluster: Cluster, seconds: float) -> None:
    """Lose every packet between a node and PostgreSQL."""
    assert cluster.path is not None
    cluster.path.lose(True)
    time.sleep(seconds)
    cluster.path.lose(False)


NO_PARTS = Parts()


@dataclass(frozen=True, slots=True)
class Fault:
    """`says` names it in the table; `cause` does it and returns when it is over, None for a race. `kills` are
    nodes that end in it.
    """

    says: str
    cause: Callable[[Cluster, float], None] | None
    parts: Parts = NO_PARTS
    kills: frozenset[int] = frozenset()


FAULTS = {
    "connections": Fault("`pg_terminate_backend` of every connection, 20 times in 16 s", end_connections),
    "restart": Fault("PostgreSQL stopped at once and started again", restart_postgresql),
    "outage": Fault("PostgreSQL stopped at once, away for 16 s", stop_postgresql),
    "frozen": Fault("PostgreSQL suspended for 16 s, connections open", freeze_postgresql),
    "answers": Fault("answers to 20 commits cut", cut_answers, Parts(relay=True)),
    "all-answers": Fault("the answer to every commit cut for 16 s", cut_all_answers, Parts(relay=True)),
    "audit-answers": Fault(
        "the answer to every write of audit rows cut for 16 s", cut_audit_answers, Parts(relay=True)
    ),
    "listening": Fault("the connections that listen cut for 16 s", cut_listening, Parts(bus="listening")),
    "redis": Fault("Redis killed, away for 16 s", kill_redis, Parts(bus="redis")),
    "slow-bucket": Fault("the bucket slow for 16 s", slow_bucket, Parts(bucket="bucket")),
    "full-bucket": Fault("the bucket full", wait_long, Parts(bucket="small")),
    "no-bucket": Fault("the bucket killed, away for 16 s", kill_bucket, Parts(bucket="bucket")),
    "killed": Fault("a node killed", kill_node, kills=frozenset({HIT})),
    "suspended": Fault("a node suspended for 16 s while it streams", suspend_node),
    "clocks": Fault(
        "the clock of one node an hour ahead, of another an hour behind", wait_long, Parts(wrong_clocks=CLOCKS)
    ),
    "network": Fault("a node cut off from PostgreSQL for 16 s, connections open", cut_node, Parts(own_relays=True)),
    "packets": Fault("every packet between a node and PostgreSQL lost for 16 s", lose_packets, Parts(lossy_first=True)),
    "race": Fault("writers at all nodes change one name, one document of grants and one room", None),
}


def run(name: str, timing: Timing = FULL) -> Figures:
    """Run a cluster under load, cause a fault, and return its figures. Raises KeyError for an unknown name."""
    fault, log = FAULTS[name], Log()
    with tempfile.TemporaryDirectory() as directory, running_cluster(Path(directory), fault.parts) as cluster:
        if fault.cause is None:
            return race(cluster)
        with running_load(cluster.hubs, log, fault.kills):
            time.sleep(timing.before)
            fault.cause(cluster, timing.fault)
            over = time.monotonic()
            time.sleep(timing.after)
            with suppress(AssertionError):  # the figures say how many there are
                until(lambda: log.count_acknowledged() > timing.least, "acknowledged operations")
        if fault.parts.wrong_clocks:
            kill_hubs(cluster, log)
        else:
            end_hubs([hub for number, hub in enumerate(cluster.hubs) if number not in fault.kills])
        return check(log, cluster, over, fault.kills, lasts=fault.parts.bucket == "small")


def end_hubs(hubs: list[Hub]) -> None:
    """End hubs as an operator does, so that they write what waits."""
    for hub in hubs:
        hub.process.send_signal(signal.SIGTERM)
    for hub in hubs:
        hub.finished()


def kill_hubs(cluster: Cluster, log: Log) -> None:
    """Kill hubs whose audit rows are written.

    They are not ended as usual, because libfaketime 0.9.10 now and then fails a sleep at their end (`EINVAL`).
    """
    with closing(PostgresqlStore(cluster.store)) as store, suppress(AssertionError):  # the comparison names lost rows
        until(lambda: is_audited(log, read_lines(store.journal)), "the audit row of each answered call")
    for number in range(len(cluster.hubs)):
        cluster.send_signal(number, signal.SIGKILL)

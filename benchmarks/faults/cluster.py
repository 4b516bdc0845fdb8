"""Three hubs on one PostgreSQL, and the services beside them, as far as a fault needs them."""

from __future__ import annotations

import os
import secrets
import signal
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.faults.packets import LossyPath
from benchmarks.processes import find_descendants
from tests.buckets import BucketServer
from tests.databases import PostgresqlServer
from tests.redises import RedisServer
from tests.relays import Relay
from tests.serving.running import Hub, running
from tests.waiting import until

NODES = 3

NO_FAKETIME = "libfaketime is missing; on Debian: apt-get install faketime"

DEFINITION = '''"""A server for a load while something fails."""

import time


def say(text: str) -> str:
    """Say it again."""
    return text


def remember(context, key: str, number: int) -> int:
    """Remember a number."""
    context.state[key] = number
    return number


def work(context, steps: int) -> str:
    """Report a number of steps, each of which takes a tenth of a second."""
    for step in range(1, steps + 1):
        time.sleep(0.1)
        context.progress(step, steps)
    return f"{steps} steps are done"
'''


@dataclass(frozen=True, slots=True)
class Parts:
    """What stands between the hubs and their services, and which services there are.

    `relay` leads all hubs to PostgreSQL, `own_relays` each hub through one of its own, `lossy_first` the first one over
    devices that can lose packets. `bus` is how messages go: empty
    for the database, `listening` for an own address of the connections that listen, `redis` for a Redis. With
    `bucket` (`bucket` or `small`) large contents go to an S3 server, through a relay. `wrong_clocks` says how far off
    the clock of each hub is, in the form of libfaketime.
    """

    relay: bool = False
    own_relays: bool = False
    lossy_first: bool = False
    bus: str = ""
    bucket: str = ""
    wrong_clocks: tuple[str, ...] = ()


@dataclass
class Cluster:
    """Running hubs and their services. The relays lead to the service that their name says."""

    folder: Path
    postgresql: PostgresqlServer
    store: str
    hubs: list[Hub] = field(default_factory=list)
    relays: list[Relay] = field(default_factory=list)
    """The relay of each hub to PostgreSQL, or one for all of them."""
    path: LossyPath | None = None
    bus_relay: Relay | None = None
    bucket_relay: Relay | None = None
    redis: RedisServer | None = None
    bucket: BucketServer | None = None
    blobs: str = ""

    def processes(self, number: int) -> list[int]:
        """Return the processes of a hub, the supervisor first."""
        pid = self.hubs[number].process.pid
        return [pid, *find_descendants(pid)]

    def send_signal(self, number: int, what: signal.Signals) -> None:
        """Send a signal to every process of a hub."""
        for pid in self.processes(number):
            try:
                os.kill(pid, what)
            except ProcessLookupError:
                continue


@contextmanager
def running_cluster(folder: Path, parts: Parts) -> Iterator[Cluster]:
    """Start the services and the hubs; all of them end afterwards."""
    with ExitStack() as stack:
        postgresql = PostgresqlServer()
        stack.callback(postgresql.close)
        cluster = Cluster(folder, postgresql, postgresql.new_schema())
        options = _start_services(stack, cluster, parts)
        (folder / "servers").mkdir()
        (folder / "servers" / "keeper.py").write_text(DEFINITION)
        (folder / "key").write_text(secrets.token_hex(32))
        if parts.relay:
            cluster.relays.append(stack.enter_context(Relay(postgresql.port)))
        for number in range(NODES):
            if parts.own_relays:
                cluster.relays.append(stack.enter_context(Relay(postgresql.port)))
            address = through(cluster.store, postgresql.port, cluster.relays[-1]) if cluster.relays else cluster.store
            if parts.lossy_first and number == 0:
                cluster.path = LossyPath(postgresql.port)
                stack.callback(cluster.path.close)
                address = through(cluster.store, postgresql.port, cluster.path.relay)
            distance = parts.wrong_clocks[number] if parts.wrong_clocks else ""
            own = clock_environment(distance) if distance else {}
            cluster.hubs.append(stack.enter_context(_running_hub(folder, number, address, options, own)))
        until(lambda: all(hub.get("/mcp/keeper")[0] != 404 for hub in cluster.hubs), "each hub serves the definition")
        yield cluster


def through(address: str, port: int, relay: Relay) -> str:
    """Return the address of a database through a relay."""
    return address.replace(f"127.0.0.1:{port}/", f"{relay.host}:{relay.port}/")


def find_faketime() -> Path | None:
    """Return the library of Debian's package `faketime`; None without it."""
    return next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)


def clock_environment(distance: str) -> dict[str, str]:
    """Return the variables with which libfaketime moves the wall clock of a process, and no other clock."""
    if (library := find_faketime()) is None:
        raise RuntimeError(NO_FAKETIME)
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": distance,
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        "FAKETIME_DONT_RESET": "1",
    }


def _start_services(stack: ExitStack, cluster: Cluster, parts: Parts) -> list[str]:
    """Start the services; return the options that lead a hub to them. Sets the environment for a bucket."""
    options = ["--audit", "on"]
    if parts.bus == "listening":
        cluster.bus_relay = stack.enter_context(Relay(cluster.postgresql.port))
        options += ["--bus-address", through(cluster.store, cluster.postgresql.port, cluster.bus_relay)]
    elif parts.bus == "redis":
        cluster.redis = RedisServer()
        stack.callback(cluster.redis.close)
        options += ["--bus-address", cluster.redis.address]
    if parts.bucket:
        cluster.bucket = BucketServer(is_small=parts.bucket == "small")
        stack.callback(cluster.bucket.close)
        environment = cluster.bucket.environment
        cluster.bucket_relay = stack.enter_context(Relay(int(environment["AWS_ENDPOINT_URL"].rsplit(":", 1)[1])))
        environment["AWS_ENDPOINT_URL"] = f"http://127.0.0.1:{cluster.bucket_relay.port}"
        stack.enter_context(changed_environment(environment))
        cluster.blobs = cluster.bucket.new_prefix()
        options += ["--blobs", cluster.blobs]
    return options


@contextmanager
def changed_environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Set variables of this process, which the programs that it starts inherit."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


@contextmanager
def _running_hub(
    folder: Path, number: int, address: str, options: list[str], environment: Mapping[str, str]
) -> Iterator[Hub]:
    own = folder / f"node{number}"
    own.mkdir()
    given = ["--store", address, "--key-file", str(folder / "key"), "--servers", str(folder / "servers"), *options]
    with ExitStack() as stack:
        with changed_environment(environment):
            hub = stack.enter_context(running(own, *given))
        yield hub

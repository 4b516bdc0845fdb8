"""`/metrics`: the metrics of the hub in the text format of Prometheus.

Each worker counts its own calls. The worker that gets the request asks the other workers over the bus, waits up to
WORKER_ANSWER_SECONDS, and returns all numbers with the label `worker` (the process id). Where hubs of several machines
share a store, the label `node` has the name of the machine, and workers of other hubs do not answer. When a worker is
replaced, its series end; use `sum without (worker)` and `rate`. The set of label values is bounded
(`activity/call_counters.py`) and never holds text of callers.
Sources: https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path

import orjson
from flask import Blueprint, Response, request
from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from patchbay import __version__
from patchbay.activity.call_counters import BOUNDS, Count, Key
from patchbay.activity.recorder import MAX_QUEUED_RECORDS
from patchbay.catalogue.upkeep.bus_lag import KEPT_AS, BusLag
from patchbay.catalogue.visibility.visible_catalogue import VisibleCatalogue
from patchbay.errors import StoreAway
from patchbay.protocol.dispatch import Dispatcher
from patchbay.store import Store, Subscription
from patchbay.topics import METRICS_ASKED, METRICS_TOLD, ROOT
from patchbay.web.site import Site, has_entry

log = logging.getLogger(__name__)


WORKER_ANSWER_SECONDS = 1.0
"""Seconds that the other workers have to respond."""

HUB_DIGITS = 16
"""Hexadecimal digits of the digest that stands for a hub among those on one store."""

LISTEN_POLL_SECONDS = 5.0
"""Seconds between two checks whether the bus subscription is closed."""


class WorkerMetrics:
    """The metrics of one process."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        # Do not use the global registry of the library, which other hubs in this process share.
        self._process = ProcessCollector(registry=None)

    def families(self) -> list[Metric]:
        """The current metrics of this process."""
        self._dispatcher.services.activity.count()
        return [
            *self._calls(),
            *self._now(),
            *self._hosts(),
            *self._records(),
            *self._build(),
            *self._process.collect(),
        ]

    def _calls(self) -> Iterator[Metric]:
        counts = self._dispatcher.services.activity.counters.counts()
        labels = ["server", "method", "name"]
        ended = CounterMetricFamily(
            "patchbay_calls", "Calls that have ended, by server, method, name and outcome.", labels=[*labels, "outcome"]
        )
        took = HistogramMetricFamily("patchbay_call_duration_seconds", "Duration of calls.", labels=labels)
        for key, count in counts.items():
            for outcome, number in count.outcomes.items():
                ended.add_metric([*key, outcome], number)
            _add_histogram(took, key, count)
        yield ended
        yield took

    def _now(self) -> Iterator[Metric]:
        dispatcher = self._dispatcher
        services = dispatcher.services
        yield _gauge("patchbay_calls_running", "Running calls.", len(services.activity.running))
        yield _gauge("patchbay_streams_open", "Responses that are being streamed.", len(dispatcher.streams))
        yield _gauge("patchbay_listeners_open", "Listening streams.", dispatcher.listening)
        yield _gauge("patchbay_listeners_most", "Listening streams, at most.", services.settings.listeners)
        works = services.catalogue.store.check() is None
        yield _gauge("patchbay_store_up", "Whether the store responds.", works)
        reaches = services.catalogue.store.bus.problem() is None
        yield _gauge("patchbay_bus_up", "Whether messages reach other hubs.", reaches)
        lag = services.catalogue.hub.find_kept(KEPT_AS)
        if isinstance(lag, BusLag) and (milliseconds := lag.milliseconds()) is not None:
            yield _gauge("patchbay_bus_lag_seconds", "How long messages of other hubs take.", milliseconds / 1000)

    def _hosts(self) -> Iterator[Metric]:
        counts = self._dispatcher.services.hosts.counts()
        now = GaugeMetricFamily("patchbay_hosts", "Processes for Python definitions, by state.", labels=["state"])
        for state, number in counts.now.items():
            now.add_metric([state], number)
        yield now
        yield _gauge("patchbay_hosts_most", "Processes for Python definitions, at most.", counts.most)
        yield CounterMetricFamily("patchbay_hosts_started", "Processes started for definitions.", value=counts.started)
        ended = CounterMetricFamily("patchbay_hosts_ended", "Processes that ended, by reason.", labels=["reason"])
        for reason, number in counts.ended.items():
            ended.add_metric([reason], number)
        yield ended

    def _records(self) -> Iterator[Metric]:
        activity = self._dispatcher.services.activity
        yield _gauge("patchbay_activity_queue", "Records of calls in the queue of the recorder.", activity.waiting)
        yield _gauge("patchbay_activity_queue_most", "Records that wait for the store, at most.", MAX_QUEUED_RECORDS)
        yield CounterMetricFamily(
            "patchbay_activity_dropped", "Records lost because the queue was full.", value=activity.dropped
        )
        yield CounterMetricFamily(
            "patchbay_store_errors", "Records of calls that the store failed to write.", value=activity.failed
        )

    def _build(self) -> Iterator[Metric]:
        try:
            root = self._dispatcher.services.catalogue.store.names.get(ROOT) or ""
        except StoreAway:  # the other figures are wanted most of all then
            root = ""
        build = GaugeMetricFamily(
            "patchbay_build_info",
            "Version of the hub, version of Python, and root.",
            labels=["version", "python", "root"],
        )
        build.add_metric([__version__, platform.python_version(), root], 1)
        yield build


def _gauge(name: str, help: str, value: float) -> Metric:
    return GaugeMetricFamily(name, help, value=float(value))


def _add_histogram(family: HistogramMetricFamily, key: Key, count: Count) -> None:
    total, buckets = 0, []
    for bound, number in zip((*map(floatToGoString, BOUNDS), "+Inf"), count.buckets, strict=True):
        total += number
        buckets.append((bound, float(total)))
    family.add_metric(list(key), buckets, sum_value=count.seconds)


class HubMetrics:
    """The metrics of all workers of one hub, collected by one of them.

    `others` is the number of other workers, `data` the folder of the hub, by which its workers know each other.
    """

    def __init__(self, own_metrics: WorkerMetrics, store: Store, others: int, data: Path) -> None:
        self._own_metrics = own_metrics
        self._store = store
        self._others = others
        self._own = f"{os.getpid()}"
        machine = socket.gethostname()
        self._labels = {"node": machine} if store.is_shared else {}
        hub = sha256(f"{machine}\0{data.resolve()}".encode("utf-8", "surrogateescape")).hexdigest()[:HUB_DIGITS]
        self._answers = f"{METRICS_TOLD}{hub}/"
        self._asking: set[bytes] = set()

    def listen(self) -> None:
        """Start a thread that responds to requests of other workers until the store is closed."""
        if not self._others:
            return
        mailbox = self._store.bus.subscribe([METRICS_ASKED])
        threading.Thread(target=self._serve_requests, args=(mailbox,), name="metrics", daemon=True).start()

    def collect(self) -> Iterator[Metric]:
        """The metrics of all workers; each sample has the label of its worker."""
        responses = [(self._own, serialize_families(self._own_metrics.families())), *self._ask_others()]
        merged: dict[str, Metric] = {}
        for worker, families in responses:
            for name, help, kind, samples in orjson.loads(families):
                family = merged.setdefault(name, Metric(name, help, kind))
                for sample, labels, value in samples:
                    family.add_sample(sample, labels | self._labels | {"worker": worker}, value)
        yield from merged.values()
        yield _gauge("patchbay_workers", "Workers that responded.", len(responses))

    def _ask_others(self) -> list[tuple[str, bytes]]:
        """Ask the other workers; return the responses that come in time."""
        if not self._others:
            return []
        topic = f"{self._answers}{secrets.token_urlsafe(9)}"
        found: dict[str, bytes] = {}
        self._asking.add(topic.encode())
        with self._store.bus.subscribe([topic], 1024) as mailbox:
            self._store.bus.publish(METRICS_ASKED, topic.encode())
            until = time.monotonic() + WORKER_ANSWER_SECONDS
            while len(found) < self._others and (left := until - time.monotonic()) > 0:
                got = mailbox.get(left)
                if got is not None:
                    worker, _, families = got[1].partition(b"\n")
                    found[worker.decode()] = families
        self._asking.discard(topic.encode())
        return sorted(found.items())

    def _serve_requests(self, mailbox: Subscription) -> None:
        with mailbox:
            while not mailbox.closed:
                got = mailbox.get(LISTEN_POLL_SECONDS)
                # Ignore the requests of this process itself, and those of other hubs on the same store.
                if got is not None and got[1] not in self._asking and got[1].startswith(self._answers.encode()):
                    self._publish(got[1].decode())

    def _publish(self, topic: str) -> None:
        try:
            self._store.bus.publish(
                topic, self._own.encode() + b"\n" + serialize_families(self._own_metrics.families())
            )
        except Exception:
            log.exception("cannot send the metrics that another worker requested")


def serialize_families(families: Iterable[Metric]) -> bytes:
    """Serialize families as a JSON array of `[name, help, type, [[sample, labels, value], ...]]`."""
    return orjson.dumps(
        [
            [one.name, one.documentation, one.type, [[s.name, s.labels, s.value] for s in one.samples]]
            for one in families
        ]
    )


class CollectedMetrics(Collector):
    """A collector with fixed families, for the encoders of the library."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def visible_families(families: Iterable[Metric], seen: VisibleCatalogue) -> Iterator[Metric]:
    """Yield families without the samples of servers and names that a reader may not see."""
    for family in families:
        shown = Metric(family.name, family.documentation, family.type)
        shown.samples = [
            sample
            for sample in family.samples
            if "server" not in sample.labels or has_entry(seen, sample.labels["server"], sample.labels["name"])
        ]
        yield shown


def metrics_blueprint(site: Site, dispatcher: Dispatcher) -> Blueprint:
    """The route `/metrics`: metrics of this process, or of all workers when the hub has several."""
    own_metrics = WorkerMetrics(dispatcher)
    store = dispatcher.services.catalogue.store
    settings = dispatcher.services.settings
    others = settings.workers - 1
    has_labels = others > 0 or store.is_shared
    hub_metrics = HubMetrics(own_metrics, store, others, settings.data) if has_labels else None
    if hub_metrics is not None:
        hub_metrics.listen()
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def metrics() -> Response:
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        families = own_metrics.families() if hub_metrics is None else list(hub_metrics.collect())
        seen = site.visible
        if not seen.shows_everything:
            families = list(visible_families(families, seen))
        response = Response(encode(CollectedMetrics(families)), content_type=kind)
        response.headers["Cache-Control"] = "no-store"
        return response

    return blueprint

"""/metrics: what the hub counts, in the text format of Prometheus.

Each worker counts for itself. With several, the one that is asked asks the others over the bus, waits a moment, and
gives the numbers of each under a label of its own, `worker` (its process id): a worker that was replaced ends its
series instead of making a sum jump, which is what `sum without (worker)` and `rate` are made for.
Labels are bounded (`activity/call_counters.py`); nothing that a stranger wrote is ever one.
Sources: DESIGN section 8; https://prometheus.io/docs/instrumenting/exposition_formats/, practices/naming/.
"""

from __future__ import annotations

import logging
import os
import platform
import secrets
import threading
import time
from collections.abc import Iterable, Iterator

import orjson
from flask import Blueprint, Response, request
from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from patchbay import __version__
from patchbay.activity.call_counters import BOUNDS, Count, Key
from patchbay.protocol.dispatch import Dispatcher
from patchbay.store import Store, Subscription
from patchbay.topics import METRICS_ASKED, METRICS_TOLD, ROOT

log = logging.getLogger(__name__)


WORKER_ANSWER_SECONDS = 1.0
"""Seconds in which the others have to answer."""

LISTEN_POLL_SECONDS = 5.0
"""Seconds between two looks whether there is still somebody to listen to."""


class WorkerMetrics:
    """What one process counts. `dispatcher` has the parts that know."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        # A registry of its own: the library's is shared by everything in this process.
        self._process = ProcessCollector(registry=None)

    def families(self) -> list[Metric]:
        """Everything that is counted here, now."""
        self._dispatcher.desk.activity.count()
        return [
            *self._calls(),
            *self._now(),
            *self._hosts(),
            *self._records(),
            *self._build(),
            *self._process.collect(),
        ]

    def _calls(self) -> Iterator[Metric]:
        counts = self._dispatcher.desk.activity.tally.counts()
        labels = ["server", "method", "name"]
        ended = CounterMetricFamily(
            "patchbay_calls", "Calls that have ended, by what ran and how it ended.", labels=[*labels, "outcome"]
        )
        took = HistogramMetricFamily("patchbay_call_duration_seconds", "How long calls took.", labels=labels)
        for key, count in counts.items():
            for outcome, number in count.outcomes.items():
                ended.add_metric([*key, outcome], number)
            _add_histogram(took, key, count)
        yield ended
        yield took

    def _now(self) -> Iterator[Metric]:
        dispatcher = self._dispatcher
        desk = dispatcher.desk
        yield _gauge("patchbay_calls_running", "Calls being answered.", len(desk.activity.running))
        yield _gauge("patchbay_streams_open", "Answers that are being streamed.", len(dispatcher.streams))
        yield _gauge("patchbay_listeners_open", "Streams that only listen.", dispatcher.listening)
        yield _gauge("patchbay_listeners_most", "Streams that may only listen at once.", desk.settings.listeners)
        works = desk.catalogue.store.check() is None
        yield _gauge("patchbay_store_up", "Whether the store answers.", works)

    def _hosts(self) -> Iterator[Metric]:
        counts = self._dispatcher.desk.hosts.counts()
        now = GaugeMetricFamily("patchbay_hosts", "Processes for Python definitions, by state.", labels=["state"])
        for state, number in counts.now.items():
            now.add_metric([state], number)
        yield now
        yield _gauge("patchbay_hosts_most", "Processes for Python definitions that there may be.", counts.most)
        yield CounterMetricFamily("patchbay_hosts_started", "Processes started for definitions.", value=counts.started)
        ended = CounterMetricFamily("patchbay_hosts_ended", "Processes that ended, by reason.", labels=["reason"])
        for reason, number in counts.ended.items():
            ended.add_metric([reason], number)
        yield ended

    def _records(self) -> Iterator[Metric]:
        activity = self._dispatcher.desk.activity
        yield _gauge("patchbay_activity_queue", "Records of calls that wait to be written.", activity.waiting)
        yield CounterMetricFamily(
            "patchbay_activity_dropped", "Records lost because too many waited.", value=activity.dropped
        )
        yield CounterMetricFamily(
            "patchbay_store_errors", "Records of calls that the store did not take.", value=activity.failed
        )

    def _build(self) -> Iterator[Metric]:
        root = self._dispatcher.desk.catalogue.store.names.get(ROOT) or ""
        build = GaugeMetricFamily("patchbay_build_info", "What runs here.", labels=["version", "python", "root"])
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
    """The meters of all workers of one hub, seen from one of them. `others` is how many more there should be."""

    def __init__(self, meter: WorkerMetrics, store: Store, others: int) -> None:
        self._meter = meter
        self._store = store
        self._others = others
        self._own = f"{os.getpid()}"
        self._asking: set[bytes] = set()

    def listen(self) -> None:
        """Answer the others from now on, in a thread, until the store is closed."""
        mailbox = self._store.bus.subscribe([METRICS_ASKED])
        threading.Thread(target=self._hear, args=(mailbox,), name="metrics", daemon=True).start()

    def collect(self) -> Iterator[Metric]:
        """The families of all workers, each sample with the label of its worker."""
        told = [(self._own, dumped(self._meter.families())), *self._asked()]
        merged: dict[str, Metric] = {}
        for worker, families in told:
            for name, help, kind, samples in orjson.loads(families):
                family = merged.setdefault(name, Metric(name, help, kind))
                for sample, labels, value in samples:
                    family.add_sample(sample, labels | {"worker": worker}, value)
        yield from merged.values()
        yield _gauge("patchbay_workers", "Workers whose numbers these are.", len(told))

    def _asked(self) -> list[tuple[str, bytes]]:
        """What the others say, as far as they say it in time."""
        topic = f"{METRICS_TOLD}{secrets.token_urlsafe(9)}"
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

    def _hear(self, mailbox: Subscription) -> None:
        with mailbox:
            while not mailbox.closed:
                # What this process asked itself it need not answer.
                if (got := mailbox.get(LISTEN_POLL_SECONDS)) is not None and got[1] not in self._asking:
                    self._tell(got[1].decode())

    def _tell(self, topic: str) -> None:
        try:
            self._store.bus.publish(topic, self._own.encode() + b"\n" + dumped(self._meter.families()))
        except Exception:
            log.exception("another worker asked for metrics, which could not be told")


def dumped(families: Iterable[Metric]) -> bytes:
    """Families as JSON: `[name, help, type, [[sample, labels, value], ...]]` each."""
    return orjson.dumps(
        [
            [one.name, one.documentation, one.type, [[s.name, s.labels, s.value] for s in one.samples]]
            for one in families
        ]
    )


class CollectedMetrics(Collector):
    """What the library's encoders want: something to collect from."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


def metrics_blueprint(dispatcher: Dispatcher) -> Blueprint:
    """`/metrics`, of this process or, where the settings have several workers, of all of them."""
    meter = WorkerMetrics(dispatcher)
    store = dispatcher.desk.catalogue.store
    others = dispatcher.desk.settings.workers - 1
    crowd = HubMetrics(meter, store, others) if others > 0 else None
    if crowd is not None:
        crowd.listen()
    blueprint = Blueprint("metrics", __name__)

    @blueprint.get("/metrics")
    def metrics() -> Response:
        encode, kind = choose_encoder(request.headers.get("Accept", ""))
        families = meter.families() if crowd is None else list(crowd.collect())
        response = Response(encode(CollectedMetrics(families)), content_type=kind)
        response.headers["Cache-Control"] = "no-store"
        return response

    return blueprint

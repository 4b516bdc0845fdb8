"""`/metrics`: the metrics of the hub in the text format of Prometheus.

Each worker counts its own calls. The worker that gets the request asks the other workers over the bus
(`worker_answers.py`), and returns all numbers with the label `worker` (the process id). Where hubs of several machines
share a store, the label `node` has the name of the machine, and workers of other hubs do not answer. When a worker is
replaced, its series end; use `sum without (worker)` and `rate`. The set of label values is bounded
(`activity/call_counters.py`) and never holds text of callers.
Sources: https://prometheus.io/docs/instrumenting/exposition_formats/ and https://prometheus.io/docs/practices/naming/.
"""

from __future__ import annotations

import platform
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson
from flask import Blueprint, Response, request
from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from patchbay import __version__
from patchbay.access.limits.usage import Usage
from patchbay.activity.call_counters import BOUNDS, Count, Key
from patchbay.activity.recorder import MAX_QUEUED_RECORDS
from patchbay.catalogue.visible_catalogue import VisibleCatalogue
from patchbay.coordination.bus_lag import KEPT_AS, BusLag
from patchbay.errors import StoreAway
from patchbay.protocol.dispatch import Dispatcher
from patchbay.store import Store
from patchbay.topics import METRICS_ASKED, METRICS_TOLD, ROOT
from patchbay.web.api.worker_answers import WorkerAnswers, hub_digest
from patchbay.web.site.site import Site, has_entry


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
            *self._worker_pool(),
            *self._records(),
            *self._limits(),
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

    def _worker_pool(self) -> Iterator[Metric]:
        counts = self._dispatcher.services.worker_pool.counts()
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

    def _limits(self) -> Iterator[Metric]:
        """The limits of callers, by name of the limit: no sample names a caller."""
        usage = Usage(self._dispatcher.services.quotas, self._dispatcher.services.ledger)
        largest = GaugeMetricFamily(
            "patchbay_limit_used_ratio",
            "The largest part of its limit that one caller uses, 0 to 1, by limit.",
            labels=["limit"],
        )
        near = GaugeMetricFamily(
            "patchbay_limit_callers_near", "Callers that use 90% of their limit or more, by limit.", labels=["limit"]
        )
        for total in usage.totals():
            largest.add_metric([total.name], total.largest)
            near.add_metric([total.name], total.near)
        refused = CounterMetricFamily(
            "patchbay_limit_refusals", "Requests that a limit of their caller has refused, by limit.", labels=["limit"]
        )
        for name, number in usage.refusals().items():
            refused.add_metric([name], number)
        yield from (largest, near, refused)

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
        self._labels = {"node": socket.gethostname()} if store.is_shared else {}
        told = f"{METRICS_TOLD}{hub_digest(data)}/"
        self._workers = WorkerAnswers(
            store, METRICS_ASKED, told, lambda: serialize_families(own_metrics.families()), lambda: others
        )
        if others:
            self._workers.listen()

    def collect(self) -> Iterator[Metric]:
        """The metrics of all workers; each sample has the label of its worker."""
        responses = self._workers.collect()
        merged: dict[str, Metric] = {}
        for worker, families in responses:
            for name, help, kind, samples in orjson.loads(families):
                family = merged.setdefault(name, Metric(name, help, kind))
                for sample, labels, value in samples:
                    family.add_sample(sample, labels | self._labels | {"worker": worker}, value)
        yield from merged.values()
        yield _gauge("patchbay_workers", "Workers that responded.", len(responses))


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

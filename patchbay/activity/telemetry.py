"""Sends spans and metrics of this process to a collector, by OTLP over HTTP, with the SDK of OpenTelemetry.

Importing this module needs the extra `tracing`. The setting `otlp` names the collector. The variables of the SDK
(`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_TRACES_SAMPLER`, `OTEL_METRIC_EXPORT_INTERVAL`, `OTEL_RESOURCE_ATTRIBUTES`, ...)
configure the rest. A collector that is away costs the spans and metrics of that time, and no call.
Sources: https://opentelemetry.io/docs/specs/otlp/; https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from patchbay import __version__
from patchbay.activity.tracing import TARGETS, error_type
from patchbay.errors import ConfigError

DURATION = "mcp.server.operation.duration"
"""The histogram of the conventions for MCP: seconds from the beginning of a call to its end."""

CLOSE_SECONDS = 2.0
"""Seconds for which the end of a process waits until the last spans and metrics are sent."""


class Telemetry:
    """The exporters of one process. `provider` makes the spans of calls.

    `numbers` returns the present values of gauges by name. Raises ConfigError for a URL that cannot be used.
    """

    def __init__(self, url: str, node: str, numbers: Callable[[], Mapping[str, float]]) -> None:
        _check_url(url)
        base = url.rstrip("/")
        resource = Resource.create(
            {"service.name": "patchbay", "service.version": __version__, "service.instance.id": node}
        )
        self.provider: TracerProvider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self.provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=f"{base}/v1/traces")))
        reader = PeriodicExportingMetricReader(OTLPMetricExporter(endpoint=f"{base}/v1/metrics"))
        self._meters = MeterProvider([reader], resource, shutdown_on_exit=False)
        meter = self._meters.get_meter("patchbay", __version__)
        self._duration = meter.create_histogram(DURATION, "s", "Duration of MCP requests and notifications.")
        for name in numbers():
            meter.create_observable_gauge(f"patchbay.{name}", [_observe(name, numbers)])

    def count(self, server: str, method: str, name: str, outcome: str, seconds: float) -> None:
        """Count a call that has ended. `name` is that of a listed tool, prompt or resource; "" for any other."""
        attributes: dict[str, str] = {"mcp.method.name": method, "patchbay.server": server, "patchbay.outcome": outcome}
        if name and method in TARGETS:
            attributes[TARGETS[method]] = name
        kind = error_type(outcome, None)
        if kind is not None:
            attributes["error.type"] = kind
        self._duration.record(seconds, attributes)

    def close(self) -> None:
        """Send what is left, for CLOSE_SECONDS at most."""
        # The processor of spans takes no time limit, and waits up to 30 seconds for a collector that is away.
        endings = [
            threading.Thread(target=end, name="telemetry-end", daemon=True)
            for end in (self.provider.shutdown, self._meters.shutdown)
        ]
        for ending in endings:
            ending.start()
        end = time.monotonic() + CLOSE_SECONDS
        for ending in endings:
            ending.join(max(0.0, end - time.monotonic()))


def _observe(
    name: str, numbers: Callable[[], Mapping[str, float]]
) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(options: CallbackOptions) -> Iterable[Observation]:
        return [Observation(numbers()[name])]

    return observe


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        has_address = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_address = False
    if not has_address or parts.query or parts.fragment or parts.username is not None:
        expected = "expected the URL of a collector, with http or https and without a user name"
        more = "credentials go into OTEL_EXPORTER_OTLP_HEADERS"
        raise ConfigError("settings", "otlp", f"{expected}, such as http://127.0.0.1:4318; {more}")

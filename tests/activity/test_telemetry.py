"""Traces and metrics go to a collector by OTLP, as the setting says; a collector that is away costs no call."""

from __future__ import annotations

import gzip
import queue
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from patchbay.activity.telemetry import DURATION
from patchbay.errors import ConfigError
from tests.hubs import BOTH, Hub
from tests.interaction.programs import running_hub

FILES = {
    "traced.py": '"""Tools."""\n\n\ndef add(a: int, b: int) -> int:\n    """Add."""\n    return a + b\n',
    "few.json": '{"kind": "toolset", "tools": {"sum": "traced.add"}}',
}


class Collector:
    """Receives OTLP over HTTP, decoded by the published messages of the protocol."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.spans: queue.Queue[Any] = queue.Queue()
        self.metrics: queue.Queue[Any] = queue.Queue()
        self.headers: list[Any] = []

    def take(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for group in ExportTraceServiceRequest.FromString(body).resource_spans:
                for scope in group.scope_spans:
                    for span in scope.spans:
                        self.spans.put((values(group.resource.attributes), span.name, values(span.attributes)))
        elif path == "/v1/metrics":
            for measured in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for scope_metrics in measured.scope_metrics:
                    for metric in scope_metrics.metrics:
                        self.metrics.put(metric)


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.headers.append(self.headers)
            collector.take(self.path, body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def everything(found: queue.Queue[Any]) -> list[Any]:
    return [found.get_nowait() for _ in range(found.qsize())]


@pytest.mark.parametrize("callers", ["none", "ids"])
def test_calls_are_spans_and_durations_at_the_collector(tmp_path: Path, callers: str) -> None:
    with collecting() as collector:
        hub = Hub(tmp_path, FILES, otlp=f"{collector.url}/", otlp_callers=callers)
        try:
            assert hub.call("few", "sum", {"a": 1, "b": 2}).text == "3"
            assert hub.call("traced", "add", {"a": "no"}).result["isError"]
        finally:
            hub.activity.close()
            hub.close()
        sent, measured = everything(collector.spans), everything(collector.metrics)
    resource, name, attributes = next(one for one in sent if one[2].get("patchbay.toolset") == "few")
    assert resource["service.name"] == "patchbay" and resource["service.instance.id"] and name == "tools/call sum"
    assert attributes["patchbay.server"] == "few" and attributes["patchbay.outcome"] == "ok"
    assert attributes.get("enduser.id") == (None if callers == "none" else "local")
    assert any(one[1] == "tools/call add" and one[2].get("error.type") == "tool_error" for one in sent)
    points = [point for one in measured if one.name == DURATION for point in one.histogram.data_points]
    found = {(one["patchbay.server"], one.get("gen_ai.tool.name")) for one in (values(p.attributes) for p in points)}
    assert {("few", "sum"), ("traced", "add")} <= found
    assert {"patchbay.calls.running", "patchbay.records.dropped"} <= {one.name for one in measured}


def test_the_variables_of_the_sdk_give_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=tools")
    with collecting() as collector:
        hub = Hub(tmp_path, FILES, otlp=collector.url)
        hub.call("traced", "add", {"a": 1, "b": 2})
        hub.activity.close()
        hub.close()
        assert collector.headers and all(one["x-team"] == "tools" for one in collector.headers)


def test_a_collector_that_is_away_costs_no_call(tmp_path: Path) -> None:
    with collecting() as collector:
        gone = collector.url
    hub = Hub(tmp_path, FILES, otlp=gone)
    try:
        assert hub.call("traced", "add", {"a": 1, "b": 2}).text == "3"
    finally:
        hub.activity.close()
        hub.close()


@pytest.mark.process
def test_a_hub_that_ends_sends_what_is_left_before(tmp_path: Path) -> None:
    with collecting() as collector:
        (tmp_path / "traced.py").write_text(FILES["traced.py"])
        with running_hub(tmp_path / "hub", [tmp_path / "traced.py"], options=["--otlp", collector.url]) as hub:
            call = {"name": "add", "arguments": {"a": 1, "b": 2}}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            headers = {"MCP-Protocol-Version": "2025-11-25", "Accept": BOTH}
            assert "3" in httpx.post(f"{hub.url}/mcp/traced", json=message, headers=headers).text
        names = [name for _, name, _ in everything(collector.spans)]
    assert "tools/call add" in names


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:4318",
        "grpc://127.0.0.1:4317",
        "http://",
        "http://h/?a=b",
        "http://u:p@h",
        "http://[",
        "http://h:99999",
    ],
)
def test_a_wrong_url_stops_the_start_and_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="expected the URL of a collector"):
        Hub(tmp_path, FILES, otlp=url)


def test_a_hub_without_the_extra_names_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "patchbay.activity.telemetry", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(ConfigError, match=r"pip install 'patchbay-hub\[tracing\]'"):
        Hub(tmp_path, FILES, otlp="http://127.0.0.1:4318")

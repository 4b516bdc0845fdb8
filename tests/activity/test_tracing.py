"""Spans: one for each call, below the caller's, with the names of OpenTelemetry's conventions; nothing without it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from patchbay.activity.records import Filter
from patchbay.activity.tracing import Tracing
from tests.checkout import ROOT
from tests.hubs import Hub

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
META = {
    "traceparent": f"00-{TRACE}-{PARENT}-01",
    "tracestate": "rojo=00f067aa0ba902b7",
    "baggage": "user=ann",
}
TOOLS = '''"""Tools that look at their trace."""


def told(context) -> dict[str, str]:
    """Give back the trace context of the call."""
    return {key: context.meta[key] for key in ("traceparent", "tracestate", "baggage") if key in context.meta}


def fails() -> str:
    """Fail."""
    raise ValueError("no luck")
'''
FILES = {
    "traced.py": TOOLS,
    "traced.mcp.json": """{"auto_discover": true, "isolation": "inline",
      "resources": {"r": {"uri": "traced://r", "name": "R", "text": "r"}},
      "prompts": {"p": {"messages": [{"role": "user", "content": {"type": "text", "text": "p"}}]}}}""",
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("traced"), FILES)
    yield hub
    hub.close()


@pytest.fixture
def spans(hub: Hub) -> Iterator[InMemorySpanExporter]:
    """The spans that the hub makes while the SDK is set up."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    hub.activity.tracing = Tracing(provider)
    yield exporter
    hub.activity.tracing = Tracing()
    provider.shutdown()


def only(exporter: InMemorySpanExporter) -> ReadableSpan:
    (span,) = exporter.get_finished_spans()
    return span


def test_a_span_is_below_the_callers_and_the_tool_below_the_span(hub: Hub, spans: InMemorySpanExporter) -> None:
    """SPEC-DIGEST 1.7: `traceparent`, `tracestate` and `baggage` of `_meta`."""
    told: dict[str, Any] = hub.modern("traced", "tools/call", {"name": "told"}, meta=META).result["structuredContent"]
    span = only(spans)
    context = span.get_span_context()
    assert context is not None and span.parent is not None
    assert (f"{context.trace_id:032x}", f"{span.parent.span_id:016x}") == (TRACE, PARENT)
    assert told == META | {"traceparent": f"00-{TRACE}-{context.span_id:016x}-01"}
    assert hub.activity.recent(Filter(), 1).records[0].trace == TRACE


def test_a_span_has_the_attributes_of_the_conventions(hub: Hub, spans: InMemorySpanExporter) -> None:
    session = hub.open("traced")
    hub.legacy("traced", "tools/call", {"name": "told"}, session, id="request-7")
    span, server = only(spans), hub.catalogue.find("traced")
    assert (span.name, span.kind, span.parent) == ("tools/call told", SpanKind.SERVER, None)
    assert span.status.status_code is StatusCode.UNSET
    attributes = dict(span.attributes or {})
    known = attributes.pop("mcp.session.id")
    assert isinstance(known, str) and known and known not in ("", session)
    assert attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": "2025-11-25",
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "told",
        "jsonrpc.request.id": "request-7",
        "network.transport": "tcp",
        "network.protocol.name": "http",
        "patchbay.server": "traced",
        "patchbay.server.version": server.version,
        "patchbay.outcome": "ok",
    }


@pytest.mark.parametrize(
    ("method", "params", "name", "attributes"),
    [
        ("tools/call", {"name": "fails"}, "tools/call fails", {"error.type": "tool_error"}),
        ("tools/call", {"name": "made up"}, "tools/call", {"error.type": "tool_error"}),
        ("prompts/get", {"name": "p"}, "prompts/get p", {"gen_ai.prompt.name": "p"}),
        (
            "prompts/get",
            {"name": "made up"},
            "prompts/get",
            {"error.type": "-32602", "rpc.response.status_code": "-32602"},
        ),
        ("resources/read", {"uri": "traced://r"}, "resources/read", {"mcp.resource.uri": "traced://r"}),
    ],
)
def test_names_have_few_values_and_errors_their_type(
    hub: Hub,
    spans: InMemorySpanExporter,
    method: str,
    params: dict[str, Any],
    name: str,
    attributes: dict[str, str],
) -> None:
    hub.legacy("traced", method, params)
    span = only(spans)
    found = dict(span.attributes or {})
    assert span.name == name
    assert attributes.items() <= found.items()
    assert (span.status.status_code is StatusCode.ERROR) == ("error.type" in attributes)


@pytest.mark.parametrize("told", ["", "nonsense", f"00-{'0' * 32}-{PARENT}-01", "x" * 10_000, 7])
def test_an_invalid_trace_context_begins_a_new_trace(hub: Hub, spans: InMemorySpanExporter, told: Any) -> None:
    assert hub.modern("traced", "tools/call", {"name": "told"}, meta={"traceparent": told}).status == 200
    span = only(spans)
    context = span.get_span_context()
    assert span.parent is None and context is not None and context.is_valid


def test_over_plain_http_the_context_comes_in_headers(hub: Hub, spans: InMemorySpanExporter) -> None:
    answer = hub.client.post("/traced/told", headers={"traceparent": META["traceparent"]})
    context = only(spans).get_span_context()
    assert context is not None
    assert answer.json == {"traceparent": f"00-{TRACE}-{context.span_id:016x}-01"}


def test_the_surrounding_span_is_the_parent_or_a_link(hub: Hub, spans: InMemorySpanExporter) -> None:
    provider = TracerProvider()
    with provider.get_tracer("web").start_as_current_span("POST") as around:
        hub.modern("traced", "tools/call", {"name": "told"})
        hub.modern("traced", "tools/call", {"name": "told"}, meta=META)
    alone, below = spans.get_finished_spans()
    assert alone.parent is not None and alone.parent.span_id == around.get_span_context().span_id
    assert below.parent is not None and f"{below.parent.span_id:016x}" == PARENT
    assert [link.context.span_id for link in below.links] == [around.get_span_context().span_id]


def test_without_a_provider_the_context_is_passed_on_and_its_trace_is_recorded(hub: Hub) -> None:
    result = hub.modern("traced", "tools/call", {"name": "told"}, meta=META).result
    assert result["structuredContent"] == META
    assert hub.activity.recent(Filter(), 1).records[0].trace == TRACE


ABSENT = """
import sys
sys.modules["opentelemetry"] = None
from patchbay.activity import tracing
from patchbay.activity.recorder import Activity
from patchbay.activation import Call
from patchbay.activity.records import Filter
from patchbay.catalogue.servers.server import Server
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.settings import Settings
from patchbay.stores.memory import MemoryStore
assert not tracing.INSTALLED
activity = Activity(MemoryStore(), Settings())
sender = TransportInfo("s")
run = activity.begin("tools/call", "t", Server("s", "v", "static"), sender, {}, {"traceparent": sys.argv[1]})
assert run.calls(None, Call("s", {}, {}, 0.0, meta={"a": 1})) == {"a": 1}
run.end(Result(1, {"content": []}))
print(activity.recent(Filter()).records[0].trace)
"""

SET_UP = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from patchbay.activity.recorder import Activity
from patchbay.catalogue.servers.server import Server
from patchbay.jsonrpc import Result
from patchbay.messages.callers import TransportInfo
from patchbay.settings import Settings
from patchbay.stores.memory import MemoryStore
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=lambda span: span.name + "\\n")))
trace.set_tracer_provider(provider)
activity = Activity(MemoryStore(), Settings())
activity.begin("tools/call", "t", Server("s", "v", "static"), TransportInfo("s")).end(Result(1, {"content": []}))
"""


def printed(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, cwd=ROOT, timeout=60, capture_output=True, text=True).stdout.strip()


def test_nothing_is_missing_where_the_library_is(tmp_path: Path) -> None:
    assert printed(ABSENT, META["traceparent"]) == TRACE


def test_a_provider_that_the_process_has_set_up_is_used() -> None:
    assert printed(SET_UP) == "tools/call"

"""Makes spans of calls if OpenTelemetry is installed and configured; otherwise it does nothing.

The hub makes the spans. The setting `otlp` sends them (`telemetry.py`), or a provider that a start-up program has set:
`opentelemetry-instrument patchbay serve`. The trace context comes from `_meta` (`traceparent`, `tracestate`, `baggage`,
in the W3C format); the tool, and every server that it calls, gets the context of the hub's span in the same member.
Sources: https://opentelemetry.io/docs/specs/semconv/gen-ai/mcp/; https://www.w3.org/TR/trace-context/.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Protocol

from patchbay.catalogue.servers.server import Server
from patchbay.jsonrpc import Id
from patchbay.messages.callers import LegacySession

try:
    from opentelemetry import trace as api
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, NoOpTracerProvider, ProxyTracerProvider, Span, SpanKind, StatusCode
    from opentelemetry.trace import TracerProvider as Provider
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError:  # an optional library: without it there are no spans
    INSTALLED = False
else:
    INSTALLED = True

SCOPE = "patchbay"
KEYS = ("traceparent", "tracestate", "baggage")
PROVIDER_CHECK_SECONDS = 1.0
"""Seconds between two checks whether a provider of spans is configured."""

MAX_HEADER_CHARACTERS = 8192
"""Limit on the characters of each of the KEYS."""

TARGETS = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}
"""Methods that name a tool or a prompt, and the attribute for the name."""

_TRACEPARENT = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?")


class Traced(Protocol):
    """The fields of a call that a span uses."""

    method: str
    name: str
    server: Server
    connection: str | None
    session: LegacySession | None
    revision: str
    begun: float
    principal: str


class Trace:
    """The trace of one call: the `id` (32 hexadecimal digits, or None) and its span, if any."""

    __slots__ = ("_span", "id")

    def __init__(self, id: str | None, span: Span | None = None) -> None:
        self.id = id
        self._span = span

    def handed_on(self, meta: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a `_meta` with the trace context of the span; without a span, return it unchanged."""
        if self._span is None:
            return meta
        carrier: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(carrier, api.set_span_in_context(self._span, Context()))
        return {**{key: value for key, value in meta.items() if key != "tracestate"}, **carrier}

    def end(self, outcome: str, code: int | None, message: Any) -> None:
        """End the span, because the call has ended."""
        span = self._span
        if span is None:
            return
        kind = error_type(outcome, code)
        if kind is not None:
            span.set_attribute("error.type", kind)
            span.set_status(StatusCode.ERROR, message if isinstance(message, str) else None)
        if code is not None:
            span.set_attribute("rpc.response.status_code", str(code))
        span.set_attribute("patchbay.outcome", outcome)
        span.end()


def error_type(outcome: str, code: int | None) -> str | None:
    """Return `error.type` for an outcome, None for a successful call."""
    if outcome in ("ok", "input_required", "task"):
        return None
    if outcome == "error":
        return str(code) if code is not None else "_OTHER"
    return outcome


class Tracing:
    """Begins spans with the given provider, or else with the provider that is configured in this process, if any.

    `names_callers`: a span has the id of its caller.
    """

    def __init__(self, provider: Provider | None = None, *, names_callers: bool = False) -> None:
        self._given = provider
        self._names_callers = names_callers
        self._provider = provider
        self._looked = float("-inf")

    def begin(self, run: Traced, meta: Mapping[str, Any], id: Id | None) -> Trace | None:
        """Return the trace of a call that begins; None without a trace context and without a provider."""
        provider = self._provider if self.active(run.begun) else None
        if provider is None:
            given = meta.get("traceparent")
            found = (
                _TRACEPARENT.fullmatch(given)
                if isinstance(given, str) and len(given) <= MAX_HEADER_CHARACTERS
                else None
            )
            return Trace(found[1]) if found else None
        span = _begin_span(provider, run, meta, id)
        if self._names_callers and run.principal:
            span.set_attribute("enduser.id", run.principal)
        context = span.get_span_context()
        return Trace(f"{context.trace_id:032x}" if context.is_valid else None, span)

    def active(self, now: float) -> bool:
        """Whether a provider of spans is configured; `now` is a `time.monotonic()` time."""
        # This check takes longer than the rest of a record, so it runs at most once a second.
        if now - self._looked > PROVIDER_CHECK_SECONDS and INSTALLED and self._given is None:
            self._looked = now
            found = api.get_tracer_provider()
            self._provider = None if isinstance(found, (ProxyTracerProvider, NoOpTracerProvider)) else found
        return self._provider is not None


def _begin_span(provider: Provider, run: Traced, meta: Mapping[str, Any], id: Id | None) -> Span:
    carrier = {
        key: value for key in KEYS if isinstance(value := meta.get(key), str) and len(value) <= MAX_HEADER_CHARACTERS
    }
    parent = TraceContextTextMapPropagator().extract(carrier, Context())
    around = api.get_current_span().get_span_context()
    links = None
    context: Context | None = None
    if api.get_current_span(parent).get_span_context().is_valid:
        context = W3CBaggagePropagator().extract(carrier, parent)
        links = [Link(around)] if around.is_valid else None
    # Without a parent from the caller, the current span, such as a traced HTTP request, is the parent.
    attributes = _attributes(run, id)
    target = attributes.get(TARGETS.get(run.method, ""))
    name = f"{run.method} {target}" if target else run.method
    return provider.get_tracer(SCOPE).start_span(name, context, SpanKind.SERVER, attributes, links)


def _attributes(run: Traced, id: Id | None) -> dict[str, str]:
    """Return the first attributes of the span. A name that the server does not list is left out."""
    server = run.server
    attributes = {
        "mcp.method.name": run.method,
        "patchbay.server": server.name,
        "patchbay.server.version": server.version,
        **({"patchbay.toolset": server.name} if server.kind == "toolset" else {}),
        "network.transport": "pipe" if run.connection is not None else "tcp",
    }
    if run.method == "tools/call":
        attributes["gen_ai.operation.name"] = "execute_tool"
        if run.name in server.tools:
            attributes["gen_ai.tool.name"] = run.name
    elif run.method == "prompts/get" and run.name in server.prompts:
        attributes["gen_ai.prompt.name"] = run.name
    elif run.method == "resources/read":
        attributes["mcp.resource.uri"] = run.name
    if run.connection is None:
        attributes["network.protocol.name"] = "http"
    if id is not None:
        attributes["jsonrpc.request.id"] = str(id)
    if run.revision:
        attributes["mcp.protocol.version"] = run.revision
    if run.session is not None:
        # Only the nonce: with the whole id a reader of the trace could use the session.
        attributes["mcp.session.id"] = run.session.nonce
    return attributes

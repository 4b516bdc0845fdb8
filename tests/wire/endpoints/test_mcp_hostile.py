"""Whatever a stranger sends gets an answer below 500, in JSON, that tells nothing of the inside."""

from __future__ import annotations

import re
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from patchbay.protocol.methods import METHODS
from tests.hubs import BOTH, MODERN, Hub

INSIDE = re.compile(rb"Traceback|File \"|/site-packages/|/home/|/root/|PATCHBAY_|<html", re.IGNORECASE)
QUICK = [*sorted(set(METHODS) - {"subscriptions/listen"}), "no/such", "", "notifications/cancelled", "tools/list\n"]

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
NAMES = st.sampled_from(["greet", "same", "plain", "about", "zoo://note", "cid://x", "server://", "\x00", "../x"])
PARAMS = st.one_of(
    JSON,
    st.fixed_dictionaries(
        {},
        optional={
            "name": NAMES | JSON,
            "uri": NAMES | JSON,
            "arguments": JSON,
            "cursor": JSON,
            "level": JSON,
            "ref": JSON,
            "argument": JSON,
            "protocolVersion": JSON,
            "capabilities": JSON,
            "inputResponses": JSON,
            "requestState": JSON,
            "requestId": JSON,
            "_meta": JSON
            | st.fixed_dictionaries(
                {
                    "io.modelcontextprotocol/protocolVersion": st.sampled_from([MODERN, "2025-11-25", "x"]) | JSON,
                    "io.modelcontextprotocol/clientCapabilities": st.just({}) | JSON,
                },
                optional={"progressToken": JSON, "io.modelcontextprotocol/logLevel": JSON},
            ),
        },
    ),
)
MESSAGES = st.fixed_dictionaries(
    {"jsonrpc": st.just("2.0") | JSON, "method": st.sampled_from(QUICK) | JSON},
    optional={"id": st.integers() | st.text() | JSON, "params": PARAMS, "result": JSON, "error": JSON},
)
HEADERS = st.fixed_dictionaries(
    {},
    optional={
        "MCP-Protocol-Version": st.sampled_from([MODERN, "2025-03-26", "2025-11-25", "x", ""]),
        "Mcp-Method": st.sampled_from([*QUICK[:5], "=?base64?x?="]),
        "Mcp-Name": st.sampled_from(["greet", "=?base64?Z3JlZXQ=?=", "=?base64?!?=", "ž".encode().decode("latin-1")]),
        "Mcp-Session-Id": st.sampled_from(["x", "a.b.c", "Ω".encode().decode("latin-1")]),
        "Last-Event-ID": st.sampled_from(["x", "changes-1", "changes-99999999999999"]),
        "Accept": st.sampled_from([BOTH, "*/*", "text/html", ";;;", ""]),
    },
)


def dumped(value: Any) -> bytes:
    return orjson.dumps(value, default=str) if _small(value) else repr(value).encode("utf-8", "replace")


def _small(value: Any) -> bool:
    try:
        orjson.dumps(value)
    except TypeError:
        return False
    return True


SLOW = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]


@settings(max_examples=1500, deadline=None, suppress_health_check=SLOW)
@given(st.one_of(MESSAGES, JSON, st.lists(MESSAGES, max_size=3)).map(dumped) | st.binary(max_size=60), HEADERS)
def test_no_message_makes_the_hub_fail(zoo: Hub, body: bytes, headers: dict[str, str]) -> None:
    """THREATS 1.1: no trace, no path, no page; a list of messages is not an exception."""
    known = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"} | headers
    response = zoo.client.post("/mcp/zoo", data=body, headers=known)
    answer = response.get_data()
    assert response.status_code < 500, (response.status_code, answer)
    found = INSIDE.search(answer)
    assert found is None or found[0] in body, answer  # an error may quote the request
    assert not answer or response.mimetype in ("application/json", "text/event-stream")
    assert b'"code":-32603' not in answer, answer


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(["GET", "DELETE", "OPTIONS", "PUT"]), HEADERS)
def test_no_method_makes_the_hub_fail(zoo: Hub, method: str, headers: dict[str, str]) -> None:
    response = zoo.client.open("/mcp/zoo", method=method, headers={"Host": "localhost"} | headers)
    assert response.status_code < 500
    response.close()

"""The headers of 2026-07-28 that repeat the body, and the order in which things are refused."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from patchbay.errors import HeaderMismatch
from patchbay.protocol.admission.headers import annotated, check_parameters, decoded
from tests.hubs import MODERN, Hub, modern_request

CONFIG = """{"tools": {"where": {"function": "where", "inputSchema": {"type": "object", "properties": {
  "region": {"type": "string", "x-mcp-header": "Region"},
  "count": {"type": "integer", "x-mcp-header": "Count"},
  "loud": {"type": "boolean", "x-mcp-header": "Loud"},
  "deep": {"type": "object", "properties": {"key": {"type": "string", "x-mcp-header": "Deep-Key"}}}
}}}}}"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    source = "def where(region=None, count=None, loud=None, deep=None) -> str:\n    return str(region)\n"
    hub = Hub(tmp_path_factory.mktemp("headers"), {"place.py": source, "place.mcp.json": CONFIG})
    yield hub
    hub.close()


def call(hub: Hub, arguments: dict[str, Any], **headers: str) -> Any:
    known = {f"Mcp-Param-{name.replace('_', '-')}": value for name, value in headers.items()}
    return hub.modern("place", "tools/call", {"name": "where", "arguments": arguments}, headers=known)


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "Hello"}, {"Region": "Hello"}),
        ({"region": "Hello"}, {"Region": "  Hello\t"}),
        ({"region": "Hello"}, {"Region": "=?base64?SGVsbG8=?="}),
        ({"region": "SGVsbG8="}, {"Region": "SGVsbG8="}),
        ({"region": "=?base64?SGVsbG8="}, {"Region": "=?base64?SGVsbG8="}),
        ({"region": "žlutý"}, {"Region": "=?base64?xb5sdXTDvQ==?="}),
        ({"count": 42}, {"Count": "42.0"}),
        ({"loud": True}, {"Loud": "true"}),
        ({"deep": {"key": "k"}}, {"Deep_Key": "k"}),
        ({"region": None}, {}),
        ({}, {}),
    ],
)
def test_a_header_that_repeats_its_argument_is_accepted(hub: Hub, arguments: Any, headers: dict[str, str]) -> None:
    answer = call(hub, arguments, **headers)
    assert answer.status == 200, answer.last


@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        ({"region": "Hello"}, {}),
        ({"region": "Hello"}, {"Region": "hello"}),
        ({"region": "Hello"}, {"Region": ""}),
        ({}, {"Region": "Hello"}),
        ({"region": None}, {"Region": "null"}),
        ({"region": "Hello"}, {"Region": "=?base64?SGVsbG8?="}),
        ({"region": "Hello"}, {"Region": "=?base64?SGVs!!!bG8=?="}),
        ({"region": "Hello"}, {"Region": "=?BASE64?SGVsbG8=?="}),
        ({"count": 42}, {"Count": "43"}),
        ({"count": 42}, {"Count": "forty-two"}),
        ({"loud": True}, {"Loud": "True"}),
        ({"deep": {"key": "k"}}, {"Deep_Key": "K"}),
    ],
)
def test_a_header_that_does_not_is_a_mismatch(hub: Hub, arguments: Any, headers: dict[str, str]) -> None:
    answer = call(hub, arguments, **headers)
    assert (answer.status, answer.error["code"], answer.last["id"]) == (400, -32020, 1)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_survives_the_base64_form(text: str) -> None:
    form = "=?base64?" + base64.b64encode(text.encode()).decode() + "?="
    assert decoded(form, "Mcp-Name") == text


@given(st.text(st.characters(max_codepoint=255)))
def test_a_header_either_decodes_or_is_refused(text: str) -> None:
    try:
        assert isinstance(decoded(text, "Mcp-Name"), str)
    except HeaderMismatch:
        assert text.startswith("=?base64?")


def test_only_properties_lead_to_an_annotation() -> None:
    schema = {"properties": {"a": {"items": {"properties": {"b": {"x-mcp-header": "B"}}}}}}
    assert list(annotated(schema)) == []
    check_parameters({"mcp-param-b": "x"}, annotated(schema), {"a": []})


REFUSALS: list[tuple[str, dict[str, Any], dict[str, str | None], int, int]] = [
    ("no _meta", {"_meta": None}, {}, 400, -32602),
    ("no capabilities", {"_meta": {"io.modelcontextprotocol/protocolVersion": MODERN}}, {}, 400, -32602),
    ("no version header", {}, {"MCP-Protocol-Version": None}, 400, -32020),
    ("a legacy version header", {}, {"MCP-Protocol-Version": "2025-11-25"}, 400, -32020),
    ("no method header", {}, {"Mcp-Method": None}, 400, -32020),
    ("another method", {}, {"Mcp-Method": "tools/call"}, 400, -32020),
    ("a method in capitals", {}, {"Mcp-Method": "TOOLS/LIST"}, 400, -32020),
]


@pytest.mark.parametrize(("what", "params", "headers", "status", "code"), REFUSALS, ids=[row[0] for row in REFUSALS])
def test_the_first_rung_that_fails_answers(
    hub: Hub, what: str, params: dict[str, Any], headers: dict[str, str | None], status: int, code: int
) -> None:
    """SPEC-DIGEST 2.1 steps 7 to 9."""
    body, known = modern_request("tools/list")
    body["params"] |= params
    sent = {name: value for name, value in (known | headers).items() if value is not None}
    answer = hub.send("place", body, sent)
    assert (answer.status, answer.error["code"], answer.last["id"]) == (status, code, 1)


def test_a_version_that_is_not_served_names_those_that_are(hub: Hub) -> None:
    """SPEC-DIGEST 2.1 steps 8 and 11: the header is compared first."""
    body, headers = modern_request("server/discover")
    body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "v999.0.0"
    assert hub.send("place", body, headers).error["code"] == -32020
    answer = hub.send("place", body, headers | {"MCP-Protocol-Version": "v999.0.0"})
    assert (answer.status, answer.error["code"]) == (400, -32022)
    assert answer.error["data"] == {"supported": [MODERN], "requested": "v999.0.0"}


def test_an_unknown_version_header_without_a_claim_is_refused(hub: Hub) -> None:
    """X-1."""
    assert hub.legacy("place", "tools/list", version="2030-01-01").status == 400


@pytest.mark.parametrize(("method", "params"), [("prompts/get", {"name": "x"}), ("resources/read", {"uri": "x://y"})])
def test_the_name_header_repeats_the_name(hub: Hub, method: str, params: dict[str, str]) -> None:
    assert hub.modern("place", method, params, headers={"Mcp-Name": "other"}).error["code"] == -32020


def test_mcp_method_alone_does_not_make_a_request_modern(hub: Hub) -> None:
    """SPEC-DIGEST 6.1 row 2."""
    sent = hub.send("place", {"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"Mcp-Method": "ping"})
    assert sent.result == {}


def test_a_client_info_is_not_needed_and_a_bad_log_level_is_refused(hub: Hub) -> None:
    assert hub.modern("place", "server/discover").status == 200
    level = {"io.modelcontextprotocol/logLevel": "loud"}
    assert hub.modern("place", "tools/list", meta=level).error["code"] == -32602

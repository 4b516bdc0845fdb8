"""JSON-RPC envelopes over a real endpoint: what is a message, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.hubs import Hub


def test_a_valid_request_is_parsed_and_answered_under_its_id(zoo: Hub) -> None:
    """T2.1."""
    answer = zoo.send("zoo", {"jsonrpc": "2.0", "id": "first", "method": "ping"})
    assert (answer.status, answer.last) == (200, {"jsonrpc": "2.0", "id": "first", "result": {}})


def test_another_jsonrpc_version_is_an_invalid_request_that_echoes_the_id(zoo: Hub) -> None:
    """T2.2."""
    answer = zoo.send("zoo", {"jsonrpc": "1.0", "id": 1, "method": "test"})
    assert (answer.status, answer.error["code"], answer.last["id"]) == (400, -32600, 1)
    assert "2.0" in answer.error["message"]


def test_a_message_without_a_method_is_an_invalid_request(zoo: Hub) -> None:
    """T2.3."""
    answer = zoo.send("zoo", {"jsonrpc": "2.0", "id": 1})
    assert (answer.status, answer.error["code"]) == (400, -32600)


def test_a_notification_is_taken_and_not_answered(zoo: Hub) -> None:
    """T2.4, V-C14."""
    answer = zoo.send("zoo", {"jsonrpc": "2.0", "method": "notifications/initialized"})
    assert (answer.status, answer.body) == (202, b"")


def test_a_batch_gives_one_answer_for_each_request_and_none_for_notifications(zoo: Hub) -> None:
    """T2.5, X-7: without a version header 2025-03-26 is in force, and it has batches."""
    batch = [
        {"jsonrpc": "2.0", "id": 1, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": "two", "method": "no/such"},
        {"jsonrpc": "2.0", "id": 3},
    ]
    answers = {answer["id"]: answer for answer in zoo.send("zoo", batch).last}
    assert set(answers) == {1, "two", 3}
    assert answers[1]["result"] == {}
    assert answers["two"]["error"]["code"] == -32601
    assert answers[3]["error"]["code"] == -32600


def test_a_batch_of_notifications_is_taken_without_an_answer(zoo: Hub) -> None:
    answer = zoo.send("zoo", [{"jsonrpc": "2.0", "method": "notifications/initialized"}])
    assert (answer.status, answer.body) == (202, b"")


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28", "2030-01-01"])
def test_batches_are_refused_where_the_revision_has_none(zoo: Hub, version: str) -> None:
    """X-7, VWR-29."""
    batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]
    answer = zoo.send("zoo", batch, {"MCP-Protocol-Version": version})
    assert (answer.status, answer.error["code"]) == (400, -32600)


@pytest.mark.parametrize(
    "batch",
    [
        [],
        [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}}],
        [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(101)],
    ],
)
def test_an_empty_batch_one_with_initialize_and_a_huge_one_are_refused(zoo: Hub, batch: list[Any]) -> None:
    answer = zoo.send("zoo", batch)
    assert (answer.status, answer.error["code"]) == (400, -32600)


@pytest.mark.parametrize("id", [None, True, 1.5, [], {}])
def test_an_id_that_is_neither_string_nor_integer_is_refused(zoo: Hub, id: Any) -> None:
    answer = zoo.send("zoo", {"jsonrpc": "2.0", "id": id, "method": "ping"})
    assert (answer.status, answer.error["code"], answer.last["id"]) == (400, -32600, None)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":1,"method":"ping","id":2}',
        b'{"jsonrpc":"2.0","id":NaN,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"\\ud800"}',
        b"[" * 5000 + b"]" * 5000,
        b'{"a":' * 200 + b"1" + b"}" * 200,
        b'{"jsonrpc":"2.0","id":1e999,"method":"ping"}',
        '{"jsonrpc":"2.0"}'.encode("utf-16"),
    ],
)
def test_text_that_is_not_strict_json_is_a_parse_error(zoo: Hub, body: bytes) -> None:
    """SUB-34, T12.1, THREATS M18."""
    answer = zoo.raw("zoo", body)
    assert (answer.status, answer.error["code"], answer.last["id"]) == (400, -32700, None)


@pytest.mark.parametrize("value", [1, "x", None, True])
def test_json_that_is_not_an_object_is_an_invalid_request(zoo: Hub, value: Any) -> None:
    answer = zoo.send("zoo", value)
    assert (answer.status, answer.error["code"]) == (400, -32600)


@pytest.mark.parametrize(
    "params",
    [[], "x", {"name": 5}, {}, {"name": "greet", "arguments": []}, {"name": "greet", "arguments": "x"}],
)
@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_a_wrong_envelope_of_a_call_is_a_protocol_error_in_every_revision(zoo: Hub, params: Any, version: str) -> None:
    """T12.3, X-2."""
    answer = zoo.legacy("zoo", "tools/call", params, version=version)
    assert answer.error["code"] == (-32600 if isinstance(params, str) else -32602)


def test_an_unknown_method_is_not_found(zoo: Hub) -> None:
    """SUB-34, SUB-36, T12.2: HTTP 200 before 2026-07-28, 404 in it."""
    old, new = zoo.legacy("zoo", "no/such"), zoo.modern("zoo", "no/such")
    assert (old.status, old.error["code"]) == (200, -32601)
    assert (new.status, new.error["code"]) == (404, -32601)


def test_an_unexpected_answer_is_dropped(zoo: Hub) -> None:
    session = zoo.open("zoo")
    sent = zoo.send("zoo", {"jsonrpc": "2.0", "id": "x", "result": {}}, {"Mcp-Session-Id": session})
    assert (sent.status, sent.body) == (202, b"")
    modern = zoo.send("zoo", {"jsonrpc": "2.0", "id": "x", "result": {}}, {"MCP-Protocol-Version": "2026-07-28"})
    assert (modern.status, modern.error["code"]) == (400, -32600)


def test_params_that_are_an_array_are_invalid_params(zoo: Hub) -> None:
    """T12.3: JSON-RPC allows an array, and no method of MCP takes one."""
    answer = zoo.send("zoo", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": [1]})
    assert (answer.error["code"], answer.last["id"]) == (-32602, 1)
    assert answer.error["message"] == '"params" has to be an object with named members; it is an array'


@pytest.mark.parametrize("version", ["2999-01-01", "1.0", "2025-06-19"])
def test_a_version_header_that_no_revision_has_is_answered_by_a_sentence_about_versions(zoo: Hub, version: str) -> None:
    """MCP 2025-06-18 and later, transports: an unsupported version is 400."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = zoo.send("zoo", message, {"MCP-Protocol-Version": version})
    assert answer.status == 400
    assert answer.error["message"].startswith(
        f"protocol version '{version}' is not served here; use one of 2024-11-05,"
    )


def test_a_successful_call_says_so(zoo: Hub) -> None:
    """SUB-18: `isError: false`, in every revision."""
    for version in ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"):
        assert zoo.call("zoo", "greet", {"name": "Ada"}, version).result["isError"] is False

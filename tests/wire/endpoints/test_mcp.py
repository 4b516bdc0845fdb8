"""MCP over HTTP: statuses, headers, JSON or a stream, sessions, replay."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from patchbay import activation
from patchbay.protocol import calls
from patchbay.wire.endpoints import mcp
from tests.hubs import BOTH, Hub, modern_request, sse_messages
from tests.waiting import BOUND, until

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def slow_call(token: Any = None, tool: str = "slow") -> dict[str, Any]:
    meta = {"_meta": {"progressToken": token}} if token is not None else {}
    return {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": tool, **meta}}


def test_a_post_is_answered_under_its_session(zoo: Hub) -> None:
    """T9.1, T8.1, VWR-3, VWR-7, VWR-11: initialize, list, call."""
    session = zoo.open("zoo")
    initialized = zoo.send(
        "zoo", {"jsonrpc": "2.0", "method": "notifications/initialized"}, {"Mcp-Session-Id": session}
    )
    assert initialized.status == 202
    assert zoo.legacy("zoo", "tools/list", session=session).headers["Mcp-Session-Id"] == session
    call = zoo.legacy("zoo", "tools/call", {"name": "greet", "arguments": {"name": "Bo"}}, session=session)
    assert call.text == "Hello, Bo!"


def test_get_with_a_session_is_a_stream_of_changes(zoo: Hub) -> None:
    """SUB-38, T9.2, VWR-31, VWR-7: it begins with a number from which it can be resumed."""
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": zoo.open("zoo"), "Host": "localhost"}
    response = zoo.client.get("/mcp/zoo", headers=headers, buffered=False)
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    assert response.headers["Cache-Control"] == "no-cache"
    assert next(response.iter_encoded()).startswith(b"id: changes-")
    response.close()


@pytest.mark.parametrize("accept", [BOTH, "application/json", "*/*", "text/event-stream", "text/*, application/*"])
def test_every_accept_that_we_can_answer_is_taken(zoo: Hub, accept: str) -> None:
    """T9.3, V-C7."""
    assert zoo.raw("zoo", PING, {"Accept": accept}).status == 200


@pytest.mark.parametrize("token", ["p", 0])
def test_a_progress_token_makes_a_stream_of_a_call_that_says_nothing(
    zoo: Hub, token: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """VWR-32, X-6: with text/event-stream in Accept; without it the answer is JSON."""
    for module in (activation, calls):  # on a busy machine a call without a token may take longer than that too
        monkeypatch.setattr(module, "FIRST_PAUSE_SECONDS", BOUND)
    call = {"name": "greet", "arguments": {"name": "Ada"}}
    with_token = {**call, "_meta": {"progressToken": token}}
    plain = zoo.legacy("zoo", "tools/call", call)
    streamed = zoo.legacy("zoo", "tools/call", with_token)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": with_token}
    json = zoo.send("zoo", message, {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"})
    assert (plain.streamed, streamed.streamed, json.streamed) == (False, True, False)
    assert plain.result == streamed.result == json.result
    assert zoo.modern("zoo", "tools/call", call, meta={"progressToken": token}).streamed


def test_a_call_with_a_progress_token_is_a_stream_of_progress_and_the_result(zoo: Hub) -> None:
    """SUB-2, SUB-25, T9.4, VWR-30, SUB-24."""
    answer = zoo.send("zoo", slow_call("p1"), {"MCP-Protocol-Version": "2025-11-25"})
    assert answer.streamed
    progress = [each["params"] for each in answer.messages if each.get("method") == "notifications/progress"]
    assert [each["progress"] for each in progress] == [1, 2, 3]
    assert all(each["progressToken"] == "p1" and each["total"] == 3 for each in progress)
    assert progress[0]["message"] == "step 1"
    assert answer.last["id"] == 7 and answer.text == "done"


def test_a_call_without_an_event_to_send_is_answered_in_json(zoo: Hub) -> None:
    """Issue 50, item 18: a stream carries no result above 1 MB."""
    answer = zoo.send("zoo", slow_call(tool="hangs"), {"MCP-Protocol-Version": "2025-11-25"})
    assert not answer.streamed and "timed out" in answer.text


def test_a_call_that_takes_long_becomes_a_stream_when_the_client_takes_one(
    zoo: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SUB-26, T9.4, X-6: and a plain answer when it does not."""
    monkeypatch.setattr(mcp, "HELD_BACK_SECONDS", 0.0)
    streamed = zoo.send("zoo", slow_call(tool="hangs"), {"MCP-Protocol-Version": "2025-11-25"})
    plain = zoo.send("zoo", slow_call(tool="hangs"), {"Accept": "application/json"})
    assert streamed.streamed and b":\n\n" in streamed.body
    assert not plain.streamed
    assert "timed out" in streamed.text and "timed out" in plain.text


def test_a_simple_call_is_answered_in_json(zoo: Hub) -> None:
    """SUB-3, SUB-26, T9.5, X-6."""
    assert not zoo.call("zoo", "greet", {"name": "x"}).streamed


def test_initialize_opens_a_new_session_each_time_with_a_printable_id(zoo: Hub) -> None:
    """T9.6, VWR-12."""
    first, second = zoo.open("zoo"), zoo.open("zoo")
    assert first != second
    assert all(0x21 <= ord(character) <= 0x7E for character in first + second)


def test_get_without_a_session_is_refused(zoo: Hub) -> None:
    """T9.7."""
    answer = zoo.client.get("/mcp/zoo", headers={"Accept": "text/event-stream", "Host": "localhost"})
    assert answer.status_code == 400
    assert "initialize" in answer.get_json()["error"]["message"]


def test_get_by_a_browser_leads_to_the_page_of_the_server(zoo: Hub) -> None:
    """V-C8, VWR-8."""
    answer = zoo.client.get("/mcp/zoo", headers={"Accept": "text/html", "Host": "localhost"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/servers/zoo")


def test_a_stream_is_resumed_after_the_last_event_that_was_read(zoo: Hub) -> None:
    """SUB-39, T9.8, X-10: by the session that it belongs to, and by no other."""
    session = zoo.open("zoo")
    answer = zoo.send("zoo", slow_call("p"), {"Mcp-Session-Id": session})
    ids = [line[4:] for line in answer.body.decode().split("\n") if line.startswith("id: ")]
    stream = ids[0].rpartition("-")[0]
    assert ids[0] == f"{stream}-0" and len(set(ids)) == len(ids)

    def resumed(last: str, of: str) -> Any:
        headers = {"Accept": BOTH, "Mcp-Session-Id": of, "Last-Event-ID": last, "Host": "localhost"}
        return zoo.client.get("/mcp/zoo", headers=headers)

    assert sse_messages(resumed(f"{stream}-2", session).get_data()) == answer.messages[2:]
    assert sse_messages(resumed(ids[-1], session).get_data()) == []
    assert resumed(f"{stream}-1", zoo.open("zoo")).status_code == 400
    assert resumed("unknown-1", session).status_code == 400


def test_a_legacy_call_goes_on_when_its_reader_leaves_and_is_replayed(zoo: Hub) -> None:
    """SPEC-DIGEST 1.8: leaving is not a cancellation before 2026-07-28."""
    session = zoo.open("zoo")
    frames = zoo.stream("zoo", slow_call("p"), {"Mcp-Session-Id": session})
    first = next(frames)
    stream = first.decode().split("\n")[0][4:].rpartition("-")[0]
    frames.close()
    headers = {"Accept": BOTH, "Mcp-Session-Id": session, "Last-Event-ID": f"{stream}-0", "Host": "localhost"}
    replayed = sse_messages(zoo.client.get("/mcp/zoo", headers=headers).get_data())
    assert [each["params"]["progress"] for each in replayed if "progress" in each.get("params", {})] == [1, 2, 3]
    assert replayed[-1]["result"]["content"] == [{"type": "text", "text": "done"}]


def test_a_call_in_the_background_hangs_up_and_is_fetched_by_its_last_event(zoo: Hub) -> None:
    """SPEC-DIGEST 1.8: only where a stream has a priming event, that is in 2025-11-25."""
    session = zoo.open("zoo")
    first = zoo.send("zoo", slow_call(tool="lasting"), {"Mcp-Session-Id": session})
    assert first.streamed and first.messages == []
    assert b"retry: 1000" in first.body
    last = first.body.decode().split("\n")[0][4:]
    headers = {"Accept": BOTH, "Mcp-Session-Id": session, "Last-Event-ID": last, "Host": "localhost"}
    rest = sse_messages(zoo.client.get("/mcp/zoo", headers=headers).get_data())
    assert rest[-1]["id"] == 7
    assert rest[-1]["result"]["content"] == [{"type": "text", "text": "it lasted"}]


def test_a_call_that_has_to_go_to_the_background_fails_for_a_client_that_cannot_come_back(zoo: Hub) -> None:
    arguments = {"required": True}
    assert zoo.call("zoo", "lasting").text == "it lasted"
    assert zoo.call("zoo", "lasting", arguments).result["isError"] is True


def test_closing_the_stream_cancels_in_2026_07_28(zoo: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """SUB-5: SPEC-DIGEST 1.11."""
    monkeypatch.setattr(mcp, "HELD_BACK_SECONDS", 0.0)
    frames = zoo.stream("zoo", *modern_request("tools/call", {"name": "hangs"}))
    assert next(frames) == b":\n\n"
    running = [run.name for run in zoo.activity.running]
    frames.close()
    assert running == ["hangs"] and not zoo.activity.running


def test_cors_headers_are_set_for_an_allowed_origin(zoo: Hub) -> None:
    """T9.9."""
    headers = {
        "Origin": "http://localhost:3000",
        "Host": "localhost",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type, mcp-param-region",
    }
    preflight = zoo.client.options("/mcp/zoo", headers=headers)
    assert preflight.status_code == 204
    assert preflight.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"
    allowed = preflight.headers["Access-Control-Allow-Headers"].split(", ")
    assert {"mcp-param-region", "traceparent", "tracestate"} <= set(allowed)
    answer = zoo.raw("zoo", PING, {"Origin": "http://localhost:3000"})
    assert "Mcp-Session-Id" in answer.headers["Access-Control-Expose-Headers"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_another_content_type_is_refused(zoo: Hub, kind: str) -> None:
    """T9.10."""
    answer = zoo.raw("zoo", PING, {"Content-Type": kind})
    assert (answer.status, answer.error["code"]) == (415, -32600)


def test_a_content_type_may_have_parameters(zoo: Hub) -> None:
    assert zoo.raw("zoo", PING, {"Content-Type": "Application/JSON; charset=utf-8"}).status == 200


def test_a_compressed_body_is_refused(zoo: Hub) -> None:
    assert zoo.raw("zoo", PING, {"Content-Encoding": "gzip"}).status == 415


@pytest.mark.parametrize("accept", ["", "text/html", "image/png", "application/json;q=0"])
def test_an_accept_that_names_neither_is_refused(zoo: Hub, accept: str) -> None:
    """T9.11, VWR-29."""
    answer = zoo.raw("zoo", PING, {"Accept": accept})
    assert (answer.status, answer.error["code"]) == (406, -32600)


def test_a_body_above_the_limit_is_refused(tmp_path: Any) -> None:
    hub = Hub(tmp_path, body_limit=100)
    try:
        assert hub.raw("echo", b" " * 101).status == 413
        assert hub.raw("echo", PING).status == 200
    finally:
        hub.close()


def test_a_body_that_was_cut_is_not_taken_for_an_empty_one(zoo: Hub) -> None:
    """THREATS M10."""
    environ = {"CONTENT_LENGTH": "999"}
    headers = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"}
    answer = zoo.client.post("/mcp/zoo", data=PING, headers=headers, environ_overrides=environ)
    assert answer.status_code == 400
    assert "40 bytes" in answer.get_json()["error"]["message"]


@pytest.mark.parametrize("method", ["PUT", "PATCH", "HEAD"])
def test_other_methods_are_refused_with_what_is_allowed(zoo: Hub, method: str) -> None:
    answer = zoo.client.open("/mcp/zoo", method=method, headers={"Host": "localhost"})
    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, POST, DELETE"


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_2026_07_28_has_neither_get_nor_delete(zoo: Hub, method: str) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Accept": BOTH, "Host": "localhost"}
    answer = zoo.client.open("/mcp/zoo", method=method, headers=headers)
    assert (answer.status_code, answer.headers["Allow"]) == (405, "POST")


def test_an_ended_session_is_unknown(zoo: Hub) -> None:
    """SUB-38: SPEC-DIGEST 2.3."""
    session = zoo.open("zoo")
    headers = {"Mcp-Session-Id": session, "Host": "localhost"}
    ended = zoo.client.delete("/mcp/zoo", headers=headers)
    assert ended.status_code == 204
    assert "Content-Length" not in ended.headers, "RFC 9110, 8.6"
    assert zoo.legacy("zoo", "tools/list", session=session).status == 404
    assert zoo.client.delete("/mcp/zoo", headers=headers).status_code == 404


@pytest.mark.parametrize("id", ["nonsense", "x" * 3000, "WyJhIl0.aaaa.bbbb"])
def test_an_invalid_session_id_is_rejected(zoo: Hub, id: str) -> None:
    """T14.5, V-C1."""
    answer = zoo.legacy("zoo", "tools/list", session=id)
    assert (answer.status, answer.error["code"]) == (404, -32600)


def test_a_session_belongs_to_its_endpoint(zoo: Hub) -> None:
    """T14.5."""
    assert zoo.legacy("echo", "tools/list", session=zoo.open("zoo")).status == 404


def test_a_session_outlives_the_process(tmp_path: Any) -> None:
    """DESIGN section 7: the id is signed, so a hub that starts again knows it; what was ended stays ended."""
    first = Hub(tmp_path, store="sqlite")
    kept, ended = first.open("echo"), first.open("echo")
    first.client.delete("/mcp/echo", headers={"Mcp-Session-Id": ended, "Host": "localhost"})
    first.legacy("echo", "logging/setLevel", {"level": "error"}, session=kept)
    first.close()
    second = Hub(tmp_path, store="sqlite")
    try:
        assert second.legacy("echo", "tools/list", session=kept).status == 200
        assert second.legacy("echo", "tools/list", session=ended).status == 404
    finally:
        second.close()


def test_an_unknown_or_disabled_server_is_not_found_in_json(zoo: Hub) -> None:
    """T12.6, T5.6, T14.3."""
    answer = zoo.raw("nothing", PING)
    assert (answer.status, answer.error["code"]) == (404, -32600)


def test_a_disabled_server_is_not_reachable(tmp_path: Any) -> None:
    """T5.6, T14.3: by its name, nor by a version that it had."""
    hub = Hub(tmp_path, {"off.py": "def f() -> str:\n    return 'x'\n"})
    try:
        version = hub.catalogue.find("off").version
        (hub.servers / "off.mcp.json").write_text('{"auto_discover": true, "enabled": false}')
        until(lambda: hub.call("off", "f").status == 404, "the server is switched off")
        assert hub.call(f"off@{version}", "f").status == 404
        assert "disabled" in hub.call("off", "f").error["message"]
    finally:
        hub.close()


@pytest.mark.parametrize(
    "path", ["..", "../echo", "%2e%2e%2fecho", "echo%00", "echo/..", "écho", "a" * 200, "echo@", "@x"]
)
def test_a_path_that_is_not_a_name_is_not_found(zoo: Hub, path: str) -> None:
    """T14.1."""
    headers = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"}
    answer = zoo.client.post(f"/mcp/{path}", data=PING, headers=headers)
    assert answer.status_code in (404, 405)
    assert answer.mimetype == "application/json"


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://"])
def test_a_foreign_origin_is_refused(zoo: Hub, origin: str) -> None:
    """T14.4."""
    answer = zoo.raw("zoo", PING, {"Origin": origin})
    assert (answer.status, answer.error["code"]) == (403, -32600)


@pytest.mark.parametrize("host", ["evil.example", "", "localhost.evil.example", "127.0.0.1.nip.io"])
def test_a_foreign_host_is_refused(zoo: Hub, host: str) -> None:
    """T14.4, THREATS M12."""
    answer = zoo.raw("zoo", PING, {"Host": host})
    assert answer.status in (400, 421)


def test_a_list_carries_an_etag_that_changes_with_it_alone(zoo: Hub) -> None:
    """DESIGN section 4."""
    first, second = zoo.modern("zoo", "tools/list"), zoo.modern("zoo", "tools/list")
    other = zoo.modern("echo", "tools/list")
    assert first.headers["ETag"] == second.headers["ETag"] != other.headers["ETag"]


def test_the_wire_is_one_line_of_compact_json(zoo: Hub) -> None:
    body = zoo.raw("zoo", PING).body
    assert body == b'{"jsonrpc":"2.0","id":1,"result":{}}'
    assert orjson.loads(body)

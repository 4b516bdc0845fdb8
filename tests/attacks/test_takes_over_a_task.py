"""A stranger tries to read, answer and cancel the task of another caller."""

from __future__ import annotations

import re
from typing import Any

import orjson
import pytest

from patchbay.activation import TASKS
from patchbay.activity.call_recording import digest_of
from tests.attacks.requests import call, send, send_request
from tests.serving.running import Hub
from tests.waiting import until

pytestmark = pytest.mark.process

KNOWS: dict[str, Any] = {"extensions": {TASKS: {}}, "elicitation": {}}
METHODS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("tasks/get", {}),
    ("tasks/update", {"inputResponses": {}}),
    ("tasks/cancel", {}),
)
WORD = re.compile(rb"[A-Za-z0-9_-]{12,}")


def of_task(hub: Hub, method: str, id: str, **more: Any) -> dict[str, Any]:
    return send_request(hub, "notes", method, {"taskId": id, **more}, KNOWS).last_message


def test_a_task_answers_to_its_id_alone_and_the_id_is_shown_nowhere(hub: Hub) -> None:
    """T9.2: /activity, its stream and the metrics show a digest; nothing that they show finds the task."""
    id = call(hub, "notes", "sign", capabilities=KNOWS)["taskId"]
    until(lambda: of_task(hub, "tasks/get", id)["result"]["status"] == "input_required", "the task asks")
    until(lambda: digest_of(id).encode() in send(hub, "GET", "/activity.json").body, "the call is among the records")
    records = send(hub, "GET", "/activity.json?server=notes").json["records"]
    paths = ["/activity", "/activity.json", "/metrics", "/", "/history/names.json", "/servers/notes"]
    paths += [f"/activity/{each['id']}{form}" for each in records[:5] for form in ("", ".json")]
    shown = b"\n".join(
        send(hub, "GET", path, headers=headers).body for path in paths for headers in ({}, hub.as_operator())
    )
    assert id.encode() not in shown
    found = {word.decode() for word in WORD.findall(shown)}
    assert digest_of(id) in found
    for word in [digest_of(id), *sorted(found)[:: max(1, len(found) // 100)]]:
        for method, more in METHODS:
            assert of_task(hub, method, word, **more)["error"]["code"] == -32602, word
    answers = {"ask-1": {"action": "accept", "content": {"name": "Mallory"}}}
    for server in ("echo", ""):
        tried = send_request(hub, server, "tasks/update", {"taskId": id, "inputResponses": answers}, KNOWS).last_message
        assert tried["error"]["code"] == -32602
    assert of_task(hub, "tasks/get", id)["result"]["status"] == "input_required"
    [key] = of_task(hub, "tasks/get", id)["result"]["inputRequests"]
    of_task(hub, "tasks/update", id, inputResponses={key: {"action": "accept", "content": {"name": "Ada"}}})
    until(lambda: of_task(hub, "tasks/get", id)["result"]["status"] == "completed", "the task ends")
    assert "signed by Ada" in str(of_task(hub, "tasks/get", id)["result"]["result"])


def test_a_session_answers_to_its_whole_id_alone(hub: Hub) -> None:
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "ada", "version": "1"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    opened = post(hub, message, {})
    session = opened.headers["mcp-session-id"]
    post(
        hub,
        {
            "jsonrpc": "2.0",
            "id": 2,
            "method": "tools/call",
            "params": {"name": "repeat", "arguments": {"text": "a", "times": 1}},
        },
        {"Mcp-Session-Id": session},
    )
    until(lambda: "ada 1" in str(send(hub, "GET", "/activity.json").json), "the call is among the records")
    [record] = [each for each in send(hub, "GET", "/activity.json").json["records"] if each["client"] == "ada 1"]
    for tried in (record["session"], session[:-1], session.partition(".")[0]):
        assert post(hub, {"jsonrpc": "2.0", "id": 3, "method": "ping"}, {"Mcp-Session-Id": tried}).status == 404
        ended = send(hub, "DELETE", "/mcp/notes", headers={"Mcp-Session-Id": tried})
        listened = send(hub, "GET", "/mcp/notes", headers={"Mcp-Session-Id": tried, "Accept": "text/event-stream"})
        assert (ended.status, listened.status) == (404, 404)
    assert post(hub, {"jsonrpc": "2.0", "id": 4, "method": "ping"}, {"Mcp-Session-Id": session}).status == 200


def post(hub: Hub, message: dict[str, Any], headers: dict[str, str]) -> Any:
    sent = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"} | headers
    return send(hub, "POST", "/mcp/notes", orjson.dumps(message), sent)

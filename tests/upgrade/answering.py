"""A client that answers every question of a call and waits for its task: the result of one call, in 2026-07-28."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.activation import TASKS
from tests.hubs import Hub
from tests.waiting import until

CAPABILITIES: Mapping[str, Any] = {"extensions": {TASKS: {}}, "elicitation": {}, "sampling": {}, "roots": {}}
VALUES: Mapping[str, Any] = {"string": "blue", "integer": 1, "number": 1.5, "boolean": True}
OPEN = ("working", "input_required")


def request(hub: Hub, endpoint: str, method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The result, or the error, that ends a request and all the questions that it asks."""
    given: dict[str, Any] = {}
    while True:
        message = hub.modern(endpoint, method, {**params, **given}, capabilities=CAPABILITIES).last
        if "error" in message:
            return dict(message["error"])
        result: dict[str, Any] = message["result"]
        if result.get("resultType") == "task":
            return _task_result(hub, endpoint, result["taskId"])
        if result.get("resultType") != "input_required":
            return result
        given = {"inputResponses": _answers(result["inputRequests"])}
        if "requestState" in result:
            given["requestState"] = result["requestState"]


def _task_result(hub: Hub, endpoint: str, id: str) -> dict[str, Any]:
    def moved() -> Any:
        task = hub.modern(endpoint, "tasks/get", {"taskId": id}, capabilities=CAPABILITIES).result
        if task["status"] == "input_required" and task.get("inputRequests"):
            params = {"taskId": id, "inputResponses": _answers(task["inputRequests"])}
            hub.modern(endpoint, "tasks/update", params, capabilities=CAPABILITIES)
        return task["status"] not in OPEN and task

    task = until(moved, f"the end of {id}")
    found: dict[str, Any] = task.get("result") or task.get("error")
    return found


def _answers(requests: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _answer(request["method"], request.get("params", {})) for key, request in requests.items()}


def _answer(method: str, params: Mapping[str, Any]) -> dict[str, Any]:
    if method == "elicitation/create":
        fields = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": {name: _value(schema) for name, schema in fields.items()}}
    if method == "sampling/createMessage":
        return {"role": "assistant", "content": {"type": "text", "text": "Blue."}, "model": "m"}
    assert method == "roots/list", method
    return {"roots": [{"uri": "file:///work", "name": "work"}]}


def _value(schema: Mapping[str, Any]) -> Any:
    if "enum" in schema:
        return schema["enum"][0]
    if "oneOf" in schema:
        return schema["oneOf"][0]["const"]
    return [] if schema["type"] == "array" else VALUES[schema["type"]]

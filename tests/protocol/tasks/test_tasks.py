"""Tasks: calls that go on after their caller has hung up, over a real endpoint."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.activation import TASKS, CancelFlag
from patchbay.jsonrpc import Request
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.tasks.tasks import Tasks
from patchbay.topics import TASK_CHANGES
from tests.hubs import Hub, modern_request
from tests.protocol.tasks.jobs import (
    FILES,
    JOBS,
    KNOWS,
    accept,
    begin,
    call,
    ended,
    get,
    questions,
    request_task,
    update,
)
from tests.waiting import until


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("jobs"), FILES | {"other.py": JOBS}, tasks=8)
    yield hub
    hub.close()


def test_a_call_that_goes_to_the_background_is_a_task_that_can_be_read_at_once(jobs: Hub) -> None:
    """SPEC-DIGEST 1.14: a flat CreateTaskResult."""
    answer = call(jobs, "work", arguments={"seconds": 0.5})
    made = answer.result
    assert (answer.status, made["resultType"], made["status"]) == (200, "task", "working")
    assert set(made) == {
        *("resultType", "taskId", "status", "createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs", "_meta")
    }
    assert made["ttlMs"] == 2 * 60 * 60 * 1000 and made["pollIntervalMs"] > 0
    assert datetime.fromisoformat(made["createdAt"]) <= datetime.fromisoformat(made["lastUpdatedAt"])
    seen = get(jobs, made["taskId"])
    assert (seen["resultType"], seen["status"], seen["taskId"]) == ("complete", "working", made["taskId"])
    assert "result" not in seen and "inputRequests" not in seen
    done = ended(jobs, made["taskId"])
    assert (done["status"], done["result"]["content"]) == ("completed", [{"type": "text", "text": "worked"}])
    assert "related-task" not in str(done)
    assert get(jobs, made["taskId"]) == done


def test_text_before_and_after_is_one_result_and_reports_are_dropped(jobs: Hub) -> None:
    done = ended(jobs, begin(jobs, "tells"))
    assert done["result"]["content"] == [{"type": "text", "text": "before after"}]


def test_a_task_has_more_time_than_a_call(jobs: Hub) -> None:
    assert ended(jobs, begin(jobs, "patient"))["result"]["structuredContent"] > 3000


def test_a_tool_that_fails_is_a_completed_task_with_a_failed_result(jobs: Hub) -> None:
    done = ended(jobs, begin(jobs, "fails"))
    assert (done["status"], done["result"]["isError"]) == ("completed", True)
    assert "no luck" in done["result"]["content"][0]["text"]


def test_an_error_of_the_protocol_is_a_failed_task(jobs: Hub) -> None:
    done = ended(jobs, begin(jobs, "errs"))
    error = {"code": -32603, "message": "out of order", "data": {"part": 7}}
    assert (done["status"], done["error"], done["statusMessage"]) == ("failed", error, "out of order")
    assert "result" not in done
    model = ended(jobs, begin(jobs, "needs_model"))
    assert (model["status"], model["error"]["code"]) == ("failed", -32021)


def test_an_author_can_answer_with_an_error_of_the_protocol_without_a_task_too(jobs: Hub) -> None:
    answer = call(jobs, "errs", {}, {"code": 4711})
    assert (answer.status, answer.error) == (200, {"code": 4711, "message": "out of order", "data": {"part": 7}})


def test_a_caller_that_knows_no_tasks_stays_on_the_line_unless_the_background_is_required(jobs: Hub) -> None:
    """SPEC-DIGEST 1.14: the extension counts for the request that declares it, for no other."""
    begin(jobs, "work")
    assert call(jobs, "work", {"elicitation": {}}).text == "worked"
    refused = call(jobs, "work", {"elicitation": {}}, {"required": True})
    assert (refused.status, refused.error["code"]) == (400, -32021)
    assert refused.error["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    assert TASKS in refused.error["message"]


def test_code_after_a_required_background_does_not_run_for_a_caller_without_tasks(jobs: Hub) -> None:
    assert call(jobs, "acts", {}).error["code"] == -32021
    assert call(jobs, "acted").text == "0"
    ended(jobs, begin(jobs, "acts"))
    assert call(jobs, "acted").text == "1"


def test_a_quick_tool_is_never_a_task_whatever_old_clients_send(jobs: Hub) -> None:
    answer = call(jobs, "quick", task={"ttl": 60000, "pollInterval": 100})
    assert (answer.result["resultType"], answer.text) == ("complete", "Hello, you!")
    assert "taskId" not in answer.result


def test_only_calls_of_tools_become_tasks(jobs: Hub) -> None:
    answer = jobs.modern("jobs", "resources/read", {"uri": "jobs://r"}, capabilities=KNOWS)
    assert answer.result["contents"][0]["text"] == "read"


@pytest.mark.parametrize("method", ["get", "update", "cancel"])
def test_without_the_extension_nothing_is_looked_up(jobs: Hub, method: str) -> None:
    """SPEC-DIGEST 2.1 step 13: known and unknown ids look the same."""
    for id in (begin(jobs, "work"), "unknown"):
        answer = request_task(jobs, method, id, {}, inputResponses={})
        assert (answer.status, answer.error["code"]) == (400, -32021)


@pytest.mark.parametrize("method", ["get", "update", "cancel"])
@pytest.mark.parametrize("id", ["", "unknown", "*", "a" * 32, "../x", "ä"])
def test_an_unknown_task_is_an_invalid_parameter(jobs: Hub, method: str, id: str) -> None:
    headers = {"Mcp-Name": "=?base64?w6Q=?="} if id == "ä" else {}
    params = {"taskId": id, "inputResponses": {}}
    answer = jobs.modern("jobs", f"tasks/{method}", params, capabilities=KNOWS, headers=headers)
    assert (answer.status, answer.error["code"]) == (400, -32602)


def test_a_task_belongs_to_its_endpoint_and_principal(jobs: Hub) -> None:
    id = begin(jobs, "work")
    assert request_task(jobs, "get", id, server="other").error["code"] == -32602
    tasks: Tasks = jobs.app.parts.dispatcher.services.tasks
    assert tasks.find(id, "local", "jobs").id == id
    with pytest.raises(Exception, match="no task"):
        tasks.find(id, "mallory", "jobs")


@pytest.mark.parametrize("method", ["tasks/result", "tasks/list"])
def test_methods_of_the_older_tasks_do_not_exist(jobs: Hub, method: str) -> None:
    answer = jobs.modern("jobs", method, {"taskId": "x"}, capabilities=KNOWS)
    assert (answer.status, answer.error["code"]) == (404, -32601)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"])
def test_older_revisions_have_no_tasks(jobs: Hub, method: str) -> None:
    assert jobs.legacy("jobs", method, {"taskId": "x"}).error["code"] == -32601


def test_the_extension_is_declared_where_it_exists(jobs: Hub) -> None:
    found = jobs.modern("jobs", "server/discover").result["capabilities"]
    assert found["extensions"] == {TASKS: {}} and "tasks" not in found
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    assert "extensions" not in jobs.legacy("jobs", "initialize", params, version=None).result["capabilities"]


def test_questions_stay_open_until_they_are_answered_and_keys_are_never_used_again(jobs: Hub) -> None:
    id = begin(jobs, "asks")
    asked = questions(jobs, id, "same")["same"]
    assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "One?")
    acknowledged = update(jobs, id, same=accept("a")).result
    assert set(acknowledged) == {"resultType", "_meta"} and acknowledged["resultType"] == "complete"
    assert questions(jobs, id, "same-2")["same-2"]["params"]["message"] == "Two?"
    update(jobs, id, same=accept("late"))
    update(jobs, id, **{"same-2": accept("b")})
    assert ended(jobs, id)["result"]["content"][0]["text"] == "a b"


def test_a_caller_that_leaves_after_its_task_began_does_not_cancel_it(jobs: Hub) -> None:
    """The web server may say that a client has left while the last frame, which names the task, is on its way."""
    dispatcher, flag = jobs.app.parts.dispatcher, CancelFlag()
    sent, headers = modern_request("tools/call", {"name": "asks", "arguments": {}}, capabilities=KNOWS)
    wire = TransportInfo("jobs", {name.lower(): value for name, value in headers.items()})
    request = Request(1, sent["method"], sent["params"])
    caller, server = dispatcher.admit(request, wire), dispatcher.server("jobs", wire.sender)
    answer: Any = [*dispatcher.answer(request, caller, server, cancelled=flag)][-1]
    id = answer.result["taskId"]
    questions(jobs, id, "same")
    flag.leave()
    update(jobs, id, same=accept("a"))
    questions(jobs, id, "same-2")
    update(jobs, id, **{"same-2": accept("b")})
    assert ended(jobs, id)["result"]["content"][0]["text"] == "a b"


def test_part_of_the_answers_leaves_the_rest_open(jobs: Hub) -> None:
    id = begin(jobs, "asks_both")
    questions(jobs, id, "a", "b")
    update(jobs, id, a=accept("1"), unknown=accept("x"))
    assert list(get(jobs, id)["inputRequests"]) == ["b"]
    for wrong in (5, None, {"action": "maybe"}):
        assert update(jobs, id, b=wrong).result["resultType"] == "complete"
        assert get(jobs, id)["status"] == "input_required"
    update(jobs, id, a=accept("changed"), b=accept("2"))
    assert ended(jobs, id)["result"]["content"][0]["text"] == "12"


@pytest.mark.parametrize("responses", [None, [], "x"])
def test_answers_that_are_not_an_object_are_an_error(jobs: Hub, responses: Any) -> None:
    assert request_task(jobs, "update", begin(jobs, "work"), inputResponses=responses).error["code"] == -32602


def test_questions_before_the_task_are_asked_on_the_line(jobs: Hub) -> None:
    """SPEC-DIGEST 1.14: MRTR first, then the task."""
    first = call(jobs, "asks_first").result
    assert first["resultType"] == "input_required" and "taskId" not in first
    made = call(jobs, "asks_first", inputResponses={"who": accept("Ada")}, requestState=first["requestState"]).result
    assert made["resultType"] == "task" and not {"requestState", "inputRequests"} & set(made)
    assert ended(jobs, made["taskId"])["result"]["content"][0]["text"] == "Hello, Ada!"


@pytest.mark.parametrize("tool", ["work", "blind", "asks"])
def test_a_cancelled_task_stops_whatever_it_does(jobs: Hub, tool: str) -> None:
    """Cancelling is acknowledged however often, and what has ended stays as it is."""
    id = begin(jobs, tool, **({"seconds": 60} if tool == "work" else {}))
    for _ in range(2):
        assert set(request_task(jobs, "cancel", id).result) == {"resultType", "_meta"}
    done = ended(jobs, id)
    assert done["status"] == "cancelled" and not {"result", "error", "inputRequests"} & set(done)
    assert request_task(jobs, "cancel", id).result["resultType"] == "complete"
    assert update(jobs, id, same=accept("x")).result["resultType"] == "complete"
    assert get(jobs, id) == done


def test_cancelling_a_task_that_is_done_changes_nothing(jobs: Hub) -> None:
    id = begin(jobs, "work")
    done = ended(jobs, id)
    assert request_task(jobs, "cancel", id).result["resultType"] == "complete"
    assert get(jobs, id) == done


def test_there_is_a_bound_to_how_many_run_at_once(tmp_path: Path) -> None:
    hub = Hub(tmp_path, FILES, tasks=1)
    try:
        first = begin(hub, "work", seconds=60)
        assert call(hub, "work").text == "worked"
        full = call(hub, "work", arguments={"required": True})
        assert full.result["isError"] is True and "tasks" in full.text
        request_task(hub, "cancel", first)
        assert ended(hub, first)["status"] == "cancelled"
        # A place is free only after the end was written.
        assert until(lambda: call(hub, "work").result.get("taskId"), "a free place")
    finally:
        hub.close()


@pytest.mark.parametrize("name", ["tasks", "task "], ids=["thread-of-all-tasks", "thread-of-the-task"])
def test_a_call_does_not_become_a_task_when_the_system_has_no_thread_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """The call answers itself, and its place is free again."""
    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name.startswith(name):
            raise RuntimeError("can't start new thread")
        start(thread)

    hub = Hub(tmp_path, FILES, tasks=1)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            assert call(hub, "work").text == "worked"
        assert ended(hub, begin(hub, "work"))["status"] == "completed"
    finally:
        hub.close()


def test_a_task_is_cancelled_although_the_message_was_lost_and_other_tasks_send_messages(
    jobs: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    id, bus = begin(jobs, "blind"), jobs.catalogue.store.bus
    publish = bus.publish

    def lose(topic: str, message: bytes = b"") -> None:
        if not topic.endswith(id):
            publish(topic, message)

    monkeypatch.setattr(bus, "publish", lose)
    request_task(jobs, "cancel", id)

    def has_ended() -> bool:
        publish(f"{TASK_CHANGES}another")
        return bool(get(jobs, id)["status"] == "cancelled")

    until(has_ended, "the end of the task")


def messages(stream: Any) -> Iterator[dict[str, Any]]:
    for frame in stream:
        for line in frame.decode().split("\n"):
            if line.startswith("data: ") and line[6:]:
                yield orjson.loads(line[6:])


def listen(hub: Hub, ids: Any, capabilities: Any = KNOWS) -> Any:
    return modern_request("subscriptions/listen", {"notifications": {"taskIds": ids}}, capabilities, id=9)


def test_a_listener_hears_of_the_tasks_it_named(jobs: Hub) -> None:
    id, other = begin(jobs, "asks"), begin(jobs, "asks")
    questions(jobs, id, "same")
    stream = jobs.stream("jobs", *listen(jobs, [id, "unknown"]))
    heard = messages(stream)
    assert next(heard)["params"]["notifications"] == {"taskIds": [id]}
    now = next(heard)
    assert now["method"] == "notifications/tasks"
    assert now["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": 9}
    assert (now["params"]["taskId"], list(now["params"]["inputRequests"])) == (id, ["same"])
    update(jobs, other, same=accept("x"))
    update(jobs, id, same=accept("a"))
    update(jobs, id, **{"same-2": accept("b")}) if questions(jobs, id, "same-2") else None
    told = next(params for params in (one["params"] for one in heard) if params["status"] == "completed")
    assert told["taskId"] == id and told["result"]["content"][0]["text"] == "a b"
    stream.close()
    request_task(jobs, "cancel", other)


def test_listening_for_tasks_needs_the_extension(jobs: Hub) -> None:
    refused = jobs.send("jobs", *listen(jobs, ["x"], {}))
    assert (refused.status, refused.error["code"]) == (400, -32021)
    for wrong in ("x", [5], ["x"] * 65):
        assert jobs.send("jobs", *listen(jobs, wrong)).error["code"] == -32602

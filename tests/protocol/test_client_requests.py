"""Questions to the caller, in both eras, over a real endpoint."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import orjson
import pytest

from patchbay.errors import InvalidParams
from patchbay.jsonrpc import Request
from patchbay.protocol import client_requests
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ROOTS_CHANGED
from tests.hubs import BOTH, Hub

ELICIT: dict[str, Any] = {"elicitation": {}}


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def call_tool(hub: Hub, tool: str = "asks", capabilities: Any = ELICIT, **more: Any) -> Any:
    return hub.modern("zoo", "tools/call", {"name": tool, **more}, capabilities=capabilities)


def test_a_question_ends_the_call_with_input_required_and_the_retry_completes_it(zoo: Hub) -> None:
    first = call_tool(zoo).result
    assert first["resultType"] == "input_required"
    question = first["inputRequests"]["name"]
    assert question["method"] == "elicitation/create"
    assert question["params"]["message"] == "What is your name?"
    assert "content" not in first and "ttlMs" not in first
    state = first["requestState"]
    done = call_tool(zoo, inputResponses={"name": accept(name="Ada")}, requestState=state)
    assert (done.result["resultType"], done.text) == ("complete", "Hello, Ada!")


def test_answers_may_come_at_once_and_unknown_keys_are_ignored(zoo: Hub) -> None:
    answers = {"name": accept(name="Ada"), "other": accept(x=1), "third": 5}
    assert call_tool(zoo, inputResponses=answers).text == "Hello, Ada!"


@pytest.mark.parametrize("answer", [12345, None, [], {}, {"action": "maybe"}, {"action": "accept", "content": 5}])
def test_an_answer_of_another_shape_is_asked_for_again(zoo: Hub, answer: Any) -> None:
    assert call_tool(zoo, inputResponses={"name": answer}).result["resultType"] == "input_required"


@pytest.mark.parametrize("responses", [None, [], "x"])
def test_input_responses_that_are_not_an_object_are_an_error(zoo: Hub, responses: Any) -> None:
    assert call_tool(zoo, inputResponses=responses).error["code"] == -32602


def test_earlier_answers_travel_sealed_in_the_state(zoo: Hub) -> None:
    one = call_tool(zoo, "asks_twice").result
    two = call_tool(zoo, "asks_twice", inputResponses={"first": accept(v="a")}, requestState=one["requestState"]).result
    assert list(two["inputRequests"]) == ["second"]
    assert two["requestState"] != one["requestState"]
    done = call_tool(zoo, "asks_twice", inputResponses={"second": accept(v="b")}, requestState=two["requestState"])
    assert done.text == "a b"


def test_a_state_that_was_touched_is_an_error_at_every_byte(zoo: Hub) -> None:
    """THREATS 1.3."""
    state = call_tool(zoo).result["requestState"]
    for place in range(0, len(state), 7):
        touched = state[:place] + ("A" if state[place] != "A" else "B") + state[place + 1 :]
        answer = call_tool(zoo, inputResponses={"name": accept(name="x")}, requestState=touched)
        assert answer.error["code"] == -32602, place
    for foreign in (state + "-TAMPERED", "", 5, "e30.aaaa.bbbb"):
        assert call_tool(zoo, requestState=foreign).error["code"] == -32602


def test_a_state_belongs_to_its_tool_and_arguments(zoo: Hub) -> None:
    """THREATS 1.3."""
    state = call_tool(zoo).result["requestState"]
    assert call_tool(zoo, "asks_twice", requestState=state).error["code"] == -32602
    assert call_tool(zoo, arguments={"x": 1}, requestState=state).last != call_tool(zoo, requestState=state).last


def test_a_state_is_good_for_a_limited_time_and_for_its_principal(zoo: Hub) -> None:
    """THREATS 1.3."""
    request = Request(1, "tools/call", {"name": "asks"})
    journal = MemoryStore().journal
    states = client_requests.States(b"k" * 32, journal)
    mine, theirs = client_requests._binding(request, "ada"), client_requests._binding(request, "bob")
    state = states.seal(mine, {"name": 1})
    again = Request(2, "tools/call", {"name": "asks", "requestState": state})
    assert states.answers(again, mine) == {"name": 1}
    with pytest.raises(InvalidParams, match="another call"):
        states.answers(again, theirs)
    with pytest.raises(InvalidParams, match="too old"):
        client_requests.States(b"k" * 32, journal, seconds=-1).answers(again, mine)


def test_a_state_is_good_for_one_retry(zoo: Hub) -> None:
    """THREATS 1.3: of many retries at the same moment, one runs."""
    state = call_tool(zoo).result["requestState"]

    def retry(name: str) -> Any:
        return call_tool(zoo, inputResponses={"name": accept(name=name)}, requestState=state)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(retry, "abcdefgh"))
    served = [answer for answer in answers if "result" in answer.last]
    assert [answer.text[:5] for answer in served] == ["Hello"]
    refused = [answer.error for answer in answers if "error" in answer.last]
    assert {error["code"] for error in refused} == {-32602} and len(refused) == 7
    assert all("send the call again without it" in error["message"] for error in refused)


def test_a_retry_that_cannot_be_read_leaves_the_state_good(zoo: Hub) -> None:
    state = call_tool(zoo).result["requestState"]
    assert call_tool(zoo, inputResponses=[], requestState=state).error["code"] == -32602
    assert call_tool(zoo, "asks_twice", requestState=state).error["code"] == -32602
    assert call_tool(zoo, inputResponses={"name": accept(name="Ada")}, requestState=state).text == "Hello, Ada!"


def test_a_capability_that_was_not_declared_is_refused_before_anything_is_sent(zoo: Hub) -> None:
    """SPEC-DIGEST 1.6: -32021 with HTTP 400 in 2026-07-28, a failed result before."""
    modern = call_tool(zoo, capabilities={})
    assert (modern.status, modern.error["code"]) == (400, -32021)
    assert modern.error["data"] == {"requiredCapabilities": {"elicitation": {}}}
    session = zoo.open("zoo")
    legacy = zoo.legacy("zoo", "tools/call", {"name": "asks"}, session=session)
    assert legacy.result["isError"] is True and "elicitation" in legacy.text


def test_before_2026_07_28_a_question_is_a_request_on_the_stream_answered_by_a_post(zoo: Hub) -> None:
    """SPEC-DIGEST 1.1."""
    session = zoo.open("zoo", capabilities=ELICIT)
    headers = {"Mcp-Session-Id": session}
    frames = zoo.stream("zoo", {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "asks"}}, headers)
    seen: list[dict[str, Any]] = []
    for frame in frames:
        data = [line[6:] for line in frame.decode().split("\n") if line.startswith("data: ")]
        if not data or not data[0]:
            continue
        message = orjson.loads(data[0])
        seen.append(message)
        if message.get("method") == "elicitation/create":
            other = zoo.open("zoo", capabilities=ELICIT)
            forged = {"jsonrpc": "2.0", "id": message["id"], "result": accept(name="Mallory")}
            assert zoo.send("zoo", forged, {"Mcp-Session-Id": other}).status == 202
            reply = {"jsonrpc": "2.0", "id": message["id"], "result": accept(name="Ada")}
            assert zoo.send("zoo", reply, headers).status == 202
    assert seen[-1]["id"] == 4
    assert seen[-1]["result"]["content"][0]["text"] == "Hello, Ada!"


def answered_on_stream(zoo: Hub, answer: dict[str, Any]) -> dict[str, Any]:
    """The last message of a call before 2026-07-28 whose question was answered like this."""
    headers = {"Mcp-Session-Id": zoo.open("zoo", capabilities=ELICIT)}
    frames = zoo.stream("zoo", {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "asks"}}, headers)
    last: dict[str, Any] = {}
    for frame in frames:
        data = [line[6:] for line in frame.decode().split("\n") if line.startswith("data: ")]
        last = orjson.loads(data[0]) if data and data[0] else last
        if last.get("method") == "elicitation/create":
            zoo.send("zoo", {"jsonrpc": "2.0", "id": last["id"], **answer}, headers)
    return last


def test_a_client_that_answers_with_an_error_fails_the_call(zoo: Hub) -> None:
    last = answered_on_stream(zoo, {"error": {"code": -1, "message": "user is out"}})
    assert last["result"]["isError"] is True
    assert "user is out" in last["result"]["content"][0]["text"]


def test_nothing_is_answered_after_a_cancellation_even_where_the_client_refuses_the_question_too(zoo: Hub) -> None:
    """SPEC-DIGEST 1.11."""
    headers = {"Mcp-Session-Id": zoo.open("zoo", capabilities=ELICIT)}
    frames = zoo.stream("zoo", {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "asks"}}, headers)
    question = next(each for each in messages_of(frames) if each.get("method") == "elicitation/create")
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 4}}
    assert zoo.send("zoo", cancel, headers).status == 202
    refusal = {"jsonrpc": "2.0", "id": question["id"], "error": {"code": -1, "message": "the call was cancelled"}}
    assert zoo.send("zoo", refusal, headers).status == 202
    assert list(messages_of(frames)) == []


def messages_of(frames: Any) -> Any:
    """The messages of a stream as they come."""
    for frame in frames:
        data = [line[6:] for line in frame.decode().split("\n") if line.startswith("data: ")]
        if data and data[0]:
            yield orjson.loads(data[0])


@pytest.mark.parametrize("answer", [{}, {"action": "maybe"}, {"roots": []}, {"action": "accept", "content": 5}])
def test_an_answer_of_another_shape_on_the_stream_fails_the_call(zoo: Hub, answer: dict[str, Any]) -> None:
    last = answered_on_stream(zoo, {"result": answer})
    assert last["result"]["isError"] is True
    sentence = "the client's answer to name is not an answer to elicitation/create"
    assert last["result"]["content"][0]["text"].endswith(sentence)


@pytest.mark.parametrize(
    ("method", "good", "bad"),
    [
        ("sampling/createMessage", {"role": "assistant", "content": {}, "model": "m"}, {"content": {}}),
        ("roots/list", {"roots": []}, {"roots": {}}),
        ("elicitation/create", {"action": "cancel"}, {"action": "accept", "content": []}),
    ],
)
def test_each_kind_of_question_has_its_kind_of_answer(method: str, good: Any, bad: Any) -> None:
    assert client_requests.fits(method, good)
    assert not client_requests.fits(method, bad) and not client_requests.fits(method, [good])


@pytest.mark.parametrize("content", [{"name": 5}, {}])
def test_an_accepted_form_that_does_not_fit_fails_the_call_in_both_eras(zoo: Hub, content: dict[str, Any]) -> None:
    """MCP, client/elicitation."""
    legacy = answered_on_stream(zoo, {"result": {"action": "accept", "content": content}})["result"]
    modern = call_tool(zoo, inputResponses={"name": accept(**content)}).result
    for result in (legacy, modern):
        assert result["isError"] is True
        assert "the answer to 'name' does not fit its form" in result["content"][0]["text"]


@pytest.mark.slow
def test_a_client_that_never_answers_costs_nothing_after_the_deadline(zoo: Hub) -> None:
    session = zoo.open("zoo", capabilities=ELICIT)
    before = threading.active_count()
    message = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "asks"}}
    answer = zoo.send("zoo", message, {"Mcp-Session-Id": session})
    assert answer.result["isError"] is True and "timed out" in answer.text
    assert threading.active_count() <= before + 1


def test_a_caller_that_takes_no_stream_cannot_be_asked(zoo: Hub) -> None:
    session = zoo.open("zoo", capabilities=ELICIT)
    message = {"jsonrpc": "2.0", "id": 4, "method": "tools/call", "params": {"name": "asks"}}
    answer = zoo.send("zoo", message, {"Mcp-Session-Id": session, "Accept": "application/json"})
    assert answer.result["isError"] is True and "text/event-stream" in answer.text
    assert BOTH.startswith("application/json")


@pytest.mark.slow
def test_a_cancelled_call_is_not_answered(zoo: Hub) -> None:
    """SUB-32, SUB-C11."""
    session = zoo.open("zoo")
    headers = {"Mcp-Session-Id": session}
    message = {
        "jsonrpc": "2.0",
        "id": "c",
        "method": "tools/call",
        "params": {"name": "hangs", "_meta": {"progressToken": "p"}},
    }
    frames = zoo.stream("zoo", message, headers)
    next(frames)
    wrong = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "d"}}
    right = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "c", "reason": "enough"}}
    assert zoo.send("zoo", wrong, headers).status == 202
    assert zoo.send("zoo", right, headers).status == 202
    assert b"result" not in b"".join(frames)


def test_a_session_whose_roots_changed_is_announced_to_all_processes(zoo: Hub) -> None:
    """Issue 17, part 7: mounts forget the roots of that session."""
    session = zoo.open("zoo", capabilities={"roots": {"listChanged": True}})
    with zoo.catalogue.store.bus.subscribe([ROOTS_CHANGED]) as mailbox:
        zoo.send("zoo", {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}, {"Mcp-Session-Id": session})
        assert mailbox.get(60) is not None

"""MCP over a pipe: eras, the handshake, many calls at a time, cancellation, questions, changes, hostile input."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.wire.pipes.stdio import MAX_CONCURRENT_CALLS
from tests.hubs import MODERN, Hub
from tests.waiting import until
from tests.wire.talks import Json, Talk

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")


@pytest.fixture
def talk(zoo: Hub) -> Iterator[Talk]:
    """A pipe to the zoo, on which nothing was said yet."""
    talk = Talk(zoo)
    yield talk
    talk.close()


def call(tool: str, **arguments: Any) -> Json:
    return {"name": tool, "arguments": arguments}


def text_of(answer: Json) -> str:
    return "".join(block["text"] for block in answer["result"]["content"])


@pytest.mark.parametrize("version", LEGACY)
def test_a_handshake_opens_a_session_in_every_older_revision(talk: Talk, version: str) -> None:
    """SUB-11, SUB-41, SUB-37, X-3."""
    assert talk.open(version)["protocolVersion"] == version
    assert text_of(talk.legacy("tools/call", call("greet", name="Ada"))) == "Hello, Ada!"
    assert "greet" in {tool["name"] for tool in talk.legacy("tools/list", id=2)["result"]["tools"]}


def test_the_newest_revision_needs_no_handshake(talk: Talk) -> None:
    found = talk.modern("server/discover")["result"]
    assert (found["supportedVersions"], found["resultType"]) == ([MODERN], "complete")
    assert text_of(talk.modern("tools/call", call("greet", name="Ada"), id="two")) == "Hello, Ada!"


def test_header_checks_do_not_exist_on_a_pipe(talk: Talk) -> None:
    assert "result" in talk.modern("tools/list")


def test_a_handshake_for_the_newest_revision_gets_the_newest_that_has_one(talk: Talk) -> None:
    assert talk.open(MODERN)["protocolVersion"] == "2025-11-25"


def test_before_initialize_only_ping_is_answered(talk: Talk) -> None:
    """SUB-11, SUB-13, SUB-14, X-3, SUB-12."""
    assert talk.legacy("ping")["result"] == {}
    for id, method in enumerate(("tools/list", "tools/call", "server/discover", "no/such", "logging/setLevel"), 2):
        error = talk.legacy(method, {}, id)["error"]
        assert (error["code"], error["message"]) == (-32002, "Server not initialized")
        assert error["data"]["reason"].startswith(f"{method} came before initialize")
    assert talk.open()["protocolVersion"] == "2025-11-25"


def test_between_initialize_and_initialized_only_ping_is_answered(talk: Talk) -> None:
    """SUB-11, SUB-12, SUB-13, SUB-14."""
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "tests", "version": "1"}}
    assert talk.legacy("initialize", params, "init")["result"]["protocolVersion"] == "2025-11-25"
    assert talk.legacy("ping", {}, 1)["result"] == {}
    for id, method in enumerate(("tools/list", "tools/call", "logging/setLevel", "no/such"), 2):
        error = talk.legacy(method, {}, id)["error"]
        assert (error["code"], error["message"]) == (-32002, "Server initializing")
        assert (
            error["data"]["reason"] == f"{method} came before notifications/initialized: send that notification first"
        )
    talk.note("notifications/initialized")
    assert talk.legacy("tools/list", {}, 9)["result"]["tools"]


def test_notifications_and_answers_decide_nothing(talk: Talk) -> None:
    talk.note("notifications/initialized")
    talk.note("notifications/cancelled", requestId=1)
    talk.send({"jsonrpc": "2.0", "id": "ask-1", "result": {}})
    talk.send(orjson.loads(orjson.dumps({"jsonrpc": "2.0", "method": "notifications/x", "params": {"_meta": {}}})))
    assert talk.modern("server/discover")["result"]["supportedVersions"] == [MODERN]


def test_a_refused_claim_leaves_the_way_to_the_handshake_open(talk: Talk) -> None:
    """SPEC-DIGEST 2.6: a client of an unknown newer revision falls back on the same pipe."""
    meta = {"io.modelcontextprotocol/protocolVersion": "2030-01-01", "io.modelcontextprotocol/clientCapabilities": {}}
    error = talk.legacy("server/discover", {"_meta": meta})["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": [MODERN], "requested": "2030-01-01"})
    assert talk.open()["protocolVersion"] == "2025-11-25"


def test_a_refused_handshake_leaves_the_pipe_open(talk: Talk) -> None:
    assert talk.legacy("initialize", {"protocolVersion": 7})["error"]["code"] == -32602
    assert talk.open()["protocolVersion"] == "2025-11-25"


def test_a_modern_pipe_refuses_the_handshake_and_names_what_it_serves(talk: Talk) -> None:
    talk.modern("server/discover")
    error = talk.legacy("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, 2)["error"]
    assert (error["code"], error["data"]) == (-32022, {"supported": [MODERN], "requested": "2025-11-25"})
    assert talk.legacy("tools/list", {}, 3)["error"]["code"] == -32602
    assert "result" in talk.modern("server/discover", id=4)


def test_a_pipe_with_a_session_refuses_claims_and_a_second_handshake(talk: Talk) -> None:
    talk.open("2025-06-18")
    assert talk.modern("tools/list")["error"]["code"] == -32600
    assert talk.modern("server/discover", id=2)["error"]["code"] == -32600
    again = talk.legacy("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}}, 3)["error"]
    assert (again["code"], "2025-06-18" in again["message"]) == (-32600, True)
    assert "result" in talk.legacy("tools/list", id=4)


@pytest.mark.parametrize("id", [0, "", "1", -(2**53), "x" * 500])
def test_an_answer_carries_the_id_as_it_came(talk: Talk, id: Any) -> None:
    talk.open()
    assert talk.legacy("ping", id=id)["result"] == {}


def test_a_long_call_delays_neither_a_ping_nor_its_own_cancellation(talk: Talk) -> None:
    """SUB-33: SUB-C11."""
    talk.open()
    talk.ask("tools/call", call("hangs"), 7)
    assert talk.legacy("ping", id=8)["result"] == {}
    talk.note("notifications/cancelled", requestId="7")
    talk.note("notifications/cancelled", requestId=7)
    assert talk.end()
    assert not [one for one in talk.said if one.get("id") == 7]


def test_a_modern_client_cancels_by_notification_on_a_pipe(talk: Talk) -> None:
    """SPEC-DIGEST 1.11."""
    talk.ask_modern("tools/call", call("hangs"), 7)
    talk.note("notifications/cancelled", requestId=7, reason="enough")
    assert "result" in talk.modern("tools/list", id=8)
    assert talk.end()
    assert not [one for one in talk.said if one.get("id") == 7]


def test_a_cancellation_in_the_same_breath_as_its_request_counts(talk: Talk) -> None:
    talk.open()
    request = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": call("hangs")}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}
    talk.raw(orjson.dumps(request) + b"\n" + orjson.dumps(cancel) + b"\n")
    assert talk.end()
    assert not [one for one in talk.said if one.get("id") == 7]


def test_answers_to_several_calls_interleave(talk: Talk) -> None:
    talk.open()
    talk.ask("tools/call", call("hangs"), "slow")
    for id in range(20):
        talk.ask("tools/call", call("greet", name=str(id)), id)
    assert [text_of(talk.answer(id)) for id in range(20)] == [f"Hello, {id}!" for id in range(20)]
    assert "timed out" in text_of(talk.answer("slow"))


def test_too_many_calls_are_refused_while_pings_are_answered(zoo: Hub) -> None:
    talk = Talk(zoo)
    try:
        talk.open()
        for id in range(MAX_CONCURRENT_CALLS):
            talk.ask("tools/call", call("hangs"), id)
        busy = talk.legacy("tools/call", call("greet", name="Ada"), "one more")["error"]
        assert (busy["code"], busy["message"].startswith("busy: 64 calls")) == (-32603, True)
        assert talk.legacy("ping", id="alive")["result"] == {}
        for method, params in (
            ("logging/setLevel", {"level": "debug"}),
            ("resources/subscribe", {"uri": "zoo://note"}),
            ("resources/unsubscribe", {"uri": "zoo://note"}),
        ):
            assert talk.legacy(method, params, method)["result"] == {}
    finally:
        talk.close()


def test_progress_and_log_messages_come_before_the_answer(talk: Talk) -> None:
    talk.open()
    assert talk.legacy("logging/setLevel", {"level": "debug"}, "level")["result"] == {}
    talk.ask("tools/call", call("slow") | {"_meta": {"progressToken": "t"}}, 5)
    assert text_of(talk.answer(5)) == "done"
    methods = [one.get("method") for one in talk.said]
    assert methods.count("notifications/progress") == 3
    assert methods.count("notifications/message") == 3
    assert methods[-1] is None


def test_the_log_level_counts_for_the_call_behind_it(talk: Talk) -> None:
    talk.open()
    talk.ask("logging/setLevel", {"level": "error"}, 2)
    talk.ask("tools/call", call("slow"), 3)
    assert text_of(talk.answer(3)) == "done"
    assert [one for one in talk.said if one.get("method") == "notifications/message"] == []


def test_a_modern_call_logs_only_when_it_asked_for_it(talk: Talk) -> None:
    talk.modern("tools/call", call("slow"), 1)
    assert len(talk.said) == 1
    talk.modern("tools/call", call("slow"), 2, meta={"io.modelcontextprotocol/logLevel": "warning"})
    assert [one["params"]["level"] for one in talk.said[1:-1]] == ["warning", "warning"]


def test_a_tool_asks_its_client_on_the_same_pipe(talk: Talk) -> None:
    talk.open(capabilities={"elicitation": {}})
    talk.ask("tools/call", call("asks"), 3)
    question = talk.told("elicitation/create")
    assert question["params"]["message"] == "What is your name?"
    answer = {"action": "accept", "content": {"name": "Ada"}}
    talk.send({"jsonrpc": "2.0", "id": question["id"], "result": answer})
    assert text_of(talk.answer(3)) == "Hello, Ada!"


def test_a_modern_client_is_never_sent_a_request(talk: Talk) -> None:
    capabilities: Json = {"elicitation": {}}
    first = talk.modern("tools/call", call("asks"), 1, capabilities=capabilities)["result"]
    assert (first["resultType"], list(first["inputRequests"])) == ("input_required", ["name"])
    more = {
        "inputResponses": {"name": {"action": "accept", "content": {"name": "Ada"}}},
        "requestState": first["requestState"],
    }
    assert text_of(talk.modern("tools/call", call("asks") | more, 2, capabilities=capabilities)) == "Hello, Ada!"
    assert not [one for one in talk.said if "method" in one]


def test_an_answer_from_a_modern_client_is_left_unanswered(talk: Talk) -> None:
    talk.modern("server/discover")
    talk.send({"jsonrpc": "2.0", "id": "ask-1", "result": {}})
    talk.modern("server/discover", id=2)
    assert len(talk.said) == 2


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26"])
def test_arrays_are_answered_by_one_array_where_the_session_has_them(talk: Talk, version: str) -> None:
    """X-7."""
    talk.open(version)
    talk.send(
        [
            {"jsonrpc": "2.0", "id": 1, "method": "ping"},
            {"jsonrpc": "2.0", "method": "notifications/x"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call("greet", name="Ada")},
            {"jsonrpc": "2.0", "id": 3, "method": "no/such"},
            7,
        ]
    )
    array = talk.until(lambda one: isinstance(one, list), "no array")
    assert [one.get("id") for one in array] == [1, 2, 3, None]
    assert [one.get("error", {}).get("code") for one in array] == [None, None, -32601, -32600]
    talk.send([{"jsonrpc": "2.0", "method": "notifications/x"}])
    talk.legacy("ping", id="after")
    assert len([one for one in talk.said if isinstance(one, list)]) == 1


def test_a_call_in_an_array_may_ask_and_report_on_the_way(talk: Talk) -> None:
    talk.open("2025-03-26")
    talk.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("slow")}])
    assert talk.until(lambda one: isinstance(one, list), "no array")[0]["id"] == 1
    assert talk.told("notifications/message")["params"]["level"] == "warning"


def test_arrays_are_refused_everywhere_else(zoo: Hub) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for open_with in (None, "2025-06-18", "2025-11-25"):
        talk = Talk(zoo)
        if open_with:
            talk.open(open_with)
        talk.send([ping])
        assert talk.answer(None)["error"]["code"] == -32600
        talk.close()


@pytest.mark.parametrize("array", [[], [{"jsonrpc": "2.0", "id": 1, "method": "ping"}] * 101])
def test_an_empty_array_and_a_huge_one_are_refused(talk: Talk, array: list[Any]) -> None:
    talk.open("2025-03-26")
    talk.send(array)
    assert talk.answer(None)["error"]["code"] == -32600


def test_a_session_hears_of_changes_without_asking(tmp_path: Path) -> None:
    """T9.2: the pipe is the session's stream of changes."""
    hub = Hub(tmp_path, {"one.py": "def first() -> str:\n    return 'a'\n"})
    talk = Talk(hub, "one")
    try:
        talk.open()
        (hub.servers / "one.py").write_text("def second() -> str:\n    return 'b'\n")
        talk.told("notifications/tools/list_changed")
        assert {tool["name"] for tool in talk.legacy("tools/list", id=2)["result"]["tools"]} == {"second"}
    finally:
        talk.close()
        hub.close()


def test_a_session_hears_of_the_resources_it_subscribed_to(zoo: Hub, talk: Talk) -> None:
    """SUB-29, VWR-37."""
    talk.open()
    talk.legacy("resources/subscribe", {"uri": "zoo://note"})
    zoo.catalogue.hub.updated("zoo", "zoo://readme")
    zoo.catalogue.hub.updated("zoo", "zoo://note")
    assert talk.told("notifications/resources/updated")["params"] == {"uri": "zoo://note"}
    talk.legacy("resources/unsubscribe", {"uri": "zoo://note"}, 2)
    zoo.catalogue.hub.updated("zoo", "zoo://note")
    talk.legacy("tools/call", call("touched"), 3)
    talk.told("notifications/tools/list_changed")
    assert [one.get("method") for one in talk.said].count("notifications/resources/updated") == 1


def test_a_modern_client_listens_until_it_cancels(zoo: Hub, talk: Talk) -> None:
    """T9.8."""
    talk.ask_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, 9)
    told = talk.told("notifications/subscriptions/acknowledged")["params"]
    assert told["notifications"] == {"toolsListChanged": True}
    assert told["_meta"] == {"io.modelcontextprotocol/subscriptionId": 9}
    talk.modern("tools/call", call("touched"), 10)
    changed = talk.told("notifications/tools/list_changed")["params"]
    assert changed["_meta"] == {"io.modelcontextprotocol/subscriptionId": 9}
    talk.note("notifications/cancelled", requestId=9)
    assert talk.end(), "the listening thread comes back at once, not after the next keep-alive"
    assert not [one for one in talk.said if one.get("id") == 9]


def test_the_end_of_a_pipe_ends_its_threads(zoo: Hub) -> None:
    talk = Talk(zoo)
    talk.open()
    talk.ask("tools/call", call("hangs"), 1)
    talk.close()
    other = Talk(zoo)
    other.ask_modern("subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    other.told("notifications/subscriptions/acknowledged")
    other.close()
    until(lambda: "call" not in {thread.name for thread in threading.enumerate()}, "no call is being answered")


def test_a_server_that_is_gone_is_an_error_not_the_end(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"one.py": "def first() -> str:\n    return 'a'\n"})
    talk = Talk(hub, "one")
    try:
        talk.open()
        (hub.servers / "one.py").unlink()
        talk.told("notifications/tools/list_changed")
        assert "one" in talk.legacy("tools/list", id=2)["error"]["message"]
        assert "one" in talk.legacy("ping", id=3)["error"]["message"]
    finally:
        talk.close()
        hub.close()

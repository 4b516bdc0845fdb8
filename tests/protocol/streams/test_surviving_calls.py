"""Calls that survive their connection: who may join which, and what becomes of a call whose process is gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest

from patchbay.access.principals import LOCAL, Principal
from patchbay.coordination.process_liveness import Heartbeat
from patchbay.errors import InvalidParams
from patchbay.events import Wait
from patchbay.jsonrpc import Notification, Request, Result, load_json
from patchbay.messages.callers import Caller, TransportInfo
from patchbay.messages.versions import MODERN, REVISIONS
from patchbay.protocol.streams.call_names import CallName, name_call
from patchbay.protocol.streams.surviving_calls import CANCELLED, GONE, Busy, SurvivingCalls
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ACCESS_ENDED, CALLS, ENDING
from tests.access.team import new_key, set_grants, team_hub
from tests.attacks.leftovers import left
from tests.hubs import Answer, Hub
from tests.waiting import until

NAME = CallName("ann", "call/owner", "ab12", "call/owner/round", "digest", 0, True)
SAID = Request(7, "tools/call", {"_meta": {"progressToken": "mine"}})
PROGRESS = Notification("notifications/progress", {"progressToken": "first", "progress": 1})

COUNTER = '''"""A server that counts its calls."""

CALLS = []


def safe() -> str:
    """Say which call this is."""
    CALLS.append(1)
    return str(len(CALLS))


def pay(amount: int) -> str:
    """Say which call this is."""
    return safe()


def hold(context, gate: str) -> str:
    """Read a named pipe to its end."""
    with open(gate) as pipe:
        context.progress(1, 2)
        return pipe.read()
'''
CONFIG = '{"auto_discover": true, "isolation": "inline", "tools": {"safe": {"annotations": {"idempotentHint": true}}}}'


class Killed(Heartbeat):
    """The heartbeat of a process that was killed right after it began a call: it has no beat."""

    def begin(self) -> None:
        """Record no beat."""

    def end(self) -> None:
        """Nothing was counted."""


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


def calls_of(heartbeat: Heartbeat, limit: int = 8, most: int = 1000) -> SurvivingCalls:
    return SurvivingCalls(heartbeat, 60, most, limit, 60)


def told(calls: SurvivingCalls, name: CallName = NAME, request: Request = SAID) -> list[tuple[str, Any]]:
    """All events of a call that has ended, or whose process is gone."""
    events = []
    for item in calls.follow(name, request, lambda: True):
        assert not isinstance(item, Wait), "the call has not ended"
        if isinstance(item, tuple):
            events.append((item[0], orjson.loads(item[1])))
    return events


def run_it(calls: SurvivingCalls, name: CallName = NAME, answers: tuple[Any, ...] = (PROGRESS, Result(3, {}))) -> bool:
    """Run a call to its end on this thread; return whether it ran."""
    run = calls.begin(name)
    if run is not None:
        rest = iter(answers)
        run.run(next(rest), rest, 3, lambda data: None)
    return run is not None


def test_a_caller_that_joins_gets_its_own_request_id_and_progress_token(store: MemoryStore) -> None:
    """36.2"""
    calls = calls_of(Heartbeat(store))
    assert run_it(calls)
    assert not run_it(calls)
    [first, second] = told(calls)
    assert first == (
        "ab12-1",
        {"jsonrpc": "2.0", "method": PROGRESS.method, "params": {"progressToken": "mine", "progress": 1}},
    )
    assert second == ("ab12-2", {"jsonrpc": "2.0", "id": 7, "result": {}})
    assert [id for id, _ in told(calls, request=Request(7, "tools/call", {}))] == ["ab12-2"]


def test_progress_of_a_call_that_survives_keeps_integers_beyond_64_bits(store: MemoryStore) -> None:
    """Issue 50, item 11."""
    calls, large = calls_of(Heartbeat(store)), 2**70
    assert run_it(calls, answers=(Notification(PROGRESS.method, {**PROGRESS.params, "progress": large}), Result(3, {})))
    request = Request(7, "tools/call", {"_meta": {"progressToken": large}})
    data = [item[1] for item in calls.follow(NAME, request, lambda: True) if isinstance(item, tuple)]
    assert load_json(data[0])["params"] == {"progressToken": large, "progress": large}


def test_a_call_whose_process_is_gone_has_failed_and_does_not_run_again(store: MemoryStore) -> None:
    """36.2: nothing says what the call has done until then."""
    assert calls_of(Killed(store)).begin(NAME) is not None
    others = calls_of(Heartbeat(store))
    assert others.begin(NAME) is None
    for _ in range(2):
        [(_, answer)] = told(others)
        assert (answer["id"], answer["error"]["message"]) == (7, GONE)
    assert others.begin(NAME) is None


def test_a_call_that_a_quota_refused_may_be_sent_again_with_its_id(store: MemoryStore) -> None:
    """36.2"""
    calls = calls_of(Heartbeat(store))
    run = calls.begin(NAME)
    assert run is not None
    calls.refuse(run, Result(3, {"isError": True}))
    assert run_it(calls)
    assert [id for id, _ in told(calls)] == ["ab12-1", "ab12-2"]


def test_a_call_that_ends_without_an_answer_was_cancelled(store: MemoryStore) -> None:
    """36.2"""
    calls = calls_of(Heartbeat(store))
    run_it(calls, answers=(PROGRESS,))
    assert told(calls)[-1][1]["error"]["message"] == CANCELLED


def test_the_answer_is_kept_where_there_is_no_room_for_progress(store: MemoryStore) -> None:
    """36.2: the numbers stay those of all events."""
    calls = calls_of(Heartbeat(store), most=0)
    run_it(calls)
    assert [id for id, _ in told(calls)] == ["ab12-2"]


def test_no_more_calls_run_than_the_setting_allows(store: MemoryStore) -> None:
    """36.2"""
    calls = calls_of(Heartbeat(store), limit=1)
    run = calls.begin(NAME)
    other = CallName("ann", "call/other", "cd34", "call/other/round", "digest", 0, True)
    with pytest.raises(Busy):
        calls.begin(other)
    assert calls.begin(NAME) is None, "to join needs no room"
    assert run is not None
    calls.refuse(run, Result(3, {}))
    assert run_it(calls, other)


def test_an_id_with_other_arguments_is_refused(store: MemoryStore) -> None:
    """36.2"""
    calls = calls_of(Heartbeat(store))
    run_it(calls)
    with pytest.raises(InvalidParams, match="a new UUID for a new call"):
        calls.begin(CallName(NAME.principal, NAME.owner, NAME.id, NAME.topic, "another digest", 0, True))


def test_the_stream_of_a_call_ends_when_the_credentials_of_its_reader_are_revoked(store: MemoryStore) -> None:
    """36.2: the reader hears nothing more, also of what is written already; the call goes on."""
    calls, valid = calls_of(Heartbeat(store)), [True]
    run = calls.begin(NAME)
    assert run is not None
    events = calls.follow(NAME, SAID, lambda: bool(valid))
    waits = next(events)
    assert isinstance(waits, Wait)
    valid.clear()
    store.bus.publish(ACCESS_ENDED)
    waits.mailbox.wait(60)
    run.run(Result(3, {}), iter(()), 3, lambda data: None)
    assert list(events) == []
    assert [id for id, _ in told(calls)] == ["ab12-1"]


def send(hub: Hub, tool: str, headers: dict[str, str], meta: dict[str, Any] | None = None, **arguments: Any) -> Answer:
    return hub.modern("counter", "tools/call", {"name": tool, "arguments": arguments}, meta=meta, headers=headers)


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    files = {"counter.py": COUNTER, "counter.mcp.json": CONFIG}
    opened = team_hub(tmp_path, files, join_repeats="safe")
    yield opened
    opened.close()


def test_another_principal_with_the_same_id_gets_a_call_of_its_own(hub: Hub) -> None:
    """36.2: the id is no key to what another one called."""
    meta = {"io.patchbay/call": str(uuid4())}
    ann, bob = new_key(hub, "ann"), new_key(hub, "bob")
    numbers = [send(hub, "safe", who, meta).text for who in (ann, ann, bob, ann, bob)]
    assert numbers == [numbers[0], numbers[0], numbers[2], numbers[0], numbers[2]]
    assert numbers[0] != numbers[2]


def test_equal_messages_that_follow_each_other_are_two_calls(hub: Hub) -> None:
    """36.2: only a call that still runs is joined by its bytes."""
    ann = new_key(hub, "ann")
    given: list[tuple[str, dict[str, Any]]] = [("safe", {}), ("pay", {"amount": 10})]
    assert len({send(hub, tool, ann, **arguments).text for tool, arguments in given * 2}) == 4


def test_an_equal_message_joins_a_call_that_runs_and_not_one_that_has_ended(store: MemoryStore) -> None:
    """36.2"""
    calls = calls_of(Heartbeat(store))
    name = replace(NAME, lasts=False)
    first = calls.begin(name)
    assert first is not None
    assert calls.begin(name) is None
    first.run(Result(3, {}), iter(()), 3, lambda data: None)
    assert calls.begin(name) is not None


def test_calls_without_an_id_are_never_refused_and_take_no_place_of_those_with_one(tmp_path: Path) -> None:
    most = 3
    files = {"counter.py": COUNTER, "counter.mcp.json": CONFIG}
    settings: dict[str, Any] = {"access": "shared", "isolation": "inline", "store": "sqlite", "call_ids": most}
    with closing(Hub(tmp_path, files, join_repeats="safe", **settings)) as hub:
        ann = new_key(hub, "ann")
        assert len({send(hub, "safe", ann).text for _ in range(most + 3)}) == most + 3
        assert left(hub.catalogue.store, CALLS).entries == 3 * most, "those beyond the limit leave nothing"
        for _ in range(most):
            assert send(hub, "safe", ann, {"io.patchbay/call": str(uuid4())}).text
        refused = send(hub, "safe", ann, {"io.patchbay/call": str(uuid4())})
        assert "send calls without io.patchbay/call" in refused.error["message"]
        assert send(hub, "safe", ann).text


def test_only_calls_that_a_repeat_does_not_harm_are_named_by_their_bytes(hub: Hub, tmp_path: Path) -> None:
    """36.2: not those of a tool without a hint, of a caller without an identity, or with the setting `never`."""
    server = hub.catalogue.find("counter")
    ann, stranger = Principal("ann"), LOCAL

    def named(tool: str, who: Principal, joins: bool) -> bool:
        wire = TransportInfo("counter", {}, who)
        request = Request(1, "tools/call", {"name": tool, "arguments": {}})
        return name_call(request, Caller(REVISIONS[MODERN[-1]], {}, None, wire), server, joins) is not None

    cases = [(tool, who, joins) for tool in ("safe", "pay") for who in (ann, stranger) for joins in (True, False)]
    assert [case for case in cases if named(*case)] == [("safe", ann, True)]


def test_the_result_of_a_call_is_not_read_by_its_id_after_the_tool_was_withdrawn(hub: Hub) -> None:
    """36.2: rights are those of now."""
    meta = {"io.patchbay/call": str(uuid4())}
    ann = new_key(hub, "ann")
    assert "result" in send(hub, "safe", ann, meta).last
    set_grants(hub, {"grants": [{"to": ["*"], "may": ["call"], "on": ["counter.pay"]}]})
    assert "there is no tool" in str(send(hub, "safe", ann, meta).last)
    set_grants(hub, {"grants": []})
    assert send(hub, "safe", ann, meta).status == 404


@pytest.mark.parametrize(
    ("accept", "status"), [("application/json", 401), ("application/json, text/event-stream", 200)]
)
def test_a_revoked_key_does_not_get_the_answer_of_a_call_that_goes_on(
    hub: Hub, tmp_path: Path, accept: str, status: int
) -> None:
    """36.2"""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    headers = {**new_key(hub, "ann"), "Accept": accept}
    meta = {"io.patchbay/call": str(uuid4())}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(send, hub, "hold", headers, meta, gate=str(gate))
        with gate.open("w") as pipe:  # opened when the tool reads it
            hub.app.parts.keys.revoke("ann")
            answer = asked.result(60)
            pipe.write("a secret")
    assert answer.status == status
    assert not [message for message in answer.messages if "result" in message]


def test_a_call_that_does_not_survive_ends_with_the_key_of_its_caller_and_says_why(hub: Hub, tmp_path: Path) -> None:
    """It ended with an empty answer, 202."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    headers = {**new_key(hub, "ann"), "Accept": "application/json"}
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(send, hub, "hold", headers, {}, gate=str(gate))
        with gate.open("w"):  # opened when the tool reads it
            hub.app.parts.keys.revoke("ann")
            answer = asked.result(60)
    assert answer.status == 200 and answer.result["isError"]
    assert answer.text == "the hub ended this call: the credentials of the caller are no longer valid"


def test_a_caller_of_json_is_told_to_ask_again_when_the_hub_stops_before_the_answer(hub: Hub, tmp_path: Path) -> None:
    """36.2: a notification of progress is no answer."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    headers = {**new_key(hub, "ann"), "Accept": "application/json"}
    meta = {"io.patchbay/call": str(uuid4()), "progressToken": 1}
    bus = hub.catalogue.store.bus
    with bus.subscribe([f"{CALLS}*"]) as stored, ThreadPoolExecutor(1) as pool:
        asked = pool.submit(send, hub, "hold", headers, meta, gate=str(gate))
        with gate.open("w") as pipe:  # opened when the tool reads it
            assert stored.get(60) is not None, "the progress is not stored"
            # A message before the caller of the request follows the call would reach no reader.
            until(lambda: bus.publish_here(ENDING) or asked.done(), "the answer")
            answer = asked.result(60)
            pipe.write("enough")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert "send the same request again" in answer.last["error"]["message"]
    assert send(hub, "hold", headers, meta, gate=str(gate)).text == "enough"

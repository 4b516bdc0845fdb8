"""Direct calls of a program: the caller's thread writes the request and reads the answer. Issue 38, item 3."""

from __future__ import annotations

import json
import math
import select
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import repeat
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.programs.direct_calls import FIRST_ID
from patchbay.client.errors import McpFailure, ServerTimeout, Unreachable
from patchbay.events import Log, Pause, Progress, Question
from tests.client.reaching import ENVIRON, held
from tests.waiting import BOUND, until

PUPPET = Path(__file__).with_name("puppet.py")


class Puppet:
    """A program that the test speaks for, and the connection to it."""

    def __init__(self, folder: Path, era: Any = "legacy", **options: Any) -> None:
        path = str(folder / "puppet")
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            target = Stdio(sys.executable, ("-S", str(PUPPET), path, era))
            self.connection = Connection.open(target, environ=ENVIRON, era=era, **options)
            self.link = listener.accept()[0]
        Path(path).unlink()
        self.link.settimeout(BOUND)
        self._received = self.link.makefile("rb")
        self._threads = ThreadPoolExecutor(8)

    def close(self) -> None:
        self.connection.close()
        self._received.close()
        self.link.close()
        self._threads.shutdown()

    def read(self) -> dict[str, Any]:
        """The next message that the program was sent."""
        found: dict[str, Any] = json.loads(self._received.readline())
        return found

    def write(self, *messages: Mapping[str, Any]) -> None:
        """Write messages to the program's standard output, all at once."""
        self.link.sendall(b"".join(json.dumps({"jsonrpc": "2.0", **one}).encode() + b"\n" for one in messages))

    def is_direct(self) -> bool:
        """Whether nothing has to be written before the next call."""
        calls = self.connection._async_connection.direct_calls
        return calls is not None and not calls.unsent

    def start(self, name: str = "echo", seconds: float = math.inf, **arguments: Any) -> Running:
        """The items and the result of a call, before it is sent."""
        params = {"name": name, "arguments": arguments}
        return self.connection.request("tools/call", params, timeout=seconds, manual_input=True, caller=name)

    def call(self, name: str = "echo", **arguments: Any) -> Future[tuple[list[Any], Any]]:
        """Call on another thread; the items before the result, and the result."""
        return self._threads.submit(drain, self.start(name, **arguments))


Running = Any


def drain(running: Running) -> tuple[list[Any], Any]:
    """The items before the result, without answers to questions, and the result."""
    items: list[Any] = []
    while True:
        try:
            items.append(next(running))
        except StopIteration as end:
            return items, end.value


def answer(request: Mapping[str, Any], **result: Any) -> dict[str, Any]:
    return {"id": request["id"], "result": {"content": [], **result}}


def progress(request: Mapping[str, Any], done: int) -> dict[str, Any]:
    token = request["params"]["_meta"]["progressToken"]
    return {"method": "notifications/progress", "params": {"progressToken": token, "progress": done}}


def log(data: Any) -> dict[str, Any]:
    return {"method": "notifications/message", "params": {"level": "info", "data": data}}


Make = Callable[..., Puppet]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes puppets, and ends them."""
    made: list[Puppet] = []

    def new(*given: Any, **options: Any) -> Puppet:
        made.append(Puppet(tmp_path, *given, **options))
        return made[-1]

    yield new
    for one in made:
        one.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_direct_request_has_the_content_of_one_of_the_official_session(make: Make, era: str) -> None:
    puppet = make(era)
    direct = puppet.call(text="ä", nothing=None, large=2**70)
    request = puppet.read()
    assert request["id"] >= FIRST_ID
    puppet.write(answer(request, large=2**70))
    assert direct.result(BOUND) == ([], {"content": [], "large": 2**70})
    with pytest.raises(ServerTimeout):
        drain(puppet.start(seconds=0.01, text="ä", nothing=None, large=2**70))
    official = puppet.read()
    assert official["id"] < FIRST_ID
    for one in (request, official):
        del one["id"], one["params"]["_meta"]["progressToken"]
    assert request == official


def test_answers_in_any_order_reach_their_callers(make: Make) -> None:
    puppet = make()
    for _ in range(20):
        calls = {name: puppet.call(name) for name in "abcde"}
        requests = [puppet.read() for _ in calls]
        puppet.write(*(answer(one, name=one["params"]["name"]) for one in reversed(requests)))
        assert {name: call.result(BOUND)[1]["name"] for name, call in calls.items()} == {name: name for name in calls}


def test_callers_are_served_while_another_one_waits_for_its_answer(make: Make) -> None:
    """The thread that reads gives its turn back with its own answer, and the others still get theirs."""
    puppet = make()
    slow = puppet.call("slow")
    first = puppet.read()
    for _ in range(5):
        quick = puppet.call("quick")
        puppet.write(answer(puppet.read()))
        assert quick.result(BOUND)[1] == {"content": []}
    later = puppet.call("later")
    second = puppet.read()
    puppet.write(answer(first))
    assert slow.result(BOUND)[1] == {"content": []}
    puppet.write(answer(second))
    assert later.result(BOUND)[1] == {"content": []}


def test_an_answer_may_come_in_pieces(make: Make) -> None:
    puppet = make()
    call = puppet.call()
    line = json.dumps({"jsonrpc": "2.0", **answer(puppet.read(), text="ö" * 1_000_000)}, ensure_ascii=False).encode()
    puppet.link.sendall(line[:1])
    puppet.link.sendall(line[1:] + b"\n")
    assert call.result(BOUND)[1]["text"] == "ö" * 1_000_000


def test_every_message_before_the_answer_arrives_before_it(make: Make) -> None:
    puppet = make()
    for number in range(50):
        call = puppet.call()
        request = puppet.read()
        before = [log(number), progress(request, 1), progress(request, 2), log("last")]
        puppet.write(*before, answer(request))
        items, result = call.result(BOUND)
        assert [getattr(one, "data", getattr(one, "progress", None)) for one in items] == [number, 1, 2, "last"]
        assert {type(one) for one in items} == {Log, Progress}
        assert result == {"content": []}


def test_lines_that_are_no_messages_are_skipped(make: Make) -> None:
    puppet = make()
    call = puppet.call()
    request = puppet.read()
    puppet.link.sendall(b'hello\n\n[1]\n{"jsonrpc": "2.0", "id": [], "result": {}}\n\xff\n')
    puppet.write({"id": 12345, "result": {}}, {"id": request["id"], "method": "ping"}, answer(request))
    assert call.result(BOUND)[1] == {"content": []}


def test_an_answer_may_have_its_id_as_a_string(make: Make) -> None:
    puppet = make()
    call = puppet.call()
    puppet.write({"id": str(puppet.read()["id"]), "result": {"content": []}})
    assert call.result(BOUND)[1] == {"content": []}


def test_an_error_is_raised_unchanged(make: Make) -> None:
    puppet = make()
    call = puppet.call()
    puppet.write({"id": puppet.read()["id"], "error": {"code": -32007, "message": "no", "data": [1]}})
    with pytest.raises(McpFailure) as failure:
        call.result(BOUND)
    assert (failure.value.code, failure.value.message, failure.value.data) == (-32007, "no", [1])


def test_a_question_is_answered_by_the_caller_in_the_middle_of_its_call(make: Make) -> None:
    puppet = make(ask=lambda method, params: {})
    running = puppet.start()
    waiting = puppet._threads.submit(next, running)
    request = puppet.read()
    assert request["id"] >= FIRST_ID
    puppet.write({"id": "q", "method": "elicitation/create", "params": {"message": "who?"}})
    assert waiting.result(BOUND) == Question("elicitation/create", {"message": "who?"})
    waiting = puppet._threads.submit(running.send, {"action": "accept", "content": {}})
    assert puppet.read() == {"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "content": {}}}
    puppet.write(answer(request))
    with pytest.raises(StopIteration):
        waiting.result(BOUND)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_program_hears_that_a_caller_has_left_before_any_later_request(make: Make, era: str) -> None:
    """A simple program takes the next line as the answer to its question."""
    puppet = make(era, ask=lambda method, params: {})
    for _ in range(10):
        running = puppet.start()
        waiting = puppet._threads.submit(next, running)
        request = puppet.read()
        if era == "legacy":
            puppet.write({"id": "q", "method": "elicitation/create", "params": {"message": "who?"}})
        else:
            puppet.write(progress(request, 1))
        waiting.result(BOUND)
        running.close()
        call = puppet.call()
        heard = [puppet.read() for _ in range(2 if era == "legacy" else 1)]
        cancelled = [one for one in heard if one.get("method") == "notifications/cancelled"]
        assert [one["params"]["requestId"] for one in cancelled] == [request["id"]]
        assert [one["id"] for one in heard if "id" in one] == (["q"] if era == "legacy" else [])
        puppet.write(answer(request), answer(puppet.read()))
        assert call.result(BOUND)[1] == {"content": []}
        until(puppet.is_direct, "calls are direct again")


def test_a_silent_program_gives_pauses(make: Make) -> None:
    puppet = make()
    running = puppet.connection.request("tools/call", {"name": "echo"}, timeout=math.inf, pauses=repeat(0.01))
    assert isinstance(next(running), Pause)
    assert isinstance(next(running), Pause)
    puppet.write(answer(puppet.read()))
    assert drain(running)[1] == {"content": []}


def test_all_callers_hear_that_the_program_has_ended(make: Make) -> None:
    puppet = make()
    calls = [puppet.call() for _ in range(4)]
    for _ in calls:
        puppet.read()
    puppet.link.shutdown(socket.SHUT_RDWR)
    for call in calls:
        with pytest.raises(Unreachable, match="it ended with exit code 7"):
            call.result(BOUND)
    with pytest.raises(Unreachable):
        drain(puppet.start())


def test_all_callers_hear_that_the_connection_was_closed(make: Make) -> None:
    puppet = make()
    calls = [puppet.call() for _ in range(4)]
    for _ in calls:
        puppet.read()
    puppet.connection.close()
    for call in calls:
        with pytest.raises(Unreachable, match="onnection"):
            call.result(BOUND)


def test_a_line_that_is_too_long_ends_the_connection(make: Make) -> None:
    puppet = make(limit=100_000)
    call = puppet.call()
    puppet.read()
    puppet.link.sendall(b"x" * 300_000)
    with pytest.raises(Unreachable, match="a line of more than 100000 bytes"):
        call.result(BOUND)


def test_requests_that_a_program_does_not_read_wait_and_stay_whole(make: Make) -> None:
    """More than the pipe and the puppet's socket take: the rest is written when the program reads again."""
    puppet = make()
    calls = [puppet.call(text=str(number) * 3_000_000) for number in range(4)]
    for _ in calls:
        request = puppet.read()
        puppet.write(answer(request, first=request["params"]["arguments"]["text"][0]))
    assert [call.result(BOUND)[1]["first"] for call in calls] == ["0", "1", "2", "3"]
    last = puppet.call()
    request = puppet.read()
    assert request["id"] >= FIRST_ID
    puppet.write(answer(request))
    assert last.result(BOUND)[1] == {"content": []}


def test_messages_between_calls_are_read_too(make: Make) -> None:
    heard: list[str] = []
    puppet = make(listener=lambda method, params: heard.append(method))
    for number in range(1, 4):
        call = puppet.call()
        puppet.write(answer(puppet.read()))
        call.result(BOUND)
        puppet.write({"method": "notifications/tools/list_changed"})
        until(lambda count=number: len(heard) == count, "the listener has heard it")  # type: ignore[misc]
    puppet.link.shutdown(socket.SHUT_RDWR)
    until(lambda: puppet.connection.closed, "the end of the program is known")


def test_without_epoll_the_event_loop_reads(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on macOS."""
    monkeypatch.delattr(select, "epoll")
    puppet = make()
    for number in range(3):
        call = puppet.call()
        request = puppet.read()
        assert request["id"] < FIRST_ID
        puppet.write(log(number), answer(request))
        items, result = call.result(BOUND)
        assert [one.data for one in items] == [number]
        assert result == {"content": []}


@pytest.mark.parametrize("way", ["answered", "abandoned", "lost", "closed"])
def test_direct_calls_leave_nothing_behind(tmp_path: Path, way: str) -> None:
    """JN-1: no process, descriptor or thread is left."""
    Puppet(tmp_path).close()
    before = held()
    for _ in range(3):
        puppet = Puppet(tmp_path)
        running = puppet.connection.request("tools/call", {"name": "echo"}, timeout=math.inf, pauses=repeat(0.01))
        assert isinstance(next(running), Pause)
        if way == "answered":
            puppet.write(answer(puppet.read()))
            drain(running)
        elif way == "abandoned":
            running.close()
        elif way == "lost":
            puppet.link.shutdown(socket.SHUT_RDWR)
        puppet.close()
        if way in ("lost", "closed"):
            with pytest.raises(Unreachable):
                drain(running)
    until(lambda: _is_within(held(), before), "everything is as before")


def _is_within(now: tuple[set[int], int, int], before: tuple[set[int], int, int]) -> bool:
    return now[0] <= before[0] and now[1] <= before[1] and now[2] <= before[2]


def test_a_question_that_comes_with_the_answer_of_its_request_is_put_first(make: Callable[..., Puppet]) -> None:
    """Issue 50, item 4: the answer ended the request before its question was put, so that no caller could answer."""
    puppet = make("legacy", questions={"list_roots"})
    for _ in range(20):
        running = puppet.call("ask")
        request = puppet.read()
        puppet.write({"id": "q", "method": "roots/list"}, answer(request))
        items, _ = running.result(BOUND)
        assert [item for item in items if isinstance(item, Question)] == [Question("roots/list", {})]
        assert puppet.read()["id"] == "q"

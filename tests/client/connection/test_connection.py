"""Connections to real servers: this hub, the official SDKs' servers; both eras, every way in."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

from patchbay.client.addresses.targets import Era, Http, Local, Stdio, Target
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.message_streams import MessageRouter
from patchbay.client.connection.pool import ConnectionPool
from patchbay.client.connection.server_requests import MAX_OPEN_SERVER_REQUESTS
from patchbay.client.errors import McpFailure, ServerTimeout, Unreachable
from patchbay.errors import InvalidParams
from patchbay.events import Log, Pause, Progress, Question
from patchbay.messages.callers import TransportInfo
from tests import hubs
from tests.checkout import ROOT
from tests.client.reaching import ENVIRON, descendants, opened, scripted, text
from tests.interaction.programs import Hub, free_port, running, running_hub
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

Json = dict[str, Any]
FIELDS = {"name": "Ada", "color": "blue", "ok": True, "username": "ada", "email": "ada@example.org"}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """The hub as users start it."""
    with running_hub(tmp_path_factory.mktemp("hub") / "run") as hub:
        yield hub


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[hubs.Hub]:
    """A hub in this process."""
    hub = hubs.Hub(tmp_path_factory.mktemp("own"), enable=("everything",))
    yield hub
    hub.close()


def piped(folder: Path, server: str = "everything") -> Stdio:
    """A server of a hub that is started for one client."""
    arguments: tuple[str, ...] = (
        "-m",
        "patchbay",
        "stdio",
        server,
        "--data",
        str(folder / "data"),
        "--servers",
        str(folder),
    )
    arguments += ("--enable", "everything")
    return Stdio(sys.executable, arguments, {"PYTHONPATH": str(ROOT)})


def ask(method: str, params: Mapping[str, Any]) -> Json:
    """What a person and their model answer."""
    if method == "elicitation/create":
        return {"action": "accept", "content": {name: FIELDS[name] for name in params["requestedSchema"]["properties"]}}
    if method == "sampling/createMessage":
        said = {"type": "text", "text": "Paris"}
        return {"role": "assistant", "content": said, "model": "none", "stopReason": "endTurn"}
    assert method == "roots/list"
    return {"roots": [{"uri": "file:///home", "name": "home"}]}


WAYS = ["http", "sse", "stdio", "local"]
ERAS: list[Era] = ["auto", "modern", "legacy"]
BOTH = [(way, era) for way in WAYS for era in ERAS if (way, era) != ("sse", "modern")]


@pytest.fixture(scope="module", params=BOTH, ids="-".join)
def reached(
    request: pytest.FixtureRequest, hub: Hub, own: hubs.Hub, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Connection]:
    """A connection to `everything`, in every way and era."""
    way, era = request.param
    exchange = own.app.parts.dispatcher.exchange(TransportInfo("everything", connection="tests"))
    reaches: dict[str, Target] = {
        "http": Http(hub.endpoint("everything")),
        "sse": Http(f"{hub.endpoint('everything')}/sse"),
        "stdio": piped(tmp_path_factory.mktemp("piped")),
        "local": Local("everything"),
    }
    if way == "local" and era == "legacy":
        era = "modern"  # a session in this process is the pipe's affair
    with Connection.open(
        reaches[way], era=era, environ=ENVIRON, exchange=exchange, ask=ask, start_timeout=30, timeout=30
    ) as connection:
        assert connection.modern == (era != "legacy" and way != "sse")
        yield connection


def test_everything_that_a_server_offers_can_be_used(reached: Connection) -> None:
    """JN-2, JN-3, JN-4, JN-70: tools, resources and prompts, live, over every transport."""
    assert reached.info["name"] == "everything"
    assert {"test_simple_text", "test_sampling"} <= {tool["name"] for tool in reached.list_tools()}
    assert text(reached.call_tool("test_simple_text")) == "This is a simple text response for testing."
    assert reached.call_tool("test_error_handling")["isError"] is True
    assert "test://static-text" in {resource["uri"] for resource in reached.list_resources()}
    assert reached.list_resource_templates()
    read = reached.read_resource("test://static-text")["contents"]
    assert read[0]["text"] == "This is the content of the static text resource."
    assert "test_simple_prompt" in {prompt["name"] for prompt in reached.list_prompts()}
    given = {"arg1": "a", "arg2": "b"}
    assert "arg1='a'" in str(reached.get_prompt("test_prompt_with_arguments", given)["messages"])
    ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    assert "paris" in reached.complete(ref, "arg1", "par")["completion"]["values"]


def test_a_server_asks_reports_and_logs_while_it_works(reached: Connection) -> None:
    heard: list[Any] = []
    reached.call_tool("test_tool_with_progress", on_event=heard.append)
    assert [item.progress for item in heard if isinstance(item, Progress)] == [0, 50, 100]
    assert "accept" in text(reached.call_tool("test_elicitation", {"message": "who?"}))
    assert "Paris" in text(reached.call_tool("test_sampling", {"prompt": "capital?"}))


def test_a_question_is_answered_through_the_generator(reached: Connection) -> None:
    running = reached.request("tools/call", {"name": "test_elicitation", "arguments": {"message": "who?"}})
    item = next(running)
    while not isinstance(item, Question):
        item = next(running)
    assert item.method == "elicitation/create"
    assert item.params["message"] == "who?"
    with pytest.raises(StopIteration) as end:
        running.send({"action": "decline"})
    assert "decline" in text(end.value.value)


def test_failures_of_the_protocol_are_raised(reached: Connection) -> None:
    with pytest.raises(McpFailure) as failure:
        reached.request("no/such/method").send(None)
    assert failure.value.code == -32601


def test_a_request_that_takes_too_long_is_cancelled(reached: Connection) -> None:
    with pytest.raises(ServerTimeout, match=r"did not answer tools/call within 0\.3 s"):
        reached.call_tool("slow_compute", {"seconds": 20, "label": "x"}, timeout=0.3)
    assert text(reached.call_tool("test_simple_text"))


def test_pauses_report_silence_on_request(reached: Connection) -> None:
    params = {"name": "slow_compute", "arguments": {"seconds": 20, "label": "x"}}
    running = reached.request("tools/call", params, pauses=iter([0.01, 0.01]), timeout=math.inf)
    while not isinstance(next(running), Pause):
        pass
    running.close()


@pytest.mark.parametrize("era", ["modern", "legacy"])
def test_changes_are_delivered_to_the_listener(hub: Hub, era: Era) -> None:
    heard: list[str] = []
    told = threading.Event()

    def listener(method: str, params: Mapping[str, Any]) -> None:
        heard.append(method)
        told.set()

    with (
        Connection.open(Http(hub.endpoint("everything")), era=era, listener=listener) as connection,
        connection.listen(["tools"]) as listening,
    ):
        # In older revisions nothing says when the stream of the session is open, and a change before that is not told.
        until(lambda: connection.call_tool("test_trigger_tool_change") and told.wait(1), "the listener to be told")
        assert not listening.done()
    assert "notifications/tools/list_changed" in heard
    until(listening.done, "the listening to end")


@pytest.mark.parametrize("era", ERAS)
def test_the_official_python_server_is_used(era: Era, tmp_path: Path) -> None:
    """JN-6, JN-70: a server of another project, in both eras."""
    port = free_port()
    command = [sys.executable, str(ROOT / "tests/interaction/sdk_server.py"), str(port)]
    url = f"http://127.0.0.1:{port}/mcp"
    with (
        running(command, url, tmp_path, statuses={200, 400, 406}, ends={0, -15}),
        Connection.open(Http(url), era=era) as connection,
    ):
        assert connection.modern == (era != "legacy")
        assert "greet" in {tool["name"] for tool in connection.list_tools()}
        assert text(connection.call_tool("greet", {"name": "Ada"})) == "Hello, Ada!"
        assert connection.read_resource("test://static-text")["contents"]
        assert len(connection.list_prompts()) == 2


def test_a_refused_subscription_is_raised() -> None:
    with opened() as connection, pytest.raises(McpFailure), connection.listen(uris=["x://y"]):
        pass


def test_a_local_server_needs_a_hub() -> None:
    with pytest.raises(Unreachable, match="this process runs no hub"):
        Connection.open(Local("echo"))


def test_one_connection_serves_all_records_of_a_batch() -> None:
    """JN-5: one connection is reused, also by many at a time."""
    before = descendants()
    with ConnectionPool(environ=ENVIRON, era="legacy") as connections:
        found: list[str] = []
        work = [
            threading.Thread(
                target=lambda n=n: found.append(text(connections.get(scripted()).call_tool("echo", {"n": n})))
            )
            for n in range(20)
        ]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join(30)
        assert sorted(found) == sorted(f'{{"n": {n}}}' for n in range(20))
        assert len(descendants() - before) == 2
        with pytest.raises(Unreachable):
            connections.get(scripted()).call_tool("vanish")
        assert text(connections.get(scripted()).call_tool("echo")) == "{}"
    assert descendants() <= before
    with pytest.raises(RuntimeError):
        connections.get(scripted())


@pytest.mark.parametrize(
    ("behaviour", "names", "sentence"),
    [
        ("circle", ["echo"], "not read after 1 entries: its pages never end: the cursor '0' came twice"),
        (
            "same",
            ["echo", "progress"],
            "not read after 2 entries: its pages never end: the one before the cursor '2' has",
        ),
        ("number", ["echo"], "not read after 1 entries: its next cursor is not a string (7)"),
        ("gone", ["echo-0"], "not read after 1 entries: the answer to tools/list has no list 'tools'; expected one"),
        ("nameless", ["echo"], "2 of its tools left out: expected objects with a name that is a string"),
        ("empty-cursor", ["echo"], None),
    ],
)
def test_a_list_without_a_proper_end_is_kept_as_far_as_it_was_read(
    behaviour: str, names: list[str], sentence: str | None
) -> None:
    """X-15, 33.6, 33.10: the list says what was wrong with it."""
    with opened(behaviour) as connection:
        assert [one["name"] for one in connection.list_tools()] == names
        found = connection.list_problems.get("tools/list", ())
        assert len(found) == (sentence is not None)
        assert sentence is None or found[0].startswith(sentence)


def test_pages_that_never_end_are_read_up_to_a_limit() -> None:
    """X-15: a hostile server cannot keep a client busy without end."""
    with opened("endless") as connection:
        assert len(connection.list_tools()) == 1000
        assert "tools/list has more than 1000 pages" in connection.list_problems["tools/list"][0]


def test_undelivered_notifications_are_bounded() -> None:
    """X-15: new progress replaces old progress; of other items, those beyond the limit are dropped and counted."""
    with opened() as connection:
        running = connection.request("tools/call", {"name": "progress", "arguments": {"times": 5000}})
        first = next(running)
        assert isinstance(first, Progress)
        connection.request("tools/call", {"name": "echo"}).close()
        rest = list(running)
        assert len(rest) <= 5000
        assert rest[-1] == Progress(4999, 5000)


def test_delivered_items_are_complete_and_in_order() -> None:
    with opened() as connection:
        running = connection.request("tools/call", {"name": "flood", "arguments": {"times": 3000}})
        assert [item.data for item in running if isinstance(item, Log)] == list(range(3000))


def test_the_server_is_notified_of_a_cancelled_call() -> None:
    heard = threading.Event()
    said: list[Any] = []

    def listener(method: str, params: Mapping[str, Any]) -> None:
        said.append(params["data"])
        heard.set()

    with opened(listener=listener) as connection:
        running = connection.request("tools/call", {"name": "hang"})
        assert next(running) == Log("info", "hang began")
        running.close()
        assert heard.wait(BOUND)
    assert said == [{"heard": "notifications/cancelled", "same": True}]


def test_the_client_declares_the_questions_that_it_answers() -> None:
    with opened() as silent, opened(ask=ask) as talking, opened(questions=["sampling"]) as model:
        assert silent.info["title"] == "{}"
        assert '"elicitation"' in talking.info["title"]
        assert '"roots"' in talking.info["title"]
        assert model.info["title"] == '{"sampling": {}}'


def test_an_unanswered_question_is_refused() -> None:
    with opened() as connection:
        refused = text(connection.call_tool("ask"))
    assert "this client does not answer elicitation/create" in refused


def test_the_time_of_an_open_question_does_not_count() -> None:
    with opened() as connection:
        running = connection.request("tools/call", {"name": "ask"}, timeout=0.5)
        item = next(running)
        assert isinstance(item, Question)
        assert not threading.Event().wait(0.7)
        with pytest.raises(StopIteration):
            running.send({"action": "cancel"})


def test_a_closed_connection_refuses_at_once() -> None:
    connection = opened()
    connection.close()
    connection.close()
    with pytest.raises(Unreachable):
        connection.call_tool("echo")


def test_a_list_that_the_server_lacks_is_empty() -> None:
    """JN-4: a server without prompts has none; one that declares resources and refuses to list them fails."""
    with opened() as connection:
        assert connection.list_prompts() == []
        with pytest.raises(McpFailure):
            connection.list_resources()


@pytest.mark.parametrize("value", [float("nan"), "\ud800", object()], ids=["nan", "surrogate", "object"])
def test_params_that_are_not_json_disturb_no_other_request(value: Any) -> None:
    with opened() as connection:
        with pytest.raises(InvalidParams, match="the parameters of tools/call cannot be sent as JSON"):
            connection.call_tool("echo", {"x": value})
        assert text(connection.call_tool("echo")) == "{}"


def test_a_question_whose_caller_has_left_is_refused() -> None:
    """A question of an abandoned request is refused, so that it does not stay open."""
    with opened(ask=lambda method, params: {}) as connection:
        running = connection.request("tools/call", {"name": "ask", "arguments": {}})
        assert isinstance(next(running), Question)
        running.close()
        until(lambda: not connection._async_connection.router.questions.count, "the question to be refused")


@pytest.mark.parametrize("method", ["ping", "elicitation/create"])
def test_the_open_requests_of_a_server_are_limited(method: str) -> None:
    """DESIGN 6: every queue has a bound. Requests beyond it are dropped; the server can ask again later."""
    owed: list[tuple[Any, ...]] = []

    async def asked(traffic: MessageRouter, count: int) -> None:
        to, answers = anyio.create_memory_object_stream[SessionMessage](1)
        async with to, answers:
            for number in range(count):
                await traffic.route(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method=method)), None, to)
            work, *given = owed[0]
            await work(*given)
            await traffic.route(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=count, method=method)), None, to)

    anyio.run(asked, MessageRouter(lambda *_: None, None, lambda *given: owed.append(given)), 1000)
    assert len(owed) == MAX_OPEN_SERVER_REQUESTS + 1

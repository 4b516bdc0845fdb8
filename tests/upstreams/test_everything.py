"""The official TypeScript server-everything behind a mount, over HTTP and a pipe, for callers of all revisions."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.events import Progress
from tests.client.reaching import text
from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import Hub, free_port, running, running_hub
from tests.serving.running import ONE_WORKER, workers_of
from tests.waiting import until

EVERYTHING = PACKAGES / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
RESOURCE = "demo://resource/dynamic/text/7"

pytestmark = [
    pytest.mark.process,
    pytest.mark.node,
    pytest.mark.parametrize("era", ["legacy", "modern"]),
    pytest.mark.parametrize("name", ["web", "piped"]),
]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub that mounts it twice."""
    folder, port = tmp_path_factory.mktemp("everything"), free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    mounts = {"web": url, "piped": f"mcp+stdio:{shlex.join([str(NODE), str(EVERYTHING), 'stdio'])}"}
    for name, address in mounts.items():
        (folder / f"{name}.json").write_text(json.dumps({"kind": "upstream", "address": address}), "utf-8")
    (folder / "server").mkdir()
    command = ["env", f"PORT={port}", str(NODE), str(EVERYTHING), "streamableHttp"]
    files = [folder / f"{name}.json" for name in mounts]
    with (
        running(command, url, folder / "server", range(200, 500), (0, -15)),
        running_hub(folder / "hub", files) as hub,
    ):
        wait_for_tools(hub)
        yield hub


@pytest.fixture(scope="module")
def lone_worker(hub: Hub, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub with the same mounts and one worker: each worker has a session of its own with a mounted server."""
    if len(workers_of(hub.pid)) == 1:
        yield hub
        return
    files = [hub.servers / f"{name}.json" for name in ("web", "piped")]
    with running_hub(tmp_path_factory.mktemp("lone") / "hub", files, options=ONE_WORKER) as lone:
        wait_for_tools(lone)
        yield lone


def wait_for_tools(hub: Hub) -> None:
    for name in ("web", "piped"):
        with opened(hub, name, "modern") as caller:
            until(caller.list_tools, f"the tools of {name}")


def answer_as_ada(method: str, _: Any) -> Any:
    """Answer the question of a server: Ada, and no roots."""
    return {"roots": []} if method == "roots/list" else {"action": "accept", "content": {"name": "Ada"}}


def opened(hub: Hub, name: str, era: Any, **options: Any) -> Connection:
    return Connection.open(Http(hub.endpoint(name)), era=era, **options)


def test_tools_resources_prompts_and_completions_pass_through(hub: Hub, name: str, era: str) -> None:
    with opened(hub, name, era) as caller:
        assert text(caller.call_tool("echo", {"message": "Ada"})) == "Echo: Ada"
        weather = caller.call_tool("get-structured-content", {"location": "Chicago"})
        assert json.loads(text(weather)) == weather["structuredContent"]
        assert {block["type"] for block in caller.call_tool("get-tiny-image")["content"]} == {"text", "image"}
        assert caller.call_tool("get-sum", {"a": "no", "b": 1})["isError"] is True
        listed = caller.list_resources()
        assert caller.read_resource(listed[0]["uri"])["contents"][0]["text"]
        assert "resource 7" in caller.read_resource(RESOURCE)["contents"][0]["text"].lower()
        assert any(
            one["uriTemplate"].startswith("demo://resource/dynamic/text") for one in caller.list_resource_templates()
        )
        asked = caller.get_prompt("args-prompt", {"city": "Turin"})["messages"][0]["content"]["text"]
        assert asked == "What's weather in Turin?"
        reference = {"type": "ref/prompt", "name": "completable-prompt"}
        assert caller.complete(reference, "department", "E")["completion"]["values"] == ["Engineering"]


def test_all_tools_are_listed_also_for_a_caller_that_answers_no_question(hub: Hub, name: str, era: str) -> None:
    """Issue 17, part 7: seven of the nineteen exist only for clients that declare questions, two of them tasks."""
    for options in ({}, {"ask": lambda *_: {"action": "decline"}}):
        with opened(hub, name, era, **options) as caller:
            assert len(caller.list_tools()) == 19


def test_a_question_that_is_asked_as_a_task_passes_through(hub: Hub, name: str, era: str) -> None:
    with opened(hub, name, era, ask=answer_as_ada) as caller:
        answer = text(caller.call_tool("trigger-elicitation-request-async"))
    assert "[COMPLETED]" in answer and "Task created" in answer and "Ada" in answer


def test_the_roots_of_a_session_are_asked_for_once_for_all_mounts(hub: Hub, name: str, era: Any) -> None:
    """Issue 17, part 7. A client of 2026-07-28 without an identity is asked by each mount.

    Each worker remembers the roots for itself: it asks once.
    """
    workers = len(workers_of(hub.pid))
    for folder in ("ada", "ben"):
        asked: list[str] = []

        def answer(method: str, _: Any, asked: list[str] = asked, folder: str = folder) -> Any:
            asked.append(method)
            return {"roots": [{"uri": f"file:///home/{folder}"}]}

        with Connection.open(Http(f"{hub.url}/mcp"), era=era, ask=answer) as caller:
            for mount in (name, "web", "piped"):
                given = text(caller.call_tool(f"{mount}.get-roots-list"))
                # A client without a session may get the connection of the last one, whose roots the server still has.
                assert era == "modern" or f"file:///home/{folder}\n" in given
        assert era == "modern" or (set(asked) == {"roots/list"} and len(asked) <= workers)


def test_progress_passes_through(hub: Hub, name: str, era: str) -> None:
    heard: list[Any] = []
    arguments = {"duration": 0.3, "steps": 3}
    with opened(hub, name, era) as caller:
        answer = caller.call_tool("trigger-long-running-operation", arguments, on_event=heard.append)
    assert "completed" in text(answer)
    assert [(one.progress, one.total) for one in heard if isinstance(one, Progress)] == [(1, 3), (2, 3), (3, 3)]


def test_a_question_passes_through(hub: Hub, name: str, era: str) -> None:
    answers = {"roots/list": {"roots": []}, "elicitation/create": {"action": "accept", "content": {"name": "Ada"}}}
    with opened(hub, name, era, ask=lambda method, _: answers[method]) as caller:
        assert "Ada" in text(caller.call_tool("trigger-elicitation-request"))


def test_updates_of_a_resource_pass_through(lone_worker: Hub, name: str, era: str) -> None:
    """The mount subscribes at the server, and announces updates to its own subscribers.

    One worker: the tool of this server sends updates only to the session that called it.
    """
    heard: list[Any] = []

    def listener(method: str, params: Any) -> None:
        heard.append((method, params.get("uri")))

    with opened(lone_worker, name, era, listener=listener) as caller, caller.listen(uris=[RESOURCE]):
        # The tool alternates between sending updates, now and every few seconds, and not sending them.
        caller.call_tool("toggle-subscriber-updates")
        try:
            until(lambda: ("notifications/resources/updated", RESOURCE) in heard, "the update")
        finally:
            caller.call_tool("toggle-subscriber-updates")

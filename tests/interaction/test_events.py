"""Events with the clients of others: @ai-sdk/mcp, and the official Python and TypeScript clients."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fastmcp
import mcp
import mcp_types
import pytest

from tests.interaction.peers import MODERN, NODE, PACKAGES
from tests.interaction.programs import Hub, plain_environment, running_hub
from tests.protocol.events.test_emitting import EVENT, SOURCE
from tests.protocol.webhooks.receiver import HOST, SECRET, Receiver, receiving
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.process, pytest.mark.node]

SCRIPT = Path(__file__).with_name("events.mjs")


@pytest.fixture(scope="module")
def receiver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Receiver, Path]]:
    with receiving(tmp_path_factory.mktemp("receiver")) as found:
        yield found


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory, receiver: tuple[Receiver, Path]) -> Iterator[Hub]:
    """A hub with the definition, and another one that mounts it as `far`."""
    folder = tmp_path_factory.mktemp("events")
    (folder / "desk.py").write_text(SOURCE)
    environment = plain_environment(folder) | {"SSL_CERT_FILE": str(receiver[1])}
    with running_hub(folder / "near", [folder / "desk.py"], enable="") as near:
        mount = {"kind": "upstream", "address": f"{near.url}/mcp/desk"}
        (folder / "far.json").write_text(json.dumps(mount))
        with running_hub(
            folder / "hub",
            [folder / "desk.py", folder / "far.json"],
            options=["--webhook-hosts", HOST],
            enable="",
            environment=environment,
        ) as hub:
            yield hub


def ai_sdk(url: str, event: str, callback: str = "", **variables: str) -> Any:
    """Run the client of @ai-sdk/mcp; return what it found."""
    command = [str(NODE), str(SCRIPT), str(PACKAGES), url, event, callback]
    environment = {"PATH": os.environ["PATH"], "EVENT_SECRET": SECRET, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def call(url: str, title: str) -> None:
    async with mcp.Client(url, mode=MODERN, read_timeout_seconds=BOUND) as client:
        assert not (await client.call_tool("report", {"title": title})).is_error


class AnyRequest(mcp_types.Request[dict[str, Any], str]):
    """A request of an extension that the SDK does not know."""


class AnyResult(mcp_types.Result, extra="allow"):
    """Its result, with all members."""


async def ask(session: Any, method: str, **params: Any) -> dict[str, Any]:
    answer = await session.send_request(AnyRequest(method=method, params=params), AnyResult)
    return dict(answer.model_dump(by_alias=True))


async def list_and_poll(session: Any, url: str, name: str, title: str) -> list[str]:
    """List the event types, emit one event, and return the titles that a poll gives."""
    assert name in [one["name"] for one in (await ask(session, "events/list"))["events"]]
    begin = await ask(session, "events/poll", name=name, cursor=None)
    await call(url, title)
    found = await ask(session, "events/poll", name=name, cursor=begin["cursor"], arguments={"title": title})
    assert found["truncated"] is False and {one["name"] for one in found["events"]} == {name}
    return [one["data"]["title"] for one in found["events"]]


WAYS = [("/mcp/desk", EVENT, "desk"), ("/mcp", f"desk__{EVENT}", "desk"), ("/mcp/far", EVENT, "far")]


@pytest.mark.parametrize(("path", "name", "server"), WAYS, ids=["directly", "joined", "mounted"])
def test_the_client_of_the_ai_sdk_lists_subscribes_refreshes_and_gets_events(
    hub: Hub, receiver: tuple[Receiver, Path], path: str, name: str, server: str
) -> None:
    """37.1"""
    endpoint, _ = receiver
    until(lambda: name in ai_sdk(f"{hub.url}{path}", name)["listed"], "the event type")
    found = ai_sdk(f"{hub.url}{path}", name, f"{endpoint.url}/{server}{len(path)}")
    assert found["refreshed"] is True
    title = f"by {path}"
    asyncio.run(call(f"{hub.url}/mcp/{server}", title))
    wanted = (name, title)
    until(lambda: wanted in [(one["name"], one["data"]["title"]) for one in endpoint.events], "the delivery")
    assert endpoint.wrong_signatures == 0


@pytest.mark.parametrize(("path", "name", "server"), WAYS, ids=["directly", "joined", "mounted"])
def test_the_official_client_and_that_of_fastmcp_list_and_poll(hub: Hub, path: str, name: str, server: str) -> None:
    """37.1"""

    async def both() -> None:
        url = f"{hub.url}/mcp/{server}"
        async with mcp.Client(f"{hub.url}{path}", mode=MODERN, read_timeout_seconds=BOUND) as client:
            assert await list_and_poll(client.session, url, name, f"official {path}") == [f"official {path}"]
        async with fastmcp.Client(f"{hub.url}{path}") as fast:
            assert await list_and_poll(fast.session, url, name, f"fast {path}") == [f"fast {path}"]

    until(lambda: name in ai_sdk(f"{hub.url}{path}", name)["listed"], "the event type")
    asyncio.run(both())

"""Answers above 1 MiB reach the official client, streamed or not, in both eras, from a hub and through a mount."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

import httpx2
import mcp
import pytest
from mcp.types import TextResourceContents

from tests.hubs import BOTH, modern_request, sse_messages
from tests.interaction.mounts import until_tools_are_listed
from tests.interaction.peers import MODERN
from tests.interaction.programs import running_hub
from tests.waiting import BOUND, until

pytestmark = [pytest.mark.process]

T = TypeVar("T")
BIG = '''
"""Answers of two million characters and more."""

import base64
import time
from pathlib import Path

GO = Path("{go}")


def promised(context, count: int) -> dict[str, list[str]]:
    """Lines, as the output schema says."""
    context.progress(1, 2, "at work")
    return {"lines": ["x" * 100] * count}


def quick(count: int) -> dict[str, list[str]]:
    """Lines, as the output schema says, without a word on the way."""
    return {"lines": ["x" * 100] * count}


def slow(count: int) -> dict[str, list[str]]:
    """Lines, as the output schema says, once the file is there."""
    _wait()
    return {"lines": ["x" * 100] * count}


def unpromised(context, count: int):
    """Lines that no schema tells of."""
    context.progress(1, 2, "at work")
    return ["x" * 100] * count


def picture(context):
    """A large image."""
    context.progress(1, 2, "at work")
    data = base64.b64encode(b"\\xffpicture" * 250_000).decode()
    return {"type": "image", "mimeType": "image/png", "data": data}


def talk(context):
    """A long message on the way, and many middling texts."""
    context.progress(1, 2, "m" * 2_000_000)
    for _ in range(30):
        yield {"type": "text", "text": "t" * 100_000}


def page(context):
    """The text of a resource, once the file is there."""
    _wait()
    return "r" * 2_000_000


def _wait():
    while not GO.exists():
        time.sleep(0.02)
'''
PAGE = {"uri": "big://page", "name": "page", "mimeType": "text/plain", "function": "page"}


def mount(address: str, era: str) -> str:
    return json.dumps({"kind": "upstream", "address": address, "era": era})


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The endpoints of the server itself, and of a hub that mounts it in the one era and in the other."""
    folder = tmp_path_factory.mktemp("large")
    (folder / "big.py").write_text(BIG.replace("{go}", str(folder / "go")))
    (folder / "big.mcp.json").write_text(json.dumps({"resources": {"page": PAGE}}))
    with running_hub(folder / "behind", [folder / "big.py", folder / "big.mcp.json"]) as behind:
        for era in ("legacy", "modern"):
            (folder / f"{era}.json").write_text(mount(behind.endpoint("big"), era))
        with running_hub(folder / "front", [folder / "legacy.json", folder / "modern.json"]) as front:
            for era in ("legacy", "modern"):
                until_tools_are_listed(front.endpoint(era))
            yield {
                "go": str(folder / "go"),
                "itself": behind.endpoint("big"),
                "legacy mount": front.endpoint("legacy"),
                "modern mount": front.endpoint("modern"),
            }


@pytest.fixture(params=["itself", "legacy mount", "modern mount"])
def address(addresses: dict[str, str], request: pytest.FixtureRequest) -> str:
    return addresses[request.param]


@pytest.fixture(params=["legacy", MODERN])
def ask(address: str, request: pytest.FixtureRequest) -> Callable[[Callable[[mcp.Client], Awaitable[Any]]], Any]:
    """Asks the server by the official SDK in one era."""

    def ask(question: Callable[[mcp.Client], Awaitable[T]]) -> T:
        async def conversation() -> T:
            async with mcp.Client(address, mode=request.param, read_timeout_seconds=BOUND) as client:
                return await question(client)

        return asyncio.run(conversation())

    return ask


async def progress_handler(progress: float, total: float | None, message: str | None) -> None:
    """Take a note of progress: asking for it makes the answer a stream."""


async def linked(client: mcp.Client, content: Any) -> list[Any]:
    """What the links in a result lead to."""
    links = [block.uri for block in content if block.type == "resource_link"]
    return [(await client.read_resource(uri)).contents[0] for uri in links]


Ask = Callable[[Callable[[mcp.Client], Awaitable[Any]]], Any]


async def after_a_pause(address: str, go: Path, waiting: Coroutine[Any, Any, T]) -> T:
    """Return what comes of a request to a tool that waits, and ends after the hub has sent nothing for a while.

    A call begun after it, whose answer is a stream, shows that: its stream has a comment then.
    """
    go.unlink(missing_ok=True)
    task = asyncio.ensure_future(waiting)
    message, headers = modern_request(
        "tools/call", {"name": "slow", "arguments": {"count": 1}}, meta={"progressToken": 1}
    )
    known = {"Content-Type": "application/json", "Accept": BOTH, **headers}
    async with (
        httpx2.AsyncClient(timeout=BOUND) as other,
        other.stream("POST", address, json=message, headers=known) as stream,
    ):
        async for piece in stream.aiter_raw():
            if b":\n\n" in piece:
                break
        go.touch()
    return await task


def test_a_promised_result_that_takes_a_while_comes_whole(ask: Ask, address: str, addresses: dict[str, str]) -> None:
    """Issue 50, item 18: a call that worked was an error because its answer had become a stream."""

    async def question(client: mcp.Client) -> None:
        result = await after_a_pause(address, Path(addresses["go"]), client.call_tool("slow", {"count": 25_000}))
        assert not result.is_error and result.structured_content == {"lines": ["x" * 100] * 25_000}

    ask(question)


async def lines(client: mcp.Client, result: Any) -> list[str]:
    """The lines of a result that has them, or that leads to them because it was streamed."""
    if not result.is_error:
        return list(result.structured_content["lines"])
    assert result.structured_content is None and "The call worked" in result.content[0].text
    kept, *_ = await linked(client, result.content)
    return list(json.loads(kept.text)["lines"])


def test_a_client_that_takes_json_alone_gets_a_promised_result_whole(addresses: dict[str, str]) -> None:
    """However long the call takes, and though the tool reports progress."""
    message, headers = modern_request("tools/call", {"name": "promised", "arguments": {"count": 20_000}})
    known = {"Content-Type": "application/json", "Accept": "application/json", **headers}
    answer = httpx2.post(addresses["itself"], json=message, headers=known, timeout=BOUND)
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.json()["result"]["structuredContent"] == {"lines": ["x" * 100] * 20_000}


def test_a_call_that_survives_gives_a_promised_result_whole_to_a_client_of_json(addresses: dict[str, str]) -> None:
    """It was an error with a link, because the answer was stored as an event of a stream; so too when read again."""
    call, lines = {"name": "promised", "arguments": {"count": 20_000}}, {"lines": ["x" * 100] * 20_000}
    meta = {"io.patchbay/call": str(uuid4())}
    for _ in range(2):
        message, headers = modern_request("tools/call", call, meta=meta)
        known = {"Content-Type": "application/json", "Accept": "application/json", **headers}
        result = httpx2.post(addresses["itself"], json=message, headers=known, timeout=BOUND).json()["result"]
        assert result["structuredContent"] == lines and not result.get("isError")
    # As a stream it has a link to the structured result.
    known["Accept"] = "text/event-stream"
    answer = httpx2.post(addresses["itself"], json=message, headers=known, timeout=BOUND)
    streamed = sse_messages(answer.content)[-1]["result"]
    assert streamed["isError"] and "The call worked" in streamed["content"][0]["text"]


def test_a_quick_call_that_survives_gives_a_large_result_whole(addresses: dict[str, str]) -> None:
    """Nothing was sent before it, so that its answer need not be a stream."""

    def call() -> httpx2.Response | None:
        meta = {"io.patchbay/call": str(uuid4())}
        message, headers = modern_request("tools/call", {"name": "quick", "arguments": {"count": 20_000}}, meta=meta)
        known = {"Content-Type": "application/json", "Accept": BOTH, **headers}
        answer = httpx2.post(addresses["itself"], json=message, headers=known, timeout=BOUND)
        return answer if answer.headers["Content-Type"] == "application/json" else None

    answer = until(call, "a call that needs no quarter of a second")
    assert answer.json()["result"]["structuredContent"] == {"lines": ["x" * 100] * 20_000}


def test_a_promised_result_comes_whole_and_by_reference_in_a_stream(ask: Ask) -> None:
    async def question(client: mcp.Client) -> None:
        # A call that takes longer than a quarter of a second is streamed, as is one that reports progress.
        for on_piece in (None, progress_handler):
            quick = await client.call_tool("quick", {"count": 20_000}, progress_callback=on_piece)
            assert await lines(client, quick) == ["x" * 100] * 20_000
        result = await client.call_tool("promised", {"count": 20_000}, progress_callback=progress_handler)
        assert result.is_error
        assert await lines(client, result) == ["x" * 100] * 20_000
        small = await client.call_tool("promised", {"count": 3}, progress_callback=progress_handler)
        assert small.structured_content == {"lines": ["x" * 100] * 3}

    ask(question)


def test_a_result_that_was_not_promised_goes_by_reference(ask: Ask) -> None:
    async def question(client: mcp.Client) -> None:
        result = await client.call_tool("unpromised", {"count": 20_000}, progress_callback=progress_handler)
        assert not result.is_error and result.structured_content is None
        (kept,) = await linked(client, result.content)
        assert len(json.loads(kept.text)) == 20_000

    ask(question)


def test_an_image_goes_by_reference(ask: Ask) -> None:
    async def question(client: mcp.Client) -> None:
        result = await client.call_tool("picture", {}, progress_callback=progress_handler)
        (kept,) = await linked(client, result.content)
        assert not result.is_error and len(base64.b64decode(kept.blob)) == 2_000_000

    ask(question)


def test_a_long_message_is_cut_and_many_texts_go_by_reference(ask: Ask) -> None:
    progress_texts: list[str] = []

    async def on_piece(progress: float, total: float | None, message: str | None) -> None:
        progress_texts.append(message or "")

    async def question(client: mcp.Client) -> None:
        result = await client.call_tool("talk", {}, progress_callback=on_piece)
        assert not result.is_error
        assert sum(len(kept.text) for kept in await linked(client, result.content)) == 3_000_000

    ask(question)
    assert any(message.startswith("mmm") and "2000000 characters in all" in message for message in progress_texts)


def test_a_large_resource_that_takes_a_while_is_read_whole(ask: Ask, address: str, addresses: dict[str, str]) -> None:
    async def question(client: mcp.Client) -> None:
        read = await after_a_pause(address, Path(addresses["go"]), client.read_resource("big://page"))
        (page,) = read.contents
        assert isinstance(page, TextResourceContents)
        assert page.text == "r" * 2_000_000

    ask(question)


@pytest.mark.parametrize("further", [{}, {"io.patchbay/call": "a"}], ids=["stream", "surviving call"])
def test_a_large_result_without_a_schema_is_no_error_in_a_stream(tmp_path: Path, further: dict[str, str]) -> None:
    """Issue 50, item 18: with a raised limit of results, a call that worked was an error, also one read again."""
    (tmp_path / "big.py").write_text(BIG)
    further = {key: str(uuid4()) for key in further}
    call = {"name": "unpromised", "arguments": {"count": 20_000}}
    with running_hub(tmp_path / "hub", [tmp_path / "big.py"], options=["--inline-limit", "50000000"]) as hub:
        for _ in range(2):
            message, headers = modern_request("tools/call", call, meta={"progressToken": 1, **further})
            known = {"Content-Type": "application/json", "Accept": BOTH, **headers}
            answer = httpx2.post(hub.endpoint("big"), json=message, headers=known, timeout=BOUND)
            assert answer.headers["Content-Type"].startswith("text/event-stream")
            result = sse_messages(answer.content)[-1]["result"]
            assert not result.get("isError") and "structuredContent" not in result
            assert [block for block in result["content"] if block["type"] == "resource_link"]

"""The queue of one open request: what waits for its caller, and what a full queue does."""

from __future__ import annotations

import asyncio

from anyio.lowlevel import checkpoint

from patchbay.client.connection.event_loop import get_shared_loop
from patchbay.client.connection.requests import MAX_QUEUED_ITEMS, RequestRun
from patchbay.events import Progress


def read_after_a_full_queue(*items: Progress) -> list[object]:
    """Put items into the queue of a request whose caller reads only when the queue is full; return what it reads."""
    loop = get_shared_loop()
    run = RequestRun(loop, "tools/call", None)

    async def deliver_all() -> None:
        for item in items:
            await run.deliver(item)

    async def fill() -> asyncio.Task[None]:
        delivery = asyncio.create_task(deliver_all())
        await checkpoint()  # the task runs until it waits for room, or to its end
        return delivery

    delivery = loop.run(fill(), 60)
    heard: list[object] = [run.next_item(60) for _ in range(MAX_QUEUED_ITEMS)]
    heard.append(run.next_item(60 if not delivery.done() else 0))
    return heard


def test_a_full_queue_delivers_every_piece_of_text_to_a_caller_that_reads_later() -> None:
    """34.12: no piece of text replaces another or is replaced."""
    pieces = [Progress(number, None, f"{number} ") for number in range(MAX_QUEUED_ITEMS + 1)]
    assert read_after_a_full_queue(*pieces) == pieces


def test_a_full_queue_keeps_the_text_before_progress_without_text() -> None:
    """34.12, X-15."""
    pieces = [Progress(number, None, f"{number} ") for number in range(MAX_QUEUED_ITEMS)]
    assert read_after_a_full_queue(*pieces, Progress(1, 2)) == [*pieces, Progress(1, 2)]


def test_a_full_queue_delivers_text_after_progress_without_text() -> None:
    """34.12, X-15."""
    steps = [Progress(number, 1000) for number in range(MAX_QUEUED_ITEMS)]
    assert read_after_a_full_queue(*steps, Progress(1, None, "a word")) == [*steps, Progress(1, None, "a word")]


def test_a_full_queue_replaces_the_last_progress_without_text() -> None:
    """X-15: the newest progress counts."""
    steps = [Progress(number, 1000) for number in range(MAX_QUEUED_ITEMS + 1)]
    assert read_after_a_full_queue(*steps) == [*steps[:-2], steps[-1], None]

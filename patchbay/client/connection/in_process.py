"""A server of this process: an Exchange, spoken to by the official session over streams in memory.

A worker thread carries each message while the exchange runs. The exchange of a cancelled request is closed.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import anyio.from_thread
import anyio.to_thread
import orjson
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, jsonrpc_message_adapter

from patchbay.events import Detach, Pause, Wait
from patchbay.jsonrpc import Exchange, encode, message

Received = SessionMessage | Exception
Streams = tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]

MAX_CONCURRENT_MESSAGES = 64
"""Messages that one connection carries at the same time."""


@asynccontextmanager
async def open_exchange_streams(exchange: Exchange) -> AsyncIterator[Streams]:
    """Open the two streams to an exchange."""
    inward, received = anyio.create_memory_object_stream[Received](0)
    sent, outward = anyio.create_memory_object_stream[SessionMessage](0)
    async with anyio.create_task_group() as tasks, inward, received, sent, outward:
        tasks.start_soon(_run_all_messages, exchange, outward, inward)
        yield received, sent
        tasks.cancel_scope.cancel()


async def _run_all_messages(
    exchange: Exchange, source: MemoryObjectReceiveStream[SessionMessage], to: MemoryObjectSendStream[Received]
) -> None:
    threads = anyio.CapacityLimiter(MAX_CONCURRENT_MESSAGES)
    under_way: dict[object, anyio.CancelScope] = {}
    async with anyio.create_task_group() as tasks:
        async for item in source:
            body = item.message
            if isinstance(body, JSONRPCNotification) and body.method == "notifications/cancelled":
                scope = under_way.get((body.params or {}).get("requestId"))
                if scope is not None:
                    scope.cancel()
            tasks.start_soon(_run_message, exchange, item, to, under_way, threads)


async def _run_message(
    exchange: Exchange,
    item: SessionMessage,
    to: MemoryObjectSendStream[Received],
    under_way: dict[object, anyio.CancelScope],
    threads: anyio.CapacityLimiter,
) -> None:
    id = getattr(item.message, "id", object())  # notifications have none, and several may be under way
    with anyio.CancelScope() as scope, suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
        under_way[id] = scope
        try:
            await anyio.to_thread.run_sync(_exchange_message, exchange, item, to, limiter=threads)
        finally:
            del under_way[id]


def _exchange_message(exchange: Exchange, item: SessionMessage, to: MemoryObjectSendStream[Received]) -> None:
    body = orjson.loads(item.message.model_dump_json(by_alias=True, exclude_unset=True))
    for answer in exchange(message(body)):
        if isinstance(answer, Wait):
            answer.mailbox.wait(answer.seconds)
        if isinstance(answer, (Pause, Detach, Wait)):
            anyio.from_thread.check_cancelled()
            continue
        parsed = jsonrpc_message_adapter.validate_json(encode(answer), by_name=False)
        anyio.from_thread.run(to.send, SessionMessage(parsed))

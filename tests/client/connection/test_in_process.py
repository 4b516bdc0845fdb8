"""A server of this process: concurrent requests do not disturb each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import anyio
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCNotification, JSONRPCRequest, JSONRPCResponse

from patchbay.client.connection.in_process import open_exchange_streams
from patchbay.jsonrpc import Message, Notification, Request, Result


def test_concurrent_notifications_do_not_end_the_connection() -> None:
    """Two calls that are left together are cancelled together."""
    both = threading.Barrier(2)

    def exchange(message: Message) -> Iterator[Message]:
        if isinstance(message, Notification):
            both.wait(30)
        if isinstance(message, Request):
            yield Result(message.id, {"still": "here"})

    async def spoken() -> object:
        async with open_exchange_streams(exchange) as (answers, messages):
            for number in range(2):
                params = {"requestId": number}
                cancelled = JSONRPCNotification(jsonrpc="2.0", method="notifications/cancelled", params=params)
                await messages.send(SessionMessage(cancelled))
            found = []
            for number in range(20):  # the ends of the two are among these
                await messages.send(SessionMessage(JSONRPCRequest(jsonrpc="2.0", id=number, method="ping")))
                answer = await answers.receive()
                assert isinstance(answer, SessionMessage) and isinstance(answer.message, JSONRPCResponse)
                found.append(answer.message.result)
            return found

    assert anyio.run(spoken) == [{"still": "here"}] * 20

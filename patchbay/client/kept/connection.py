"""A connection that a background process holds, with the methods of every other connection.

Each request has a socket of its own while it runs; a closed socket cancels the request.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from math import isinf
from pathlib import Path
from typing import Any, NoReturn

from patchbay.activation import PAUSE
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.list_pages import ServerLists
from patchbay.client.connection.requests import Answer, Asker, Item, Json, check_json, make_refusal
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.client.kept.messages import Channel, decode_failure, decode_item, encode_failure
from patchbay.client.kept.places import NotKept, is_of_this_user
from patchbay.events import Pause, Question

SILENCE_SECONDS = 20.0
"""Seconds without a word of the background process, which tells every few seconds that a request runs."""


def connect(place: Path) -> Channel:
    """Connect to a background process. Raises OSError, and NotKept for one of another user."""
    peer = socket.socket(socket.AF_UNIX)
    try:
        peer.settimeout(SILENCE_SECONDS)
        peer.connect(str(place))
        if not is_of_this_user(peer):
            raise NotKept(f"{place} belongs to another user")
    except BaseException:
        peer.close()
        raise
    return Channel(peer)


def ask(place: Path, operation: str) -> Json:
    """Ask a background process for its `status`, or to `stop`. Raises OSError, NotKept."""
    channel = connect(place)
    try:
        channel.send({"op": operation})
        found = channel.receive()
    finally:
        channel.close()
    if found is None:
        raise ConnectionResetError("it closed the connection")
    return found


class KeptConnection(Connection):
    """A connection of a background process. Make one with `open_kept` of `starting`."""

    def __init__(self, place: Path, timeout: float, questions: Asker | None) -> None:
        """Connect to the process at a socket. Raises OSError, NotKept."""
        ServerLists.__init__(self)
        self._place, self._timeout, self._ask = place, timeout, questions
        self._idle_channels: list[Channel] = []
        self._lock = threading.Lock()
        self._closed = False
        self._failure: Unreachable | None = None
        channel = connect(place)
        try:
            channel.send({"op": "hello"})
            hello = channel.receive()
            if hello is None:
                raise ConnectionResetError("it closed the connection")
        except BaseException:
            channel.close()
            raise
        self._idle_channels.append(channel)
        self._hello = hello

    def close(self) -> None:
        """Close this side of the connection; the background process continues."""
        with self._lock:
            channels, self._idle_channels, self._closed = self._idle_channels, [], True
        for channel in channels:
            channel.close()

    @property
    def closed(self) -> bool:
        """Whether this side has ended the connection, or the background process is gone."""
        return self._closed or self._failure is not None

    @property
    def end_reason(self) -> Unreachable:
        """Why the connection has ended, where that is known."""
        return self._failure or Unreachable("the connection ended")

    @property
    def keeps_state(self) -> bool:
        """A program may keep state."""
        return True

    @property
    def info(self) -> Json:
        """The server's `serverInfo`."""
        return dict(self._hello["info"])

    @property
    def revision(self) -> str:
        """The protocol revision that was agreed on."""
        return str(self._hello["revision"])

    @property
    def modern(self) -> bool:
        """Whether the revision is 2026-07-28 or later."""
        return bool(self._hello["modern"])

    @property
    def capabilities(self) -> Json:
        """The server's capabilities."""
        return dict(self._hello["capabilities"])

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        found = self._hello["instructions"]
        return found if isinstance(found, str) else None

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        progress: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        pauses: Iterator[float] | None = None,
        manual_input: bool = False,
        on_item: Callable[[Item], None] | None = None,
        caller: object = None,
        wants_detach: bool = False,
    ) -> Generator[Item | Pause, Answer | None, Json]:
        """Send a request, give the server's messages until the result arrives, and return the result.

        As `Connection.request`; the background process knows this command as the caller, so `caller` has no effect.
        `wants_detach` has none either: a command waits for its result.
        """
        check_json(method, params or {})
        seconds = self._timeout if timeout is None else timeout
        order = {
            "op": "request", "method": method, "params": dict(params or {}), "progress": progress,
            "timeout": None if isinf(seconds) else seconds, "manual_input": manual_input,
            "capabilities": None if capabilities is None else dict(capabilities),
        }  # fmt: skip
        channel = self._take_channel()
        is_reusable = False
        try:
            channel.send(order)
            end = yield from self._receive(channel, pauses)
            is_reusable = True
        except OSError as problem:
            self._failure = Unreachable(f"the background process of this connection is gone ({problem})")
            raise self._failure from problem
        finally:
            self._give_back(channel, is_reusable)
        if "failure" in end:
            raise decode_failure(end["failure"])
        return dict(end["result"])

    def _receive(
        self, channel: Channel, pauses: Iterator[float] | None
    ) -> Generator[Item | Pause, Answer | None, Json]:
        """Give the server's messages, send the answers to its questions, and return the end. Raises OSError."""
        while True:
            message = channel.receive()
            if message is None:
                raise ConnectionResetError("it closed the connection")
            if "item" in message:
                yield decode_item(message["item"])
            elif "question" in message:
                question = Question(message["question"]["method"], message["question"]["params"])
                answer = yield question
                answer = make_refusal(question) if answer is None else answer
                is_refusal = isinstance(answer, McpFailure)
                channel.send({"failure": encode_failure(answer)} if is_refusal else {"answer": answer})  # type: ignore[arg-type]
            elif "alive" not in message:
                return message
            elif pauses is not None:
                yield PAUSE

    def _take_channel(self) -> Channel:
        with self._lock:
            if self._closed:
                raise Unreachable("the connection was closed")
            if self._idle_channels:
                return self._idle_channels.pop()
        try:
            return connect(self._place)
        except OSError as problem:
            self._failure = Unreachable(f"the background process of this connection is gone ({problem})")
            raise self._failure from problem

    def _give_back(self, channel: Channel, is_reusable: bool) -> None:
        with self._lock:
            if is_reusable and not self._closed:
                self._idle_channels.append(channel)
                return
        channel.close()

    def listen(
        self, kinds: Collection[str] = ("tools", "resources", "prompts"), uris: Collection[str] = ()
    ) -> NoReturn:
        """Refuse: a command that waits for changes has a connection of its own. Raises Unreachable."""
        raise Unreachable("a kept connection gives no notifications; use the command without --keep")

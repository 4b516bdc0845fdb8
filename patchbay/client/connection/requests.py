"""One open request: the server's messages in order and bounded, its questions, its deadline, its end.

Two sides share a RequestRun. The event loop adds items and waits for answers; the caller's thread takes the items. At
most MAX_QUEUED_ITEMS items wait. When the queue is full, a new progress without text replaces the last one, and the
reader of the connection waits up to SLOW_CALLER_SECONDS for room before it drops any other item; one log item reports
the dropped ones. While a question is open, the clock of the request is paused.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import anyio
import orjson

from patchbay.callback_mailbox import CallbackMailbox
from patchbay.client.connection.event_loop import EventLoopThread
from patchbay.client.connection.time_budget import TimeBudget
from patchbay.client.errors import McpFailure
from patchbay.errors import InvalidParams
from patchbay.events import LOG_LEVELS, Detach, Log, Progress, Question
from patchbay.jsonrpc import Notification, dump_json

log = logging.getLogger(__name__)

MAX_QUEUED_ITEMS = 256
"""Items that wait for the caller of one request."""

METHOD_NOT_FOUND = -32601
LISTEN_METHOD = "subscriptions/listen"
OPENING_METHOD = "initialize"
"""The method of the run that opens a connection, also where `server/discover` is sent."""

SLOW_CALLER_SECONDS = 5.0
"""Seconds that reading a connection waits for a caller that does not take its items."""

ABANDONED_CALL_SECONDS = 60.0
"""Seconds in which a server may still work on a request whose caller has left: it may be silent, or ask for it."""

Json = dict[str, Any]
Answer = Mapping[str, Any] | McpFailure
"""The answer to a question: a result of its method, or the error to send."""

Asker = Callable[[str, Mapping[str, Any]], Mapping[str, Any]]
"""Answers a question, given its method and params, with the result of that method. Raises McpFailure to refuse."""

AddSessionFields = Callable[[Json, Any], None]
"""Adds the fields of every request of a session: `_meta` to the message, `headers` to the options."""

CLIENT_CAPABILITIES_META_KEY = "io.modelcontextprotocol/clientCapabilities"

Item = Progress | Log | Question | Notification | Detach
"""Messages of a server before its answer. A Question needs an Answer. A Detach says that the server closed the
event stream of the answer before the answer, which comes over another stream; only a request that wants it gets it."""


_tokens = itertools.count(1)


class BegunExchange(Protocol):
    """A request that the caller itself has sent: an HTTP exchange, or a line to a program.

    The event loop may continue the exchange (see `direct_http.py`).
    """

    @property
    def id(self) -> str | int: ...
    def close(self) -> None: ...


class AnswerReader(Protocol):
    """Reads the answer on the caller's thread (see `programs/direct_calls.py`)."""

    def wait(self, seconds: float | None) -> None: ...
    def leave(self) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class PendingQuestion:
    """A question, and the future of its answer."""

    question: Question
    answer: asyncio.Future[Answer]


@dataclass(frozen=True, slots=True)
class RequestEnd:
    """The end of a request: its result or its error."""

    result: Json | None = None
    problem: BaseException | None = None


class RequestRun(CallbackMailbox):
    """One request, seen from both sides. `seconds` is its time limit, None for no limit.

    It is the Mailbox of a caller that waits without a thread: a message is an item, or the end.
    """

    # Defaults of the class: most requests change few of them, and setting each takes time.
    closed = False
    id: str | int | None = None
    progress_token: str | None = None
    raw_result: Json | None = None
    http_refusal: str | None = None
    http_status: int | None = None
    retry_after: int | None = None
    is_refused = False
    """Whether the server itself answered with an error; its code may be one that the official client uses too."""
    unusable_answer: str | None = None
    """Why the body of the HTTP answer was not read to its end; None when it was."""
    capabilities: Mapping[str, Any] | None = None
    on_item: Callable[[Item], None] | None = None
    manual_input = False
    caller: object = None
    """Who is behind it: questions of the server that name no request go to equal callers only. None: unknown."""
    exchange: BegunExchange | None = None
    wants_detach = False
    """Whether its caller wants to know when the server closes the stream of the answer before the answer."""
    reader: AnswerReader | None = None
    """Who waits for the server's messages, in place of the event loop; None when the event loop delivers them."""
    _is_abandoned = False
    _end: RequestEnd | None = None
    _dropped = 0
    _stalled = False
    _room: asyncio.Event | None = None
    """Set when a full queue has room again; made by the first message that waits for it."""

    def __init__(self, loop: EventLoopThread, method: str, seconds: float | None) -> None:
        super().__init__()
        self.method = method
        self.seconds = seconds
        self.clock = TimeBudget(seconds)
        self._loop = loop
        self._items: deque[Item | PendingQuestion] = deque()
        self._open_questions: set[PendingQuestion] = set()
        self._asleep = threading.Lock()
        """Taken by the caller's thread to sleep, and released to wake it: cheaper than a condition."""
        self._asleep.acquire()

    def reset_round(self) -> None:
        """Clear the raw result and the HTTP refusal of the last message."""
        self.is_refused = False
        self.raw_result = self.http_refusal = self.http_status = self.retry_after = self.unusable_answer = None

    @property
    def is_settled(self) -> bool:
        """Whether the request has ended."""
        return self._end is not None

    @property
    def has_open_questions(self) -> bool:
        """Whether a question waits for its answer."""
        return bool(self._open_questions)

    @property
    def has_news(self) -> bool:
        """Whether an item waits for the caller, or the request has ended."""
        return bool(self._items) or self._end is not None

    # the loop's side

    async def deliver(self, item: Item | PendingQuestion) -> None:
        """Add an item, or pass it to `on_item`; waits for room as this module's docstring says."""
        if self.on_item is not None and not isinstance(item, PendingQuestion):
            self.on_item(item)
            return
        if self._append(item):
            return
        if isinstance(item, Progress) and not item.is_text and self._replace_last_progress(item):
            return
        if not self._stalled:
            self._room = self._room or asyncio.Event()
            self._room.clear()
            with anyio.move_on_after(SLOW_CALLER_SECONDS):
                await self._room.wait()
        if not self._append(item):
            self._stalled = True
            self._dropped += 1

    async def ask(self, question: Question) -> Answer:
        """Put a question and wait for the answer; a refusal once the caller has left."""
        return await self.wait_for_answer(self.put_question(question))

    def put_question(self, question: Question) -> PendingQuestion:
        """Put a question before all later messages and the end; its answer is awaited with `wait_for_answer`."""
        pending = PendingQuestion(question, asyncio.get_running_loop().create_future())
        with self._lock:
            if self._is_abandoned:
                pending.answer.set_result(_CALLER_LEFT)
                return pending
            self._open_questions.add(pending)
            self._items.append(pending)
            self._wake_caller()
        return pending

    async def wait_for_answer(self, pending: PendingQuestion) -> Answer:
        """Wait for the answer to a question that was put; the clock of the request stops meanwhile."""
        try:
            with self.clock.paused():
                return await pending.answer
        finally:
            self._open_questions.discard(pending)

    def abandon(self) -> None:
        """Refuse all open and later questions, because the caller has left."""
        self._is_abandoned = True
        for pending in self._open_questions:
            _set_answer(pending.answer, _CALLER_LEFT)

    def finish(self, end: RequestEnd) -> None:
        """Set the end of the request; the first call counts."""
        with self._lock:
            self._end = self._end or end
            self._wake_caller()

    def _wake_caller(self) -> None:
        """Wake the caller's thread, or let its next wait return at once; call back. The lock is held."""
        if self._asleep.locked():
            self._asleep.release()
        call_back = self._take_callback()
        if call_back is not None:
            call_back()

    def _note_room(self) -> None:
        if self._room is not None:
            self._room.set()

    def _append(self, item: Item | PendingQuestion) -> bool:
        with self._lock:
            if len(self._items) >= MAX_QUEUED_ITEMS:
                return False
            if self._dropped:
                message = f"{self._dropped} notifications were dropped because the caller did not read them"
                self._items.append(Log("warning", message, "patchbay.client"))
                self._dropped, self._stalled = 0, False
            self._items.append(item)
            self._wake_caller()
            return True

    def _replace_last_progress(self, progress: Progress) -> bool:
        with self._lock:
            last = self._items[-1] if self._items else None
            if not isinstance(last, Progress) or last.is_text:
                return False
            self._items[-1] = progress
            return True

    # the caller's side

    def next_item(self, seconds: float | None = None) -> Item | PendingQuestion | RequestEnd | None:
        """Take the next item, or the end once all items are taken; None when nothing came for `seconds`."""
        (self.reader or self).wait(seconds)
        with self._lock:
            if not self._items:
                return self._end
            full = len(self._items) >= MAX_QUEUED_ITEMS
            item = self._items.popleft()
        if full:
            self._loop.call_soon(self._note_room)
        return item

    def sleep(self, seconds: float | None) -> bool:
        """Wait up to `seconds` for news; False when the time is over. It may return early."""
        return self._asleep.acquire(timeout=-1 if seconds is None else max(0.0, seconds))

    def wait(self, timeout: float | None) -> None:
        """Wait for an item or the end, no longer than `timeout` seconds; None for no limit."""
        end = None if timeout is None else time.monotonic() + timeout
        while not self.has_news and self.sleep(None if end is None else end - time.monotonic()):
            pass

    def _is_ready(self) -> bool:
        return self.has_news

    def reply(self, pending: PendingQuestion, answer: Answer) -> None:
        """Answer a question; an answer that comes too late is dropped."""
        self._loop.call_soon(_set_answer, pending.answer, answer)


_CALLER_LEFT = McpFailure(-32603, "the caller who could have answered has left")


def _set_answer(future: asyncio.Future[Answer], answer: Answer) -> None:
    if not future.done():
        future.set_result(answer)


def make_refusal(question: Question) -> McpFailure:
    """Make the answer to a question that this client does not answer."""
    return McpFailure(METHOD_NOT_FOUND, f"this client does not answer {question.method}")


CURRENT_RUN: ContextVar[RequestRun | None] = ContextVar("patchbay_client_run", default=None)
"""The request that current work on the event loop belongs to; the context carries it through HTTP requests."""


def make_notification_item(method: str, params: Json) -> Item:
    """Convert a server's notification to an item."""
    progress, total, message = (params.get(key) for key in ("progress", "total", "message"))
    if method == "notifications/progress" and isinstance(progress, (int, float)):
        return Progress(
            progress,
            total if isinstance(total, (int, float)) else None,
            message if isinstance(message, str) else None,
        )
    if method == "notifications/message" and params.get("level") in LOG_LEVELS:
        logger = params.get("logger")
        return Log(params["level"], params.get("data"), logger if isinstance(logger, str) else None)
    return Notification(method, params)


_ONLY_JSON_TYPES = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def check_json(method: str, params: Mapping[str, Any]) -> None:
    """Refuse params that would end the connection: values that JSON does not have, half a surrogate pair.

    Raises InvalidParams.
    """
    try:
        if b"null" not in orjson.dumps(params, option=_ONLY_JSON_TYPES):
            return
    except TypeError:
        log.debug("the slower check decides about the parameters of %s", method)
    try:
        # The faster encoder writes numbers that JSON does not have as null.
        json.dumps(params, allow_nan=False, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as problem:
        raise InvalidParams(f"the parameters of {method} cannot be sent as JSON: {problem}") from problem


def encode_request(
    id: str | int, run: RequestRun, method: str, params: Json, add_session_fields: AddSessionFields
) -> tuple[bytes, Mapping[str, str]]:
    """Encode a request as the official session would send it, in one line; return it with the headers for it."""
    data: Json = {"method": method, "params": {**params, "_meta": dict(params.get("_meta") or {})}}
    options: Json = {}
    add_session_fields(data, options)
    meta = data["params"]["_meta"]
    if run.capabilities is not None and CLIENT_CAPABILITIES_META_KEY in meta:
        meta[CLIENT_CAPABILITIES_META_KEY] = dict(run.capabilities)
    if not meta:
        del data["params"]["_meta"]
    if not data["params"]:
        del data["params"]
    return _encode({"jsonrpc": "2.0", "id": id, **data}), options.get("headers") or {}


def _encode(message: Json) -> bytes:
    try:
        return dump_json(message)
    except TypeError:  # keys that are numbers
        return json.dumps(message, ensure_ascii=False).encode()


def add_progress_token(run: RequestRun, params: Mapping[str, Any]) -> Json:
    """Return the params with a new progress token, which becomes that of the run."""
    run.progress_token = f"patchbay-{next(_tokens)}"
    return {**params, "_meta": {**(params.get("_meta") or {}), "progressToken": run.progress_token}}

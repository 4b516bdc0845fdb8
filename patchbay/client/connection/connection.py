"""A connection to a server, for synchronous code: open it, send requests, close it.

`Connection.request` is a generator that gives the server's messages, takes the answers to its questions, and returns
the result; every other method is a loop over it. Results are JSON objects as the server sent them. A connection may be
used from any thread, by several at a time; closing a generator cancels its request on the server.

Source: MCP specification, basic/lifecycle, basic/utilities/cancellation.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from patchbay.client.addresses.targets import Era, Stdio, Target
from patchbay.client.auth.methods import SignIn
from patchbay.client.connection.event_loop import EventLoopThread, get_shared_loop
from patchbay.client.connection.link import SessionLink, get_result, make_async_asker, subscribe_to_changes
from patchbay.client.connection.list_pages import ServerLists
from patchbay.client.connection.plan import ConnectionPlan
from patchbay.client.connection.requests import (
    ABANDONED_CALL_SECONDS,
    Answer,
    Asker,
    Item,
    Json,
    PendingQuestion,
    RequestEnd,
    RequestRun,
    add_progress_token,
    check_json,
    make_refusal,
)
from patchbay.client.errors import McpFailure, SessionLost, Unreachable
from patchbay.client.question_tasks import QUESTION_TASKS
from patchbay.events import Pause, Question
from patchbay.jsonrpc import Exchange
from patchbay.processes.confinement.programs import ProgramConfinement

if TYPE_CHECKING:
    from patchbay.client.connection.async_connection import AsyncConnection

log = logging.getLogger(__name__)

START_TIMEOUT_SECONDS = 120.0
"""Seconds until a server has answered for the first time; a package may have to be fetched first."""

REQUEST_TIMEOUT_SECONDS = 60.0
"""Seconds for one request by default."""
MAX_MESSAGE_BYTES = 32 * 1024 * 1024
"""Bytes in one message from a server."""

MAX_SESSIONS_PER_REQUEST = 3
"""Sessions in which a request is sent, when the server ends each of them before it carries out the request."""

QUESTIONS = frozenset({"elicitation", "sampling", "list_roots", QUESTION_TASKS})
"""The requests that a server may be allowed to send to the client, and whether it may ask them as tasks."""


def _ignore_item(item: Item) -> None:
    log.debug("ignored %r", item)


def _ignore_notification(method: str, params: Mapping[str, Any]) -> None:
    log.debug("ignored the notification %s", method)


def _next_pause(pauses: Iterator[float] | None) -> float:
    """Return the time of the next Pause; infinite without any."""
    seconds = next(pauses, None) if pauses is not None else None
    return math.inf if seconds is None else time.monotonic() + seconds


class Connection(ServerLists):
    """An open connection. Make one with `Connection.open`; leave its `with` block, or `close` it."""

    def __init__(self, loop: EventLoopThread, link: SessionLink, timeout: float, ask: Asker | None) -> None:
        super().__init__()
        self._loop = loop
        self._link = link
        self._timeout = timeout
        self._ask = ask
        self._open_requests: set[RequestRun] = set()
        self._abandoned_at = 0.0

    @property
    def _async_connection(self) -> AsyncConnection:
        return self._link.get_async_connection()

    @classmethod
    def open(
        cls,
        target: Target,
        *,
        era: Era = "auto",
        name: str = "patchbay",
        version: str = "0",
        start_timeout: float = START_TIMEOUT_SECONDS,
        timeout: float = REQUEST_TIMEOUT_SECONDS,
        ask: Asker | None = None,
        questions: Collection[str] | None = None,
        listener: Callable[[str, Mapping[str, Any]], None] = _ignore_notification,
        environ: Mapping[str, str] | None = None,
        signin: SignIn | None = None,
        exchange: Exchange | None = None,
        extensions: Mapping[str, Any] | None = None,
        log_level: str | None = None,
        limit: int = MAX_MESSAGE_BYTES,
        quick: bool = False,
        on_renewed: Callable[[], None] | None = None,
        confinement: ProgramConfinement | None = None,
    ) -> Connection:
        """Connect to a server and agree on a revision.

        `ask` answers questions that no caller of a request answers; `questions` are those of QUESTIONS that the client
        declares: all of them with `ask`, else none. `listener` receives the method and params of every notification
        that belongs to no request, on the loop's thread, and has to return quickly. `environ` is the environment that a
        program inherits from (see `environment.py`), `confinement` what the program may do (None: what this process
        may), `exchange` the server of a Local target, `signin` the way to sign in to a URL, `limit` the bytes of the
        largest message. `quick` delays loading the official client until a request needs it. `on_renewed` is called
        when the server had ended the session and a new one has begun, with the same log level and subscriptions;
        changes in between are unknown. Timeouts are in seconds; the time in
        which a person answers does not count.

        Raises Unreachable, ServerTimeout, McpFailure; InvalidParams for a header that cannot be sent.
        """
        allowed = frozenset(questions if questions is not None else QUESTIONS if ask else ())
        plan = ConnectionPlan(
            target, era, name, version, environ or {}, limit, allowed, extensions, None, exchange, log_level
        )
        plan = replace(plan, confinement=confinement)
        loop = get_shared_loop()
        link = SessionLink(plan, loop, start_timeout, listener, make_async_asker(ask) if ask else None, signin)
        link.on_renewed = on_renewed
        link.open(quick)
        return cls(loop, link, timeout, ask)

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the connection and the program that it started, and wait for that. May be called twice."""
        self._link.close()

    @property
    def closed(self) -> bool:
        """Whether either side has ended the connection."""
        return self._link.closed

    @property
    def heard_at(self) -> float:
        """The `time.monotonic()` of the last message of the server."""
        return self._async_connection.router.heard_at

    def is_busy(self) -> bool:
        """Whether the server may be silent because it works on a request."""
        if self._open_requests:
            return True
        return self._abandoned_at > max(self.heard_at, time.monotonic() - ABANDONED_CALL_SECONDS)

    @property
    def confinement(self) -> ProgramConfinement | None:
        """What the program of this connection may do; None without one, and for a program without confinement."""
        return self._link.plan.confinement if isinstance(self._link.plan.target, Stdio) else None

    @property
    def keeps_state(self) -> bool:
        """Whether the server may keep state for this connection: a program, or a session at a URL."""
        core = self._async_connection
        return core.http is None or core.http.keeps_state

    def serves_others_than(self, caller: object) -> bool:
        """Whether the server works on a request of another caller who could be the one that a question is for."""
        return self._async_connection.router.owners.has_others(caller)

    def announce_changed_roots(self) -> None:
        """Tell the server that the roots of its client have changed."""
        core = self._async_connection
        sending = self._loop.start(core.session.send_roots_list_changed())
        if core.direct_calls is not None:
            core.direct_calls.unsent.add(sending)
            sending.add_done_callback(core.direct_calls.unsent.discard)

    @property
    def answered_roots(self) -> int:
        """How many of the server's requests for roots were answered, over the present session."""
        return self._async_connection.router.questions.answered_roots

    def when_roots_are_answered(self) -> Future[None]:
        """Return a future that is done when no request of the server for roots waits for its answer."""
        return self._loop.start(self._async_connection.router.questions.wait_until_roots_are_answered())

    @property
    def end_reason(self) -> Unreachable:
        """Why the connection has ended, where that is known."""
        return self._link.end_reason

    @property
    def target(self) -> Target:
        """The server, as it is reached."""
        return self._link.plan.target

    @property
    def info(self) -> Json:
        """The server's `serverInfo`; empty when it sent none (2026-07-28)."""
        return self._link.info

    @property
    def revision(self) -> str:
        """The protocol revision that was agreed on."""
        return self._link.revision

    @property
    def modern(self) -> bool:
        """Whether the revision is 2026-07-28 or later."""
        return self._link.modern

    @property
    def capabilities(self) -> Json:
        """The server's capabilities."""
        return self._link.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's instructions for a model."""
        return self._link.instructions

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

        A Question is answered with `send`: its result, or an McpFailure to refuse; None refuses. `timeout` is in
        seconds, `inf` for no limit. `progress` asks the server for progress. `capabilities` replaces the declared ones
        for this request (2026-07-28). With `pauses`, a Pause is given after each of these numbers of seconds without a
        message. `manual_input` returns an InputRequiredResult to the caller, and keeps the server's words in errors.
        `on_item` receives progress and logs on this thread, in place of the generator's caller; a plain session needs
        it. Requests of equal `caller` get each other's questions, where the server does not say whose a question is.
        With `wants_detach`, a Detach is given when the server closes the event stream of the answer before the answer.

        Raises InvalidParams for params that are not JSON, McpFailure, Unreachable, ServerTimeout. Closing the generator
        cancels the request.
        """
        check_json(method, params or {})
        for session in range(1, MAX_SESSIONS_PER_REQUEST + 1):
            run = RequestRun(self._loop, method, self._timeout if timeout is None else timeout)
            run.capabilities, run.manual_input, run.caller = capabilities, manual_input, caller
            run.wants_detach = wants_detach
            sent = add_progress_token(run, params or {}) if progress else dict(params or {})
            plain = self._link.request_plain(run, method, sent, on_item) if on_item is not None else None
            if plain is not None:
                return plain
            core = self._async_connection
            try:
                result = yield from self._send(core, run, method, sent, pauses)
            except SessionLost:
                # The server did not carry out the request, so it may be sent again.
                if session == MAX_SESSIONS_PER_REQUEST:
                    raise
                self._link.renew(core)
            else:
                self._link.note_state(method, sent)
                return result
        raise AssertionError("the last session returns or raises")

    def _send(
        self, core: AsyncConnection, run: RequestRun, method: str, params: Json, pauses: Iterator[float] | None
    ) -> Generator[Item | Pause, Answer | None, Json]:
        """Send a request over one session, give the server's messages, and return the result."""
        self._open_requests.add(run)
        future: Future[None] | None = None
        try:
            if not self._link.try_direct(core, run, method, params):
                future = self._loop.start(core.perform(run, method, params))
            until: float | None = None
            while True:
                if until is None and not run.is_settled:
                    until = _next_pause(pauses)
                item = run.next_item(None if until is None or until == math.inf else max(0.0, until - time.monotonic()))
                until = None
                if isinstance(item, RequestEnd):
                    return get_result(item)
                if isinstance(item, PendingQuestion):
                    answer = yield item.question
                    run.reply(item, make_refusal(item.question) if answer is None else answer)
                elif item is None:
                    until = _next_pause(pauses)
                    yield Pause(run, until)
                else:
                    yield item
        finally:
            self._open_requests.discard(run)
            if not run.is_settled:
                self._abandoned_at = time.monotonic()
            elif run.has_open_questions:
                self._loop.call_soon(run.abandon)
            if future is not None:
                future.cancel()
            if future is not None or not run.is_settled:
                if run.reader is not None:
                    run.reader.leave()
                self._loop.call_soon(core.abandon, run)

    def get_result(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        on_event: Callable[[Item], None] | None = None,
    ) -> Json:
        """Send a request and return its result.

        The `ask` of this connection answers questions; `on_event` receives the rest.
        """
        running = self.request(
            method, params, timeout=timeout, progress=on_event is not None, on_item=on_event or _ignore_item
        )
        answer: Answer | None = None
        try:
            while True:
                item = running.send(answer)
                answer = self._answer_question(item) if isinstance(item, Question) else None
                if on_event is not None and not isinstance(item, (Question, Pause)):
                    on_event(item)
        except StopIteration as end:
            result: Json = end.value
            return result
        finally:
            running.close()

    def _answer_question(self, question: Question) -> Answer:
        if self._ask is None:
            return make_refusal(question)
        try:
            return self._ask(question.method, question.params)
        except McpFailure as problem:
            return problem

    @contextmanager
    def listen(
        self, kinds: Collection[str] = ("tools", "resources", "prompts"), uris: Collection[str] = ()
    ) -> Iterator[Future[None]]:
        """Subscribe to changed lists and to these resources while the block runs; the listener is notified.

        The future is done when the subscription ends. Before 2026-07-28, servers send changes of lists without a
        subscription. Raises McpFailure, Unreachable, ServerTimeout.
        """
        if not self.modern:
            for uri in uris:
                self.get_result("resources/subscribe", {"uri": uri})
            yield self._link.finished
            for uri in () if self.closed else uris:
                self.get_result("resources/unsubscribe", {"uri": uri})
            return
        wanted: Json = {f"{kind}ListChanged": True for kind in kinds}
        wanted |= {"resourceSubscriptions": list(uris)} if uris else {}
        with subscribe_to_changes(self._loop, self._async_connection, wanted, self._timeout) as future:
            yield future

    def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None = None,
        meta: Mapping[str, Any] | None = None,
        on_event: Callable[[Item], None] | None = None,
    ) -> Json:
        """Call a tool; the result may have `isError`."""
        params = {"name": name, "arguments": dict(arguments or {})} | ({"_meta": dict(meta)} if meta else {})
        return self.get_result("tools/call", params, timeout=timeout, on_event=on_event)

    def read_resource(self, uri: str, *, timeout: float | None = None) -> Json:
        """Read a resource."""
        return self.get_result("resources/read", {"uri": uri}, timeout=timeout)

    def get_prompt(
        self, name: str, arguments: Mapping[str, str] | None = None, *, timeout: float | None = None
    ) -> Json:
        """Get a prompt."""
        given = {"arguments": dict(arguments)} if arguments else {}
        return self.get_result("prompts/get", {"name": name} | given, timeout=timeout)

    def complete(self, ref: Mapping[str, Any], name: str, value: str, context: Mapping[str, str] | None = None) -> Json:
        """Complete one argument; `ref` is a `ref/prompt` or `ref/resource` object."""
        params: Json = {"ref": dict(ref), "argument": {"name": name, "value": value}}
        more = {"context": {"arguments": dict(context)}} if context else {}
        return self.get_result("completion/complete", params | more)

"""Dispatches one message: finds the method in the table, checks that the revision has it, and yields the answers.

Every transport uses the Dispatcher. It knows no transport itself: it takes a message with its terms and yields
messages, and a Pause while a call runs without messages.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Generator, Iterator
from typing import Any
from weakref import WeakSet

from patchbay.access.principals import Principal
from patchbay.activation import CancelFlag
from patchbay.activity.call_recording import CallRecording, with_raised
from patchbay.catalogue.contents.results import without_key
from patchbay.catalogue.operating.announced_lists import AnnouncedLists
from patchbay.catalogue.servers.server import Server
from patchbay.errors import MethodNotFound, PatchbayError, ToolFailed, UnknownServer
from patchbay.jsonrpc import Exchange, Failure, Id, Message, Notification, Request, Result, Sign
from patchbay.messages.callers import Caller, LegacySession, TransportInfo
from patchbay.protocol.admission.admission import admit
from patchbay.protocol.calls import Answers, relay
from patchbay.protocol.client_requests import deliver
from patchbay.protocol.completion import check_reference
from patchbay.protocol.first_lists import await_first_entries, find_mount, has_first_lists_ahead, knows_target
from patchbay.protocol.hub_services import HubServices
from patchbay.protocol.incidents import incident
from patchbay.protocol.lists import APPS
from patchbay.protocol.methods import METHODS
from patchbay.protocol.request_context import RequestContext
from patchbay.protocol.routing import narrowed
from patchbay.protocol.running_requests import Cancellations
from patchbay.protocol.streams.call_names import CallName, named_in
from patchbay.protocol.streams.listener_slots import ListenerSlots
from patchbay.protocol.translate import not_served
from patchbay.raised.exceptions import raised_of
from patchbay.topics import ROOTS_CHANGED, SESSION_ENDED, SESSIONS

log = logging.getLogger(__name__)

RECORDED = frozenset(("tools/call", "resources/read", "prompts/get", "events/subscribe", "events/unsubscribe"))
"""Methods that run code, or let the hub send to another machine: each call makes a record."""

READ_LISTS = frozenset(
    ("tools/list", "prompts/list", "resources/list", "resources/templates/list", "skills/list", "server/discover")
)
"""Methods whose answers a client keeps until the next announcement."""

RELAYED = frozenset(
    [
        *("completion/complete", "tasks/get", "tasks/update", "tasks/cancel"),
        *("skills/list", "skills/get", "resources/directory/read"),
    ]
)
"""Methods that a mounted server answers itself."""


class Dispatcher:
    """Answers messages with the services of the hub. Safe to use from many threads.

    `places` limits the streams that only listen, over all transports. `streams` holds the bodies of answers that are
    being streamed.
    """

    def __init__(self, services: HubServices) -> None:
        self.services = services
        self.places = ListenerSlots(max(1, services.settings.listeners), services.quotas)
        self.streams: WeakSet[Any] = WeakSet()
        alone = services.settings.workers == 1 and not services.catalogue.store.is_shared
        self._announced = None if alone else AnnouncedLists(services.catalogue)
        self.cancellations = Cancellations(services.running, services.catalogue.store, alone)

    @property
    def listening(self) -> int:
        """The number of open listening streams."""
        return self.places.in_use

    def admit(self, message: Message, wire: TransportInfo) -> Caller:
        """Return the terms of a message. Raises the error of the first failing check."""
        return admit(message, wire, self.services.sessions)

    def server(self, endpoint: str, sender: Principal, operator: bool = False) -> Server:
        """Return the server of an address below /mcp/ as its sender may see it; for /mcp itself, all servers as one.

        Only the `operator` gets the versions of a removed name. Raises UnknownServer.
        """
        if self._announced is not None and "@" not in endpoint:
            self._announced.follow()
            try:
                return self._find(endpoint, sender, operator)
            except UnknownServer:
                if not self._announced.wait(endpoint):
                    raise
        return self._find(endpoint, sender, operator)

    def _find(self, endpoint: str, sender: Principal, operator: bool) -> Server:
        catalogue = self.services.access.catalogue_for(sender)
        if not endpoint:
            return catalogue.aggregate()
        name, at, cid = endpoint.partition("@")
        return catalogue.pinned(name, cid, operator) if at else catalogue.find(name)

    def catch_up(self) -> None:
        """Wait until this process serves all lists that another worker has announced; one short read when it does."""
        if self._announced is not None:
            self._announced.wait("")

    def exchange(self, wire: TransportInfo, server: Server | None = None) -> Exchange:
        """A server seen from the wire: for callers in this process, which need no HTTP.

        Without `server`, each message goes to the server that `wire.endpoint` names at that time.
        """

        def exchange(message: Message) -> Iterator[Message | Sign]:
            try:
                caller = self.admit(message, wire)
                found = server or self.server(wire.endpoint, wire.sender, wire.operator)
            except PatchbayError as problem:
                if isinstance(message, Request):
                    yield not_served(problem, message.id, None)
                return
            yield from self.answer(message, caller, found)

        return exchange

    def answer(
        self,
        message: Message,
        caller: Caller,
        server: Server,
        name: CallName | None = None,
        cancelled: CancelFlag | None = None,
    ) -> Iterator[Message | Sign]:
        """Return the answers to a message; for a request the last is a Result or Failure, unless it was cancelled.

        A call that survives its connection has a `name`, by which it is cancelled. A transport that has to cancel the
        request itself gives the flag for it.
        """
        if isinstance(message, Request):
            try:
                server = self._announced_server(message, caller, server)
            except PatchbayError as problem:
                return iter((not_served(problem, message.id, caller.revision),))
            flag = cancelled if cancelled is not None else CancelFlag()
            mounted = self._find_awaited(message, caller, server)
            if mounted is None:
                return self._begin(message, caller, server, name, flag)
            self._register(message, caller, name, flag)
            return self._begin_later(message, caller, server, name, flag, mounted)
        if isinstance(message, Notification):
            self._note(message, caller)
        elif caller.session is not None and isinstance(message, (Result, Failure)):
            deliver(self.services.catalogue.store.bus, caller.session, message)
        return iter(())

    def _begin(
        self, message: Request, caller: Caller, server: Server, name: CallName | None, flag: CancelFlag
    ) -> Iterator[Message | Sign]:
        """Begin a request, with the record of one that runs code, and return its answers."""
        request, server, proxied, asked, app = narrowed(message, server, caller.extends(APPS))
        run = self._begin_record(request, caller, server) if request.method in RECORDED else None
        context = RequestContext(self.services, request, caller, server, flag, proxied, asked, app, run)
        self._register(message, caller, None, flag)
        answers = self._answer(context)
        if name is not None:
            self.cancellations.listen()
            answers = self._cancellable(name, context, answers)
        if run is None:
            return answers
        # An answer that is stored for a later request is not for the operator alone.
        is_stored = name is not None or (caller.session is not None and caller.wire.headers is not None)
        return run.watch(answers, bool if is_stored else caller.wire.shows_raised)

    def end(self, session: LegacySession, why: str) -> None:
        """End a session: cancel its calls, end its streams, and refuse its id from now on."""
        self.services.sessions.change(session, ended=True)
        self.cancel_all(session.nonce, why)
        self.services.catalogue.store.bus.publish(f"{SESSIONS}{session.nonce}", SESSION_ENDED)

    def cancel_all(self, owner: str, why: str) -> None:
        """Cancel all running requests of one owner (`Caller.owner`), in every process."""
        self.cancellations.cancel_all(owner, why)

    def _announced_server(self, request: Request, caller: Caller, server: Server) -> Server:
        """Return the server with the lists that were announced last, for a request that reads them.

        A call of a tool reads them only if the server has no such tool. Raises UnknownServer.
        """
        endpoint = caller.wire.endpoint
        if self._announced is None or "@" in endpoint or (endpoint and endpoint != server.name):
            return server
        name = request.params.get("name")
        is_unknown = isinstance(name, str) and name not in server.tools and not server.answers_before(name)
        is_read = request.method in READ_LISTS or (request.method == "tools/call" and is_unknown)
        if not is_read or not self._announced.wait(endpoint):
            return server
        return self.server(endpoint, caller.wire.sender, caller.wire.operator)

    def _find_awaited(self, request: Request, caller: Caller, server: Server) -> Server | None:
        """Return the mount whose first lists a request needs that calls what is not listed; None for any other."""
        params, wire = request.params, caller.wire
        if knows_target(server, request.method, params) or "@" in wire.endpoint:
            return None
        mounted: Server | None = server
        if not wire.endpoint:
            mounted = find_mount(self.services.access.catalogue_for(wire.sender).all(), params.get("name"))
        elif wire.endpoint != server.name:
            return None
        return mounted if mounted is not None and has_first_lists_ahead(mounted, params.get("_meta")) else None

    def _register(self, request: Request, caller: Caller, name: CallName | None, flag: CancelFlag) -> None:
        """Let the owner of a request cancel it: before the first read, because the next message may cancel it."""
        for owner, id in _owned(request, caller, name):
            self.cancellations.listen()
            self.services.running.add(owner, id, flag)

    def _begin_later(
        self,
        request: Request,
        caller: Caller,
        server: Server,
        name: CallName | None,
        flag: CancelFlag,
        mounted: Server,
    ) -> Iterator[Message | Sign]:
        """Answer a registered request when a mount has its first lists, or is known not to have them in time."""
        wire = caller.wire
        try:
            ending = yield from await_first_entries(self.services.catalogue, mounted, wire.sender, flag)
            if ending is not None:
                if not flag.is_unanswered:
                    problem = ending.error if isinstance(ending.error, PatchbayError) else ToolFailed(ending.message)
                    yield not_served(problem, request.id, caller.revision)
                return
            if mounted.standing is not None and mounted.standing.state_known.is_set():
                server = self.server(wire.endpoint, wire.sender, wire.operator)
            yield from self._begin(request, caller, server, name, flag)
        except PatchbayError as problem:
            yield not_served(problem, request.id, caller.revision)
        finally:
            for owner, id in _owned(request, caller, name):
                self.services.running.remove(owner, id, flag)

    def _begin_record(self, request: Request, caller: Caller, server: Server) -> CallRecording:
        """Begin the record of a request that runs code."""
        params = request.params
        meta = params.get("_meta")
        if request.method == "resources/read":
            uri = params.get("uri")
            name = without_key(uri) if isinstance(uri, str) else uri
            given: Any = {"uri": name}
        else:
            name, given = params.get("name"), params.get("arguments")
        return self.services.activity.begin(
            request.method,
            name if isinstance(name, str) else "",
            server,
            caller.wire,
            given if isinstance(given, dict) else None,
            meta if isinstance(meta, dict) else None,
            caller.session,
            caller.revision.name,
            request.id,
        )

    def _answer(self, context: RequestContext) -> Generator[Message | Sign, None, None]:
        request, caller = context.request, context.caller
        try:
            row = METHODS.get(request.method)
            if row is None or not row.exists_in(caller.revision):
                raise MethodNotFound(f"there is no method {request.method!r} in {caller.revision.name}")
            relayed = context.server.upstream is not None and request.method in RELAYED
            yield from self._relay(context) if relayed else row.run(context)
        except PatchbayError as problem:
            answer = not_served(problem, request.id, caller.revision)
            # The record of a call adds it to the other methods (`CallRecording.watch`).
            raised = () if context.run is not None else raised_of(problem)
            yield with_raised(answer, raised) if raised and caller.wire.shows_raised() else answer
        except Exception:
            yield not_served(incident(log, f"while answering {request.method}"), request.id, caller.revision)
        finally:
            if caller.owner is not None:
                self.services.running.remove(caller.owner, request.id, context.cancelled)

    def _relay(self, context: RequestContext) -> Answers:
        """Let a mounted server answer, which counts as a call for quotas; methods of tasks belong to a counted call."""
        method = context.request.method
        if method == "completion/complete":
            check_reference(context)
        hub, sender = self.services.catalogue.hub, context.caller.wire.sender
        place = None if method.startswith("tasks/") else hub.begin_call(sender, context.server.name, False)
        try:
            if place is not None and place.delay:
                time.sleep(place.delay)
            yield from relay(context)
        finally:
            if place is not None:
                place.release()

    def _cancellable(
        self, name: CallName, context: RequestContext, answers: Generator[Message | Sign, None, None]
    ) -> Generator[Message | Sign, None, None]:
        """Let any process cancel a call by its name while it runs."""
        self.services.running.add(name.owner, name.id, context.cancelled)
        try:
            yield from answers
        finally:
            self.services.running.remove(name.owner, name.id, context.cancelled)

    def _note(self, notification: Notification, caller: Caller) -> None:
        reason = notification.params.get("reason")
        why = reason if isinstance(reason, str) else "no reason given"
        named = named_in(notification, caller) if notification.method == "notifications/cancelled" else None
        if named is not None:
            self.cancellations.cancel(*named, why)
        # Over HTTP a modern client cancels other calls by closing their stream: it owns no request ids.
        if caller.owner is None or named is not None:
            return
        if notification.method == "notifications/roots/list_changed":
            self.services.catalogue.store.bus.publish(ROOTS_CHANGED, caller.owner.encode())
        if notification.method != "notifications/cancelled":
            return
        id = notification.params.get("requestId")
        if isinstance(id, (str, int)):
            self.cancellations.cancel(caller.owner, id, why)


def _owned(request: Request, caller: Caller, name: CallName | None) -> Iterator[tuple[str, Id]]:
    """Yield the owners who can cancel a request, each with the id by which it does."""
    if caller.owner is not None:
        yield caller.owner, request.id
    if name is not None:
        yield name.owner, name.id

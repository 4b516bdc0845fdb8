"""The native interface (Plexus): the answer to a call is a subscription id at once, then the items of the call.

It uses the same catalogue, the same checks and the same `Server.activate` as MCP, without handshake, session and
revision. Unsubscribing cancels the call and ends its items. A tool that asks its caller a question fails here with a
message.
Source: https://www.jsonrpc.org/specification.
"""

from __future__ import annotations

import logging
import re
import secrets
from collections.abc import Generator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from patchbay.activation import CancelFlag
from patchbay.catalogue.visible_catalogue import VisibleCatalogue
from patchbay.errors import InvalidParams, InvalidRequest, MethodNotFound, OverQuota, PatchbayError
from patchbay.events import Done, Failed, Pause
from patchbay.jsonrpc import Failure, Id, Notification, Rendered, Request, Result, failure, message
from patchbay.messages.callers import TransportInfo
from patchbay.protocol.hub_services import HubServices
from patchbay.protocol.incidents import incident
from patchbay.protocol.methods import METHODS
from patchbay.protocol.native.calls import events_of
from patchbay.protocol.native.introspection import introspect, plexus_hash
from patchbay.protocol.native.names import CannotBegin, Params, find, find_owner
from patchbay.protocol.running_requests import Cancellations
from patchbay.views.native import Item, Stamp, guidance, items, notification

log = logging.getLogger(__name__)

ID_BITS = 53
"""Bits of a subscription id: a random whole number that every JSON parser reads exactly."""

_METHOD = re.compile(r"[A-Za-z0-9_.-]{1,257}")
_UNSUBSCRIBE = re.compile(r"(plexus[._]unsubscribe|[A-Za-z0-9_.-]{1,257}[._]unsubscribe_[A-Za-z0-9_.-]{1,257})")


@dataclass(frozen=True, slots=True)
class NativeRequest:
    """A native request. `params` is an array (bound by position) or an object (by name)."""

    id: Id
    method: str
    params: Params


Stream = Generator[Result | Notification | Pause, None, None]
"""The answer to a call: first the Result with the subscription id, then one Notification for each item."""

Answer = Stream | Result | Failure


def parse_request(value: Any) -> NativeRequest | None:
    """Return the native request of one parsed JSON value; None for a notification, which gets no answer.

    Raises InvalidRequest for every other value, also for an array of messages.
    """
    if isinstance(value, list):
        raise InvalidRequest("an array of messages is not served here: send one message at a time")
    params = value.get("params") if isinstance(value, dict) else None
    if params is not None and not isinstance(params, (list, dict)):
        raise InvalidRequest('"params" has to be an array (by position) or an object (by name)')
    parsed = message({**value, "params": {}} if isinstance(params, list) else value)
    if isinstance(parsed, Request):
        return NativeRequest(parsed.id, parsed.method, params if isinstance(params, list) else parsed.params)
    if isinstance(parsed, Notification):
        return None
    raise InvalidRequest("this message is a response, and the hub sent no request: send a request with a method")


class Native:
    """Answers native requests. Safe to use from many threads.

    Only the connection that subscribed may unsubscribe; over HTTP, any caller with the same principal may.
    """

    def __init__(self, services: HubServices, cancellations: Cancellations) -> None:
        self._desk = services
        self._cancellations = cancellations

    def answer(self, request: NativeRequest, wire: TransportInfo, cancelled: CancelFlag | None = None) -> Answer:
        """Return the answer to a request. The first read of the stream begins the call; closing cancels it.

        A transport that has to cancel the call itself gives the flag for it.
        """
        method, seen = request.method, self._desk.access.catalogue_for(wire.sender)
        try:
            if _UNSUBSCRIBE.fullmatch(method) and find_owner(seen.aggregate(), method) is None:
                return self._unsubscribe(request, _owner(wire))
            if method in METHODS:
                raise MethodNotFound(f"{method} is a method of MCP, which is served at /mcp")
            if not _METHOD.fullmatch(method):
                raise MethodNotFound(f"{method!r:.140} is not a method: methods are called namespace.method")
            if (refused := self._refusal(method, wire, seen)) is not None:
                raise refused
        except PatchbayError as problem:
            return failure(request.id, problem)
        return self._stream(request, wire, seen, cancelled if cancelled is not None else CancelFlag())

    def _refusal(self, method: str, wire: TransportInfo, seen: VisibleCatalogue) -> OverQuota | None:
        """Return the error of a used-up quota. It is asked before the answer, which sets the HTTP status, begins."""
        owner = find_owner(seen.aggregate(), method)
        return self._desk.quotas.refusal(wire.sender, owner[0].name) if owner is not None else None

    def cancel_all(self, wire: TransportInfo, why: str) -> None:
        """Cancel every call of a connection."""
        self._cancellations.cancel_all(_owner(wire), why)

    def _unsubscribe(self, request: NativeRequest, owner: str) -> Result:
        """Cancel one call; the result says whether it ran in this process."""
        params = request.params
        given = [params.get("subscription")] if isinstance(params, Mapping) else list(params)
        if len(given) != 1 or isinstance(given[0], bool) or not isinstance(given[0], int):
            raise InvalidParams(f"{request.method} takes one subscription id, a whole number")
        found = self._cancellations.cancel(owner, given[0], "unsubscribed")
        return Result(request.id, Rendered(b"true" if found else b"false"))

    def _stream(self, request: NativeRequest, wire: TransportInfo, seen: VisibleCatalogue, flag: CancelFlag) -> Stream:
        owner, subscription = _owner(wire), secrets.randbits(ID_BITS)
        self._cancellations.listen()
        # Register the call before its id is sent, because the next message may unsubscribe it.
        self._desk.running.add(owner, subscription, flag)
        try:
            yield Result(request.id, Rendered(b"%d" % subscription))
            with closing(self._items(request, wire, seen, flag)) as found:
                for item in found:
                    if flag:
                        return
                    yield item if isinstance(item, Pause) else notification(request.method, subscription, item)
        finally:
            self._desk.running.remove(owner, subscription, flag)

    def _items(
        self, request: NativeRequest, wire: TransportInfo, seen: VisibleCatalogue, flag: CancelFlag
    ) -> Generator[Item | Pause, None, None]:
        """Yield the items of one call; the last is always `done`."""
        whole = seen.aggregate()
        stamp = Stamp(plexus_hash(whole))
        try:
            parsed = introspect(request.method, request.params, whole)
            if parsed is not None:
                yield from (*items(parsed, stamp), *items(Done(), stamp))
                return
            server, descriptor = find(seen, request.method)
            stamp = replace(stamp, segments=(server.name,))
            with closing(events_of(self._desk, server, descriptor, request.params, wire, flag)) as events:
                for event in events:
                    yield from (event,) if isinstance(event, Pause) else items(event, stamp)
        except CannotBegin as problem:
            stamp = replace(stamp, segments=problem.segments)
            yield guidance(problem.kind, problem.hints, stamp)
            yield from items(Failed(problem.message), stamp)
        except OverQuota as problem:
            yield from items(Failed(problem.message), stamp)
        except Exception:
            yield from items(Failed(incident(log, f"in the native call {request.method:.140}").message), stamp)


def _owner(wire: TransportInfo) -> str:
    return wire.connection or f"native-{wire.principal}"

"""Streams of changes: `subscriptions/listen` of 2026-07-28 and the GET stream of the older revisions.

A subscriber is registered before its acknowledgement, so it misses no later change in this process; the journal fills
gaps: the last event of a change on a GET stream has the number of the change. A listener gets changes of its own server
and of the requested kinds only. A listener with a full mailbox gets one notification for everything that it listens to.
A session has one GET stream: the newest.
Source: MCP specification 2026-07-28, server/utilities/subscriptions; 2025-11-25, basic/transports.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from patchbay.access.control import AccessControl
from patchbay.access.principals import Principal
from patchbay.activation import PAUSE, CancelFlag
from patchbay.app_uris import APP_SCHEME, public_uri
from patchbay.catalogue.aggregate.aggregate import Aggregate
from patchbay.catalogue.reading.resources import shows_variable
from patchbay.catalogue.reading.uri_templates import compile_template
from patchbay.catalogue.servers.server import Server
from patchbay.descriptors import Descriptor
from patchbay.errors import InvalidParams
from patchbay.events import Pause, Wait, wait_blocking
from patchbay.jsonrpc import Id, Message, Notification, Result, Sign
from patchbay.messages.callers import Caller, LegacySession
from patchbay.messages.versions import Revision
from patchbay.protocol.admission.sessions import Sessions
from patchbay.protocol.tasks.tasks import TaskWatch
from patchbay.protocol.translate import stamped
from patchbay.store import Store
from patchbay.topics import ACCESS_ENDED, CANCELLED, CHANGED, CHANGES, ENDING, SESSIONS, UPDATED, VARIABLE_CHANGED

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"

MAX_URIS, MAX_URI_CHARACTERS = 256, 8192
"""Limits on the resources of one session or listener, and on the characters of a URI."""

_FLAGS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}
_EVENTS_FLAG = {"eventsListChanged": "events"}
"""The flag of the extension io.modelcontextprotocol/events (SEP-3415), for servers with event types."""


@dataclass(frozen=True, slots=True)
class NumberedMessage:
    """A message of a GET stream, and the number of the change that it completes, or None.

    The first one has no message; its number is where the stream begins.
    """

    number: int | None
    message: Message | None


NO_TASKS = TaskWatch((), lambda task: task)
"""The watch of every listener that follows no task. It never changes."""


class Listeners:
    """Opens streams of changes. `keepalive` is the longest time without a message in seconds; `ending` says that the
    hub stops, `access` which changes each sender may know. A stream ends when the credentials of its sender are
    revoked.
    """

    def __init__(
        self,
        store: Store,
        keepalive: float,
        ending: Callable[[], bool],
        sessions: Sessions,
        access: AccessControl,
    ) -> None:
        self._access = access
        self._store = store
        self._keepalive = keepalive
        self._ending = ending
        self._sessions = sessions

    def is_ending(self) -> bool:
        """Whether the hub stops, so that every stream has to end."""
        return self._ending()

    def listen(
        self, server: Server, caller: Caller, id: Id, wanted: Any, cancelled: CancelFlag, watch: TaskWatch | None = None
    ) -> Iterator[Message | Sign]:
        """Yield the messages of one `subscriptions/listen`: acknowledgement, changes, and the end when the hub stops.

        For tasks (`watch`) it yields the present state, then each change. After a cancellation it yields no messages.
        """
        steps = self._listen(server, caller, id, wanted, cancelled, watch or NO_TASKS)
        return steps if caller.wire.waits else wait_blocking(steps)

    def _listen(
        self, server: Server, caller: Caller, id: Id, wanted: Any, cancelled: CancelFlag, watch: TaskWatch
    ) -> Iterator[Message | Sign]:
        # What a stream keeps is small: thousands of them may rest.
        honoured = _honoured(wanted, _FLAGS | _EVENTS_FLAG if server.events else _FLAGS)
        # A pinned server never changes, and its capabilities say so.
        honoured = ({} if server.pinned else honoured) | ({"taskIds": watch.ids} if watch.ids else {})
        kinds = tuple(kind for flag, kind in (_FLAGS | _EVENTS_FLAG).items() if honoured.get(flag))
        uris = frozenset(honoured.get("resourceSubscriptions", ()))
        tag = {"_meta": {SUBSCRIPTION_ID: id}}
        own = [cancelled_topic(caller.owner)] if caller.owner is not None else []
        own += self._access.end_topics(caller.wire.sender)
        with self._store.bus.subscribe([*_topics(server), *own, *watch.topics]) as mailbox:
            yield Notification("notifications/subscriptions/acknowledged", {"notifications": honoured, **tag})
            del honoured, own, wanted
            notices: Iterable[tuple[str, dict[str, Any]]] = _task_notifications(watch, None)
            lost, wait = 0, Wait(mailbox, self._keepalive)
            if self._has_ended(caller.wire.sender, None):
                return  # before the subscription, which gets later ends only
            while not self._ending():
                for method, params in notices:
                    yield Notification(method, {**params, **tag})
                notices = ()
                yield wait
                got = mailbox.get(0)
                if got is None:
                    yield PAUSE
                if (cancelled and not self._ending()) or self._has_ended(caller.wire.sender, got):
                    return
                if mailbox.dropped > lost:
                    lost = mailbox.dropped
                    notices = chain(_everything(kinds, uris), _task_notifications(watch, None))
                # Check the tasks also without a message, because their process may be gone.
                elif got is None or got[0] in watch.topics:
                    notices = _task_notifications(watch, got)
                else:
                    notices = self._allowed_notifications(server, caller.wire.sender, *got, kinds, uris)
        yield Notification("notifications/cancelled", {"requestId": id, "reason": "the hub is stopping", **tag})
        yield Result(id, stamped({"_meta": tag["_meta"]}, server, caller.revision))

    def stream(
        self, server: Server, session: LegacySession, after: int | None, sender: Principal
    ) -> Iterator[NumberedMessage | Pause | Wait]:
        """Yield a session's GET stream, first the changes since `after` if given. Ends with the session or the hub."""
        own = f"{SESSIONS}{session.nonce}"
        kinds, lost = _heard_of(server, session), 0
        may_have_ended = True  # in another process, before this one subscribed
        with self._store.bus.subscribe([*_topics(server), own, *self._access.end_topics(sender)]) as mailbox:
            # The token is newer than the subscription, so that this stream learns of every stream with a newer token.
            token = self._store.order_token()
            self._store.bus.publish(own, token)
            wait = Wait(mailbox, self._keepalive)
            newest = self._store.journal.last(f"{CHANGES}{server.announced_as}")
            last = newest if after is None else min(after, newest)
            yield NumberedMessage(last, None)
            if self._has_ended(sender, None):
                return
            while True:
                for entry in self._store.journal.read(f"{CHANGES}{server.announced_as}", last):
                    last = entry.seq
                    topic = _topic_of(server, entry.data)
                    news = self._allowed_notifications(server, sender, topic, entry.data, kinds, set())
                    notices = [Notification(*one) for one in news]
                    if not notices:
                        continue  # its number alone would show the sender that something hidden changed
                    *first, end = notices
                    # Only the last message of a change has its number: a client that left before gets all of it again.
                    yield from (NumberedMessage(None, message) for message in first)
                    yield NumberedMessage(last, end)
                ended = session.ended or (may_have_ended and self._sessions.has_ended(session))
                if ended or self._ending():
                    return
                may_have_ended = False
                yield wait
                got = mailbox.get(0)
                if got is None:
                    yield PAUSE
                if self._has_ended(sender, got):
                    return
                if got is None:
                    continue
                if got[0] == own and got[1] > token:
                    # The session opened another stream later: each message goes to one stream only. The token of an
                    # earlier stream in another process may arrive after this stream began.
                    return
                elif mailbox.dropped > lost:
                    lost, may_have_ended = mailbox.dropped, True
                    for method, params in _everything(set(), self._sessions.subscribed(session)):
                        yield NumberedMessage(None, Notification(method, params))
                elif got[0].startswith((UPDATED, VARIABLE_CHANGED)):
                    uris = self._sessions.subscribed(session)
                    for method, params in self._allowed_notifications(server, sender, *got, set(), uris):
                        yield NumberedMessage(None, Notification(method, params))

    def _allowed_notifications(
        self, server: Server, sender: Principal, topic: str, data: bytes, kinds: Collection[str], uris: Collection[str]
    ) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield the notifications of one message, if the sender may know the server and the resource."""
        catalogue = self._access.catalogue_for(sender)
        if topic.startswith(VARIABLE_CHANGED):
            name = topic.removeprefix(VARIABLE_CHANGED)
            for uri in sorted(uris):
                if shows_variable(catalogue, server, uri, name, sender.id):
                    yield "notifications/resources/updated", {"uri": uri}
            return
        publisher, uri = topic.removeprefix(UPDATED), data.decode() if topic.startswith(UPDATED) else ""
        if uri and server.is_composed:
            shown = find_announced(server, uri, publisher)
            if shown is None or catalogue.forbids(publisher, uri):
                return
            publisher, uri = server.name, shown
        if uri and not catalogue.shows_everything and not catalogue.hears_of(publisher, uri):
            return
        if uri and isinstance(server, Aggregate):
            # The URI as all servers name it; a server announces changes of its own resources only.
            uri = public_uri(publisher, uri)
            if uri not in uris or not catalogue.aggregate().may_announce(publisher, uri):
                return
        name = topic.removeprefix(CHANGED) if topic.startswith(CHANGED) else ""
        if name and not catalogue.shows_everything and not catalogue.hears_of(name):
            return
        yield from _notifications_of(topic, uri.encode() or data, kinds, uris)

    def _has_ended(self, sender: Principal, got: tuple[str, bytes] | None) -> bool:
        """Whether the sender's credentials are no longer valid; looked at after silence and when some were revoked."""
        return (got is None or got[0] == ACCESS_ENDED) and not self._access.may_listen(sender)


def _topic_of(server: Server, data: bytes) -> str:
    """Return the topic of a change in the journal: the aggregate's changes name their server."""
    return f"{CHANGED}{server.announced_as or orjson.loads(data).get('server', '')}"


def configured_capabilities(server: Server, revision: Revision) -> Mapping[str, Any] | None:
    """Return the capabilities for clients of a revision from the configuration; None if it does not restrict them."""
    found: Mapping[str, Any] | None = server.config.get("capabilities", {}).get(revision.name)
    return found


def _heard_of(server: Server, session: LegacySession) -> set[str]:
    """Return the lists whose changes a session gets: all, unless the declared capabilities exclude some."""
    if server.pinned:
        return set()
    declared = configured_capabilities(server, session.revision)
    kinds = set(_FLAGS.values())
    return kinds if declared is None else {kind for kind in kinds if declared.get(kind, {}).get("listChanged")}


def cancelled_topic(owner: str) -> str:
    """Return the bus topic for cancelled requests of an owner."""
    return f"{CANCELLED}{owner}"


def _topics(server: Server) -> list[str]:
    if server.pinned:
        return [ENDING]
    name = server.announced_as or "*"
    behind = sorted({one.origins[-1].server for one in _readable(server)}) if server.is_composed else []
    return [f"{CHANGED}{name}", *(f"{UPDATED}{one}" for one in (name, *behind)), f"{VARIABLE_CHANGED}*", ENDING]


def _readable(toolset: Server) -> list[Descriptor]:
    return [*toolset.resources.values(), *toolset.templates.values()]


def find_readable(toolset: Server, uri: str) -> Descriptor | None:
    """Return the resource of a toolset with a URI, or its template that matches it."""
    found = toolset.resources.get(uri) or toolset.skill_files.get(uri)
    if found is not None:
        return found
    return next(
        (
            one
            for key, one in toolset.templates.items()
            if compile_template(str(one.target.get("matches", key))).match(uri) is not None
        ),
        None,
    )


def find_announced(toolset: Server, uri: str, publisher: str) -> str | None:
    """Return the URI in a toolset of a resource whose change a server announces; None for one that it does not have."""
    if uri.startswith(APP_SCHEME):
        those = ((key, one.origins[-1]) for key, one in toolset.resources.items() if one.origins)
        return next((key for key, origin in those if (origin.server, origin.name) == (publisher, uri)), None)
    found = find_readable(toolset, uri)
    return uri if found is not None and found.origins and found.origins[-1].server == publisher else None


def _everything(kinds: Collection[str], uris: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield a notification for everything that a listener listens to, after it missed messages."""
    for kind in sorted(kinds):
        yield f"notifications/{kind}/list_changed", {}
    for uri in sorted(uris):
        yield "notifications/resources/updated", {"uri": uri}


def _task_notifications(watch: TaskWatch, got: tuple[str, bytes] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    for detailed in watch.news(got[0] if got else None):
        yield "notifications/tasks", detailed


def _notifications_of(
    topic: str, data: bytes, kinds: Collection[str], uris: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    if topic.startswith(UPDATED):
        uri = data.decode("utf-8")
        if uri in uris:
            yield "notifications/resources/updated", {"uri": uri}
    elif topic.startswith(CHANGED):
        for kind in orjson.loads(data).get("kinds", ()):
            if kind in kinds:
                yield f"notifications/{kind}/list_changed", {}


def _honoured(wanted: Any, flags: Mapping[str, str]) -> dict[str, Any]:
    """Return the supported part of a listen request's filter. Raises InvalidParams."""
    if not isinstance(wanted, Mapping):
        raise InvalidParams("params.notifications has to be an object that says what to listen for")
    honoured: dict[str, Any] = {}
    for flag in flags:
        if flag in wanted and not isinstance(wanted[flag], bool):
            raise InvalidParams(f"params.notifications.{flag} has to be true or false")
        if wanted.get(flag):
            honoured[flag] = True
    uris = wanted.get("resourceSubscriptions")
    if uris is not None:
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise InvalidParams("params.notifications.resourceSubscriptions has to be an array of URIs")
        if len(uris) > MAX_URIS or any(len(uri) > MAX_URI_CHARACTERS for uri in uris):
            raise InvalidParams(f"at most {MAX_URIS} URIs of {MAX_URI_CHARACTERS} characters can be listened to")
        honoured["resourceSubscriptions"] = uris
    return honoured

"""Listening for changes: `subscriptions/listen` of 2026-07-28 and the GET stream of the older revisions.

A subscriber is registered before it is told so; no change after the acknowledgement is lost in this
process, and the journal fills gaps: the last event of a change on a GET stream has the change's number.
Each listener hears of its own server only, and only the kinds it asked for. One that was too slow for its
mailbox is told of everything it listens to, once. A session has one GET stream: the newest.
Sources: SPEC-DIGEST 1.8, 1.10; THREATS 1.2; REQUIREMENTS T9.2, T9.8.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass
from itertools import chain
from typing import Any

import orjson

from patchbay.activation import PAUSE, CancelFlag
from patchbay.catalogue.servers import Server
from patchbay.errors import InvalidParams
from patchbay.events import Pause
from patchbay.jsonrpc import Id, Message, Notification, Result, Sign
from patchbay.protocol.callers import Caller, LegacySession
from patchbay.protocol.tasks.tasks import TaskWatch
from patchbay.protocol.translate import stamped
from patchbay.protocol.versions import Revision
from patchbay.store import Store, Wait, wait_blocking

SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
ENDING = "ending"
"""Bus topic on which a process says that its streams are to end."""

MOST_URIS, LONGEST_URI = 256, 8192
"""How many resources one session or listener can subscribe to, and how many characters a URI can have."""

_FLAGS = {"toolsListChanged": "tools", "promptsListChanged": "prompts", "resourcesListChanged": "resources"}


@dataclass(frozen=True, slots=True)
class NumberedMessage:
    """A message of a GET stream, and the number of the change that has been told with it, if one has.

    Without a message, where the stream begins.
    """

    number: int | None
    message: Message | None


class Listeners:
    """Opens streams of changes. `keepalive` is the longest silence in seconds; `ending` says the hub is stopping,
    `subscribed` which resources a session wants to hear of now."""

    def __init__(
        self,
        store: Store,
        keepalive: float,
        ending: Callable[[], bool],
        subscribed: Callable[[LegacySession], Set[str]],
    ) -> None:
        self._store = store
        self._keepalive = keepalive
        self._ending = ending
        self._subscribed = subscribed

    def listen(
        self, server: Server, caller: Caller, id: Id, wanted: Any, cancelled: CancelFlag, watch: TaskWatch | None = None
    ) -> Iterator[Message | Sign]:
        """The stream of one `subscriptions/listen`: acknowledgement, changes, and the end when the hub stops.

        Tasks (`watch`) are told as they are, then whenever they change. Once it is cancelled nothing more is said.
        """
        steps = self._listen(server, caller, id, wanted, cancelled, watch or TaskWatch((), lambda task: task))
        return steps if caller.wire.waits else wait_blocking(steps)

    def _listen(
        self, server: Server, caller: Caller, id: Id, wanted: Any, cancelled: CancelFlag, watch: TaskWatch
    ) -> Iterator[Message | Sign]:
        asked = _honoured(wanted)
        # What is pinned never changes; its capabilities say so.
        honoured = ({} if server.pinned else asked) | ({"taskIds": watch.ids} if watch.ids else {})
        kinds = {kind for flag, kind in _FLAGS.items() if honoured.get(flag)}
        uris = set(honoured.get("resourceSubscriptions", ()))
        tag = {"_meta": {SUBSCRIPTION_ID: id}}
        own = [cancelled_topic(caller.owner)] if caller.owner is not None else []
        with self._store.bus.subscribe([*_topics(server), *own, *watch.topics]) as mailbox:
            yield Notification("notifications/subscriptions/acknowledged", {"notifications": honoured, **tag})
            told, lost, wait = _tasks_told(watch, None), 0, Wait(mailbox, self._keepalive)
            while not self._ending():
                for method, params in told:
                    yield Notification(method, {**params, **tag})
                yield wait
                got = mailbox.get(0)
                if got is None:
                    yield PAUSE
                if cancelled and not self._ending():
                    return
                if mailbox.dropped > lost:
                    lost = mailbox.dropped
                    told = chain(_everything(kinds, uris), _tasks_told(watch, None))
                # Without a hint the tasks are looked at all the same: whoever ran them may be gone.
                elif got is None or got[0] in watch.topics:
                    told = _tasks_told(watch, got)
                else:
                    told = _told(got[0], got[1], kinds, uris)
        yield Notification("notifications/cancelled", {"requestId": id, "reason": "the hub is stopping", **tag})
        yield Result(id, stamped({"_meta": tag["_meta"]}, server, caller.revision))

    def stream(
        self, server: Server, session: LegacySession, after: int | None
    ) -> Iterator[NumberedMessage | Pause | Wait]:
        """A session's GET stream; with `after`, first the changes since that number. Ends with session or hub."""
        own, token = f"session/{session.nonce}", secrets.token_bytes(8)
        kinds, lost = _heard_of(server, session), 0
        self._store.bus.publish(own, token)
        with self._store.bus.subscribe([*_topics(server), own]) as mailbox:
            wait = Wait(mailbox, self._keepalive)
            newest = self._store.journal.last(f"changes/{server.announced_as}")
            last = newest if after is None else min(after, newest)
            yield NumberedMessage(last, None)
            while True:
                for entry in self._store.journal.read(f"changes/{server.announced_as}", last):
                    last = entry.seq
                    news = _told("changed/", entry.data, kinds, set())
                    told: list[Message | None] = [Notification(*one) for one in news]
                    *first, end = told or [None]
                    # Only with its last message has a change been told: who leaves before comes back to all of it.
                    yield from (NumberedMessage(None, message) for message in first)
                    yield NumberedMessage(last, end)
                if session.ended or self._ending():
                    return
                yield wait
                got = mailbox.get(0)
                if got is None:
                    yield PAUSE
                elif got[0] == own and got[1]:
                    # Another stream of this session was opened: a message goes to one stream only.
                    return
                elif mailbox.dropped > lost:
                    lost = mailbox.dropped
                    for method, params in _everything(set(), self._subscribed(session)):
                        yield NumberedMessage(None, Notification(method, params))
                elif got[0].startswith("updated/"):
                    for method, params in _told(got[0], got[1], set(), self._subscribed(session)):
                        yield NumberedMessage(None, Notification(method, params))


def fewer(server: Server, revision: Revision) -> Mapping[str, Any] | None:
    """The capabilities that the clients of a revision are told of, where the configuration says so; else None."""
    found: Mapping[str, Any] | None = server.config.get("capabilities", {}).get(revision.name)
    return found


def _heard_of(server: Server, session: LegacySession) -> set[str]:
    """The lists whose changes a session is told of: all, unless its capabilities said that it is not."""
    if server.pinned:
        return set()
    told = fewer(server, session.revision)
    kinds = set(_FLAGS.values())
    return kinds if told is None else {kind for kind in kinds if told.get(kind, {}).get("listChanged")}


def cancelled_topic(owner: str) -> str:
    """Bus topic that says: the owner of these requests cancelled one of them."""
    return f"cancelled/{owner}"


def _topics(server: Server) -> list[str]:
    if server.pinned:
        return [ENDING]
    heard = server.announced_as or "*"
    return [f"changed/{heard}", f"updated/{heard}", ENDING]


def _everything(kinds: Set[str], uris: Set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What a listener is told that missed something: that all it listens to may have changed."""
    for kind in sorted(kinds):
        yield f"notifications/{kind}/list_changed", {}
    for uri in sorted(uris):
        yield "notifications/resources/updated", {"uri": uri}


def _tasks_told(watch: TaskWatch, got: tuple[str, bytes] | None) -> Iterator[tuple[str, dict[str, Any]]]:
    for detailed in watch.news(got[0] if got else None):
        yield "notifications/tasks", detailed


def _told(topic: str, data: bytes, kinds: Set[str], uris: Set[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if topic.startswith("updated/"):
        uri = data.decode("utf-8")
        if uri in uris:
            yield "notifications/resources/updated", {"uri": uri}
    elif topic.startswith("changed/"):
        for kind in orjson.loads(data).get("kinds", ()):
            if kind in kinds:
                yield f"notifications/{kind}/list_changed", {}


def _honoured(wanted: Any) -> dict[str, Any]:
    """The part of a listen request's filter that is served. Raises InvalidParams."""
    if not isinstance(wanted, Mapping):
        raise InvalidParams("params.notifications has to be an object that says what to listen for")
    honoured: dict[str, Any] = {}
    for flag in _FLAGS:
        if flag in wanted and not isinstance(wanted[flag], bool):
            raise InvalidParams(f"params.notifications.{flag} has to be true or false")
        if wanted.get(flag):
            honoured[flag] = True
    uris = wanted.get("resourceSubscriptions")
    if uris is not None:
        if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
            raise InvalidParams("params.notifications.resourceSubscriptions has to be an array of URIs")
        if len(uris) > MOST_URIS or any(len(uri) > LONGEST_URI for uri in uris):
            raise InvalidParams(f"at most {MOST_URIS} URIs of {LONGEST_URI} characters can be listened to")
        honoured["resourceSubscriptions"] = uris
    return honoured

"""WebSockets without a hello end with the credentials of their senders."""

from __future__ import annotations

from dataclasses import dataclass, field

from patchbay.access.principals import Principal
from patchbay.stores.memory import MemoryStore
from patchbay.topics import ACCESS_ENDED
from patchbay.wire.rooms.silent_sockets import SilentSockets
from tests.waiting import until


@dataclass(eq=False)
class Socket:
    """A WebSocket that notes its end."""

    sender: Principal
    ends: list[str] = field(default_factory=list)

    def end_revoked(self) -> None:
        self.ends.append(self.sender.id)


def test_a_socket_ends_with_its_credential_and_others_stay() -> None:
    store, revoked = MemoryStore(), {"key:eve"}
    sockets = SilentSockets(store.bus, lambda sender: sender.id not in revoked)
    eve, ann, ben = (Socket(Principal(f"key:{name}")) for name in ("eve", "ann", "ben"))
    sockets.add(eve)
    assert eve.ends == ["key:eve"], "the credential had ended before"
    for one in (ann, ben):
        sockets.add(one)
    revoked.add("key:ann")
    store.bus.publish(ACCESS_ENDED)
    until(lambda: ann.ends == ["key:ann"], "the end of the socket")
    assert ben.ends == []


def test_a_socket_that_has_a_session_is_left_alone_and_the_watch_begins_again() -> None:
    store, revoked = MemoryStore(), set[str]()
    sockets = SilentSockets(store.bus, lambda sender: sender.id not in revoked)
    greeted, silent = Socket(Principal("key:ann")), Socket(Principal("key:ben"))
    sockets.add(greeted)
    sockets.discard(greeted)
    store.bus.publish(ACCESS_ENDED)
    until(lambda: not sockets._loop.is_started, "the end of the watch without sockets")
    sockets.add(silent)
    revoked.update(("key:ann", "key:ben"))
    store.bus.publish(ACCESS_ENDED)
    until(lambda: silent.ends == ["key:ben"], "the end of the silent socket")
    assert greeted.ends == []

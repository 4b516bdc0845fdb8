"""Serves servers of this machine to one room of another hub, over a connection that goes out from here.

No port is opened here: calls come over the WebSocket, through firewalls and address translators.
When the connection ends, running calls are cancelled, and it is opened again after half a second, then after twice the
time each, up to half a minute. After each opening every server is announced anew.

The newest announcer of one user serves an id. A server that another session shares by now is given up: calls that run
here finish, and an announcer without servers ends. One that was away does not take its servers back.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import orjson

from patchbay import exit_codes
from patchbay.client.addresses.targets import Http
from patchbay.client.connection.connection import Connection
from patchbay.client.rooms.address import RoomAddress
from patchbay.client.rooms.connection import RoomConnection, RoomRefusal
from patchbay.client.rooms.hosted_server import TOOL, HostedServer
from patchbay.client.rooms.partials import Partials
from patchbay.errors import PatchbayError

FIRST_RETRY_SECONDS, MAX_RETRY_SECONDS, JITTER = 0.5, 30.0, 0.2
MAX_CALLS = 32
"""Calls of one room that run at a time; others wait."""

RECEIVE_SECONDS = 0.5
"""How soon the end of the announcer is noticed."""

PARTIAL_SECONDS = 0.03
"""The shortest time between two partials: a room takes so many envelopes a second of one session."""

MAX_RESULT_BYTES = 1024 * 1024 - 4096
"""Bytes of a result that a room takes by default."""

MAX_OWN_SESSIONS = 16
"""Ids of earlier sessions of an announcer that are remembered."""

MAX_REMEMBERED_ANSWERS, MAX_REPEATS, REPEAT_SECONDS = 256, 5, 1.0
"""Answers that can be sent again when the room says that they came too fast, how often, and how much later."""

LISTED_SECONDS = 5.0
"""Seconds in which the hub usually lists the tools of a server."""

LOOK_SECONDS = 0.05
"""Seconds between two looks at the list."""

Json = dict[str, Any]


class ServersReplaced(PatchbayError):
    """Other sessions share all servers of an announcer by now."""

    exit_code = exit_codes.FAILED


class Observer(Protocol):
    """What the person at this machine sees and decides."""

    def report(self, sentence: str) -> None:
        """Show what happened."""
        ...

    def allows(self, room: RoomAddress, caller: str, server: str, tool: str, arguments: Json) -> bool:
        """Decide whether a call may run; may wait for a person."""
        ...


class Announcer:
    """One room and the servers that it gets. `run` works until `stop`; any thread may call `refresh`."""

    def __init__(
        self,
        room: RoomAddress,
        servers: Sequence[HostedServer],
        observer: Observer,
        agent: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.room = room
        self._servers = {server.id: server for server in servers}
        self._shared = set(self._servers)
        """Ids of the servers that no other session has taken over."""
        self._begun = set[str]()
        """Ids of the servers that were announced once: later announcements replace those of this announcer only."""
        self._sessions: deque[str] = deque(maxlen=MAX_OWN_SESSIONS)
        self._observer = observer
        self._agent = agent
        self._headers = headers
        self._connection: RoomConnection | None = None
        self._names: dict[str, str] = {}
        self._announced: dict[str, str] = {}
        self._calls: dict[str, threading.Event] = {}
        self._answered: dict[str, tuple[str, Json, int]] = {}
        self._partials_after = 0.0
        self._lock = threading.Lock()
        self._ending = threading.Event()
        self._pool = ThreadPoolExecutor(MAX_CALLS, f"calls of {room.name}")

    def run(self) -> None:
        """Serve until `stop`.

        Raises RoomRefusal when the room refuses the first hello, ServersReplaced when other sessions share all servers.
        """
        tries, has_joined = 0, False
        try:
            while not self._ending.is_set():
                try:
                    self._live()
                    return
                except ServersReplaced:
                    raise
                except PatchbayError as problem:
                    has_joined = has_joined or self._connection is not None
                    if isinstance(problem, RoomRefusal) and not has_joined:
                        raise
                    if not self._shared:
                        raise self._replaced() from problem
                    tries = 1 if self._connection is not None else tries + 1
                    self._wait(problem, tries)
                finally:
                    self._cancel_all()
        finally:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def stop(self) -> None:
        """Leave the room and end; from any thread."""
        self._ending.set()

    def refresh(self) -> None:
        """Announce the servers anew, because their lists have changed."""
        connection = self._connection
        if connection is not None:
            self._pool.submit(self._announce_all, connection)

    def _wait(self, problem: PatchbayError, tries: int) -> None:
        self._connection = None
        seconds = min(MAX_RETRY_SECONDS, FIRST_RETRY_SECONDS * 2 ** min(tries - 1, 10))
        self._observer.report(f"{problem.message}; trying again in {seconds:g} s")
        self._ending.wait(seconds * random.uniform(1 - JITTER, 1 + JITTER))

    def _live(self) -> None:
        caps = ["tool.host", *(f"mcp.server:{id}" for id in self._servers)]
        connection = RoomConnection.open(self.room, caps, self._agent, headers=self._headers)
        self._connection = connection
        try:
            self._look_for_newer(connection)
            self._sessions.append(connection.session)
            self._announce_all(connection)
            while not self._ending.is_set():
                if not self._shared and not self._calls:
                    raise self._replaced()
                envelope = connection.receive(RECEIVE_SECONDS)
                if envelope is not None:
                    self._receive(connection, envelope)
        finally:
            connection.close()

    def _look_for_newer(self, connection: RoomConnection) -> None:
        """Give up the servers that other sessions began to share while this announcer was away."""
        if not self._sessions:
            return
        for server, advert in connection.adverts.items():
            if advert.get("session") not in (None, *self._sessions):
                self._give_up(server)

    def _give_up(self, server: str) -> None:
        if server in self._shared:
            self._shared.discard(server)
            if self._shared:
                self._observer.report(self._explain(server))

    def _explain(self, servers: str) -> str:
        return f"another session shares {servers} in {self.room.url} now; this one has stopped sharing them"

    def _replaced(self) -> ServersReplaced:
        return ServersReplaced(self._explain(", ".join(self._servers)))

    def _announce_all(self, connection: RoomConnection) -> None:
        for server in [one for id, one in self._servers.items() if id in self._shared]:
            try:
                found = server.announcement()
                if server.id in self._begun:
                    found["replaces"] = list(self._sessions)
                self._announced[connection.send_new("mcp.announce", found)] = server.id
                self._begun.add(server.id)
            except PatchbayError as problem:
                self._observer.report(f"{server.id} is not announced in {self.room.url}: {problem.message}")
                continue
            # The connection receives calls meanwhile.
            self._pool.submit(self._tell_when_listed, server.id, [tool["name"] for tool in found["tools"]])

    def _tell_when_listed(self, server: str, tools: Sequence[str]) -> None:
        wait_until_listed(self.room, server, tools, self._headers or {}, self._ending)
        if not self._ending.is_set():
            self._observer.report(f"{server} is announced in {self.room.url}: {_count(len(tools))}")

    def _receive(self, connection: RoomConnection, envelope: Json) -> None:
        kind, payload = envelope["type"], envelope["payload"]
        call = payload.get("callId")
        if kind == "presence.join":
            agent = payload.get("agent") or {}
            self._names[payload["session"]] = str(agent.get("name") or payload.get("member") or payload["session"])
        elif kind in ("mcp.announce", "mcp.mount") and envelope["from"] not in self._sessions:
            self._give_up(str(payload.get("serverId")))
        elif kind == "tool.call" and payload.get("serverId") in self._shared:
            with self._lock:
                flag = self._calls[call] = threading.Event()
            self._pool.submit(self._run, connection, envelope, flag)
        elif kind in ("tool.cancel", "tool.result") and call in self._calls:
            self._end(call)
        elif kind == "room.refused" and payload.get("id") in self._announced:
            server = self._announced[payload["id"]]
            self._observer.report(f"{self.room.url} refused the server {server}: {payload.get('error')}")
        elif kind == "room.refused" and payload.get("id") in self._answered:
            self._pool.submit(self._repeat, connection, payload["id"])

    def _run(self, connection: RoomConnection, envelope: Json, flag: threading.Event) -> None:
        payload = envelope["payload"]
        call, server, name = payload["callId"], self._servers[payload["serverId"]], str(payload.get("name"))
        arguments = payload.get("args") or {}
        caller = self._names.get(envelope["from"]) or str(payload.get("caller") or envelope["from"])
        try:
            self._observer.report(f"{caller} calls {server.id}.{name} {arguments}")
            if flag.is_set():
                return
            if not self._observer.allows(self.room, caller, server.id, name, arguments):
                self._answer(
                    connection, call, {"ok": False, "error": "the person who shares this server denied the call"}
                )
                return
            self._relay(connection, call, server, (name, arguments, flag, str(payload.get("method", TOOL))))
        except PatchbayError as problem:
            self._observer.report(f"the call of {server.id}.{name} has lost its room: {problem.message}")
        finally:
            self._end(call)

    def _relay(
        self, connection: RoomConnection, call: str, server: HostedServer, what: tuple[str, Json, threading.Event, str]
    ) -> None:
        def send(payload: Json) -> None:
            connection.send_new("tool.partial", {"callId": call, **payload})

        partials = Partials(send)
        for part in server.run(*what):
            if part is not None and "result" in part and len(part) == 1:
                partials.send_all()
                self._answer(connection, call, part["result"])
                outcome = "worked" if part["result"]["ok"] else f"failed: {part['result']['error']}"
                self._observer.report(f"{server.id}.{what[0]} {outcome}")
                return
            if part is not None:
                partials.add(part)
            if partials.is_waiting and self._is_due():
                partials.send_next()
        self._observer.report(f"{server.id}.{what[0]} was cancelled")

    def _is_due(self) -> bool:
        """Whether a partial comes long enough after the one before it."""
        now = time.monotonic()
        with self._lock:
            if now < self._partials_after:
                return False
            self._partials_after = now + PARTIAL_SECONDS
        return True

    def _answer(self, connection: RoomConnection, call: str, result: Json, tries: int = 0) -> None:
        payload = {"callId": call, **result}
        if len(orjson.dumps(payload, default=str)) > MAX_RESULT_BYTES:
            result = {
                "ok": False,
                "error": f"the result has more than {MAX_RESULT_BYTES} bytes, which rooms do not take",
            }
            payload = {"callId": call, **result}
        id = connection.send_new("tool.result", payload)
        with self._lock:
            self._answered[id] = (call, result, tries)
            while len(self._answered) > MAX_REMEMBERED_ANSWERS:
                del self._answered[next(iter(self._answered))]

    def _repeat(self, connection: RoomConnection, id: str) -> None:
        """Send an answer again that came too fast for the room, a moment later."""
        with self._lock:
            found = self._answered.pop(id, None)
        if found is not None and found[2] < MAX_REPEATS and not self._ending.wait(REPEAT_SECONDS):
            self._answer(connection, found[0], found[1], found[2] + 1)

    def _end(self, call: str) -> None:
        with self._lock:
            flag = self._calls.pop(call, None)
        if flag is not None:
            flag.set()

    def _cancel_all(self) -> None:
        for call in list(self._calls):
            self._end(call)


def run_all(announcers: Sequence[Announcer], on_failure: Callable[[PatchbayError], None]) -> list[threading.Thread]:
    """Run announcers, each in a thread of its own; returns the threads. `on_failure` gets what ends one."""

    def run(announcer: Announcer) -> None:
        try:
            announcer.run()
        except PatchbayError as problem:
            on_failure(problem)

    threads = [threading.Thread(target=run, args=(one,), name=f"room {one.room.name}") for one in announcers]
    for thread in threads:
        thread.start()
    return threads


def _count(tools: int) -> str:
    return "1 tool" if tools == 1 else f"{tools} tools"


def wait_until_listed(
    room: RoomAddress, server: str, tools: Collection[str], headers: Mapping[str, str], ending: threading.Event
) -> None:
    """Wait until the list of the room has all these tools of a server, `ending` is set, or LISTED_SECONDS are over.

    The hub lists them a moment after the announcement. It may list less: a policy may close the room to MCP clients, a
    pin may hold a tool, and the caller may have no right to see it.
    """
    wanted = {f"{server}__{name}" for name in tools}
    limit = time.monotonic() + LISTED_SECONDS
    target = Http(f"{room.hub}/mcp/room.{room.name}", dict(headers))
    try:
        with Connection.open(target, start_timeout=LISTED_SECONDS, timeout=LISTED_SECONDS, quick=True) as connection:
            while wanted - {tool["name"] for tool in connection.list_tools()}:
                if time.monotonic() >= limit or ending.wait(LOOK_SECONDS):
                    return
    except PatchbayError:
        return  # this caller sees no list

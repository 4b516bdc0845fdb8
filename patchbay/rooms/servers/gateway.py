"""The hub as a gateway: connects to MCP servers for a room, mirrors their lists, and runs calls of them."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any

from patchbay.activation import Call, CancelFlag, activate
from patchbay.background import run_in_background
from patchbay.errors import PatchbayError
from patchbay.events import Content, Done, Event, Failed, Log, Progress, Text
from patchbay.pins.offers import RESOURCE, TOOL
from patchbay.rooms.core import now_ms
from patchbay.rooms.folding.fold import Fold as RoomFold
from patchbay.rooms.folding.rights import decide
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.errors import RoomRefused
from patchbay.rooms.record.log import Logged
from patchbay.rooms.servers.announcements import Offered, advertise, append_server, check_tool_bound
from patchbay.rooms.servers.calls import Calls
from patchbay.rooms.servers.mounting import GatewayContext, checked_mount, mount_of_record, read_manifest
from patchbay.topics import ROOM_NEWS
from patchbay.upstreams.configuration import START_SECONDS, Mount
from patchbay.upstreams.connections.handler import upstream_handler
from patchbay.upstreams.connections.standing_connection import StandingConnection
from patchbay.upstreams.connections.standing_connections import StandingConnections
from patchbay.upstreams.lists.snapshots import Snapshot
from patchbay.upstreams.standing import MountContext
from patchbay.views.fold import Fold

log = logging.getLogger(__name__)

ENDS_MOUNTS = frozenset({"mcp.mount", "mcp.unmount", "mcp.announce", "mcp.mount.failed", "presence.part"})


class Gateway:
    """The mounts of one room in this process. Safe to use from many threads."""

    def __init__(self, calls: Calls, context: GatewayContext) -> None:
        self._calls = calls
        self._room = calls.room
        self._context = context
        self._lock = threading.Lock()
        self._mounts: dict[str, tuple[int, Mount]] = {}
        self._acl = self._room.state_now["policy"]["acl"]
        ground = MountContext(self._room.store, context.environ, context.hub, context.version, self._mirror_changes)
        self._connections = StandingConnections(ground)

    def mount(self, envelope: Json) -> Logged:
        """Log an allowed mount, and open it in a thread of its own. Raises BadFrame, RoomRefused, TooMany."""
        room = self._room
        server = str(envelope["payload"].get("serverId"))
        decision = decide(room.state_now, envelope["from"], "mount", server)
        if not decision:
            raise RoomRefused(decision.reason)
        payload = checked_mount(envelope["payload"], room.id, room.store, self._context)
        if payload != envelope["payload"] and "sig" in envelope:
            raise RoomRefused("a signed mount names its manifest by CID")
        logged = append_server(room, {**envelope, "payload": payload}, lambda fold: None)
        if not logged.is_duplicate:
            run_in_background(f"mount {server}", self._open, server, logged)
        return logged

    def _open(self, server: str, logged: Logged) -> None:
        """Connect to a server and advertise its entries, or log why this failed."""
        rel: Json = {"replyTo": logged.entry.envelope["id"]}
        try:
            record = self._record(server, logged.entry.seq)
            mount = mount_of_record(self._room.id, server, record, self._room.store, self._context)
            with self._lock:
                self._mounts[server] = (logged.entry.seq, mount)
                self._connections.keep([one for _, one in self._mounts.values()])
            standing = self._connections.of(mount)
            standing.state_known.wait(START_SECONDS)
            if standing.connection is None:
                raise RoomRefused(f"the server cannot be reached: {standing.health.sentence}")
            self._advertise(server, record, standing, rel)
        except PatchbayError as problem:
            self._fail(server, logged.entry.seq, problem.message, rel)
        except Exception as problem:
            log.exception("the mount %s of the room %s failed", server, self._room.name)
            self._fail(server, logged.entry.seq, f"{type(problem).__name__} while it was opened", rel)

    def _record(self, server: str, seq: int) -> Json:
        record: Json | None = self._room.state_now["servers"].get(server)
        if record is None or record["seq"] != seq:
            raise RoomRefused("it was unmounted before it was open")
        return record

    def _advertise(self, server: str, record: Json, standing: StandingConnection, rel: Json | None = None) -> None:
        snapshot = standing.last() or Snapshot(standing.mount.digest)
        found, problems = snapshot.descriptors()
        wanted = record["exposeTools"]
        manifest = read_manifest(self._room.store, record.get("manifest"))
        tools = (["*"] if wanted else []) if isinstance(wanted, bool) else wanted
        scope = ((tuple(tools), manifest.tools), (tuple(record["exposeResources"]), manifest.resources))
        sentences = [f"{one.where}: {one.reason}" for one in problems]
        check_tool_bound(self._room, self._room.log.fold, server, len(found["tool"]))
        advertise(self._room, Offered(server, record["seq"], found, scope, sentences), rel)

    def _fail(self, server: str, seq: int, error: str, rel: Json) -> None:
        def make(fold: RoomFold, now: int) -> Json:
            record = fold.now["servers"].get(server)
            if record is None or record["seq"] != seq:
                raise RoomRefused("it was unmounted")
            return self._room.make_own("mcp.mount.failed", {"serverId": server, "error": error}, now, rel)

        try:
            self._room.append(make)
        except RoomRefused as problem:
            log.info("the mount %s of the room %s ended: %s", server, self._room.name, problem.message)

    def _mirror_changes(self) -> None:
        """Advertise again the servers whose tools or resources have changed."""
        with self._lock:
            mounts = dict(self._mounts)
        for server, (seq, mount) in mounts.items():
            record = self._room.state_now["servers"].get(server)
            if record is None or record["seq"] != seq or record["status"] != "ready":
                continue
            try:
                self._advertise(server, record, self._connections.of(mount))
            except PatchbayError as problem:
                log.warning("the tools of %s in the room %s: %s", server, self._room.name, problem.message)

    def notice(self, logged: Logged) -> None:
        """Close the connections of mounts that the room no longer has; advertise under a changed access list."""
        if logged.entry.envelope["type"] == "room.policy" and self._acl != self._room.state_now["policy"]["acl"]:
            self._acl = self._room.state_now["policy"]["acl"]
            self._room.later(self._mirror_changes)
        if logged.entry.envelope["type"] in ENDS_MOUNTS and self._mounts:
            self._room.later(self._prune)

    def _prune(self) -> None:
        state = self._room.state_now["servers"]
        with self._lock:
            kept = {
                server: pair
                for server, pair in self._mounts.items()
                if server in state and state[server]["seq"] == pair[0] and state[server]["status"] != "failed"
            }
            if kept != self._mounts:
                self._mounts = kept
                self._connections.keep([mount for _, mount in kept.values()])

    # calls

    def run(self, call: str, record: Json, arguments: Any, flag: CancelFlag) -> None:
        """Run a call of a mounted server in a thread of its own; its result ends up in the log."""
        given = arguments if isinstance(arguments, dict) else {}
        run_in_background(f"call {call[:40]}", self._run, call, record, given, flag)

    def _run(self, call: str, record: Json, arguments: Json, flag: CancelFlag) -> None:
        collected = Fold()
        try:
            for event in activate(upstream_handler(self._keeper(record)), self._call(call, record, arguments, flag)):
                collected.add(event)
                self._relay(call, event)
        except PatchbayError as problem:
            collected.add(Failed(problem.message))
        except Exception as problem:
            log.exception("a call of %s in the room %s failed", record["serverId"], self._room.name)
            collected.add(Failed(f"{type(problem).__name__} while the call ran"))
        ending = collected.ending
        if isinstance(ending, Done):
            self._calls.end(call, True, collected.result())
        else:
            error = ending.message if ending is not None else "the call ended without a result"
            self._calls.end(call, False, collected.result(), error)

    def _keeper(self, record: Json) -> StandingConnection:
        server = record["serverId"]
        mounted = self._room.state_now["servers"].get(server)
        if mounted is None or mounted["kind"] != "mount":
            raise RoomRefused(f"unknown server: {server}; it was unmounted")
        mount = mount_of_record(self._room.id, server, mounted, self._room.store, self._context)
        return self._connections.of(mount)

    def _call(self, call: str, record: Json, arguments: Json, flag: CancelFlag) -> Call:
        seconds = max(0.0, (record["expires"] - now_ms(self._room.store)) / 1000)
        method = record.get("method", TOOL)
        target = {"method": method, ("uri" if method == RESOURCE else "name"): record["name"]}
        return Call(
            server=record["serverId"],
            target=target,
            arguments=arguments,
            deadline=time.monotonic() + seconds,
            principal=f"{ROOM_NEWS}{self._room.id}/{record['member']}",
            progress_token=call,
            cancelled=flag,
        )

    def _relay(self, call: str, event: Event) -> None:
        if isinstance(event, Progress):
            partial: Json = {"progress": event.progress}
            partial |= {name: value for name, value in (("total", event.total), ("message", event.message)) if value}
            if event.is_text:
                partial |= {"type": "text", "text": event.message}
            self._calls.send_partial(call, partial)
        elif isinstance(event, Text):
            self._calls.send_result_text(call, event.text)
        elif isinstance(event, Content) and event.block.get("type") == "text":
            self._calls.send_result_text(call, str(event.block["text"]))
        elif isinstance(event, Log):
            self._calls.send_partial(call, {"level": event.level, "data": event.data})

    def close(self) -> None:
        """End all connections."""
        self._connections.close()

"""Calls of a room's servers by MCP clients of the hub, which have not joined, as events of an activation."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from patchbay.activation import FIRST_PAUSE_SECONDS, NEXT_PAUSE, PAUSE, Events
from patchbay.errors import OverQuota, ToolFailed
from patchbay.events import Content, Data, Done, Event, Failed, Progress
from patchbay.pins.offers import PROMPT, RESOURCE, TOOL
from patchbay.rooms.core import RoomCore, now_ms
from patchbay.rooms.folding.calls import MAX_TTL_MS
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.folding.rights import decide
from patchbay.rooms.record.envelope import HUB, Json, hub_envelope
from patchbay.rooms.record.errors import RoomRefused, TooMany
from patchbay.rooms.servers.calls import Calls
from patchbay.upstreams.promised_bytes import check_result

CallEvents = Events


@dataclass(frozen=True, slots=True)
class CallTarget:
    """The target of a call: a tool, a resource (by its URI) or a prompt, by `method`, of the server `server`."""

    server: str
    name: str
    arguments: Json
    method: str = TOOL


def call_server(calls: Calls, wanted: CallTarget, principal: str, ttl: float) -> CallEvents:
    """Call a tool, read a resource or get a prompt; see `Room.call`."""
    room = calls.room
    call, member = str(uuid4()), room.pseudonym(principal)
    milliseconds = max(1, min(int(min(ttl, MAX_TTL_MS) * 1000), MAX_TTL_MS))
    payload: Json = {"callId": call, "provider": "mcp", "serverId": wanted.server, "name": wanted.name}
    payload |= {"args": wanted.arguments} | ({} if wanted.method == TOOL else {"method": wanted.method})
    payload |= {"ttlMs": milliseconds, "caller": member}
    news = threading.Event()
    room.feed.add_reader(news.set)
    room.log.writers.note(call, principal)
    is_over = False
    try:
        try:
            if room.is_banned(principal):
                raise RoomRefused("the room has banned this caller")
            logged = calls.open(_envelope(room, payload))
        except (RoomRefused, TooMany, OverQuota) as problem:
            is_over = True
            yield Failed(problem.message)
            return
        for event in _followed(room, call, wanted.method, logged.position, news):
            is_over = isinstance(event, Done | Failed)
            yield event
    finally:
        room.feed.remove_reader(news.set)
        if not is_over:
            _cancel(calls, call)
        room.log.writers.forget(call)


def _envelope(room: RoomCore, payload: Json) -> Json:
    decision = decide(room.state_now, HUB, "call", payload["serverId"], payload["caller"])
    if not decision:
        raise RoomRefused(decision.reason)
    return hub_envelope(room.name, "tool.call", payload, now_ms(room.store))


def _followed(room: RoomCore, call: str, method: str, position: int, news: threading.Event) -> Iterator[Event]:
    """All envelopes about one call, up to its result."""
    wait, index, steps = FIRST_PAUSE_SECONDS, room.feed.index_after(position), 0.0
    while True:
        news.clear()
        found = room.feed.read(index, 256) if index is not None else None
        if found is None:
            yield from _late_result(room, call, method)
            return
        index = (index or 0) + len(found)
        for delivery in found:
            envelope = delivery.envelope
            payload = envelope["payload"]
            # A refusal goes to one session, and may name the call of another.
            if delivery.to is not None or payload.get("callId") != call:
                continue
            if envelope["type"] == "tool.partial":
                steps += 1
                yield _progress(payload.get("partial"), steps)
            elif envelope["type"] == "tool.result":
                yield from _result(payload, method)
                return
        if not found and not news.wait(wait):
            wait = NEXT_PAUSE
            yield PAUSE


def _late_result(room: RoomCore, call: str, method: str) -> Iterator[Event]:
    """The result of a call, after events of it were missed."""
    seq = room.seq
    while seq > 0:
        envelope = room.log.entry(seq).envelope
        if envelope["type"] == "tool.result" and envelope["payload"].get("callId") == call:
            yield from _result(envelope["payload"], method)
            return
        seq -= 1
    yield Failed("events of the room were lost, and its log has no result of this call: look at the log of the room")


def _progress(partial: Any, steps: float) -> Event:
    if isinstance(partial, Mapping) and isinstance(partial.get("progress"), int | float):
        total, message = partial.get("total"), partial.get("message")
        known = float(total) if isinstance(total, int | float) else None
        return Progress(float(partial["progress"]), known, message if isinstance(message, str) else None)
    text = partial.get("text") if isinstance(partial, Mapping) else partial
    return Progress(steps, None, text if isinstance(text, str) else None)


def _result(payload: Mapping[str, Any], method: str) -> Iterator[Event]:
    result = payload.get("result")
    if isinstance(result, Mapping):
        try:
            check_result(result, "the member who shares this server")
        except ToolFailed as problem:
            yield Failed(problem.message)
            return
    if method != TOOL and payload.get("ok"):
        yield from _other_result(result, method)
        return
    is_mcp = isinstance(result, dict) and isinstance(result.get("content"), list)
    whole = {key: value for key, value in (result or {}).items() if key != "_meta"} if is_mcp else None
    if not payload.get("ok"):
        yield Failed(str(payload.get("error") or "the call failed"), result=whole)
    elif is_mcp:
        yield Done(whole)
    else:
        yield Data(result)
        yield Done()


def _other_result(result: Any, method: str) -> Iterator[Event]:
    """The result of reading a resource or getting a prompt."""
    key = {RESOURCE: "contents", PROMPT: "messages"}[method]
    found = result.get(key) if isinstance(result, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        yield Failed(f"the owner of the server gave a result without {key}, which MCP demands of {method}")
        return
    shown = {name: value for name, value in result.items() if name != "_meta"}
    if method == RESOURCE:
        yield from (Content({"type": "resource", "resource": one}) for one in found)
    else:
        yield Data({"messages": found})
    yield Done(shown)


def _cancel(calls: Calls, call: str) -> None:
    def make(fold: Fold, now: int) -> Json:
        return hub_envelope(calls.room.name, "tool.cancel", {"callId": call, "reason": "the caller disconnected"}, now)

    try:
        calls.room.append(make)
        calls.end(call, False, error="cancelled: the caller disconnected")
    except RoomRefused:
        return  # the result has arrived meanwhile

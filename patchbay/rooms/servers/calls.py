"""The calls of one room: opened, relayed, answered once, cancelled, ended by their deadline.

Calls of announced servers reach their owner as events of the room; calls of mounted servers run in the process that
received them. The log has the call and its one result; partials are live envelopes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from patchbay.activation import CallPlace, CancelFlag
from patchbay.rooms.core import RoomCore, now_ms, text_or_none
from patchbay.rooms.folding.fold import Fold
from patchbay.rooms.record.canonical import canonical_bytes
from patchbay.rooms.record.contents import content_cid
from patchbay.rooms.record.envelope import Json
from patchbay.rooms.record.errors import BadFrame, RoomRefused, TooMany
from patchbay.rooms.record.log import Logged
from patchbay.rooms.servers.answers import AnswerCache
from patchbay.rooms.servers.counted import CountedCalls

OTHERS_WAIT_MS = 3000
"""Milliseconds after a deadline at which a process ends a call that another process took and did not end."""

CODEC = "text/utf8"


RunMounted = Callable[[str, Json, Any, CancelFlag], None]


@dataclass(slots=True)
class TextStream:
    """The text of one call, framed as a stream: `seq` is the next frame's number, `began` Unix time in ms.

    `yielded` is the text that was sent while the call ran, as far as its result has not repeated it.
    """

    call: str
    parent: str
    began: int
    seq: int = 0
    partials: int = 0
    yielded: str = ""
    is_over: bool = False
    flag: CancelFlag = field(default_factory=CancelFlag)


class Calls:
    """The open calls of one room, as one process sees them. Safe to use from many threads."""

    def __init__(self, room: RoomCore) -> None:
        self.room = room
        self.run_mounted: RunMounted = _run_nothing
        """Runs a call of a mounted server in a thread of its own, and ends it; the room's gateway."""
        self._cache = AnswerCache()
        self._lock = threading.Lock()
        self._deadlines: dict[str, int] = {}
        self._streams: dict[str, TextStream] = {}
        self._own: set[str] = set()
        self._counted = CountedCalls()
        for call, record in room.state_now["calls"].items():
            self._deadlines[call] = record["expires"] + OTHERS_WAIT_MS
        for server in room.state_now["servers"].values():
            if server["status"] == "ready":
                self._cache.notice(room.state_now, room.log.entry(server["advert"]))

    def open(
        self, envelope: Json, place: CallPlace | None = None, hide: Callable[[Json], Json] | None = None
    ) -> Logged:
        """Log a call; its owner or the gateway runs it, or the log has its answer.

        With `hide`, the call is refused as in the state that `hide` returns, without what its caller may not know.

        `place` is released at the result of the call, or now if no call begins. Raises RoomRefused with the reason of
        the fold, TooMany when too many are open.
        """
        call = str(envelope["payload"].get("callId"))
        try:
            logged = self._log_call(call, envelope, hide)
        except BaseException:
            _release(place)
            raise
        if logged.is_duplicate:
            _release(place)
            return logged
        record = self.room.state_now["calls"].get(call)
        if place is not None:
            self._count_until_result(call, logged.entry.seq, place)
        if record is None:
            return logged
        hit = self._cache.find(self.room.state_now, logged, record)
        if hit is not None and self._answer_from_log(call, record, hit):
            return logged
        server = self.room.state_now["servers"].get(record["serverId"])
        if server is not None and server["kind"] == "mount":
            self.run_mounted(call, record, envelope["payload"].get("args", {}), self.stream_of(call).flag)
        return logged

    def _log_call(self, call: str, envelope: Json, hide: Callable[[Json], Json] | None) -> Logged:
        if not isinstance(envelope["payload"].get("args", {}), dict):
            raise RoomRefused("the call's args are not an object")

        def make(fold: Fold, now: int) -> Json:
            if len(fold.now["calls"]) >= self.room.bounds.calls:
                raise TooMany(f"{self.room.bounds.calls} calls are open in the room (--room-calls); try again later")
            if hide is not None and envelope["id"].lower() not in fold.ids:
                raise RoomRefused(fold.find_refusal(envelope, now, hide(fold.now)) or "this call is not allowed")
            return envelope

        with self._lock:
            self._own.add(call)
        try:
            return self.room.append(make)
        except BaseException:
            with self._lock:
                self._own.discard(call)
            raise

    def _count_until_result(self, call: str, seq: int, place: CallPlace) -> None:
        """Keep the place until `notice` reads the result; release it here if `notice` has read the result already."""
        self._counted.hold(call, seq, place)
        if self.room.state_now["calls"].get(call, {}).get("seq") != seq:
            self._counted.release(call, seq + 1)

    def _answer_from_log(self, call: str, record: Json, seq: int) -> bool:
        found = self.room.log.entry(seq)
        if found.contents is None or "result" not in found.contents:
            return False
        cid = content_cid(found.entry.envelope)
        hit = {"callId": call, "seq": seq, "entry": found.entry.cid, "cid": cid}
        try:
            self.room.append_own("cache.hit", hit)
        except RoomRefused:
            return True  # the owner of the server has answered the call already
        return self.end(call, True, found.contents["result"])

    def partial(self, sender: str, envelope: Json) -> None:
        """Relay a partial of a call's owner. Raises RoomRefused for one of a call that is not the sender's."""
        payload = envelope["payload"]
        record = self.room.state_now["calls"].get(text_or_none(payload, "callId"))
        if record is None or record["owner"] != sender:
            raise RoomRefused(f"no call {payload.get('callId')!r:.80} of this session's servers is open")
        self.room.feed.publish(envelope)
        if text := _text_of(payload.get("partial")):
            self.send_text(str(payload["callId"]), text)

    def send_partial(self, call: str, partial: Any) -> None:
        """Send a partial of a call that the gateway runs; text goes as a stream too."""
        stream = self.stream_of(call)
        if stream.is_over:
            return
        self._publish_partial(stream, partial)
        text = partial.get("text") if isinstance(partial, dict) else None
        if isinstance(text, str) and text:
            self.send_text(call, text)

    def _publish_partial(self, stream: TextStream, partial: Any) -> None:
        payload = {"callId": stream.call, "partial": partial, "seq": stream.partials, "done": False}
        stream.partials += 1
        self._publish("tool.partial", payload, stream)

    def send_text(self, call: str, text: str) -> None:
        """Send text that a call yields while it runs, as a frame of the call's stream."""
        stream = self.stream_of(call)
        if not stream.is_over:
            if len(stream.yielded) < self.room.bounds.envelope:  # a longer result is not sent at all
                stream.yielded += text
            self._send_frame(stream, text)

    def send_result_text(self, call: str, text: str) -> None:
        """Send the text of a result of the gateway: as much of it as was not sent while it was yielded."""
        stream = self.stream_of(call)
        rest = _take_rest(stream, text)
        if rest and not stream.is_over:
            self._publish_partial(stream, {"type": "text", "text": rest})
            self._send_frame(stream, rest)

    def _send_frame(self, stream: TextStream, text: str, is_last: bool = False) -> None:
        elapsed = now_ms(self.room.store) - stream.began
        frame: Json = {"streamId": stream.call, "codec": CODEC, "seq": stream.seq, "pts": elapsed, "data": text}
        stream.seq += 1
        self._publish("tool.stream", frame | ({"eof": True} if is_last else {}), stream, "stream")

    def _publish(self, type: str, payload: Json, stream: TextStream, kind: str = "event") -> None:
        rel = {"parents": [stream.parent]}
        self.room.publish_own(type, payload, rel, kind)

    def stream_of(self, call: str) -> TextStream:
        """Return the stream of an open call; the first use creates it.

        The stream of a call that has its result is over, its flag is set, and nothing keeps it.
        """
        with self._lock:
            if call not in self._streams:
                record = self.room.state_now["calls"].get(call)
                if record is None:
                    ended = TextStream(call, "", now_ms(self.room.store), is_over=True)
                    ended.flag.set("answered")
                    return ended
                parent = self.room.log.entry(record["seq"]).entry.envelope["id"]
                self._streams[call] = TextStream(call, parent, now_ms(self.room.store))
            return self._streams[call]

    def answer(self, envelope: Json) -> Logged:
        """Log the result that the owner of an announced server gives.

        A stream of the call ends before it, with the text of the result that was not yielded before.
        """
        call = text_or_none(envelope["payload"], "callId")
        record = self.room.state_now["calls"].get(call)
        if call is not None and record is not None and record["owner"] == envelope["from"]:
            with self._lock:
                stream = self._streams.get(call)
            if stream is not None and stream.seq and not stream.is_over:
                for text in _texts_of(envelope["payload"].get("result")):
                    if rest := _take_rest(stream, text):
                        self._send_frame(stream, rest)
            self._finish(call)
        return self.room.append(lambda fold, now: envelope)

    def end(self, call: str, ok: bool, result: Any = None, error: str = "") -> bool:
        """Log a call's result for the hub; return whether it was the first result."""
        payload: Json = {"callId": call, "ok": ok}
        payload |= ({"result": result} if ok or result is not None else {}) | ({} if ok else {"error": error})
        record = self.room.state_now["calls"].get(call)
        if record is None:
            return False
        self._finish(call)
        try:
            if len(canonical_bytes(payload)) > self.room.bounds.envelope:
                raise BadFrame(f"it has more than {self.room.bounds.envelope} bytes (--room-envelope-limit)")
        except BadFrame as problem:
            payload = {"callId": call, "ok": False, "error": f"the result cannot be sent: {problem.message}"}
        try:
            self.room.append_own("tool.result", payload)
        except RoomRefused:
            return False  # another one answered first
        return True

    def cancel(self, envelope: Json) -> Logged:
        """Log that the caller cancels its call, and end the call."""
        logged = self.room.append(lambda fold, now: envelope)
        payload = envelope["payload"]
        reason = str(payload.get("reason") or "the caller cancelled it")[:200]
        self.end(str(payload.get("callId")), False, error=f"cancelled: {reason}")
        return logged

    def notice(self, logged: Logged) -> None:
        """Handle a logged entry: begin and end deadlines, cancel running calls, keep answers."""
        envelope = logged.entry.envelope
        kind, call = envelope["type"], envelope["payload"].get("callId")
        if kind == "tool.call":
            record = self.room.state_now["calls"].get(call)
            if record is not None:
                with self._lock:
                    self._deadlines[call] = record["expires"] + (0 if call in self._own else OTHERS_WAIT_MS)
        elif kind == "tool.cancel":
            self._set_flag(call, "cancelled")
        elif kind == "tool.result":
            self._set_flag(call, "answered")
            with self._lock:
                self._deadlines.pop(call, None)
                self._own.discard(call)
                self._streams.pop(call, None)
            self._counted.release(call, logged.entry.seq)
        self._cache.notice(self.room.state_now, logged)

    def _finish(self, call: Any) -> None:
        """End the stream of a call's text, if it has one."""
        with self._lock:
            stream = self._streams.get(call)
        if stream is not None and stream.seq and not stream.is_over:
            stream.is_over = True
            self._send_frame(stream, "", is_last=True)

    def _set_flag(self, call: Any, reason: str) -> None:
        with self._lock:
            stream = self._streams.get(call)
        if stream is not None:
            stream.flag.set(reason)

    def end_all(self, reason: str, server: str = "", owner: str = "", caller: str = "") -> None:
        """End the open calls of a server, of an owner's servers or of a caller."""
        for call, record in self.room.state_now["calls"].items():
            pairs = ((record["serverId"], server), (record["owner"], owner), (record["caller"], caller))
            if any(wanted and has == wanted for has, wanted in pairs):
                self.end(call, False, error=reason)

    def answer_all(self, reason: str) -> None:
        """Answer every open call with an error, in every process, without an entry in the log: the room is deleted."""
        for call in self.room.state_now["calls"]:
            self.room.publish_own("tool.result", {"callId": call, "ok": False, "error": reason})

    def stop_all(self) -> None:
        """Stop the calls that run in this process."""
        with self._lock:
            streams, self._streams, self._deadlines = list(self._streams.values()), {}, {}
        for stream in streams:
            stream.flag.set("the room was deleted")

    def expire(self, now: int) -> None:
        """End the calls whose deadline is over."""
        with self._lock:
            over = [call for call, at in self._deadlines.items() if at <= now]
            for call in over:
                del self._deadlines[call]
        for call in over:
            self.end(call, False, error="timeout: the call took longer than its ttlMs")

    def next_deadline(self) -> int | None:
        """Return the next deadline (Unix time in milliseconds), None without one."""
        with self._lock:
            return min(self._deadlines.values(), default=None)


def _take_rest(stream: TextStream, text: str) -> str:
    """Return what a stream lacks of a text of the result; its text that was yielded stands at the begin of results."""
    if stream.yielded.startswith(text):
        stream.yielded = stream.yielded[len(text) :]
        return ""
    rest, stream.yielded = text.removeprefix(stream.yielded), ""
    return rest


def _text_of(partial: Any) -> str:
    """Return the text that a partial of an owner carries; empty without one.

    It is the partial itself, its `text`, or the message of progress without a total.
    """
    text = partial
    if isinstance(partial, dict):
        is_text = "text" in partial and partial.get("type", "text") == "text"
        text = partial["text"] if is_text else None
        if not is_text and "progress" in partial and partial.get("total") is None:
            text = partial.get("message")
    return text if isinstance(text, str) else ""


def _texts_of(result: Any) -> list[str]:
    """Return the texts of an MCP result of a tool; none for a result of another form."""
    blocks = result.get("content") if isinstance(result, dict) else None
    found = [one for one in blocks if isinstance(one, dict)] if isinstance(blocks, list) else []
    return [one["text"] for one in found if one.get("type") == "text" and isinstance(one.get("text"), str)]


def _release(place: CallPlace | None) -> None:
    if place is not None:
        place.release()


def _run_nothing(call: str, record: Json, arguments: Any, flag: CancelFlag) -> None:
    raise RoomRefused("this process reaches no other servers")

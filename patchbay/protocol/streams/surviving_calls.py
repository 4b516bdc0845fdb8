"""Calls that survive their connection: the messages of a call are in the journal, and its caller may read them again.

The topic of a call (`call_names.py`) begins with an entry that one process writes: it runs the call, on a thread that
no connection ends. Each message is an entry with its number; the answer is the last one. A caller that sends the same
call again, to any process, finds the first entry and reads the others. The store orders the first entries, so that a
call runs once.

A call that a quota refused has not run, so the next one begins anew. When the process that runs a call is lost, the
next reader writes a failure as its answer, and the call is not run again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from patchbay.activation import PAUSE
from patchbay.background import run_in_background
from patchbay.catalogue.contents.ledger import CALL_IDS, REPEATS, Entry, KeptMessages, Ledger
from patchbay.coordination.process_liveness import BEAT_SECONDS, LOST_SECONDS, Heartbeat
from patchbay.errors import InvalidParams, OverQuota, PatchbayError, StaleUpdate
from patchbay.events import Pause, Wait
from patchbay.jsonrpc import (
    Failure,
    Message,
    Notification,
    Request,
    Result,
    Sign,
    dump_json,
    encode,
    failure,
    load_json,
)
from patchbay.protocol.incidents import incident
from patchbay.protocol.results.event_limits import fitted
from patchbay.protocol.results.result_limits import Keep
from patchbay.protocol.streams.call_names import CALL_KEY, CallName
from patchbay.store import CLOSED, JournalEntry, Store
from patchbay.topics import ACCESS_ENDED, ENDING
from patchbay.views.sse import MAX_EVENT_BYTES

log = logging.getLogger(__name__)

Answers = Iterator[Message | Sign]

GONE = "the hub was restarted, or the process that ran this call was lost, before it ended; it may have had effects"
CANCELLED = "the call was cancelled"
NOT_KEPT = "this call has ended, and its result is no longer kept (setting replay_minutes); it is not run again"

NO_THREAD = "the system had no thread left to go on with this call"

ID_SECONDS = 24 * 3600.0
"""Seconds for which an id of a call is known, so that a late repeat does not run the call again."""

MAX_TRIES = 3600
"""How often the answer of a call is written again, once a second, while the store is away."""

# _ANSWER ends a call and _REFUSAL says that it did not begin; the first of them counts. _PAST outlasts the answer.
# _WHOLE has the URI of the whole answer, where the one that follows it was made to fit into an event.
_OPENED, _NOTE, _ANSWER, _REFUSAL, _PAST, _WHOLE = b"o", b"n", b"a", b"r", b"p", b"w"


class Busy(PatchbayError):
    """No further call that survives can run in this process."""

    code, status = -32603, 503


class CallRun:
    """The writer of one call, in the process that runs it. `max_bytes` bytes of progress and log messages are kept.

    `kept` counts all messages in the account of the caller.
    """

    def __init__(
        self, store: Store, name: CallName, seconds: float, max_bytes: int, heartbeat: Heartbeat, kept: KeptMessages
    ) -> None:
        self._store = store
        self._name = name
        self._seconds = seconds
        self._left = max_bytes
        self._count = 0
        self._heartbeat = heartbeat
        self._kept = kept

    def run(self, first: Message | Sign | None, answers: Answers, id: Any, keep: Keep) -> None:
        """Write all messages of a call to its end; `first` was already taken from `answers`."""
        answer: Message | None = None
        try:
            item = first
            while item is not None:
                if isinstance(item, Notification):
                    self._note(fitted(item, keep))
                elif isinstance(item, (Result, Failure)):
                    answer = item
                elif isinstance(item, Wait):
                    item.mailbox.wait(item.seconds)
                item = next(answers, None)
        except Exception:
            answer = failure(id, incident(log, "in a call that survives its connection"))
        answer = answer or failure(id, PatchbayError(CANCELLED))
        self.end(fitted(answer, keep), began=True, whole=_keep_whole(answer, keep))

    def end(self, answer: bytes, began: bool, whole: str | None = None) -> None:
        """Write the answer. While the store is away, try again each second: a reader waits for the answer.

        `began` is False for a call that was refused: its id stays free. `whole` is the URI of an answer that was made
        smaller.
        """
        numbered = _numbered(_ANSWER if began else _REFUSAL, self._count + 1, answer)
        entries: list[Entry] = [(self._name.topic, numbered, self._seconds if began else ID_SECONDS)]
        if whole is not None:
            entries.insert(0, (self._name.topic, _WHOLE + whole.encode(), self._seconds))
        if began:
            # The row of the answer comes before the mark that outlasts it: what makes room deletes up to the row.
            entries += [*self._kept.grow(len(numbered), is_last=True), (self._name.topic, _PAST, ID_SECONDS)]
        waiting = threading.Event()
        try:
            for _ in range(MAX_TRIES):
                try:
                    self._store.journal.append_all(entries, {})
                    self._store.bus.publish(self._name.topic)
                    break
                except PatchbayError as problem:
                    if self._store.check() == CLOSED:
                        return
                    log.warning("the answer of a call is not stored yet: %s", problem)
                    waiting.wait(BEAT_SECONDS)
        finally:
            self._heartbeat.end()
        if began:
            self._make_room()

    def _make_room(self) -> None:
        """Delete what the caller has stored beyond its limit; a failure of the store leaves it for the next call."""
        try:
            self._kept.make_room()
        except PatchbayError as problem:
            log.warning("old answers of a caller are not deleted yet: %s", problem)

    def _note(self, data: bytes) -> None:
        """Write a notification, if there is room for it and the store works."""
        self._count += 1
        self._left -= len(data)
        if self._left < 0:
            return
        try:
            rows = self._kept.grow(len(data))
            note = (self._name.topic, _numbered(_NOTE, self._count, data), self._seconds)
            self._store.journal.append_all([note, *rows], {})
            self._store.bus.publish(self._name.topic)
        except PatchbayError as problem:
            log.warning("a message of a call is not stored: %s", problem)


class SurvivingCalls:
    """The calls of a process that survive. `seconds` is how long their results are kept, `limit` how many run.

    Their ids and answers count in the accounts of their callers in `ledger`; without one, nothing is limited.
    """

    def __init__(
        self,
        heartbeat: Heartbeat,
        seconds: float,
        max_bytes: int,
        limit: int,
        keepalive: float,
        ledger: Ledger | None = None,
    ) -> None:
        self._heartbeat = heartbeat
        self._store = heartbeat.liveness.store
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._room = threading.BoundedSemaphore(limit)
        self._ledger = ledger or Ledger(self._store.journal)
        self._keepalive = keepalive

    def begin(self, name: CallName) -> CallRun | None:
        """Return the run of a call that this process runs now, or None for one that has begun.

        Raises InvalidParams if the id names a call with other arguments, Busy if too many calls run here, OverQuota
        if the hub remembers too many calls of this caller.
        """
        while True:
            newest = self._store.journal.tail(name.topic, 1)
            if newest and not _is_free(newest[0], name):
                self._compare(name)
                return None
            if not self._room.acquire(blocking=False):
                raise Busy(
                    "too many calls that survive their connection run in this process (setting tasks); try later"
                )
            self._heartbeat.begin()
            opened = {"owner": self._heartbeat.liveness.process, "digest": name.digest}
            last = {name.topic: newest[0].seq if newest else 0}
            entry = (name.topic, _OPENED + orjson.dumps(opened), ID_SECONDS)
            account = CALL_IDS if name.lasts else REPEATS
            row = self._ledger.row(name.principal, account, "", len(entry[1]), ID_SECONDS, things=1)
            try:
                if name.lasts:
                    self._ledger.add(name.principal, account, [entry], row, last)
                else:
                    self._store.journal.append_all([entry, row], last)  # `may_begin` has checked the account
                kept = KeptMessages(self._ledger, name.principal, name.topic, self._seconds)
                return CallRun(self._store, name, self._seconds, self._max_bytes, self._heartbeat, kept)
            except StaleUpdate:
                self._release()
            except BaseException:
                self._release()
                raise

    def may_begin(self, name: CallName) -> bool:
        """Whether a further call may survive. One without an id of its caller may not, beyond the caller's limit.

        The hub does not refuse such a call: it runs as a call that does not survive.
        """
        try:
            if not name.lasts:
                self._ledger.check(name.principal, REPEATS, 0, 1)
        except OverQuota:
            return False
        return True

    def start(self, run: CallRun, first: Message | Sign | None, answers: Answers, request: Request, keep: Keep) -> None:
        """Run the rest of a call on a thread of its own; without a thread left in the system, end it as failed."""

        def finish() -> None:
            try:
                run.run(first, answers, request.id, keep)
            finally:
                self._room.release()

        try:
            run_in_background("surviving call", finish)
        except RuntimeError:
            self._room.release()
            run.end(encode(failure(request.id, Busy(NO_THREAD))), began=True)

    def refuse(self, run: CallRun, answer: Message) -> None:
        """End a call that was refused before it began."""
        try:
            run.end(encode(answer), began=False)
        finally:
            self._room.release()

    def follow(
        self,
        name: CallName,
        request: Request,
        is_current: Callable[[], bool],
        read_whole: Callable[[str], bytes | None] | None = None,
    ) -> Iterator[tuple[str, bytes] | Pause | Wait]:
        """Yield (event id, message) pairs of a call after `name.after`, the answer in any case, for this request.

        They end without the answer when the hub stops, and when `is_current` is false: the credentials of the caller
        were revoked. The call goes on then. An answer fits into an event of a stream; for an answer of any size, the
        reader gives a function that returns what is kept at a URI.
        """
        seq, number, owner, sent = 0, 0, "", time.monotonic()
        whole: bytes | None = None
        with self._store.bus.subscribe([name.topic, ENDING, ACCESS_ENDED]) as mailbox:
            seq = self._newest(name)[0].seq - 1
            while is_current():
                entries = self._store.journal.read(name.topic, seq)
                for entry in entries:
                    seq, kind = entry.seq, entry.data[:1]
                    if kind == _OPENED:
                        owner = orjson.loads(entry.data[1:])["owner"]
                        continue
                    if kind == _WHOLE:
                        whole = read_whole(entry.data[1:].decode()) if read_whole is not None else None
                        continue
                    if kind == _PAST:
                        yield f"{name.id}-{number + 1}", encode(failure(request.id, PatchbayError(NOT_KEPT)))
                        return
                    counted, _, data = entry.data[1:].partition(b" ")
                    number = int(counted)
                    data = whole if whole is not None else data
                    shown = _addressed(data, request) if number > name.after or kind != _NOTE else None
                    if shown is not None:
                        yield f"{name.id}-{number}", shown
                        sent = time.monotonic()
                    if kind != _NOTE:
                        return
                if entries or self._end_if_lost(name, owner, number, seq):
                    continue
                yield Wait(mailbox, min(self._keepalive, LOST_SECONDS))
                got = mailbox.get(0)
                if got is not None and got[0] == ENDING:
                    return
                if got is None and time.monotonic() - sent >= self._keepalive:
                    yield PAUSE
                    sent = time.monotonic()

    def _release(self) -> None:
        self._heartbeat.end()
        self._room.release()

    def _newest(self, name: CallName) -> list[JournalEntry]:
        """Return the entries of the newest run of a call, from its first one on."""
        found: list[JournalEntry] = []
        before: int | None = None
        while entries := self._store.journal.tail(name.topic, 1000, before):
            for entry in entries:
                found.append(entry)
                if entry.data[:1] == _OPENED:
                    return found[::-1]
            before = entries[-1].seq
        raise InvalidParams(NOT_KEPT)

    def _compare(self, name: CallName) -> None:
        if orjson.loads(self._newest(name)[0].data[1:])["digest"] != name.digest:
            raise InvalidParams(
                f"params._meta[{CALL_KEY!r}] names an earlier call with another tool or other arguments; send the same"
                " call to join it, or a new UUID for a new call"
            )

    def _end_if_lost(self, name: CallName, owner: str, number: int, seq: int) -> bool:
        """End a call whose process is lost; return whether there is more to read."""
        if self._heartbeat.liveness.is_alive(owner):
            return False
        if self._store.journal.last(name.topic) == seq:
            lost = _numbered(_ANSWER, number + 1, encode(failure(0, PatchbayError(GONE))))
            try:
                entries = [(name.topic, lost, self._seconds), (name.topic, _PAST, ID_SECONDS)]
                self._store.journal.append_all(entries, {name.topic: seq})
            except StaleUpdate:
                return True
            self._store.bus.publish(name.topic)
        return True


def _keep_whole(answer: Message, keep: Keep) -> str | None:
    """Keep an answer that is too large for an event; return its URI, or None for another one."""
    data = encode(answer) if isinstance(answer, Result) else b""
    return keep(data) if len(data) > MAX_EVENT_BYTES else None


def _numbered(kind: bytes, number: int, data: bytes) -> bytes:
    return kind + b"%d " % number + data


def _is_free(newest: JournalEntry, name: CallName) -> bool:
    """Whether the newest entry of a topic allows a new run: a refused call, or an equal message after the end."""
    kind = newest.data[:1]
    return kind == _REFUSAL or (not name.lasts and kind in (_ANSWER, _PAST))


def _addressed(data: bytes, request: Request) -> bytes | None:
    """Return a message with the id and the progress token of this request; None for progress without a token."""
    value = load_json(data)
    if "method" not in value:
        return dump_json({**value, "id": request.id})
    if value["method"] != "notifications/progress":
        return data
    meta = request.params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return None if token is None else dump_json({**value, "params": {**value["params"], "progressToken": token}})

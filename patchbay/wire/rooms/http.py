"""Rooms over HTTP, for programs without WebSockets.

* `PUT /rooms/<room>` makes a room; the body is its options as JSON (`policy`, `flags`).
* `POST /rooms/<room>` takes one envelope as JSON, or several as NDJSON, in order. A `hello` makes a session: its id
  comes back in the header `Enso-Session`, and later requests say it there. The answer has one object for each envelope.
* `GET /rooms/<room>/events` is a stream of events (SSE), of the session in `?session=`, or of a new one that ends
  with the stream.
* `GET /rooms/<room>/log` is the signed log as NDJSON, from `?after=` on.
* `DELETE /rooms/<room>` deletes a room with its log, whose newest entry the header `If-Match` names by its CID, so that
  nothing is deleted that the sender has not read.
* `POST /rooms/<room>/fork` makes a room that goes on from an entry: `{"seq": 12, "name": "other"}`.

Sources: RFC 9110; ENSO-1 as `octave-commons/promethean`, packages/enso-protocol publishes it.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import orjson

from patchbay.access.principals import Principal
from patchbay.background import run_in_background
from patchbay.errors import InvalidRequest, PatchbayError, Refused
from patchbay.jsonrpc import failure
from patchbay.protocol.incidents import incident
from patchbay.protocol.streams.listener_slots import ListenerSlots
from patchbay.rooms.record.envelope import Json, parse_json
from patchbay.rooms.record.errors import BadFrame
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import Rooms
from patchbay.rooms.session import Receipt, RoomSession, SessionRights
from patchbay.settings import OPEN, Settings
from patchbay.wire.replies.accept import JSON
from patchbay.wire.replies.reply import ListeningBody, Reply, busy, json_reply, refusal, stream_reply
from patchbay.wire.requests.bodies import Unsupported, media_type, read_body
from patchbay.wire.requests.request import Request
from patchbay.wire.rooms.admission import RoomAdmission
from patchbay.wire.rooms.event_streams import SessionMailbox, room_events

log = logging.getLogger(__name__)

NDJSON = "application/x-ndjson"
SESSION = "Enso-Session"
HELLO = b'"hello"'
"""What a body without a hello lacks: such a body makes no room."""

MAX_ENVELOPES = 1000
"""Envelopes in one request."""

READER: Json = {"proto": "ENSO-1", "caps": ["can.read"], "agent": {"name": "event stream"}}
"""The hello of a stream without a session of its own."""

_PATH = re.compile(r"/rooms/([^/]+)(?:/(events|log|fork))?")
_METHODS = {None: ("PUT", "POST", "DELETE"), "events": ("GET",), "log": ("GET",), "fork": ("POST",)}


class RoomsOverHttp:
    """Answers the paths of rooms.

    `admission` lets its sender into rooms; `is_operator` says whether the operator does, who may read whole logs.
    `places` bounds the streams that listen.
    """

    def __init__(
        self,
        rooms: Rooms,
        settings: Settings,
        admission: RoomAdmission,
        is_operator: Callable[[Request], bool],
        places: ListenerSlots,
    ) -> None:
        self._rooms = rooms
        self._settings = settings
        self._admission = admission
        self._is_operator = is_operator
        self._places = places
        self._streams: set[SessionMailbox] = set()
        self._lock = threading.Lock()
        self._ending = threading.Event()

    def drain(self) -> None:
        """End the streams: the hub is stopping. From any thread."""
        self._ending.set()
        with self._lock:
            mailboxes = list(self._streams)
        for mailbox in mailboxes:
            mailbox.wake()

    def find(self, request: Request) -> Callable[[Request], Reply] | None:
        """Return what answers a request, None for one of another path."""
        found = _PATH.fullmatch(request.path)
        # GET of a room is its page.
        if found is None or (found[2] is None and request.method in ("GET", "HEAD")):
            return None
        return partial(self._reply, found[1], found[2])

    def _reply(self, room: str, part: str | None, request: Request) -> Reply:
        method = request.method
        try:
            _check_site(request)
            if method not in _METHODS[part]:
                allowed = ", ".join(_METHODS[part])
                return refusal(405, f"this address accepts only {allowed}", ("Allow", allowed))
            if method == "PUT":
                return self._create(request, room)
            if method == "DELETE":
                return self._remove(request, room)
            if part == "fork":
                return self._fork(request, room)
            if part == "log":
                return self._log(request, room)
            return self._events(request, room) if part == "events" else self._post(request, room)
        except PatchbayError as problem:
            return json_reply(failure(None, problem), problem.status)
        except Exception:
            return json_reply(failure(None, incident(log, "at a room")), 500)

    def _check_may_create(self, request: Request, room: str) -> None:
        """Raise Refused on an open hub, where strangers may join rooms, unless the operator sends the request."""
        if self._settings.mode == OPEN and not self._is_operator(request):
            raise Refused(
                "on an open hub the operator alone creates, forks and deletes rooms: send the token that"
                " `patchbay token --show` prints as `Authorization: Bearer TOKEN`"
            )
        self._admission.check_create(room, request.sender)

    def _create(self, request: Request, room: str) -> Reply:
        self._check_may_create(request, room)
        options = self._object(request)
        unknown = sorted(set(options) - {"policy", "flags"})
        if unknown:
            raise InvalidRequest(f"a room has no option {unknown[0]!r:.40}; expected policy, flags")
        return _created(self._rooms.create(room, request.sender.id, options), request)

    def _fork(self, request: Request, room: str) -> Reply:
        wanted = self._object(request)
        seq, name = wanted.get("seq"), wanted.get("name")
        if type(seq) is not int or not isinstance(name, str):
            raise InvalidRequest('the body is not as expected: {"seq": 12, "name": "other"}')
        self._check_may_create(request, name)
        sender = request.sender
        return _created(self._rooms.fork(self._admission.open(room, sender), seq, sender.id, name), request)

    def _remove(self, request: Request, name: str) -> Reply:
        room = self._admission.open(name, request.sender)
        head = request.headers.get("if-match", "").strip().strip('"')
        if not head:
            return refusal(
                428, 'If-Match has to name the newest entry of the exported log by its CID: If-Match: "bafk..."'
            )
        is_operator = self._is_operator(request)
        if not is_operator:  # on an open hub all callers are one principal
            self._check_may_create(request, room.name)
        self._rooms.remove(room, request.sender.id, head, is_operator)
        return Reply(204)

    def _object(self, request: Request) -> Json:
        """Return the JSON object of a body; an empty one for a request without a body, of any type."""
        body = read_body(request, min(self._settings.body_limit, self._rooms.bounds.envelope))
        kind = media_type(request.headers.get("content-type") or "")
        if not body:
            return {}
        if kind != JSON:
            raise Unsupported(f"Content-Type has to be {JSON}; it is {kind or 'missing'}")
        return parse_json(body, self._rooms.bounds.envelope)

    # envelopes

    def _post(self, request: Request, name: str) -> Reply:
        kind = media_type(request.headers.get("content-type") or "")
        if kind not in (JSON, NDJSON):
            raise Unsupported(f"Content-Type has to be {JSON} or {NDJSON}; it is {kind or 'missing'}")
        body = read_body(request, self._settings.body_limit)
        sender = request.sender
        room = self._admission.open_to_join(name, sender) if HELLO in body else self._admission.open(name, sender)
        rights = self._admission.rights(room, sender)
        conversation = _Conversation(room, sender.id, request.headers.get("enso-session", ""), rights)
        if kind == JSON:
            answer = conversation.handle(parse_json(body, self._rooms.bounds.envelope))
            reply = Reply(conversation.status, orjson.dumps(answer), JSON)
        else:
            lines = [line for line in body.split(b"\n") if line.strip()]
            if len(lines) > MAX_ENVELOPES:
                raise InvalidRequest(f"the body has {len(lines)} envelopes; expected at most {MAX_ENVELOPES}")
            answers = list(self._take_lines(conversation, lines))
            reply = Reply(200, b"".join(orjson.dumps(one) + b"\n" for one in answers), NDJSON)
        if conversation.session_id:
            reply.headers.append((SESSION, conversation.session_id))
        return reply

    def _take_lines(self, conversation: _Conversation, lines: list[bytes]) -> Iterator[Json]:
        """Take envelopes in order; one that cannot be read is answered, and those after it are not taken."""
        for number, line in enumerate(lines, 1):
            try:
                yield conversation.handle(parse_json(line, self._rooms.bounds.envelope))
            except PatchbayError as problem:
                yield {"error": f"line {number}: {problem.message}; what follows was not taken"}
                return

    # reading

    def _events(self, request: Request, name: str) -> Reply:
        query, sender = parse_qs(request.query), request.sender
        after = _seq(request.headers.get("last-event-id") or query.get("after", [""])[0])
        room, known = self._admission.open_to_join(name, sender), query.get("session", [""])[0]
        release = self._places.open(sender, f"room.{name}")
        if release is None:
            return busy(None)
        try:
            session = self._reader(room, sender, known, after)
        except PatchbayError:
            release()
            raise
        mailbox = self._begin(session)
        if known and after is not None:
            session.seek(after)
        steps = room_events(session, mailbox, self._settings.keepalive, self._ending.is_set, not known)
        reply = stream_reply(ListeningBody(steps))
        reply.headers.append((SESSION, session.id))
        reply.at_close = lambda: self._end(session, mailbox, release, is_own=not known)
        return reply

    def _reader(self, room: Room, sender: Principal, known: str, after: int | None) -> RoomSession:
        """Return the session that a stream reads: the session of this id, or a new session. Raises RoomRefused."""
        rights = self._admission.rights(room, sender)
        if not known:
            return room.join(sender.id, READER, after, rights)
        return room.resume(sender.id, known, rights)

    def _begin(self, session: RoomSession) -> SessionMailbox:
        """Attach a stream to a session; a stream that read it before ends, because a session has one reader."""
        mailbox = SessionMailbox(session)
        with self._lock:
            self._streams.add(mailbox)
        session.attach(mailbox.close)
        return mailbox

    def _end(self, session: RoomSession, mailbox: SessionMailbox, release: Callable[[], None], is_own: bool) -> None:
        """The stream of a session is over. A session of the stream alone leaves, unless another connection reads it;
        another session stays until it is idle.
        """
        release()
        mailbox.close()
        with self._lock:
            self._streams.discard(mailbox)
        if session.detach(mailbox.close) and is_own:
            run_in_background("end of a room session", session.leave, "the event stream ended")

    def _log(self, request: Request, name: str) -> Reply:
        sender = request.sender
        after = _seq(parse_qs(request.query).get("after", [""])[0]) or 0
        room = self._admission.open(name, sender)
        lines = room.lines(after, None if self._is_operator(request) else sender.id)
        return stream_reply((line + b"\n" for line in lines), NDJSON)


class _Conversation:
    """What one request posts: a session that says hello, or one that did so before."""

    def __init__(self, room: Room, principal: str, session_id: str, rights: SessionRights) -> None:
        self._rights = rights
        self._room = room
        self._principal = principal
        self.session_id = session_id
        self.status = 200
        """The HTTP status of the last envelope."""
        self._session: RoomSession | None = None

    def handle(self, envelope: Json) -> Json:
        """Take one envelope. Raises BadFrame, RoomRefused, TooMany."""
        if envelope.get("type") == "hello":
            return self._join(envelope.get("payload"))
        receipt = self._find_session(envelope).receive(envelope)
        self.status = 200 if not receipt.refusal else 403 if receipt.is_readable else 400
        return _receipt(receipt)

    def _join(self, hello: Any) -> Json:
        if not isinstance(hello, dict):
            raise BadFrame("the hello has no payload; expected an object of proto and caps")
        self._session = self._room.join(self._principal, hello, rights=self._rights)
        self.session_id = self._session.id
        return {"session": self.session_id, "answers": list(self._session.greeting)}

    def _find_session(self, envelope: Json) -> RoomSession:
        if self._session is None:
            if not self.session_id:
                raise BadFrame(f"the request names no session; say hello first, then send its id in {SESSION}")
            self._session = self._room.resume(self._principal, self.session_id, self._rights)
        return self._session


def _receipt(receipt: Receipt) -> Json:
    found: Json = {"id": receipt.id, "seq": receipt.seq, "duplicate": receipt.is_duplicate}
    found |= {"refusal": receipt.refusal} if receipt.refusal else {}
    return found | ({"answers": list(receipt.answers)} if receipt.answers else {})


def _created(room: Room, request: Request) -> Reply:
    found = {"room": room.id, "name": room.name, "seq": room.seq, "head": room.head}
    return Reply(201, orjson.dumps(found), JSON, [("Location", request.link(f"/rooms/{room.name}"))])


def _check_site(request: Request) -> None:
    """Raise Refused for a request that a page of another site causes, also by a link: reading events joins the room."""
    if request.headers.get("sec-fetch-site") in ("cross-site", "same-site") and "origin" not in request.headers:
        raise Refused("this request came from a page of another site; rooms answer to the hub's own pages and programs")


def _seq(text: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise InvalidRequest(f"the place in the log is {text!r:.40}; expected the seq of an entry")
    return int(text)

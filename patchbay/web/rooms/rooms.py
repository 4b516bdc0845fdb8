"""The pages of rooms: `/rooms` lists them and creates one, `/rooms/<room>` shows one, live; both as JSON too.

A page is not a participant: reading it joins nothing and logs nothing. It shows what the policy of the room lets the
reader see: the operator sees everything, another reader the history from the time when it joined or was invited. In
personal mode every caller on this machine may create and fork rooms; in open mode the operator may.
"""

from __future__ import annotations

import threading
import time
from dataclasses import asdict
from itertools import islice
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams, PatchbayError, ReadOnly, Refused
from patchbay.pins.offers import SERVER_PREFIX
from patchbay.protocol.dispatch import Dispatcher
from patchbay.rooms.folding.rights import may_join
from patchbay.rooms.folding.state import HISTORY
from patchbay.rooms.record.errors import RoomRefused, TooMany, UnknownRoom, WrongLog
from patchbay.rooms.record.verification import verify
from patchbay.rooms.room import Room
from patchbay.rooms.rooms import LOBBY
from patchbay.settings import PERSONAL
from patchbay.web.activity.activity import TooManyStreams
from patchbay.web.operator.changes import explain_refusal, read_change_form
from patchbay.web.operator.login import read_form, redirect_to
from patchbay.web.rendering.plots import format_duration
from patchbay.web.rooms.data import (
    MAX_SHOWN_ITEMS,
    draw_calls,
    list_entries,
    list_servers,
    list_sessions,
    list_tools,
    summarize_state,
)
from patchbay.web.rooms.stream import stream_room_changes
from patchbay.web.site.answers import check_number, render_answer
from patchbay.web.site.site import Site, base_url
from patchbay.wire.replies.accept import STREAM
from patchbay.wire.requests.authentication import is_local_request
from patchbay.wire.requests.security import check_same_origin
from patchbay.wire.requests.wsgi import request_of
from patchbay.wire.rooms.admission import RoomAdmission

ROOMS_PER_PAGE = 50
ENTRIES_PER_PAGE = 30
MAX_CALL_ENTRIES = 400
"""Entries of the log that the time line of calls is made of: the newest of the page."""

MAX_CALLS = 20
"""Calls in the time line."""

JOIN_RULES = ("public", "invite")


class _RoomsViews:
    def __init__(self, site: Site, dispatcher: Dispatcher) -> None:
        self._site = site
        self._dispatcher = dispatcher
        self._rooms = dispatcher.services.rooms
        self._admission = RoomAdmission(self._rooms, site.access, dispatcher.services.quotas)
        self._verifying = threading.Lock()

    def rooms(self) -> Response:
        """GET /rooms: every room with its members and tools, and the form that creates one."""
        every = [one for one in self._rooms.all() if self._admission.may_read(one.name, self._site.sender)]
        pages = max(1, -(-len(every) // ROOMS_PER_PAGE))
        number = _number("page", pages, 1)
        first = (number - 1) * ROOMS_PER_PAGE
        rows = [self._summary(one.name) for one in every[first : first + ROOMS_PER_PAGE]]
        return render_answer(
            self._site,
            "rooms.html",
            "rooms",
            {"rooms": rows, "url": f"{base_url()}/rooms"},
            pages=pages,
            number=number,
            total=len(every),
            history=HISTORY,
            refusal=self._refusal(),
            csrf=self._site.operators.csrf(),
        )

    def change(self) -> Response:
        """POST /rooms: create a room, with `do=fork` one that goes on from an entry of `room`; `do=remove` deletes one.

        Raises Refused, ReadOnly, InvalidParams, RoomExists, RoomRefused, RoomChanged, TooMany.
        """
        fields = self._read_form()
        do, name = fields.get("do", "create"), fields.get("name", "").strip()
        if do == "create":
            policy = {"join": fields.get("join", JOIN_RULES[0]), "history": fields.get("history", HISTORY[0])}
            made = self._rooms.create(name, self._site.sender.id, {"policy": policy})
        elif do == "fork":
            room = self._admission.open(fields.get("room", ""), self._site.sender)
            seq = check_number("seq", fields.get("seq", ""), room.seq)
            made = self._rooms.fork(room, seq, self._site.sender.id, name)
        elif do == "remove":
            room = self._admission.open(fields.get("room", ""), self._site.sender)
            self._rooms.remove(room, self._site.sender.id, fields.get("head", ""), self._reader() is None)
            return redirect_to("/rooms")
        else:
            raise InvalidParams(f"do must be create, fork or remove; it is {do!r:.60}")
        return redirect_to(f"/rooms/{quote(made.name)}")

    def room(self, room: str) -> Response:
        """GET /rooms/<room>: members, tools, calls, the log before entry `before`; with `verify=yes` it is checked."""
        found = self._find(room)
        reader = self._reader()
        if not self._may_look(found):
            raise RoomRefused(f"the room {found.name} is for invited members; the operator of this hub may look")
        state, server = found.state(), f"{SERVER_PREFIX}{found.name}"
        data: dict[str, Any] = {
            "room": self._identity(found) | summarize_state(state) | {"endpoint": f"/mcp/{server}"},
            "predecessor": state["predecessor"],
            "policy": state["policy"],
            "flags": state["flags"],
            "sessions": list_sessions(state),
            "servers": list_servers(state),
            "tools": list_tools(found, reader),
            **self._history(found, reader),
            "verdict": self._verify(found, reader) if request.args.get("verify") else None,
        }
        return render_answer(
            self._site,
            "room.html",
            "rooms",
            data,
            url=f"{base_url()}/rooms/{quote(found.name)}",
            most=MAX_SHOWN_ITEMS,
            newest=not request.args.get("before"),
            refusal=self._refusal(),
            csrf=self._site.operators.csrf(),
            format_duration=format_duration,
        )

    def changes(self, room: str) -> Response:
        """GET /rooms/<room>/changes: the seq of the newest entry as server-sent events. Raises TooManyStreams (503)."""
        found, places = self._find(room), self._dispatcher.places
        if not self._may_look(found):
            raise RoomRefused(f"the room {found.name} is for invited members")
        release = places.open(self._site.sender)
        if release is None:
            raise TooManyStreams("too many streams are open; try again later (setting listeners)")
        frames = stream_room_changes(self._site.catalogue.store, self._site.settings, found, self._site.find_stay())
        response = Response(frames, content_type=STREAM)
        response.headers |= {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response.call_on_close(release)
        return response

    # the reader

    def _reader(self) -> str | None:
        """The principal whose rights count for what is shown; None for the operator, who sees everything."""
        return None if self._site.operators.lenient_proof().is_operator else self._site.sender.id

    def _may_look(self, room: Room) -> bool:
        principal = self._reader()
        if principal is None or room.is_banned(principal):
            return principal is None
        names = ((principal, "persistent"), (room.pseudonym(principal), "pseudonymous"))
        return any(may_join(room.state_now, name, profile) for name, profile in names)

    def _is_local(self) -> bool:
        personal = self._site.settings.mode == PERSONAL
        return personal and is_local_request(request_of(request.environ))

    def _refusal(self) -> str | None:
        """Why the reader may not create or fork a room; None for one who may."""
        if self._is_local() and not self._site.catalogue.readonly:
            return None
        return explain_refusal(self._site)

    def _read_form(self) -> dict[str, str]:
        """The fields of a form of these pages. Raises Refused (401, 403) or ReadOnly (405)."""
        if not self._is_local() or self._site.operators.lenient_proof().is_operator:
            return read_change_form(self._site)
        check_same_origin(request.headers)
        if not {"Sec-Fetch-Site", "Origin"} & {name for name, _ in request.headers}:
            raise Refused("a browser sends this form from the page /rooms; a program sends PUT /rooms/<room>")
        if self._site.catalogue.readonly:
            raise ReadOnly("this hub was booted read-only: nothing can be changed here")
        return read_form(self._site.settings.body_limit)

    # a room

    def _find(self, name: str) -> Room:
        """The room of this name or id. A page creates no lobby, as a hello would. Raises UnknownRoom."""
        if name == LOBBY and not any(one.name == LOBBY for one in self._rooms.all()):
            raise UnknownRoom("there is no lobby yet; the first participant that names no room creates it")
        return self._admission.open(name, self._site.sender)

    def _summary(self, name: str) -> dict[str, Any]:
        plain: dict[str, Any] = {
            "name": name,
            "page": f"/rooms/{quote(name)}",
            "problem": None,
            "numbers": None,
            "names": [],
        }
        try:
            room = self._rooms.open(name)
            if not self._may_look(room):
                return plain | {"problem": "for invited members"}
            state = room.state()
            names = [
                f"{id} ({len(one['tools'])} tool{'' if len(one['tools']) == 1 else 's'})"
                for id, one in sorted(state["servers"].items())
            ]
            at = room.entries(room.seq - 1, 1)[0].entry.at / 1000
            return plain | {"numbers": summarize_state(state) | {"entries": room.seq, "last": at}, "names": names}
        except PatchbayError as problem:
            return plain | {"problem": problem.message}

    def _identity(self, room: Room) -> dict[str, Any]:
        fields = {"name": room.name, "id": room.id, "entries": room.seq, "head": room.head}
        return fields | {"state_cid": room.state_cid, "key": room.state_now["key"]}

    def _history(self, room: Room, reader: str | None) -> dict[str, Any]:
        """The entries of the page, newest first, and the calls among the newest MAX_CALL_ENTRIES before them."""
        last = _number("before", room.seq + 1, room.seq + 1) - 1
        after = max(0, last - MAX_CALL_ENTRIES)
        try:
            lines = room.lines(after, reader)
            rows = list_entries(room, islice(lines, last - after))
            problem = None
        except WrongLog as wrong:
            rows, problem = [], wrong.message
        rows = [row for row in rows if row["seq"] <= last or row["type"] == "withheld"]
        shown = rows[-ENTRIES_PER_PAGE:][::-1]
        older = shown[-1]["seq"] if shown and shown[-1]["seq"] > 1 and shown[-1]["type"] != "withheld" else None
        calls = draw_calls(rows, MAX_CALLS)
        return {"entries": shown, "older": older, "calls": calls, "log_problem": problem}

    def _verify(self, room: Room, reader: str | None) -> dict[str, Any]:
        """Check the log as the reader may see it, with this hub's key. Raises TooMany while another check runs."""
        if not self._verifying.acquire(blocking=False):
            raise TooMany("the hub verifies a log for another reader now; try again in a moment")
        try:
            begin = time.monotonic()
            verdict = verify(room.lines(0, reader), key=self._rooms.signer.public)
            return asdict(verdict) | {"ms": (time.monotonic() - begin) * 1000}
        finally:
            self._verifying.release()


def _number(parameter: str, max_number: int, usual: int) -> int:
    text = request.args.get(parameter, "")
    return check_number(parameter, text, max_number) if text else usual


def rooms_blueprint(site: Site, dispatcher: Dispatcher) -> Blueprint:
    """`/rooms`, `/rooms/<room>`, `/rooms/<room>/changes`."""
    views = _RoomsViews(site, dispatcher)
    pages = Blueprint("rooms", __name__)
    pages.add_url_rule("/rooms", "rooms", views.rooms)
    pages.add_url_rule("/rooms", "change", views.change, methods=["POST"])
    pages.add_url_rule("/rooms/<room>", "room", views.room)
    pages.add_url_rule("/rooms/<room>/changes", "changes", views.changes)
    return pages

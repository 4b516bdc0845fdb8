"""The pages about calls: `/activity` with its plots, `/activity/<id>` for one call, and the same for programs.

They only read; arguments, results and what callers wrote are the operator's to see. A page holds what all workers
wrote; what runs at this moment, and which streams are open, is told of the worker that answers.
Sources: DESIGN section 8; docs/operation.md, Watching.
"""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote, urlencode

from flask import Blueprint, Response, request

from patchbay.activity.call_recording import CallRecording
from patchbay.activity.records import OUTCOMES, Filter, Page, Record
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.streams.listener_slots import ListenerSlots
from patchbay.web.api.activity_stream import watching
from patchbay.web.api.json_answers import json_answer
from patchbay.web.pages.activity_numbers import BARS, STEPS, by_tool, ended, most_called_tools, over_time, slowest
from patchbay.web.pages.answers import number_in, render_answer
from patchbay.web.rendering.plots import bars, format_duration, spread, with_shares
from patchbay.web.site import Site
from patchbay.wire.responses import STREAM

MAX_RECORDS = 1000
"""Records of one answer."""

SHOWN = 50
"""Records of one page, unless more or fewer are asked for."""

PLOTTED = 5000
"""Records that plots are made of: the newest that fit."""

SHORTEST = 60.0
"""Seconds that plots show, at least."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


WATCHED_SHARE = 4
"""At most this part of the threads of a worker follows the page: a quarter."""


class UnknownRecord(PatchbayError):
    """There is no record of this id; it may have been forgotten."""

    code, status = -32602, 404


class TooManyWatch(PatchbayError):
    """All places for streams that listen are taken."""

    status = 503


class _Views:
    def __init__(self, site: Site, dispatcher: Dispatcher) -> None:
        self._site = site
        self._dispatcher = dispatcher
        self._activity = dispatcher.desk.activity
        settings = site.settings
        # Each stream of this page holds a thread, so that there are fewer places for them than for other listeners.
        self._watching = ListenerSlots(max(1, min(settings.listeners, settings.threads // WATCHED_SHARE)))

    def page(self) -> Response:
        """Plots, filters, and a table. As JSON: `records` without arguments and answers, `next`, `running`."""
        wanted = self._asked()
        found = self._found(wanted)
        given = {name: value for name, value in request.args.items() if value and name != "before"}
        numbers = self._numbers(wanted)
        return render_answer(
            self._site,
            "activity.html",
            "activity",
            {
                "records": [record.summary() for record in found.records],
                "next": found.next,
                "running": self._running(wanted),
            },
            wanted=wanted,
            given=given,
            query=urlencode(given),
            numbers=numbers,
            plots=_drawn(numbers),
            first=not request.args.get("before"),
            servers=sorted(server.name for server in self._site.catalogue.all()),
            outcomes=OUTCOMES,
            days=self._site.settings.activity_days,
            took=format_duration,
        )

    def plots(self) -> Response:
        """The numbers behind the plots, as JSON."""
        return json_answer(self._numbers(self._asked()))

    def record(self, id: str) -> Response:
        """One record with all that was kept. Raises InvalidParams, UnknownRecord."""
        record = self._activity.find(id)
        if record is None:
            raise UnknownRecord(f"there is no record {id} here; it may have been forgotten (setting activity_days)")
        strangers = not self._site.operators.shown().operator
        record = record.for_strangers() if strangers else record
        story = self._story(record)
        return render_answer(
            self._site, "call.html", "activity", record.shown(), **story, took=format_duration, strangers=strangers
        )

    def events(self) -> Response:
        """Calls as they end (activity_stream.py). Raises TooManyWatch (503)."""
        wanted, places = self._asked(), self._dispatcher.places
        if not self._watching.acquire():
            raise TooManyWatch("too many streams of this page are open; try again later (setting threads)")
        if not places.acquire():
            self._watching.release()
            raise TooManyWatch("too many streams are open; try again later (setting listeners)")
        store = self._site.catalogue.store
        frames = watching(store, self._site.settings, wanted, partial(self._running, wanted))
        response = Response(frames, content_type=STREAM)
        response.headers |= {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response.call_on_close(places.release)
        response.call_on_close(self._watching.release)
        return response

    def _asked(self) -> Filter:
        """The filter of the present request, for who sent it. Raises InvalidParams."""
        return replace(requested_filter(), for_strangers=not self._site.operators.shown().operator)

    def _found(self, wanted: Filter) -> Page:
        limit, before = _limit(request.args.get("limit", "")), request.args.get("before") or None
        return self._activity.recent(wanted, limit, before)

    def _numbers(self, wanted: Filter) -> dict[str, Any]:
        """What the plots show: of the newest `PLOTTED` calls that fit; `all` says whether there were no more."""
        found = self._activity.recent(wanted, PLOTTED, contents=False)
        now = time.time()
        end = min(wanted.until, now)
        oldest = min((record.at for record in found.records), default=end)
        begin = oldest if found.next or not wanted.since else wanted.since
        begin = max(min(begin, end - SHORTEST), end - STEPS[-1] * (BARS - 1))
        tools = by_tool(found.records)
        places = self._dispatcher.places
        return {
            "calls": len(found.records),
            "all": found.next is None,
            "failed": sum(ended(record) == "failed" for record in found.records),
            "begin": begin,
            "end": end,
            "over_time": over_time(found.records, begin, end, places.past()),
            "busiest": most_called_tools(tools),
            "slowest": slowest(tools),
            "open": {
                "running": len(self._activity.running),
                "streamed": len(self._dispatcher.streams),
                "listening": places.taken,
                "listening_most": places.most,
            },
        }

    def _running(self, wanted: Filter) -> list[dict[str, Any]]:
        """What is being answered now; others than the operator see only names that a server lists."""
        runs = sorted(self._activity.running.copy(), key=lambda run: run.at)
        return [
            {"server": run.server.name, "method": run.method, "name": _name(run, wanted.for_strangers), "at": run.at}
            for run in runs
        ]

    def _story(self, record: Record) -> dict[str, Any]:
        """How one call is told: its events on a line, and how it can be made again."""
        span = max(record.ms, 0.001)
        line = [{"x": min(100.0, each.ms / span * 100), "moment": each} for each in record.moments]
        served = self._site.catalogue.store.names.get(f"served/{record.server}")
        return {
            "record": record,
            "line": line,
            "more": record.events - len(record.moments),
            "replay": _replay(record),
            "changed": bool(record.version) and served != record.version,
        }


def _replay(record: Record) -> dict[str, Any] | None:
    """The call again, as a method with its params; None where its arguments were not kept, or it cannot be repeated."""
    if record.arguments is None:
        return None
    if record.method == "resources/read":
        params: dict[str, Any] = {"uri": record.name}
    elif record.method in ("tools/call", "prompts/get"):
        params = {"name": record.name, "arguments": record.arguments}
    else:
        return None
    name = quote(record.server, safe="")
    return {
        "method": record.method,
        "params": params,
        "endpoint": f"/mcp/{name}",
        "pinned": f"/mcp/{name}@{record.version}",
    }


def _drawn(numbers: dict[str, Any]) -> dict[str, Any]:
    return {
        "calls": bars(numbers["over_time"]),
        "open": bars(numbers["over_time"], ("at_once",), "listening"),
        "latency": spread(numbers["busiest"]),
        "slowest": with_shares(numbers["slowest"], "p95"),
    }


def _name(run: CallRecording, for_strangers: bool) -> str:
    if run.named is not None:
        return run.named.name
    return "" if for_strangers else run.name[:128]


def requested_filter() -> Filter:
    """The filter that the present request asks for. Raises InvalidParams."""
    args, now = request.args, time.time()
    outcome = args.get("outcome", "")
    if outcome and outcome not in OUTCOMES:
        raise InvalidParams(f"outcome has to be one of {', '.join(OUTCOMES)}; it is {outcome!r:.60}")
    begin, end = args.get("since", ""), args.get("until", "")
    until = moment("until", end, now) if end else inf
    return Filter(args.get("server", ""), args.get("tool", ""), outcome, moment("since", begin, now), until)


def _limit(text: str) -> int:
    if not text:
        return SHOWN
    found = number_in(text, MAX_RECORDS)
    if found is None:
        raise InvalidParams(f"limit has to be a number from 1 to {MAX_RECORDS}; it is {text!r:.60}")
    return found


def moment(what: str, text: str, now: float) -> float:
    """A moment as Unix time, from seconds, from ISO 8601 (UTC unless it says otherwise), or from how long ago it was.

    That is a number and a unit: `90s`, `15m`, `2h`, `7d`; an empty text, or what lies before 1970, is 0. Raises
    InvalidParams.
    """
    if not text:
        return 0.0
    number, unit = text[:-1], text[-1]
    if unit in UNITS and len(number) < 10 and number.isascii() and number.isdigit():
        return max(0.0, now - int(number) * UNITS[unit])
    if len(text) < 20 and text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        # A blank in a query is what a plus sign in it becomes.
        found = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return max(0.0, (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError) as problem:
        raise InvalidParams(
            f"{what} has to be a time such as 15m, 2h, 7d or 2026-01-31T12:00:00; it is {text!r:.60}"
        ) from problem


def activity_blueprint(site: Site, dispatcher: Dispatcher) -> Blueprint:
    """`/activity`, `/activity/<id>`, `/activity/plots.json`, `/activity/events`."""
    views = _Views(site, dispatcher)
    blueprint = Blueprint("activity", __name__)
    blueprint.add_url_rule("/activity", "page", views.page)
    blueprint.add_url_rule("/activity/plots.json", "plots", views.plots)
    blueprint.add_url_rule("/activity/events", "events", views.events)
    blueprint.add_url_rule("/activity/<id>", "record", views.record)
    return blueprint

"""The pages about calls: `/activity` with its charts, `/activity/<id>` for one call, and both as JSON.

The pages only read. Only the operator sees arguments, results and other texts of callers. The records come from all
workers; the running calls and the open streams are those of the worker that responds.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import partial
from math import inf
from typing import Any
from urllib.parse import quote, urlencode

from flask import Blueprint, Response, request

from patchbay.activity.call_recording import CallRecording
from patchbay.activity.records import FAILURES, OUTCOMES, Filter, Page, Record
from patchbay.errors import InvalidParams, OverQuota, PatchbayError
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.streams.listener_slots import ListenerSlots
from patchbay.topics import SERVED
from patchbay.web.activity.numbers import (
    MAX_BARS,
    STEP_SECONDS,
    classify_outcome,
    count_over_time,
    group_by_tool,
    most_called_tools,
    slowest_tools,
)
from patchbay.web.activity.stream import stream_activity, stream_approvals
from patchbay.web.rendering.plots import add_shares, draw_bars, draw_spread, format_duration, list_spots
from patchbay.web.site.answers import check_number, json_answer, render_answer
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site
from patchbay.wire.replies.accept import STREAM

MAX_RECORDS = 1000
"""Records of one response, at most."""

DEFAULT_RECORDS = 50
"""Records of one page when the request has no `limit`."""

MAX_PLOTTED_RECORDS = 5000
"""Charts show the newest records that match the filter, up to this number."""

MIN_PLOT_SECONDS = 60.0
"""The shortest time span of a chart, in seconds."""

PERIODS = {"1h": "last hour", "1d": "last day", "7d": "last week", "": "all"}
"""The times that the page offers, as values of `since`."""

UNIT_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


WATCHED_SHARE = 4
"""At most this part of the threads of a worker follows the page: a quarter."""


class UnknownRecord(PatchbayError):
    """There is no record with this id; old records are deleted."""

    code, status = -32602, 404


class TooManyStreams(PatchbayError):
    """The number of listening streams has reached the setting `listeners`."""

    status = 503


class _ActivityViews:
    def __init__(self, site: Site, dispatcher: Dispatcher) -> None:
        self._site = site
        self._dispatcher = dispatcher
        self._activity = dispatcher.services.activity
        settings = site.settings
        # Each stream of this page holds a thread, so that there are fewer places for them than for other listeners.
        self._watching = ListenerSlots(max(1, min(settings.listeners, settings.threads // WATCHED_SHARE)))

    def page(self) -> Response:
        """GET /activity: charts, filters and a table; as JSON `records` (without contents), `next`, `running`."""
        wanted = self._requested_filter()
        found = self._find_records(wanted)
        query_args = {name: value for name, value in request.args.items() if value and name != "before"}
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
            chosen=wanted,
            query_args=query_args,
            query=urlencode(query_args),
            link=partial(_link, query_args),
            callers=sorted({each.principal for each in found.records if each.principal}),
            periods=PERIODS,
            numbers=numbers,
            plots=_draw_plots(numbers),
            first=not request.args.get("before"),
            servers=sorted(server.name for server in self._site.visible.all()),
            outcomes=(FAILURES, *OUTCOMES),
            days=self._site.settings.activity_days,
            format_duration=format_duration,
        )

    def plots(self) -> Response:
        """GET /activity/plots.json: the numbers of the charts."""
        return json_answer(self._numbers(self._requested_filter()))

    def record(self, id: str) -> Response:
        """GET /activity/<id>: one record with all its fields. Raises InvalidParams, UnknownRecord."""
        record = self._activity.find(id)
        may_see = self._site.limited_to_reader(Filter()).may_see
        if record is None or (may_see is not None and not may_see(record.server, record.name)):
            raise UnknownRecord(f"there is no record {id}; the hub deletes old records (setting activity_days)")
        hides_contents = not self._site.operators.lenient_proof().is_operator
        record = record.for_strangers() if hides_contents else record
        story = self._story(record)
        return render_answer(
            self._site,
            "call.html",
            "activity",
            record.to_json(),
            **story,
            format_duration=format_duration,
            hides_contents=hides_contents,
        )

    def events(self) -> Response:
        """GET /activity/events: new calls as server-sent events.

        With `only=approvals`, for the operator, the changes of calls that wait for an approval; with `only=attention`
        also those of what else the home page shows. Raises TooManyStreams (503), InvalidParams, NotOperator.
        """
        wanted, places = self._requested_filter(), self._dispatcher.places
        only = request.args.get("only", "")
        if only not in ("", "approvals", "attention"):
            raise InvalidParams(f"only must be approvals or attention; it is {only!r:.60}")
        if only:
            self._site.operators.check_operator()
        if not self._watching.acquire():
            raise TooManyStreams("too many streams of this page are open; try again later (setting threads)")
        try:
            release = places.open(self._site.sender)
        except OverQuota:
            self._watching.release()
            raise
        if release is None:
            self._watching.release()
            raise TooManyStreams("too many streams are open; try again later (setting listeners)")
        store = self._site.catalogue.store
        settings, may_stay = self._site.settings, self._site.find_stay()
        if only:
            state = self._site.find_attention if only == "attention" else None
            frames = stream_approvals(store, settings, may_stay, state)
        else:
            frames = stream_activity(store, settings, wanted, partial(self._running, wanted), may_stay)
        response = Response(frames, content_type=STREAM)
        response.headers |= {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        response.call_on_close(release)
        response.call_on_close(self._watching.release)
        return response

    def _requested_filter(self) -> Filter:
        """The filter of the current request, with the rights of its sender. Raises InvalidParams."""
        return self._site.limited_to_reader(requested_filter())

    def _find_records(self, wanted: Filter) -> Page:
        limit, before = _limit(request.args.get("limit", "")), request.args.get("before") or None
        return self._activity.recent(wanted, limit, before)

    def _numbers(self, wanted: Filter) -> dict[str, Any]:
        """The numbers of the charts, from the newest matching calls. `all` is False when there are more calls."""
        found = self._activity.recent(wanted, MAX_PLOTTED_RECORDS, contents=False)
        now = time.time()
        end = min(wanted.until, now)
        oldest = min((record.at for record in found.records), default=end)
        begin = oldest if found.next or not wanted.since else wanted.since
        begin = max(min(begin, end - MIN_PLOT_SECONDS), end - STEP_SECONDS[-1] * (MAX_BARS - 1))
        tools = group_by_tool(found.records)
        places = self._dispatcher.places
        return {
            "calls": len(found.records),
            "all": found.next is None,
            "failed": sum(classify_outcome(record) == "failed" for record in found.records),
            "begin": begin,
            "end": end,
            "over_time": count_over_time(found.records, begin, end, places.changes()),
            "busiest": most_called_tools(tools),
            "slowest": slowest_tools(tools),
            "open": {
                "running": len(self._activity.running),
                "streamed": len(self._dispatcher.streams),
                "listening": places.in_use,
                "listening_most": places.max_streams,
            },
        }

    def _running(self, wanted: Filter) -> list[dict[str, Any]]:
        """The running calls. Readers other than the operator see only names that a server lists."""
        runs = sorted(self._activity.running.copy(), key=lambda run: run.at)
        return [
            {
                "server": run.server.name,
                "method": run.method,
                "name": _run_name(run, wanted.for_strangers),
                "at": run.at,
            }
            for run in runs
            if wanted.may_see is None or wanted.may_see(run.server.name, _run_name(run, wanted.for_strangers))
        ]

    def _story(self, record: Record) -> dict[str, Any]:
        """The template values of one call: its events with their positions in percent, and the request to repeat it."""
        span = max(record.ms, 0.001)
        positions = [{"x": min(100.0, each.ms / span * 100), "event": each} for each in record.moments]
        served = self._site.catalogue.store.names.get(f"{SERVED}{record.server}")
        return {
            "record": record,
            "edit": f"{page_path(record.server)}/edit" if record.raised else "",
            "positions": positions,
            "more": record.events - len(record.moments),
            "replay": _replay_request(record),
            "changed": bool(record.version) and served != record.version,
        }


def _replay_request(record: Record) -> dict[str, Any] | None:
    """The method and params that repeat a call; None when the record has no arguments, or its method cannot repeat."""
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


def _draw_plots(numbers: dict[str, Any]) -> dict[str, Any]:
    return {
        "calls": draw_bars(numbers["over_time"]),
        "spots": list_spots(numbers["over_time"]),
        "open": draw_bars(numbers["over_time"], ("at_once",), "listening"),
        "latency": draw_spread(numbers["busiest"]),
        "slowest": add_shares(numbers["slowest"], "p95"),
    }


def _run_name(run: CallRecording, for_strangers: bool) -> str:
    if run.called is not None:
        return run.called.name
    return "" if for_strangers else run.name[:128]


def requested_filter() -> Filter:
    """The filter in the query of the current request. Raises InvalidParams."""
    args, now = request.args, time.time()
    outcome = args.get("outcome", "")
    if outcome and outcome not in (*OUTCOMES, FAILURES):
        raise InvalidParams(f"outcome must be one of {', '.join((*OUTCOMES, FAILURES))}; it is {outcome!r:.60}")
    begin, end = args.get("since", ""), args.get("until", "")
    until = parse_time("until", end, now) if end else inf
    since = parse_time("since", begin, now)
    return Filter(args.get("server", ""), args.get("tool", ""), outcome, since, until, caller=args.get("caller", ""))


def _link(query_args: Mapping[str, str], **others: object) -> str:
    """Return the address of the page with the filters of a query and `others`; an empty value removes a filter."""
    wanted = {name: str(value) for name, value in {**query_args, **others}.items() if value not in ("", None)}
    return f"/activity?{urlencode(wanted)}" if wanted else "/activity"


def _limit(text: str) -> int:
    return check_number("limit", text, MAX_RECORDS) if text else DEFAULT_RECORDS


def parse_time(parameter: str, text: str, now: float) -> float:
    """Parse a time in a query into Unix seconds; errors name the `parameter`.

    The text is a number of seconds since 1970, an ISO 8601 time (UTC when it has no offset), or an age: `90s`, `15m`,
    `2h`, `7d`. An empty text and times before 1970 give 0. Raises InvalidParams.
    """
    if not text:
        return 0.0
    number, unit = text[:-1], text[-1]
    if unit in UNIT_SECONDS and len(number) < 10 and number.isascii() and number.isdigit():
        return max(0.0, now - int(number) * UNIT_SECONDS[unit])
    if len(text) < 20 and text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        # The query parser turns a plus sign into a space.
        found = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
        return max(0.0, (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp())
    except (ValueError, OverflowError) as problem:
        raise InvalidParams(
            f"{parameter} must be a time such as 15m, 2h, 7d or 2026-01-31T12:00:00; it is {text!r:.60}"
        ) from problem


def activity_blueprint(site: Site, dispatcher: Dispatcher) -> Blueprint:
    """`/activity`, `/activity/<id>`, `/activity/plots.json`, `/activity/events`."""
    views = _ActivityViews(site, dispatcher)
    blueprint = Blueprint("activity", __name__)
    blueprint.add_url_rule("/activity", "page", views.page)
    blueprint.add_url_rule("/activity/plots.json", "plots", views.plots)
    blueprint.add_url_rule("/activity/events", "events", views.events)
    blueprint.add_url_rule("/activity/<id>", "record", views.record)
    return blueprint

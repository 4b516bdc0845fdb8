"""The pages about calls: `/activity` for people, `/activity.json` and `/activity/<id>.json` for programs.

They only read. A page holds what all workers wrote; what runs at this moment is told of the worker that answers.
Sources: DESIGN section 8; docs/operation.md, Watching.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams, PatchbayError
from patchbay.protocol.activity import Activity
from patchbay.protocol.activity_records import OUTCOMES, Filter, Page
from patchbay.transports.programs import json_answer
from patchbay.transports.site import Site

MOST = 1000
"""Records of one answer."""

SHOWN = 100
"""Records of one page, unless more or fewer are asked for."""

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class UnknownRecord(PatchbayError):
    """There is no record of this id; it may have been forgotten."""

    code, status = -32602, 404


class _Views:
    def __init__(self, site: Site, activity: Activity) -> None:
        self._site = site
        self._activity = activity

    def page(self) -> Response:
        """A table with filters."""
        wanted, found = self._found()
        given = {name: value for name, value in request.args.items() if value and name != "before"}
        older = f"/activity?{urlencode(given | {'before': found.next})}" if found.next else None
        return self._site.html(
            "activity.html",
            "activity",
            records=[record.summary() for record in found.records],
            running=self._running(),
            wanted=wanted,
            since=given.get("since", ""),
            servers=sorted(server.name for server in self._site.catalogue.all()),
            outcomes=OUTCOMES,
            older=older,
            days=self._site.settings.activity_days,
        )

    def records(self) -> Response:
        """The same as JSON: `records` without arguments and answers, and `next`, the `before` of the next page."""
        _, found = self._found()
        return json_answer({"records": [record.summary() for record in found.records], "next": found.next})

    def record(self, id: str) -> Response:
        """One record with all that was kept. Raises InvalidParams, UnknownRecord."""
        record = self._activity.find(id)
        if record is None:
            raise UnknownRecord(f"there is no record {id} here; it may have been forgotten (setting activity_days)")
        return json_answer(record.shown())

    def _found(self) -> tuple[Filter, Page]:
        args = request.args
        outcome = args.get("outcome", "")
        if outcome and outcome not in OUTCOMES:
            raise InvalidParams(f"outcome has to be one of {', '.join(OUTCOMES)}; it is {outcome!r:.60}")
        wanted = Filter(
            args.get("server", ""), args.get("tool", ""), outcome, since(args.get("since", ""), time.time())
        )
        return wanted, self._activity.recent(wanted, _limit(args.get("limit", "")), args.get("before") or None)

    def _running(self) -> list[dict[str, Any]]:
        now = time.time()
        runs = sorted(self._activity.running.copy(), key=lambda run: run.at)
        return [
            {"server": run.server.name, "method": run.method, "name": _name(run.named), "seconds": now - run.at}
            for run in runs
        ]


def _name(descriptor: Any) -> str:
    return "" if descriptor is None else str(descriptor.name)


def _limit(text: str) -> int:
    if not text:
        return SHOWN
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= MOST):
        raise InvalidParams(f"limit has to be a number from 1 to {MOST}; it is {text!r:.60}")
    return int(text)


def since(text: str, now: float) -> float:
    """A moment as Unix time, from seconds, from ISO 8601 (UTC unless it says otherwise), or from how long ago it was.

    That is a number and a unit: `90s`, `15m`, `2h`, `7d`. Raises InvalidParams.
    """
    if not text:
        return 0.0
    number, unit = text[:-1], text[-1]
    if unit in UNITS and len(number) < 10 and number.isascii() and number.isdigit():
        return now - int(number) * UNITS[unit]
    if len(text) < 20 and text.isascii() and text.replace(".", "", 1).isdigit():
        return float(text)
    try:
        # A blank in a query is what a plus sign in it becomes.
        moment = datetime.fromisoformat(text.replace(" ", "+") if "T" in text else text)
    except ValueError as problem:
        raise InvalidParams(
            f"since has to be a time such as 15m, 2h, 7d or 2026-01-31T12:00:00; it is {text!r:.60}"
        ) from problem
    return (moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)).timestamp()


def activity_blueprint(site: Site, activity: Activity) -> Blueprint:
    """`/activity`, `/activity.json`, `/activity/<id>.json`."""
    views = _Views(site, activity)
    blueprint = Blueprint("activity", __name__)
    blueprint.add_url_rule("/activity", "page", views.page)
    blueprint.add_url_rule("/activity.json", "records", views.records)
    blueprint.add_url_rule("/activity/<id>.json", "record", views.record)
    return blueprint

"""`/schedules`: the tools that run by a schedule, with their next and last runs, and a button that runs one now."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flask import Blueprint, Response, request

from patchbay.protocol.schedules.records import DIED, MISSED, RUNNING, SKIPPED
from patchbay.protocol.schedules.scheduler import Scheduler
from patchbay.protocol.schedules.schedules import Schedule
from patchbay.web.operator.changes import find_author
from patchbay.web.operator.login import local_path, read_form, redirect_to
from patchbay.web.site.answers import render_answer, wants_json
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site

PAGE = "/schedules"


FAILED = ("tool_error", "error", "timeout", "cancelled", MISSED, DIED)
"""Outcomes of runs that the home page shows."""


class _SchedulesViews:
    def __init__(self, site: Site, scheduler: Scheduler) -> None:
        self._site = site
        self._scheduler = scheduler

    def show(self) -> Response:
        """GET: all schedules. Raises NotOperator."""
        self._site.operators.check_operator()
        response = render_answer(
            *(self._site, "schedules.html", "schedules", {"schedules": list_runs(self._scheduler)}),
            csrf=self._site.operators.csrf(),
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    def run(self) -> Response:
        """POST with `server` and `tool`: run the tool of a schedule now; a browser goes to the page `next` then.

        Raises Refused, NotOperator, InvalidParams, StaleUpdate while it runs, ReadOnly.
        """
        fields = read_form(self._site.settings.body_limit)
        self._site.operators.check_use(fields)
        server, tool = fields.get("server", ""), fields.get("tool", "")
        run = self._scheduler.run_now(server, tool, find_author(self._site))
        if wants_json(request.headers.get("Accept", "")):
            return render_answer(self._site, "schedules.html", "schedules", {"run": asdict(run)})
        return redirect_to(local_path(fields.get("next", PAGE)))


def list_runs(scheduler: Scheduler, server: str | None = None) -> list[dict[str, Any]]:
    """Return the schedules of all servers, or of one, as JSON objects with their next and last runs."""
    now = scheduler.now()
    return [_values(one, scheduler, now) for one in scheduler.all() if server in (None, one.server.name)]


def list_failed_schedules(scheduler: Scheduler) -> list[dict[str, Any]]:
    """Return the schedules whose last finished run failed, each as `server`, `tool` and the `run`."""
    found = []
    for one in scheduler.all():
        state = scheduler.records.find(*one.key)
        ended = [run for run in (state.runs if state is not None else ()) if run.outcome not in (RUNNING, SKIPPED)]
        if ended and ended[0].outcome in FAILED:
            server, tool = one.key
            found.append({"server": server, "tool": tool, "run": asdict(ended[0])})
    return found


def _values(schedule: Schedule, scheduler: Scheduler, now: float) -> dict[str, Any]:
    state = scheduler.records.find(*schedule.key)
    server, tool = schedule.key
    return {
        "server": server,
        "tool": tool,
        "page": page_path(server),
        "schedule": schedule.timetable.expression,
        "timezone": schedule.timetable.zone,
        "arguments": dict(schedule.arguments),
        "principal": schedule.principal.id,
        "next": schedule.timetable.next(now),
        "runs": [asdict(run) for run in state.runs] if state is not None else [],
    }


def schedules_blueprint(site: Site, scheduler: Scheduler) -> Blueprint:
    """The route `/schedules`."""
    views = _SchedulesViews(site, scheduler)
    pages = Blueprint("schedules", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "run", views.run, methods=["POST"])
    return pages

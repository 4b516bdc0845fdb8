"""`/activity/usage`: who used what, by person, key, toolset, server or tool; also as JSON and as CSV.

An administrator sees all callers. Every other reader sees what its own calls used, of what it may see.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from patchbay.access.principals import LOCAL_ID
from patchbay.activity.recorder import Activity
from patchbay.activity.records import Filter
from patchbay.activity.usage import GROUPS, MAX_COUNTED_CALLS, MAX_SEARCHED_CALLS, UsageTable, count_usage, format_csv
from patchbay.errors import InvalidParams
from patchbay.web.activity.activity import PERIODS, requested_filter
from patchbay.web.rendering.plots import format_duration
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/activity/usage"

TABLES = {
    "caller": "people and keys",
    "person": "people",
    "key": "keys",
    "toolset": "toolsets",
    "server": "servers",
    "tool": "tools",
}
"""The tables that the page offers, for people, by what a row is about."""

OWN_TABLES = ("toolset", "server", "tool")
"""The tables for a reader who sees its own calls only."""


class _UsageViews:
    def __init__(self, site: Site, activity: Activity) -> None:
        self._site = site
        self._activity = activity

    def page(self) -> Response:
        """GET: the table and its sums, as a page or as JSON. Raises InvalidParams."""
        is_operator = self._site.operators.lenient_proof().is_operator
        by, found = self._count(is_operator)
        chosen = {name: value for name, value in request.args.items() if value}
        tables = {name: words for name, words in TABLES.items() if is_operator or name in OWN_TABLES}
        data = {
            "by": by,
            "rows": [row.to_json() for row in found.rows],
            "total": found.total.to_json(),
            "whole": found.is_whole,
            "begin": found.begin or None,
        }
        response = render_answer(
            self._site,
            "use.html",
            "activity",
            data,
            tables=tables,
            chosen=chosen,
            query=urlencode(chosen),
            links={name: f"{PAGE}?{urlencode(chosen | {'by': name})}" for name in tables},
            periods={since: f"{PAGE}?{urlencode(chosen | {'since': since})}" for since in PERIODS},
            period_names=PERIODS,
            servers=sorted(server.name for server in self._site.visible.all()),
            shows_callers=is_operator,
            most=MAX_COUNTED_CALLS,
            searched=MAX_SEARCHED_CALLS,
            days=self._site.settings.activity_days,
            format_duration=format_duration,
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    def csv(self) -> Response:
        """GET with `.csv`: the rows as a file. Raises InvalidParams."""
        _, found = self._count(self._site.operators.lenient_proof().is_operator)
        response = Response(format_csv(found.rows), content_type="text/csv; charset=utf-8; header=present")
        response.headers["Content-Disposition"] = 'attachment; filename="usage.csv"'
        response.headers["Cache-Control"] = "no-store"
        return response

    def _count(self, is_operator: bool) -> tuple[str, UsageTable]:
        """Return what the rows of the requested table are about, and the table. Raises InvalidParams."""
        tables = GROUPS if is_operator else OWN_TABLES
        by = request.args.get("by", "") or tables[0]
        if by not in tables:
            raise InvalidParams(f"by must be one of {', '.join(tables)}; it is {by!r:.60}")
        wanted = self._site.limited_to_reader(requested_filter())
        self._activity.flush()
        return by, count_usage(self._site.catalogue.store.journal, self._limit_to_own(wanted, is_operator), by)

    def _limit_to_own(self, wanted: Filter, is_operator: bool) -> Filter:
        """Limit a filter to the reader's own calls, unless the reader is an administrator.

        A known reader may see the names in its own calls. On a personal hub all callers are one principal, so that the
        names stay hidden there, as in the list of calls.
        """
        if is_operator:
            return wanted
        own = self._site.sender.id
        return replace(wanted, caller=own, for_strangers=own == LOCAL_ID)


def use_blueprint(site: Site, activity: Activity) -> Blueprint:
    """`/activity/usage` and `/activity/usage.csv`."""
    views = _UsageViews(site, activity)
    pages = Blueprint("use", __name__)
    pages.add_url_rule(PAGE, "page", views.page)
    pages.add_url_rule(f"{PAGE}.csv", "csv", views.csv)
    return pages

"""`/activity/runs`: the runs of scripts that waited for a person in the last day, and what each one does now.

The operator sees those of all callers, and a caller with credentials of their own sees their own runs.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from patchbay.access.principals import LOCAL_ID
from patchbay.protocol.resuming import MAX_LISTED_RUNS, ResumedScripts
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/activity/runs"


class _RunListViews:
    def __init__(self, site: Site, scripts: ResumedScripts) -> None:
        self._site = site
        self._scripts = scripts

    def show(self) -> Response:
        """GET: the runs, newest first, as a page or as JSON."""
        is_operator = self._site.operators.lenient_proof().is_operator
        data = {"runs": self._find_runs(is_operator)}
        response = render_answer(
            self._site, "runs.html", "activity", data, shows_callers=is_operator, most=MAX_LISTED_RUNS
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    def _find_runs(self, is_operator: bool) -> list[dict[str, Any]]:
        if is_operator:
            return self._scripts.list_runs(None)
        own = self._site.sender.id
        return self._scripts.list_runs(own) if own != LOCAL_ID else []


def script_run_list_blueprint(site: Site, scripts: ResumedScripts) -> Blueprint:
    """The route `/activity/runs`."""
    blueprint = Blueprint("script_run_list", __name__)
    blueprint.add_url_rule(PAGE, "show", _RunListViews(site, scripts).show)
    return blueprint

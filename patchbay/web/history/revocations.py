"""`/history/revoke`: the list of revocations, and the form that revokes a content or a server, or undoes a revocation.

Everyone can read the list. Only the operator can change it, and must give a reason, which the history shows.
"""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams
from patchbay.web.operator.changes import explain_refusal, find_author, format_reason, read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/history/revoke"

REVOKE, LIFT = "revoke", "lift"


class _RevocationsViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._revocations = site.catalogue.revocations

    def show(self) -> Response:
        """GET: the current revocations and the form; `target` is the initial value of its field."""
        self._site.check_shows_everything()
        found = [asdict(each) for each in self._revocations.all()]
        return render_answer(
            self._site,
            "revoke.html",
            "history",
            {"revocations": found},
            target=request.args.get("target", ""),
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )

    def change(self) -> Response:
        """POST: revoke `target`, or undo its revocation with `do=lift`. Raises Refused, ReadOnly, InvalidParams."""
        fields = read_change_form(self._site)
        target, why, do = fields.get("target", "").strip(), fields.get("why", ""), fields.get("do", REVOKE)
        if do not in (REVOKE, LIFT):
            raise InvalidParams(f"do must be {REVOKE} or {LIFT}; it is {do!r:.60}")
        change = self._revocations.revoke if do == REVOKE else self._revocations.lift
        change(target, find_author(self._site), format_reason(why, ""))
        self._site.catalogue.refresh()
        return redirect_to(PAGE)


def revocation_blueprint(site: Site) -> Blueprint:
    """The routes of `/history/revoke`."""
    views = _RevocationsViews(site)
    pages = Blueprint("revocations", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages

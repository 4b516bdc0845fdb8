"""`/history/revoke`: what is revoked and why, and the form that revokes a content or a server, or takes that back.

Rules: everybody may read what is revoked; the operator alone changes it, with a reason that the history shows.
Sources: DESIGN section 4; THREATS 1.4.
"""

from __future__ import annotations

from dataclasses import asdict

from flask import Blueprint, Response, request

from patchbay.errors import InvalidParams
from patchbay.web.operator.changes import WHO, reason, sent, why_not
from patchbay.web.operator.login import seen_elsewhere
from patchbay.web.pages.answers import render_answer
from patchbay.web.site import Site

PAGE = "/history/revoke"

REVOKE, LIFT = "revoke", "lift"


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._revocations = site.catalogue.revocations

    def show(self) -> Response:
        """What is revoked now, and the form; `target` fills it in."""
        found = [asdict(each) for each in self._revocations.all()]
        return render_answer(
            self._site,
            "revoke.html",
            "history",
            {"revocations": found},
            target=request.args.get("target", ""),
            sealed=why_not(self._site),
            csrf=self._site.operators.csrf(),
        )

    def change(self) -> Response:
        """POST: revoke `target`, or lift its revocation where `do` says so. Raises Refused, ReadOnly, InvalidParams."""
        fields = sent(self._site)
        target, why, do = fields.get("target", "").strip(), fields.get("why", ""), fields.get("do", REVOKE)
        if do not in (REVOKE, LIFT):
            raise InvalidParams(f"do has to be {REVOKE} or {LIFT}; it is {do!r:.60}")
        change = self._revocations.revoke if do == REVOKE else self._revocations.lift
        change(target, WHO, reason(why, ""))
        self._site.catalogue.refresh()
        return seen_elsewhere(PAGE)


def revocation_blueprint(site: Site) -> Blueprint:
    """`/history/revoke`."""
    views = _Views(site)
    pages = Blueprint("revocations", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages

"""`/approvals`: the calls that wait for an approval, and past decisions. An administrator approves or refuses them."""

from __future__ import annotations

from typing import Any

import orjson
from flask import Blueprint, Response, request

from patchbay.access.approvals import WAITING, Approval, Approvals
from patchbay.errors import InvalidParams
from patchbay.views.hidden_characters import escape_hidden_characters
from patchbay.web.access.approval_words import describe_call
from patchbay.web.operator.changes import find_author
from patchbay.web.operator.login import read_form, redirect_to
from patchbay.web.pages.answers import json_answer, render_answer, wants_json
from patchbay.web.pages.site import Site

PAGE, HOME = "/approvals", "/"
APPROVE, REFUSE = "approve", "refuse"


class _ApprovalsViews:
    def __init__(self, site: Site, approvals: Approvals) -> None:
        self._site = site
        self._approvals = approvals

    def show(self) -> Response:
        """GET: the calls that wait, and the decisions of the last day. Raises NotOperator."""
        self._site.operators.check_operator()
        now = self._approvals.now()
        response = render_answer(
            self._site,
            "approvals.html",
            "approvals",
            {"approvals": [describe_approval(one, now) for one in self._approvals.all()]},
            calls=[describe_call(one, now, self._site.settings.mode) for one in self._approvals.all()],
            csrf=self._site.operators.csrf(),
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    def change(self) -> Response:
        """POST: decide about the call `id` (`do=approve` or `do=refuse`); `from=home` leads back to the home page.

        A program that accepts JSON gets the decision.

        Raises Refused, NotOperator, UnknownApproval, InvalidParams.
        """
        fields = read_form(self._site.settings.body_limit)
        # A read-only hub protects its configuration; decisions about calls are not part of it.
        self._site.operators.check_use(fields)
        id, do = fields.get("id", ""), fields.get("do", "")
        if do not in (APPROVE, REFUSE):
            raise InvalidParams(f"do must be {APPROVE} or {REFUSE}; it is {do!r:.60}")
        known = self._approvals.find(id)
        if do == APPROVE and known is not None and known.state == WAITING and known.arguments is None:
            raise InvalidParams(
                "the arguments of this call are too long to be shown here: only its caller can approve it"
            )
        decided = self._approvals.decide(id, do == APPROVE, find_author(self._site))
        if wants_json(request.headers.get("Accept", "")):
            return json_answer(describe_approval(decided, self._approvals.now()))
        return redirect_to(HOME if fields.get("from") == "home" else PAGE)


def describe_approval(approval: Approval, now: float) -> dict[str, Any]:
    """An approval as a JSON object."""
    state, shown = approval.state_at(now), approval.arguments
    return {
        "id": approval.id,
        "principal": approval.call.principal,
        "server": approval.call.server,
        "tool": approval.call.tool,
        "tool_digest": approval.call.tool_digest,
        "arguments_cid": approval.call.arguments_cid,
        "origins": orjson.loads(approval.call.origins) if approval.call.origins else [],
        "arguments": None if shown is None else escape_hidden_characters(shown),
        "made": approval.made,
        "expires": approval.expires,
        "state": state,
        "waits": state == WAITING,
        "decided": approval.decided,
        "by": approval.by,
    }


def approvals_blueprint(site: Site, approvals: Approvals) -> Blueprint:
    """The route `/approvals`."""
    views = _ApprovalsViews(site, approvals)
    pages = Blueprint("approvals", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages

"""`/approvals`: the calls that wait for an approval, and past decisions. An administrator approves or refuses them.

The calls of a script that wait together are one entry with a table, and one decision may be about all of them. So are
those of a rehearsal, and its entry says that they are.
"""

from __future__ import annotations

from typing import Any

import orjson
from flask import Blueprint, Response, request

from patchbay.access.approvals import MAX_QUESTION_CALLS, WAITING, Approval, Approvals
from patchbay.errors import InvalidParams
from patchbay.views.hidden_characters import escape_hidden_characters
from patchbay.web.access.approval_words import describe_call, describe_questions
from patchbay.web.operator.changes import find_author
from patchbay.web.operator.login import read_form, redirect_to
from patchbay.web.site.answers import json_answer, render_answer, wants_json
from patchbay.web.site.site import Site

PAGE, HOME = "/approvals", "/"
APPROVE, TICKED, REFUSE = "approve", "ticked", "refuse"

TICK = "call."
"""How the name of the tick of a call begins; its number in the question follows."""

MAX_FIELDS = MAX_QUESTION_CALLS + 10
"""Fields of the form of one question."""


class _ApprovalsViews:
    def __init__(self, site: Site, approvals: Approvals) -> None:
        self._site = site
        self._approvals = approvals

    def show(self) -> Response:
        """GET: the calls that wait, and the decisions of the last day. Raises NotOperator."""
        self._site.operators.check_operator()
        now, mode, known = self._approvals.now(), self._site.settings.mode, self._approvals.all()
        waiting = [one for one in known if one.state_at(now) == WAITING]
        response = render_answer(
            self._site,
            "approvals.html",
            "approvals",
            {"approvals": [describe_approval(one, now) for one in known]},
            questions=describe_questions(waiting, now, mode),
            past=[describe_call(one, now, mode) for one in known if one.state_at(now) != WAITING],
            csrf=self._site.operators.csrf(),
        )
        response.headers["Cache-Control"] = "no-store"
        return response

    def change(self) -> Response:
        """POST: decide about the call or the question `id`; `from=home` leads back to the home page.

        `do=approve` approves all its calls, `do=refuse` refuses them, and `do=ticked` approves those with a tick and
        refuses the others. A program that accepts JSON gets the decision, of a question that about its last call.

        Raises Refused, NotOperator, UnknownApproval, InvalidParams.
        """
        fields = read_form(self._site.settings.body_limit, MAX_FIELDS)
        # A read-only hub protects its configuration; decisions about calls are not part of it.
        self._site.operators.check_use(fields)
        id, do = fields.get("id", ""), fields.get("do", "")
        if do not in (APPROVE, TICKED, REFUSE):
            raise InvalidParams(f"do must be {APPROVE}, {TICKED} or {REFUSE}; it is {do!r:.60}")
        known = self._approvals.find(id)
        calls = [known] if known is not None else self._approvals.find_question(id)
        ticked = {f"{id}.{name.removeprefix(TICK)}" for name in fields if name.startswith(TICK)}
        approved = {
            "approve": {one.id for one in calls},
            "ticked": {one.id for one in calls if one.id in ticked},
            "refuse": set[str](),
        }[do]
        if any(one.id in approved and one.state == WAITING and one.arguments is None for one in calls):
            raise InvalidParams(
                "the arguments of this call are too long to be shown here: only its caller can approve it"
            )
        by = find_author(self._site)
        if known is not None or not calls:
            decided = self._approvals.decide(id, bool(approved), by)
        else:
            decided = self._approvals.decide_all(id, approved, by)[-1]
        if wants_json(request.headers.get("Accept", "")):
            return json_answer(describe_approval(decided, self._approvals.now()))
        return redirect_to(HOME if fields.get("from") == "home" else PAGE)


def describe_approval(approval: Approval, now: float) -> dict[str, Any]:
    """An approval as a JSON object."""
    state, shown = approval.state_at(now), approval.arguments
    return {
        "id": approval.id,
        "question": approval.question,
        "run": approval.run,
        "rehearsal": bool(approval.script),
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

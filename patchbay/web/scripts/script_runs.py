"""`/activity/runs/<id>`: one run of a script, with its calls beside the lines that made them, and what they returned.

The operator sees each run, and a caller with credentials of their own sees their own runs. A run of somebody else
answers as one that is not there. Both may cancel a run that waits; its caller alone answers the questions of its tools,
and gets the outcome; in a personal or open hub, that is the operator. Arguments and
results are for the operator, as on `/activity/<id>`: a saved script calls with rights of its toolset that its callers
lack. Its text is for those who may see the source of the toolset.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flask import Blueprint, Response, request

from patchbay.access.approvals import MAX_QUESTION_CALLS, WAITING
from patchbay.access.principals import LOCAL_ID, OPERATOR_ID
from patchbay.activity.call_recording import CallRecording
from patchbay.activity.records import Record
from patchbay.activity.script_runs import RunRecords, TooOld, find_run
from patchbay.catalogue.servers.script_tools import RUN
from patchbay.errors import InvalidParams, PatchbayError, Refused, ToolFailed
from patchbay.protocol.dispatch import Dispatcher
from patchbay.protocol.script_replays import ReplayedRun, find_script, repeat
from patchbay.web.access.approval_words import describe_questions
from patchbay.web.operator.changes import explain_refusal, find_author
from patchbay.web.operator.login import read_form, redirect_to
from patchbay.web.rendering.plots import format_duration
from patchbay.web.scripts.run_questions import Draft, describe_question, read_answer, show_question
from patchbay.web.scripts.run_values import (
    describe_answer,
    describe_call,
    find_inputs,
    group_running,
    list_lines,
    list_rows,
)
from patchbay.web.site.answers import render_answer, wants_json
from patchbay.web.site.site import Site

PAGE = "/activity/runs"
REPEAT, CANCEL, ANSWER = "repeat", "cancel", "answer"

NOT_OPEN = "the question is not open any more: it has an answer, or the run has ended"

MAX_FIELDS = MAX_QUESTION_CALLS + 10
"""Fields of a form: that of a question on the page /approvals can cancel its run."""


class UnknownRun(PatchbayError):
    """There is no run with this id for the reader; old records are deleted."""

    code, status = -32602, 404


class _RunViews:
    def __init__(self, site: Site, dispatcher: Dispatcher) -> None:
        self._site = site
        self._services = dispatcher.services

    def show(self, id: str) -> Response:
        """GET /activity/runs/<id>: the script with its calls. Raises UnknownRun."""
        return self._page(self._find(id))

    def change(self, id: str) -> Response:
        """POST /activity/runs/<id>: repeat the run against its records.

        With `do=cancel` cancel it, with `do=answer` answer a question of one of its tools. Raises UnknownRun, Refused,
        InvalidParams for a run that has ended, and for a wrong answer of a program.
        """
        fields = read_form(self._site.settings.body_limit, MAX_FIELDS)
        do = fields.get("do", REPEAT)
        if do in (CANCEL, ANSWER):
            self._site.operators.check_own_use(fields)
            return self._cancel(id) if do == CANCEL else self._answer(id, fields)
        self._site.operators.check_change(fields)
        if do != REPEAT:
            raise InvalidParams(f"do must be {REPEAT}, {CANCEL} or {ANSWER}; it is {do!r:.60}")
        return self._repeat(id)

    def _cancel(self, id: str) -> Response:
        self._find(id)
        if not self._services.scripts.cancel(id, find_author(self._site)):
            raise InvalidParams(f"the run {id} cannot be cancelled: it has ended, or it never waited for a person")
        return self._show_changed(id)

    def _answer(self, id: str, given: Mapping[str, str]) -> Response:
        """Answer a question of a tool; a wrong answer shows the form again, with what was typed."""
        run, scripts = self._find(id), self._services.scripts
        if not self._is_caller(id):
            raise Refused("only the caller of this script answers the questions of its tools")
        key = given.get("question", "")
        found = scripts.find_questions(id)[0].get(key)
        if found is None:
            return self._refuse(run, NOT_OPEN)
        draft = read_answer(key, found, given)
        if not draft.is_wrong:
            try:
                return self._show_changed(id) if scripts.answer(id, key, draft.value) else self._refuse(run, NOT_OPEN)
            except ToolFailed as problem:
                draft = replace(draft, problem=problem.message)
        return self._refuse(run, draft.describe(), {key: draft})

    def _refuse(self, run: RunRecords, sentence: str, drafts: Mapping[str, Draft] | None = None) -> Response:
        """Show the page with what is wrong: the sentence, or the forms with their drafts. Raises InvalidParams."""
        if wants_json(request.headers.get("Accept", "")):
            raise InvalidParams(sentence)
        response = self._page(run, wrong="" if drafts else sentence, drafts=drafts)
        response.status_code = 400
        return response

    def _show_changed(self, id: str) -> Response:
        return self.show(id) if wants_json(request.headers.get("Accept", "")) else redirect_to(f"{PAGE}/{id}")

    def _repeat(self, id: str) -> Response:
        run = self._find(id)
        try:
            return self._page(run, repeat(self._services, run))
        except InvalidParams as problem:
            return self._page(run, wrong=problem.message)

    def _find(self, id: str) -> RunRecords:
        """Return a run that the reader may see. Raises UnknownRun, TooOld."""
        running = self._find_running(id)
        try:
            run = find_run(self._services.activity, id)
        except TooOld:
            if not running:
                raise
            run = None
        if run is None and (running or self._services.scripts.find_owner(id)):
            run = RunRecords(id, None, [])
        if run is None or not self._may_see(run, running):
            raise UnknownRun(f"there is no run {id:.60}; the hub deletes old records (setting activity_days)")
        return run

    def _may_see(self, run: RunRecords, running: list[CallRecording]) -> bool:
        if self._site.operators.lenient_proof().is_operator:
            return True
        own = self._site.sender.id
        if owner := self._services.scripts.find_owner(run.id):
            return own == owner != LOCAL_ID
        records = [*run.calls, *([run.script] if run.script is not None else [])]
        return own != LOCAL_ID and {one.principal for one in records} | {one.principal for one in running} == {own}

    def _find_outcome(self, id: str) -> dict[str, Any] | None:
        """Return how a suspended run ended, for its caller; for others, only that it was cancelled, and by whom.

        What a saved script returned is for operators alone, because this is before its toolset shapes it for callers.
        """
        is_operator = self._site.operators.lenient_proof().is_operator
        return self._services.scripts.describe_end(id, self._is_caller(id), is_operator)

    def _is_caller(self, id: str) -> bool:
        """Whether the reader is the caller of a run that was suspended."""
        owner, own = self._services.scripts.find_owner(id), self._site.sender.id
        is_operator = self._site.operators.lenient_proof().is_operator
        return (own == owner != LOCAL_ID) or (is_operator and owner in (LOCAL_ID, OPERATOR_ID))

    def _list_asked(self, id: str) -> list[dict[str, Any]]:
        """Return the open questions of the tools of a run, for its caller; none for any other reader.

        A run whose record was changed has none: its page tells that, and can cancel it.
        """
        try:
            found, until = self._services.scripts.find_questions(id) if self._is_caller(id) else ({}, 0.0)
        except ToolFailed:
            return []
        return [describe_question(key, one, until) for key, one in found.items()]

    def _find_text(self, script: Record | None, hides_contents: bool) -> str | None:
        """Return the text of the script of a run; None for one that is not recorded, or not for the reader."""
        if script is None:
            return None
        is_shown = not hides_contents if script.name == RUN else self._site.visible.shows_source(script.server)
        return find_script(self._services, script) if is_shown else None

    def _page(
        self,
        run: RunRecords,
        replayed: ReplayedRun | None = None,
        wrong: str = "",
        drafts: Mapping[str, Draft] | None = None,
    ) -> Response:
        hides_contents = not self._site.operators.lenient_proof().is_operator
        text = self._find_text(run.script, hides_contents)
        if hides_contents:
            run = _without_contents(run)
        calls, running = [describe_call(one) for one in run.calls], self._find_running(run.id)
        servers = [one.server for one in ([run.script] if run.script is not None else run.calls)]
        state, waiting = self._services.scripts.describe(run.id)
        open_calls = [*(_describe_running(one) for one in running if one.script_place), *waiting]
        asked = self._list_asked(run.id) if state else []
        data = {
            "id": run.id,
            "record": run.script.id if run.script is not None else None,
            "server": [*servers, *(one.server.name for one in running), ""][0],
            "calls": calls,
            "state": state,
            "running": open_calls,
            "asked": asked,
            "outcome": self._find_outcome(run.id) if state else None,
            "differences": list(replayed.differences) if replayed is not None else None,
        }
        answer, rows = describe_answer(run.script), list_rows(run.calls)
        rehearsed = answer["rehearsed"] if answer is not None else None
        return render_answer(
            self._site,
            "run.html",
            "activity",
            data,
            script=run.script,
            answer=answer,
            lines=list_lines(text, rows, open_calls, rehearsed or ()),
            rows=rows,
            waits=group_running(open_calls),
            questions=self._find_questions(run.id),
            forms=[show_question(one, (drafts or {}).get(one["key"])) for one in asked],
            inputs=find_inputs(run.script),
            replayed=replayed,
            wrong=wrong,
            hides_contents=hides_contents,
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.own_csrf(),
            format_duration=format_duration,
        )

    def _find_questions(self, id: str) -> list[dict[str, Any]]:
        """Return the questions of a run that wait for an approval, for the operator; none for any other reader."""
        if not self._site.operators.lenient_proof().is_operator:
            return []
        approvals = self._services.approvals
        now = approvals.now()
        waiting = [one for one in approvals.all() if one.run == id and one.state_at(now) == WAITING]
        return describe_questions(waiting, now, self._site.settings.mode)

    def _find_running(self, id: str) -> list[CallRecording]:
        """Return what has not ended of a run in this process, oldest first: its script, and calls that run or wait."""
        running = sorted(self._services.activity.running.copy(), key=lambda one: one.at)
        return [one for one in running if one.present_run == id]


def _describe_running(one: CallRecording) -> dict[str, Any]:
    return {"name": f"{one.server.name}.{one.recorded_name}", "line": one.script_place[0], "at": one.at, "needs": ""}


def _without_contents(run: RunRecords) -> RunRecords:
    """Return a run without what its script and its calls got and gave; its reader is the caller of all of them."""

    def strip(one: Record) -> Record:
        return replace(one, arguments=None, answer=None, arguments_cid=None, answer_cid=None, raised=(), origins=())

    return RunRecords(run.id, strip(run.script) if run.script is not None else None, [strip(one) for one in run.calls])


def script_runs_blueprint(site: Site, dispatcher: Dispatcher) -> Blueprint:
    """The routes of `/activity/runs/<id>`."""
    views = _RunViews(site, dispatcher)
    blueprint = Blueprint("script_runs", __name__)
    blueprint.add_url_rule(f"{PAGE}/<id>", "show", views.show)
    blueprint.add_url_rule(f"{PAGE}/<id>", "change", views.change, methods=["POST"])
    return blueprint

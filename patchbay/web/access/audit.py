"""`/audit`: the state of verification of the audit chain, and its last rows, for the operator."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from patchbay.access.audit.chain import first_row, newest_rows, read_newest_lines, texts_of
from patchbay.access.audit.verification import ChainVerification, verify
from patchbay.web.site.answers import check_number, render_answer
from patchbay.web.site.site import Site

PAGE = "/audit"

MAX_VERIFIED_ROWS = 10_000
"""A request verifies about this number of the newest rows, which takes some tenths of a second."""

DEFAULT_ROWS, MAX_ROWS = 50, 500
"""Rows of one response."""


class _AuditViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def show(self) -> Response:
        """GET /audit: `verified`, `first`, `rows`; `limit` is the number of rows. Raises NotOperator, InvalidParams."""
        self._site.operators.check_operator()
        limit = check_number("limit", request.args["limit"], MAX_ROWS) if request.args.get("limit") else DEFAULT_ROWS
        journal = self._site.catalogue.store.journal
        self._site.activity.flush()
        first = first_row(journal)
        verdict = verify(texts_of(read_newest_lines(journal, MAX_VERIFIED_ROWS)), is_running=True) if first else None
        data = {
            "verified": _values(verdict) if verdict is not None else None,
            "first": first["seq"] if first is not None else None,
            "rows": newest_rows(journal, limit),
        }
        response = render_answer(
            self._site,
            "audit.html",
            "audit",
            data,
            is_audited=self._site.settings.is_audited,
            mode=self._site.settings.mode,
            days=self._site.settings.audit_days,
        )
        response.headers["Cache-Control"] = "no-store"
        return response


def _values(verdict: ChainVerification) -> dict[str, Any]:
    """Return a verdict as a JSON object."""
    return {
        "ok": verdict.ok,
        "sentence": verdict.sentence(),
        "first": verdict.first,
        "last": verdict.last,
        "heads": verdict.heads,
        "unsigned": verdict.unsigned,
        "key": verdict.key,
        "tip": verdict.tip,
        "wrong": verdict.wrong,
    }


def audit_blueprint(site: Site) -> Blueprint:
    """The route of `/audit`."""
    pages = Blueprint("audit", __name__)
    pages.add_url_rule(PAGE, "show", _AuditViews(site).show)
    return pages

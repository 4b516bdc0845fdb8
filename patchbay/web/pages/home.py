"""The home page and the list of servers, as HTML and as JSON. Both pages only read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.access.approvals import WAITING, Approval, Approvals
from patchbay.catalogue.operating.removal import list_removed
from patchbay.catalogue.servers.rows import BOOT
from patchbay.catalogue.watching.unserved_files import list_unserved_files
from patchbay.protocol.schedules.scheduler import Scheduler
from patchbay.topics import SERVERS
from patchbay.web.access.approval_words import describe_questions
from patchbay.web.access.approvals import describe_approval
from patchbay.web.operator.changes import explain_refusal
from patchbay.web.pages.attention import Attention
from patchbay.web.pages.schedules import list_failed_schedules
from patchbay.web.servers.mcp import list_snippets, mend_values
from patchbay.web.site.answers import list_answer, render_answer
from patchbay.web.site.site import Site, base_url


class _HomeViews:
    """One method for each page."""

    def __init__(self, site: Site, approvals: Approvals, scheduler: Scheduler, attention: Attention) -> None:
        self._attention = attention
        self._site = site
        self._scheduler = scheduler
        self._approvals = approvals
        self._store = site.catalogue.store

    def home(self) -> Response:
        """GET /: what needs attention with a link to the fix, the servers, the totals, and how to connect.

        The operator also sees the calls that wait for an approval, changes that are held, failed schedules, what is
        nearly full, and packages with a newer version.
        """
        is_operator = self._site.operators.lenient_proof().is_operator
        rows, now = self._site.summaries(), self._approvals.now()
        waiting = self._waiting(now)
        snippets = list_snippets(self._site, "", f"{base_url()}/mcp")
        data = {"snippets": snippets, "servers": rows}
        data["approvals"] = [describe_approval(one, now) for one in waiting]
        unserved = self._unserved()
        updates, looked, packages = self._attention.list_updates() if is_operator else ([], None, 0)
        response = render_answer(
            self._site,
            "home.html",
            "home",
            data,
            questions=describe_questions(waiting, now, self._site.settings.mode),
            ailing=self._ailing(rows, is_operator),
            failed=list_failed_schedules(self._scheduler) if is_operator else [],
            full=self._attention.list_full() if is_operator else [],
            updates=updates,
            looked=looked,
            packages=packages,
            own=[row for row in rows if row["origin"] != BOOT],
            shipped=[row for row in rows if row["origin"] == BOOT],
            totals=add_up(rows),
            unserved=len(unserved),
            csrf=self._site.operators.csrf(),
        )
        if is_operator:
            response.headers["Cache-Control"] = "no-store"
        return response

    def _waiting(self, now: float) -> list[Approval]:
        """The calls that wait for an approval, the oldest first; none for readers other than the operator."""
        if not self._site.operators.lenient_proof().is_operator:
            return []
        return [one for one in reversed(self._approvals.all()) if one.state_at(now) == WAITING]

    def _ailing(self, rows: Sequence[Mapping[str, Any]], decides: bool) -> list[dict[str, Any]]:
        """The servers that need attention: what is wrong, and the link that helps.

        `decides` says whether the reader approves changed entries.
        """
        found = []
        for row in rows:
            server = self._site.catalogue.find_any(row["name"])
            mend = mend_values(self._site, server) if server is not None and row["broken"] else None
            held = len(server.pins.held) if decides and server is not None and server.pins is not None else 0
            if mend is not None:
                label, to = f"Edit line {mend['line']}", mend["edit"]
            elif row["broken"]:
                label, to = "See its source", f"{row['page']}/source"
            elif row["trouble"]:
                label, to = "Restart or switch off", f"{row['page']}/settings#changes"
            elif row["changed"] or held:
                label, to = "See the changes", f"/pins/{quote(row['name'], safe='')}"
            else:
                continue
            sentence = row["broken"] or row["trouble"] or _describe_changes(row["changed"], held)
            found.append({**row, "sentence": sentence, "label": label, "to": to})
        return found

    def _unserved(self) -> dict[str, str]:
        """The files of the watched folder that are not served, for readers of the whole configuration."""
        if not self._site.visible.shows_everything:
            return {}
        catalogue = self._site.catalogue
        served = {row.origin.removeprefix(SERVERS) for row in catalogue.all()}
        refused = {file: reason for file, reason in catalogue.refused.items() if file not in served}
        return list_unserved_files(self._site.settings.servers, refused)

    def servers(self) -> Response:
        """GET /servers: all servers, the files that are not served, and the servers that can be brought back."""
        rows, refusal = self._site.summaries(), explain_refusal(self._site)
        removed = [] if refusal else list_removed(self._store, self._site.settings.servers)
        return list_answer(
            self._site,
            "servers.html",
            "servers",
            rows,
            servers=rows,
            unserved=self._unserved(),
            removed=removed,
            just_removed=request.args.get("removed") if request.args.get("removed") in removed else None,
            refusal=refusal,
            csrf=self._site.operators.csrf(),
        )


def add_up(rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """The numbers of servers that are on, off and broken, and of tools."""
    states = Counter("ailing" if row["trouble"] else row["status"] for row in rows)
    kinds = ("on", "ailing", "off", "broken")
    return {"tools": sum(row["tools"] for row in rows)} | {kind: states[kind] for kind in kinds}


def _describe_changes(reported: int, held: int) -> str:
    """Say what happens with the changed entries of a server, of which some are held until they are approved."""
    if held == 1:
        return "1 changed entry waits for your approval, and is not served until then"
    if held:
        return f"{held} changed entries wait for your approval, and are not served until then"
    return f"{reported} {'entry' if reported == 1 else 'entries'} changed since the approval"


def pages_blueprint(site: Site, approvals: Approvals, scheduler: Scheduler, attention: Attention) -> Blueprint:
    """The routes `/` and `/servers`."""
    views = _HomeViews(site, approvals, scheduler, attention)
    pages = Blueprint("pages", __name__)
    pages.add_url_rule("/", "home", views.home)
    pages.add_url_rule("/servers", "servers", views.servers)
    return pages

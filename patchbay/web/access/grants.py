"""`/access`: the editor of the variable `access`, with a preview of what another principal would see.

A preview changes nothing. A text that cannot be read is not saved, and the typed text is not lost.
"""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response, request

from patchbay.access.decisions import rights_of
from patchbay.access.grant_matches import describe_unmatched_rows, entry_finder
from patchbay.access.principals import Principal
from patchbay.boot import find_variable
from patchbay.boot.grants import CALL, READ, SEE, Grants, parse_grants
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers import Server
from patchbay.errors import ConfigError, PatchbayError, Refused, StaleUpdate
from patchbay.topics import ACCESS
from patchbay.web.operator.changes import explain_refusal, find_author, format_reason, read_draft_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.pages.answers import render_answer
from patchbay.web.pages.site import Site

PAGE = "/access"
CHECK, SAVE, REMOVE = "check", "save", "remove"

SAMPLE = """{
  "groups": {"research": ["ann@example.org", "key:robot"]},
  "grants": [
    {"to": ["research"], "may": ["see", "call", "read"], "on": ["jane", "notes.search"]},
    {"to": ["*"], "may": ["see", "call", "read"], "on": ["hello"]}
  ],
  "denials": [
    {"to": ["research"], "on": ["*.delete_*"]}
  ]
}
"""

MAX_PREVIEWED_ENTRIES = 500
"""Entries of one server in a preview, at most."""


class _GrantsViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._saving = ServerEditor(self._store, site.settings.servers)

    def show(self) -> Response:
        """GET: the document and, with `as` (and `groups`), what that principal sees now. Raises NotOperator."""
        self._site.operators.check_operator()
        found = find_variable(self._store, ACCESS.partition("/")[2])
        text, base = (SAMPLE, None) if found is None else (found.value.decode("utf-8", "replace"), found.cid)
        who = request.args.get("as", "").strip()
        shown = self._preview(who, request.args.get("groups", ""), self._site.catalogue.grants) if who else None
        return self._page(text, base, shown, self._site.catalogue.access_problem)

    def change(self) -> Response:
        """POST: `action` check previews `source` for the principal `as`; save and remove change the variable."""
        fields, refused = read_draft_form(self._site)
        text, base = fields.get("source", ""), fields.get("base") or None
        if refused is not None:
            return self._page(text, base, None, f"{refused.message}. Your text is kept below", refused.status)
        if fields.get("action") == REMOVE:
            return self._save({ACCESS: None}, fields, text)
        try:
            grants = parse_grants(text.encode("utf-8", "replace"), ACCESS, is_new=True)
        except ConfigError as problem:
            return self._page(text, base, None, f"{problem.message}. It was not saved", 422, fields)
        if fields.get("action") == SAVE:
            return self._save({ACCESS: self._store.blobs.put(text.encode())}, fields, text)
        who = fields.get("as", "").strip()
        shown = self._preview(who, fields.get("groups", ""), grants) if who else None
        return self._page(text, base, shown, None, 200, fields)

    def _save(self, wanted: dict[str, str | None], fields: dict[str, str], text: str) -> Response:
        why = format_reason(fields.get("why", ""), "changed the grants on a page")
        base = fields.get("base") or None
        try:
            self._saving.names(wanted, find_author(self._site), why, {ACCESS: base})
        except StaleUpdate as problem:
            advice = f"{problem.message}. Open {PAGE} in another tab, and add your change there"
            return self._page(text, base, None, advice, problem.status, fields)
        except (PatchbayError, Refused) as problem:
            return self._page(text, base, None, problem.message, problem.status, fields)
        self._site.catalogue.refresh()
        return redirect_to(PAGE)

    def _preview(self, who: str, groups: str, grants: Grants | None) -> dict[str, Any]:
        """What a principal with this id and these groups of an issuer would see under some grants."""
        names = frozenset(name.strip() for name in groups.split(",") if name.strip())
        rights = rights_of(Principal(who, groups=names), grants)
        seen = self._site.catalogue if rights.is_unlimited else self._site.access.view(rights)
        rows = [_server_row(server, seen.shows_source(server.name)) for server in seen.all()]
        return {"as": who, "groups": sorted(names), "administrator": rights.operates, "servers": rows}

    def _warnings(self, text: str) -> list[str]:
        """Return sentences about patterns that match nothing now; none for the example and for a wrong text."""
        catalogue = self._site.catalogue
        if text == SAMPLE:
            return []
        try:
            grants = parse_grants(text.encode("utf-8", "replace"), ACCESS)
        except ConfigError:
            return []
        names = [server.name for server in catalogue.all()]
        return describe_unmatched_rows(grants, names, entry_finder(catalogue)) if grants is not None else []

    def _page(
        self,
        text: str,
        base: str | None,
        shown: dict[str, Any] | None,
        problem: str | None,
        status: int = 200,
        fields: dict[str, str] | None = None,
    ) -> Response:
        """The page with a text and the CID of the document that its author began with, so that saving checks this one.

        A form that is shown again keeps its `base`: otherwise a preview would take over what others saved meanwhile.
        """
        response = render_answer(
            self._site,
            "access.html",
            "access",
            {"source": text, "cid": base, "problem": problem, "preview": shown, "warnings": self._warnings(text)},
            fields=fields or dict(request.args),
            mode=self._site.settings.mode,
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )
        response.status_code = status
        return response


def _server_row(server: Server, shows_source: bool) -> dict[str, Any]:
    """A server in a preview: its visible entries, and the actions that they have."""
    readable = [*server.resources, *server.templates, *server.prompts]
    return {
        "server": server.name,
        SEE: shows_source,
        CALL: list(server.tools)[:MAX_PREVIEWED_ENTRIES],
        READ: readable[:MAX_PREVIEWED_ENTRIES],
    }


def grants_blueprint(site: Site) -> Blueprint:
    """The route `/access`."""
    views = _GrantsViews(site)
    pages = Blueprint("access_grants", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages

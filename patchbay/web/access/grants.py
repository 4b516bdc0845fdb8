"""`/access`: the grants of the hub as a table and as the text of the variable `access`, with a preview for a principal.

The table and the text are one document, which travels in the form: a button of the table changes the text, and only
*Save* changes the hub. A text that cannot be read is not saved, and the typed text is not lost.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from flask import Blueprint, Response, request

from patchbay.access.decisions import rights_of
from patchbay.access.grant_matches import describe_unmatched_rows, entry_finder
from patchbay.access.principals import Principal
from patchbay.boot import find_variable
from patchbay.boot.grants import CALL, READ, SEE, Grants, parse_grants
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.server import Server
from patchbay.errors import ConfigError, InvalidParams, PatchbayError, Refused, StaleUpdate
from patchbay.jsonrpc import parse_file
from patchbay.topics import ACCESS
from patchbay.web.access.grant_changes import describe_changes
from patchbay.web.access.grant_edits import RIGHTS, change_right, format_document
from patchbay.web.access.grant_table import (
    MAX_SHOWN_RIGHTS,
    Entries,
    Table,
    View,
    build_table,
    count_rights,
    describe_rest,
)
from patchbay.web.operator.changes import explain_refusal, find_author, format_reason, read_draft_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.rendering.text_comparison import compare
from patchbay.web.site.answers import parse_number, render_answer
from patchbay.web.site.site import Site

PAGE = "/access"
SAVE, REMOVE, REPLACE = "save", "remove", "replace"

EVERYBODY = format_document({"grants": [{"to": ["*"], "may": [SEE, CALL, READ], "on": ["*"]}]})
"""The document that allows what a hub without rules allows."""

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

MAX_KNOWN_NAMES = 100
"""People and keys that the page offers as names, at most."""

VIEW_FIELDS = ("who", "find", "open", "page")
"""The fields of the form that choose what the table shows."""

_UNREAD: Mapping[str, Any] = {
    "table": None,
    "unshown": "only the operator sees the table: log in first",
    "rest": [],
    "warnings": [],
    "changes": [],
}
"""What the page describes for a sender who is not the operator."""


@dataclass(frozen=True, slots=True)
class _Draft:
    """A text in the form, the CID of the document that its author began with, and the other fields of the form.

    `pressed` is the button of the table that was pressed.
    """

    text: str
    base: str | None
    fields: dict[str, str] = field(default_factory=dict)
    pressed: str = ""


class _GrantsViews:
    def __init__(self, site: Site, list_callers: Callable[[], list[str]]) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._saving = ServerEditor(self._store, site.settings.servers)
        self._list_callers = list_callers

    def show(self) -> Response:
        """GET: the document and, with `as` (and `groups`), what that principal sees now; `who`, `find`, `open` and
        `page` choose what the table shows. Raises NotOperator.
        """
        self._site.operators.check_operator()
        text, base = self._stored()
        who = request.args.get("as", "").strip()
        shown = self._preview(who, request.args.get("groups", ""), self._site.catalogue.grants) if who else None
        draft, button = _Draft(text, base, dict(request.args)), request.args.get("do", "")
        if button.partition(" ")[0] in VIEW_FIELDS:
            draft = self._press(draft, button, None)
        return self._page(draft, shown, self._site.catalogue.access_problem)

    def change(self) -> Response:
        """POST: `do` is a button of the table, which changes the text or the view; `action` check previews `source` for
        the principal `as`; save, replace (the document of the CID `theirs`) and remove change the variable.
        """
        fields, refused = read_draft_form(self._site)
        draft = _Draft(fields.get("source", ""), fields.get("base") or None, fields)
        if refused is not None:
            return self._page(draft, None, f"{refused.message}. Your text is kept below", refused.status)
        action = fields.get("action")
        if action == REMOVE:
            return self._save({ACCESS: None}, draft)
        button = fields.get("do", "")
        try:
            grants = parse_grants(draft.text.encode("utf-8", "replace"), ACCESS, is_new=not button)
        except ConfigError as problem:
            result = "The table cannot change this text, which is kept" if button else "It was not saved"
            return self._page(draft, None, f"{problem.message}. {result}", 422)
        try:
            if button:
                return self._page(self._press(draft, button, grants), None, None)
        except InvalidParams as problem:
            return self._page(draft, None, problem.message, problem.status)
        if action in (SAVE, REPLACE):
            return self._save({ACCESS: self._store.blobs.put(draft.text.encode())}, draft)
        who = fields.get("as", "").strip()
        shown = self._preview(who, fields.get("groups", ""), grants) if who else None
        return self._page(draft, shown, None)

    def _press(self, draft: _Draft, button: str, grants: Grants | None) -> _Draft:
        """Return the draft after a button of the table. Raises InvalidParams for a button that the table has not."""
        verb, _, rest = button.partition(" ")
        if verb in ("who", "open", "page"):
            value = "" if verb != "page" and draft.fields.get(verb) == rest else rest
            page = {} if verb == "page" else {"page": ""}
            opened = {"open": ""} if verb == "page" else {}
            return _Draft(draft.text, draft.base, {**draft.fields, **page, **opened, verb: value}, button)
        right, _, place = rest.partition(" ")
        pattern, _, name = place.partition(" ")
        if verb != "set" or right not in RIGHTS or not pattern or not name or grants is None:
            raise InvalidParams(f"do must be a button of the table, such as 'set call notes ann'; it is {button!r:.80}")
        document = change_right(parse_file(draft.text.encode("utf-8", "replace")), name, right, pattern)
        return _Draft(format_document(document), draft.base, draft.fields, button)

    def _save(self, wanted: dict[str, str | None], draft: _Draft) -> Response:
        """Set or remove the variable, if it still is the document that the author of the draft began with, or with
        `replace` the one that the page showed beside the draft.
        """
        fields = draft.fields
        why = format_reason(fields.get("why", ""), "changed the grants on a page")
        base = fields.get("theirs") or None if fields.get("action") == REPLACE else draft.base
        try:
            self._saving.names(wanted, find_author(self._site), why, {ACCESS: base})
        except StaleUpdate as problem:
            self._site.catalogue.refresh()
            return self._page(draft, None, f"{problem.message}. Your text was not saved", problem.status)
        except (PatchbayError, Refused) as problem:
            return self._page(draft, None, problem.message, problem.status)
        self._site.catalogue.refresh()
        view = urlencode({name: fields[name] for name in VIEW_FIELDS if fields.get(name)})
        return redirect_to(f"{PAGE}?{view}" if view else PAGE)

    def _stored(self) -> tuple[str, str | None]:
        """Return the text and the CID of the stored document; without one, the text that allows the same."""
        found = find_variable(self._store, ACCESS.partition("/")[2])
        return (EVERYBODY, None) if found is None else (found.value.decode("utf-8", "replace"), found.cid)

    def _preview(self, who: str, groups: str, grants: Grants | None) -> dict[str, Any]:
        """What a principal with this id and these groups of an issuer would see under some grants."""
        names = frozenset(name.strip() for name in groups.split(",") if name.strip())
        rights = rights_of(Principal(who, groups=names), grants)
        seen = self._site.catalogue if rights.is_unlimited else self._site.access.view(rights)
        rows = [_server_row(server, seen.shows_source(server.name)) for server in seen.all()]
        return {"as": who, "groups": sorted(names), "administrator": rights.operates, "servers": rows}

    def _warnings(self, grants: Grants) -> list[str]:
        """Return sentences about patterns that match nothing now."""
        catalogue = self._site.catalogue
        names = [server.name for server in catalogue.all()]
        return describe_unmatched_rows(grants, names, entry_finder(catalogue))

    def _describe(self, draft: _Draft) -> dict[str, Any]:
        """The values of the page that depend on the text: its table, what it changes, what the table does not show."""
        try:
            grants = parse_grants(draft.text.encode("utf-8", "replace"), ACCESS)
        except ConfigError as problem:
            return {"table": None, "unshown": problem.message, "rest": [], "changes": [], "warnings": []}
        assert grants is not None
        values: dict[str, Any] = {"table": None, "unshown": "", "rest": [], "warnings": self._warnings(grants)}
        values["changes"] = self._changes(draft.text, grants)
        if count_rights(grants) > MAX_SHOWN_RIGHTS:
            return values | {"unshown": f"it has more than {MAX_SHOWN_RIGHTS:,} rights"}
        return values | {"table": self._table(draft, grants), "rest": describe_rest(grants)}

    def _changes(self, text: str, grants: Grants) -> list[str]:
        """Return what saving a text would change, against the stored document."""
        stored, base = self._stored()
        if text == stored:
            return []
        try:
            old = None if base is None else parse_grants(stored.encode("utf-8", "replace"), ACCESS)
        except ConfigError:
            return ["It replaces a text that cannot be read; the rules in force are those from before it"]
        return describe_changes(old, grants) or ["The text changes, and no right does"]

    def _table(self, draft: _Draft, grants: Grants) -> Table:
        fields = draft.fields
        who, find, opened = (fields.get(name, "").strip() for name in ("who", "find", "open"))
        view = View(who, find, opened, parse_number(fields.get("page", ""), 100_000) or 1)
        return build_table(grants, {each.name: _entries(each) for each in self._site.catalogue.all()}, view)

    def _page(self, draft: _Draft, shown: dict[str, Any] | None, problem: str | None, status: int = 200) -> Response:
        """The page with a draft. A form that is shown again keeps its `base`: otherwise a preview would take over what
        others saved meanwhile. Then the page shows both texts. A sender who is not the operator gets only the fields
        that the form had: nothing of the hub is compared with them.
        """
        may_read = self._site.operators.lenient_proof().is_operator
        stored, current = self._stored() if may_read else ("", draft.base)
        is_stale = draft.base != current
        values = self._describe(draft) if may_read else _UNREAD
        names = values["table"].names if values["table"] is not None else ()
        callers = self._list_callers() if may_read else []
        known = [name for name in callers if name not in names][:MAX_KNOWN_NAMES]
        response = render_answer(
            self._site,
            "access.html",
            "access",
            {
                "source": draft.text,
                "cid": draft.base,
                "problem": problem,
                "preview": shown,
                "warnings": values["warnings"],
                "changes": values["changes"],
            },
            **{name: values[name] for name in ("table", "unshown", "rest")},
            fields=draft.fields,
            pressed=draft.pressed,
            known=known,
            theirs={"cid": current, "diff": compare(stored, draft.text)} if is_stale else None,
            sample=SAMPLE,
            mode=self._site.settings.mode,
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )
        response.status_code = status
        return response


def _entries(server: Server) -> Entries:
    return Entries(list(server.tools), [*server.resources, *server.templates, *server.prompts])


def _server_row(server: Server, shows_source: bool) -> dict[str, Any]:
    """A server in a preview: its visible entries, and the actions that they have."""
    readable = [*server.resources, *server.templates, *server.prompts]
    return {
        "server": server.name,
        SEE: shows_source,
        CALL: list(server.tools)[:MAX_PREVIEWED_ENTRIES],
        READ: readable[:MAX_PREVIEWED_ENTRIES],
    }


def grants_blueprint(site: Site, list_callers: Callable[[], list[str]]) -> Blueprint:
    """The route `/access`. `list_callers` returns the names of the people and keys of the hub."""
    views = _GrantsViews(site, list_callers)
    pages = Blueprint("access_grants", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages

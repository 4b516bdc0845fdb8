"""`/pins` and below: what mounted servers and rooms changed, old and new side by side, and its approval; approvals are
exported, and imported from another hub.

Only the operator sees what waits: other readers see no held entry. An approval is for the bytes that the
page showed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.errors import ContentError, InvalidParams, PatchbayError, UnknownServer
from patchbay.pins.approval import approve, format_item, load_pinned_server, parse_item
from patchbay.pins.documents import Changes, ItemKey, Pin, PinDocument, PinsUnreadable
from patchbay.pins.explanation import Explanation, Part, explain
from patchbay.pins.records import LoadedPins, load_pins, pinned_servers
from patchbay.pins.transfer import Imported, export_approvals, import_approvals
from patchbay.topics import PINS
from patchbay.views.hidden_characters import show_hidden_characters
from patchbay.web.operator.changes import explain_refusal, find_author, format_reason, read_change_form
from patchbay.web.operator.login import read_upload, redirect_to
from patchbay.web.rendering.templates import format_json
from patchbay.web.rendering.text_comparison import Comparison, compare
from patchbay.web.servers.server import list_moves
from patchbay.web.site.answers import json_answer, render_answer, wants_json
from patchbay.web.site.site import Site

MAX_SHOWN_CHANGES = 20
"""Changes of one server on one page, at most."""

MAX_SHOWN_BYTES = 1024 * 1024
"""Bytes of the descriptors on one page, at most; one change is always shown."""


class _PinsViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def show_all(self) -> Response:
        """GET /pins: every server with pins, and how many of its entries wait."""
        return self._page()

    def download(self) -> Response:
        """GET /pins/approvals/export: the approvals of all servers, as `patchbay pins export` prints them.

        Raises NotOperator; InvalidParams for pins that cannot be read.
        """
        self._site.operators.check_operator()
        response = Response(export_approvals(self._store), mimetype="application/json")
        response.headers["Content-Disposition"] = 'attachment; filename="approvals.json"'
        response.headers["Cache-Control"] = "no-store"
        return response

    def upload(self) -> Response:
        """POST /pins/approvals/import: take over the approvals of the `file`; a document with an error changes nothing.

        `as` is the name here of the one server in the document, empty for the names in it. Raises Refused, ReadOnly.
        """
        fields = read_upload(self._site.settings.body_limit)
        self._site.operators.check_change(fields)
        is_json = wants_json(request.headers.get("Accept", ""))
        try:
            done = self._import(fields)
        except PatchbayError as problem:
            if is_json:
                raise
            return self._page(f"{problem.message}. Nothing was imported", status=problem.status)
        self._site.catalogue.refresh()
        return json_answer(asdict(done)) if is_json else self._page(imported=done)

    def _import(self, fields: dict[str, str]) -> Imported:
        data = fields.get("file", "").encode()
        if not data:
            raise InvalidParams("choose the file that another hub exported")
        why, server = format_reason(fields.get("why", ""), ""), fields.get("as", "").strip()
        try:
            return import_approvals(self._store, data, find_author(self._site), why, server)
        except PinsUnreadable as problem:
            raise InvalidParams(f"the file is not a document of approvals: {problem.message}") from problem

    def _page(self, problem: str = "", imported: Imported | None = None, status: int = 200) -> Response:
        is_operator = self._site.operators.lenient_proof().is_operator
        rows = [self._summary(name, load_pins(self._store, name)) for name in pinned_servers(self._store)]
        response = render_answer(
            self._site,
            "pins.html",
            "pins",
            {"operator": is_operator, "servers": rows if is_operator else []},
            refusal=explain_refusal(self._site),
            problem=problem,
            imported=imported,
            csrf=self._site.operators.csrf(),
        )
        response.status_code = status
        return response

    def show(self, server: str) -> Response:
        """GET /pins/<server>: its changes, the first MAX_SHOWN_CHANGES. Raises UnknownServer for one without pins."""
        is_operator = self._site.operators.lenient_proof().is_operator
        loaded = self._load(server) if is_operator else LoadedPins()
        document = loaded.document
        found = []
        if document is not None:
            found = [explain(self._store.blobs, document, key) for key in self._shown_keys(document)]
        return render_answer(
            self._site,
            "pin.html",
            "pins",
            {
                "operator": is_operator,
                "server": self._summary(server, loaded),
                "changes": [_describe(each) for each in found],
                "past": list_moves(self._store, f"{PINS}{server}") if is_operator else [],
            },
            compared=[[(part.label, _compare(part)) for part in each.parts] for each in found],
            page=f"/pins/{quote(server, safe='')}",
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )

    def approve(self, server: str) -> Response:
        """POST /pins/<server>: approve one `entry` with its `digest`, or all that the page showed (`shown`).

        Raises Refused, ReadOnly, InvalidParams, UnknownServer; StaleUpdate when the server changed meanwhile.
        """
        fields = read_change_form(self._site)
        entry, digest, shown = (fields.get(name, "").strip() for name in ("entry", "digest", "shown"))
        if not (entry and digest) and not shown:
            raise InvalidParams("expected the fields entry and digest, or the field shown: what the page showed")
        document = self._load(server).document
        keys = [parse_item(entry)] if entry else self._shown_keys(document) if document is not None else []
        why = format_reason(fields.get("why", ""), "")
        approve(self._store, server, find_author(self._site), why, keys, digest, shown or None)
        self._site.catalogue.refresh()
        return redirect_to(f"/pins/{quote(server, safe='')}")

    def _shown_keys(self, document: PinDocument) -> list[ItemKey]:
        """Return the changes of the page: equal documents have equal pages."""
        keys: list[ItemKey] = []
        size = 0
        for key, item in list(document.waiting.items())[:MAX_SHOWN_CHANGES]:
            size += sum(self._size(pin) for pin in (item.approved, item.seen) if pin is not None)
            if keys and size > MAX_SHOWN_BYTES:
                break
            keys.append(key)
        return keys

    def _size(self, pin: Pin) -> int:
        try:
            return len(self._store.blobs.get(pin.cid))
        except ContentError:
            return 0

    def _load(self, server: str) -> LoadedPins:
        """Return the pins of a server; those of a server that is known and not yet pinned are empty."""
        known = {each.name for each in self._site.catalogue.all() if each.pins is not None}
        try:
            return load_pinned_server(self._store, server)
        except UnknownServer:
            if server in known:
                return LoadedPins()
            raise

    def _summary(self, server: str, loaded: LoadedPins) -> dict[str, Any]:
        document = loaded.document
        return {
            "name": server,
            "page": f"/pins/{quote(server, safe='')}",
            "changes": self._setting(server, loaded),
            "cid": loaded.cid,
            "waiting": len(document.waiting) if document is not None else 0,
            "approved": sum(item.approved is not None for item in document.items.values()) if document else 0,
            "ready": sum(map(len, document.ready.values())) if document is not None else 0,
            "problem": loaded.problem,
        }

    def _setting(self, server: str, loaded: LoadedPins) -> Changes | None:
        """Return the setting in force; None for a server that this hub does not serve now."""
        for each in self._site.catalogue.all():
            if each.name == server and each.pins is not None:
                return each.pins.changes
        return None if loaded.document is None else loaded.document.changes


def _describe(found: Explanation) -> dict[str, Any]:
    """Return a change as a JSON object."""
    kind, name = found.key
    return {
        "kind": kind,
        "name": name,
        "entry": format_item(found.key),
        "approved": _pin(found.item.approved),
        "seen": _pin(found.item.seen),
        "meanings": [asdict(each) for each in found.meanings],
        "fields": [part.label for part in found.parts],
        "hidden": [{"place": each.place, "code_points": list(each.code_points)} for each in found.hidden],
        "instructions": [asdict(each) for each in found.instructions],
        "same_as": list(found.same_as),
        "problem": found.problem,
    }


def _pin(pin: Pin | None) -> dict[str, str] | None:
    return asdict(pin) if pin is not None else None


def _compare(part: Part) -> Comparison:
    """Compare the two values of a field as texts, hidden characters as code points."""
    if all(isinstance(value, str) or value is None for value in (part.old, part.new)):
        old, new = (show_hidden_characters(value or "") for value in (part.old, part.new))
    else:
        old, new = ("" if value is None else format_json(value) for value in (part.old, part.new))
    return compare(old, new)


def pins_blueprint(site: Site) -> Blueprint:
    """The routes of `/pins` and below."""
    views = _PinsViews(site)
    pages = Blueprint("pins", __name__)
    pages.add_url_rule("/pins", "show_all", views.show_all)
    # Two segments, because a server may have any name of one segment.
    pages.add_url_rule("/pins/approvals/export", "download", views.download)
    pages.add_url_rule("/pins/approvals/import", "upload", views.upload, methods=["POST"])
    pages.add_url_rule("/pins/<server>", "show", views.show)
    pages.add_url_rule("/pins/<server>", "approve", views.approve, methods=["POST"])
    return pages

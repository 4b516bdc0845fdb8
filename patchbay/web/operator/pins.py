"""`/pins` and `/pins/<server>`: what mounted servers and rooms changed, old and new side by side, and its approval.

Only the operator sees what waits: other readers see no held entry. An approval is for the bytes that the
page showed.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response

from patchbay.errors import ContentError, InvalidParams, UnknownServer
from patchbay.pins.approval import approve, format_item, load_pinned_server, parse_item
from patchbay.pins.documents import Changes, ItemKey, Pin, PinDocument
from patchbay.pins.explanation import Explanation, Part, explain
from patchbay.pins.records import LoadedPins, load_pins, pinned_servers
from patchbay.topics import PINS
from patchbay.views.hidden_characters import show_hidden_characters
from patchbay.web.operator.changes import CHANGED_BY, explain_refusal, format_reason, read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.pages.answers import render_answer
from patchbay.web.pages.server import list_moves
from patchbay.web.rendering.templates import format_json
from patchbay.web.rendering.text_comparison import Comparison, compare
from patchbay.web.site import Site

MAX_SHOWN_CHANGES = 20
"""Changes of one server on one page, at most."""

MAX_SHOWN_BYTES = 1024 * 1024
"""Bytes of the descriptors on one page, at most; one change is always shown."""


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def show_all(self) -> Response:
        """GET /pins: every server with pins, and how many of its entries wait."""
        is_operator = self._site.operators.lenient_proof().is_operator
        rows = [self._summary(name, load_pins(self._store, name)) for name in pinned_servers(self._store)]
        return render_answer(
            self._site,
            "pins.html",
            "servers",
            {"operator": is_operator, "servers": rows if is_operator else []},
            refusal=explain_refusal(self._site),
        )

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
            "servers",
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
        approve(self._store, server, CHANGED_BY, why, keys, digest, shown or None)
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
    views = _Views(site)
    pages = Blueprint("pins", __name__)
    pages.add_url_rule("/pins", "show_all", views.show_all)
    pages.add_url_rule("/pins/<server>", "show", views.show)
    pages.add_url_rule("/pins/<server>", "approve", views.approve, methods=["POST"])
    return pages

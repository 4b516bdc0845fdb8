"""`/history`: roots, changes of names, comparisons and rollbacks.

A rollback is a change with a reason and a root of its own. A page first shows the differences and asks for
confirmation. A name can return only to a content that it had before. A hub that changed after the confirmation page is
not overwritten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import quote

import orjson
from flask import Blueprint, Response, request

from patchbay.boot import current_image, parse_image
from patchbay.boot.changes import PARTS
from patchbay.catalogue.contents.configuration import CONFIGURATION_PREFIXES
from patchbay.catalogue.contents.links import format_time
from patchbay.catalogue.saving import ServerEditor
from patchbay.cid import canonical
from patchbay.errors import InvalidParams, MissingBlob
from patchbay.store import NameChange, Store
from patchbay.topics import PAGE_TEMPLATES, PINS, ROOT
from patchbay.web.history.broken_entries import list_broken_entries
from patchbay.web.history.past_roots import image_rows, list_root_changes
from patchbay.web.operator.changes import explain_refusal, find_author, format_reason, read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.rendering.differences import Difference, Rows, find_differences, is_boot_image
from patchbay.web.servers.server import compare_contents
from patchbay.web.site.answers import render_answer
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site

CHANGES_PER_PAGE = 50
"""Roots, or changes of names, on one page."""

MAX_PIN_CHANGES = 20
"""Changes of the pins of mounted servers on the page of roots, at most."""

MOVES_PER_READ = 500
"""Changes of a name that one query of the store reads."""


@dataclass(frozen=True, slots=True)
class RollbackTarget:
    """The target of a rollback: a root, or an earlier content of one name. `what` names it for people.

    `page` is the page to which the reader comes afterwards, `trail` the one that the reader came from. `wanted` maps
    each name that changes to its CID; None removes the name. `after` holds the rows of the boot image after it.
    """

    what: str
    fields: Mapping[str, str]
    wanted: Mapping[str, str | None]
    after: Rows
    page: str = "/history"
    trail: str = "/history"


class _HistoryViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._saving = ServerEditor(self._store, site.settings.servers)

    def history(self) -> Response:
        """GET /history: roots, newest first; `before` is the sequence number of the last root of the previous page."""
        self._site.check_shows_everything()
        found = list_root_changes(self._store, CHANGES_PER_PAGE + 1, before := _requested_before())
        rows = [asdict(each) for each in found[:CHANGES_PER_PAGE]]
        older = rows[-1]["seq"] if len(found) > CHANGES_PER_PAGE else None
        is_operator = self._site.operators.lenient_proof().is_operator
        pinned = self._store.names.past("", MAX_PIN_CHANGES, prefixes=(PINS,)) if is_operator and not before else []
        return render_answer(
            self._site,
            "history.html",
            "history",
            {"changes": rows, "older": older},
            before=before,
            refusal=explain_refusal(self._site),
            returned=_find_return(rows) if request.args.get("back") and not before else None,
            pinned=[asdict(move) | {"server": move.name.removeprefix(PINS)} for move in pinned],
            broken=list_broken_entries(self._site.catalogue) if is_operator and not before else [],
        )

    def names(self) -> Response:
        """GET /history/names: changes of all names, or of the query's `name`, newest first.

        The operator sees every name; other readers see the names that describe the hub.
        """
        self._site.check_shows_everything()
        name = request.args.get("name", "")
        operator = self._site.operators.lenient_proof().is_operator
        prefixes = () if operator else CONFIGURATION_PREFIXES
        found = self._store.names.past(name, CHANGES_PER_PAGE + 1, before := _requested_before(), prefixes)
        rows = [asdict(move) for move in found[:CHANGES_PER_PAGE]]
        older = rows[-1]["seq"] if len(found) > CHANGES_PER_PAGE else None
        data = {"only": name, "moves": rows, "older": older}
        return render_answer(
            self._site,
            "moves.html",
            "history",
            data,
            before=before,
            parts=[f"{part}/" for part in PARTS],
            refusal=explain_refusal(self._site),
            operator=operator,
        )

    def compare(self) -> Response:
        """GET /history/compare: compare `old` and `new`: roots by name, other contents line by line.

        Raises BadCid, MissingBlob.
        """
        self._site.check_shows_everything()
        old, new = canonical(_required_argument("old")), canonical(_required_argument("new"))
        datas = [self._readable(cid) for cid in (old, new)]
        whole = all(is_boot_image(data) for data in datas)
        found = find_differences(self._store, *(image_rows(data) for data in datas)) if whole else []
        contents = None if whole else compare_contents(self._store, old, new)
        data = {
            "old": old,
            "new": new,
            "roots": whole,
            "differences": found,
            "contents": contents,
        }
        return render_answer(self._site, "compare.html", "history", data, found=found, compared=contents)

    def _readable(self, cid: str) -> bytes:
        """Read the bytes of a canonical CID. Only the operator can read contents outside the configuration.

        Raises MissingBlob.
        """
        if not (self._site.operators.lenient_proof().is_operator or self._site.catalogue.contents.is_public(cid)):
            raise MissingBlob([cid])
        return self._store.blobs.get(cid)

    def confirm(self) -> Response:
        """GET /history/rollback: show the differences and the button that rolls back."""
        self._site.check_shows_everything()
        target = self._target(request.args)
        now = current_image(self._store)
        found: list[Difference] = find_differences(self._store, image_rows(now), target.after)
        return render_answer(
            self._site,
            "rollback.html",
            "history",
            {"what": target.what, "differences": found},
            fields=target.fields,
            trail=target.trail,
            found=found,
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )

    def roll_back(self) -> Response:
        """POST /history/rollback. Raises Refused, ReadOnly, StaleUpdate, InvalidParams."""
        fields = read_change_form(self._site)
        target = self._target(fields)
        if not target.wanted:
            raise InvalidParams(f"{target.what} is already current: nothing was changed")
        why = format_reason(fields.get("why", ""), f"roll back to {target.what}")
        self._saving.names(target.wanted, find_author(self._site), why, {"root": fields.get("seen") or None})
        self._site.catalogue.refresh()
        return redirect_to(f"{target.page}?back=yes")

    def _target(self, given: Mapping[str, str]) -> RollbackTarget:
        seen = {"seen": self._store.names.get(ROOT) or ""}
        if given.get("root"):
            cid = canonical(given["root"])
            return self._root(cid, seen)
        name, cid = given.get("name", ""), given.get("cid", "")
        if name.partition("/")[0] not in PARTS:
            raise InvalidParams("expected the query parameter root, or name and cid: the target of the rollback")
        at = _find_named(self._store, name, cid or None)
        row = self._row(name, cid)
        rows = image_rows(current_image(self._store))
        after = {key: value for key, value in rows.items() if key != name} | ({name: row} if row else {})
        wanted = {} if self._store.names.get(name) == (cid or None) else {name: cid or None}
        part, _, own = name.partition("/")
        label = f"the {part.removesuffix('s')} {own}"
        what = f"{label} as it was at {format_time(at)}" if cid else f"a hub without {label}"
        page = trail = "/history"
        if part == "servers":
            trail = f"{page_path(own)}/past"
            page = trail if cid else "/servers"
        elif part == "variables":
            trail = f"/variables/{quote(own, safe='')}"
            page = trail if cid else "/variables"
        return RollbackTarget(what, {"name": name, "cid": cid, **seen}, wanted, after, page, trail)

    def _root(self, cid: str, seen: Mapping[str, str]) -> RollbackTarget:
        at = _find_named(self._store, ROOT, cid)
        data = self._store.blobs.get(cid)
        image = parse_image(data, cid)
        then: dict[str, str] = {name: self._store.blobs.put(blob) for name, blob in image.blobs().items()}
        then |= {f"{PAGE_TEMPLATES}{name}": each for name, each in image.templates.items()}
        now = {name: each for part in PARTS for name, each in self._store.names.all(f"{part}/").items()}
        wanted = {name: then.get(name) for name in sorted({*now, *then}) if now.get(name) != then.get(name)}
        return RollbackTarget(
            f"the hub as it was at {format_time(at)}", {"root": cid, **seen}, wanted, image_rows(data)
        )

    def _row(self, name: str, cid: str) -> dict[str, Any]:
        """The row of a boot image for a name that points to this CID."""
        part, _, rest = name.partition("/")
        if not cid:
            return {}
        if part == "templates":
            return {"name": rest, "cid": cid}
        data = self._store.blobs.get(cid)
        if part == "variables":
            return {"name": rest, "definition": data.decode("utf-8", "replace"), "enabled": True}
        return {"name": rest, **orjson.loads(data)}


def _find_return(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the time of the earlier state of the hub that the newest row repeats, as Unix time; None for a new one."""
    return next((row["at"] for row in rows[1:] if row["cid"] == rows[0]["cid"]), None)


def _find_named(store: Store, name: str, cid: str | None) -> float:
    """Return when a name had this CID last, as Unix time. Knowing a CID gives no permission. Raises InvalidParams."""
    found = next((move.at for move in _read_moves(store, name) if move.cid == cid), None)
    if found is None:
        raise InvalidParams(f"{name[:200]} has never been {cid or 'absent'}")
    return found


def _read_moves(store: Store, name: str) -> Iterator[NameChange]:
    before = None
    while moves := store.names.past(name, MOVES_PER_READ, before):
        yield from moves
        before = moves[-1].seq


def _requested_before() -> int | None:
    text = request.args.get("before", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidParams(f"before must be a whole number; it is {text!r:.60}")
    return int(text) if text else None


def _required_argument(key: str) -> str:
    text = request.args.get(key, "")
    if not text:
        raise InvalidParams(f"expected old and new, two CIDs; {key} is missing")
    return text


def history_blueprint(site: Site) -> Blueprint:
    """The routes of `/history` and below."""
    views = _HistoryViews(site)
    pages = Blueprint("history", __name__)
    pages.add_url_rule("/history", "roots", views.history)
    pages.add_url_rule("/history/names", "names", views.names)
    pages.add_url_rule("/history/compare", "compare", views.compare)
    pages.add_url_rule("/history/rollback", "confirm", views.confirm)
    pages.add_url_rule("/history/rollback", "roll_back", views.roll_back, methods=["POST"])
    return pages

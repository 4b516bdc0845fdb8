"""`/history`: roots and moves of names, any two states compared, and the way back.

Rules: going back is a change like any other, with a reason and a root of its own; it is confirmed on a page that says
what will differ, and goes only to what a name really was; a hub that changed meanwhile is not overwritten.
Sources: DESIGN section 4; THREATS 1.4; issue "Pages that people like to look at", part 4.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import orjson
from flask import Blueprint, Response, request

from patchbay.boot import current_image, parse_image
from patchbay.boot.changes import PARTS
from patchbay.catalogue.contents.configuration import CONFIGURATION_PREFIXES
from patchbay.catalogue.saving import ServerEditor
from patchbay.cid import canonical
from patchbay.errors import InvalidParams, MissingBlob
from patchbay.store import NameChange, Store
from patchbay.web.operator.changes import WHO, reason, sent, why_not
from patchbay.web.operator.login import seen_elsewhere
from patchbay.web.pages.answers import render_answer
from patchbay.web.pages.past_roots import changes, rows_of
from patchbay.web.pages.server import compared
from patchbay.web.rendering.differences import Difference, Rows, differences, is_image
from patchbay.web.rendering.templates import short
from patchbay.web.site import Site

PAGE = 50
"""Roots or moves on one page."""

READ = 500
"""Moves that are read at once."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where to go back to: a root, or what one name was. `wanted` are the names that move, `after` the rows then."""

    what: str
    fields: Mapping[str, str]
    wanted: Mapping[str, str | None]
    after: Rows


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._saving = ServerEditor(self._store, site.settings.servers)

    def history(self) -> Response:
        """Roots, newest first; `before` is the seq of the last one seen."""
        found = changes(self._store, PAGE + 1, before := _before())
        rows = [asdict(each) for each in found[:PAGE]]
        older = rows[-1]["seq"] if len(found) > PAGE else None
        sealed = why_not(self._site)
        return render_answer(
            self._site, "history.html", "history", {"changes": rows, "older": older}, before=before, sealed=sealed
        )

    def names(self) -> Response:
        """Moves of all names, or of the one that `name` says, newest first.

        The operator sees every name; all others see the names that describe the hub.
        """
        name = request.args.get("name", "")
        operator = self._site.operators.shown().operator
        prefixes = () if operator else CONFIGURATION_PREFIXES
        found = self._store.names.past(name, PAGE + 1, before := _before(), prefixes)
        rows = [asdict(move) for move in found[:PAGE]]
        older = rows[-1]["seq"] if len(found) > PAGE else None
        data = {"only": name, "moves": rows, "older": older}
        return render_answer(
            self._site,
            "moves.html",
            "history",
            data,
            before=before,
            parts=[f"{part}/" for part in PARTS],
            sealed=why_not(self._site),
            operator=operator,
        )

    def compare(self) -> Response:
        """`old` and `new`: two roots name by name, or any two contents side by side. Raises BadCid, MissingBlob."""
        old, new = canonical(_given("old")), canonical(_given("new"))
        datas = [self._readable(cid) for cid in (old, new)]
        whole = all(is_image(data) for data in datas)
        found = differences(self._store, *(rows_of(data) for data in datas)) if whole else []
        contents = None if whole else compared(self._store, old, new)
        data = {
            "old": old,
            "new": new,
            "roots": whole,
            "differences": found,
            "contents": contents,
        }
        return render_answer(self._site, "compare.html", "history", data, found=found, compared=contents)

    def _readable(self, cid: str) -> bytes:
        """The bytes of a canonical CID. Raises MissingBlob for what is not the configuration's, but to the operator."""
        if not (self._site.operators.shown().operator or self._site.catalogue.contents.is_public(cid)):
            raise MissingBlob([cid])
        return self._store.blobs.get(cid)

    def confirm(self) -> Response:
        """What going back would change, and the button that does it."""
        target = self._target(request.args)
        now = current_image(self._store)
        found: list[Difference] = differences(self._store, rows_of(now), target.after)
        return render_answer(
            self._site,
            "rollback.html",
            "history",
            {"what": target.what, "differences": found},
            fields=target.fields,
            found=found,
            sealed=why_not(self._site),
            csrf=self._site.operators.csrf(),
        )

    def roll_back(self) -> Response:
        """POST: go back. Raises Refused, ReadOnly, StaleUpdate, InvalidParams."""
        fields = sent(self._site)
        target = self._target(fields)
        if not target.wanted:
            raise InvalidParams(f"{target.what} is what is served already: nothing was changed")
        why = reason(fields.get("why", ""), f"back to {target.what}")
        self._saving.names(target.wanted, WHO, why, {"root": fields.get("seen") or None})
        self._site.catalogue.refresh()
        return seen_elsewhere("/history")

    def _target(self, given: Mapping[str, str]) -> Target:
        seen = {"seen": self._store.names.get("root") or ""}
        if given.get("root"):
            cid = canonical(given["root"])
            return self._root(cid, seen)
        name, cid = given.get("name", ""), given.get("cid", "")
        if name.partition("/")[0] not in PARTS:
            raise InvalidParams("expected root, or name and cid: where to go back to")
        _check_had(self._store, name, cid or None)
        row = self._row(name, cid)
        rows = rows_of(current_image(self._store))
        after = {key: value for key, value in rows.items() if key != name} | ({name: row} if row else {})
        wanted = {} if self._store.names.get(name) == (cid or None) else {name: cid or None}
        what = f"{name} as it was ({short(cid)})" if cid else f"a hub without {name}"
        return Target(what, {"name": name, "cid": cid, **seen}, wanted, after)

    def _root(self, cid: str, seen: Mapping[str, str]) -> Target:
        _check_had(self._store, "root", cid)
        data = self._store.blobs.get(cid)
        image = parse_image(data, cid)
        then: dict[str, str] = {name: self._store.blobs.put(blob) for name, blob in image.blobs().items()}
        then |= {f"templates/{name}": each for name, each in image.templates.items()}
        now = {name: each for part in PARTS for name, each in self._store.names.all(f"{part}/").items()}
        wanted = {name: then.get(name) for name in sorted({*now, *then}) if now.get(name) != then.get(name)}
        return Target(f"the root {short(cid)}", {"root": cid, **seen}, wanted, rows_of(data))

    def _row(self, name: str, cid: str) -> dict[str, Any]:
        """What a boot image would say of a name that points to this CID."""
        part, _, rest = name.partition("/")
        if not cid:
            return {}
        if part == "templates":
            return {"name": rest, "cid": cid}
        data = self._store.blobs.get(cid)
        if part == "variables":
            return {"name": rest, "definition": data.decode("utf-8", "replace"), "enabled": True}
        return {"name": rest, **orjson.loads(data)}


def _check_had(store: Store, name: str, cid: str | None) -> None:
    """Only what a name was is a way back: knowing a CID is no permission. Raises InvalidParams."""
    if not any(move.cid == cid for move in _moves(store, name)):
        raise InvalidParams(f"{name[:200]} has never been {cid or 'absent'}")


def _moves(store: Store, name: str) -> Iterator[NameChange]:
    before = None
    while moves := store.names.past(name, READ, before):
        yield from moves
        before = moves[-1].seq


def _before() -> int | None:
    text = request.args.get("before", "")
    if text and not (text.isascii() and text.isdigit() and len(text) < 16):
        raise InvalidParams(f"before has to be a whole number; it is {text!r:.60}")
    return int(text) if text else None


def _given(key: str) -> str:
    text = request.args.get(key, "")
    if not text:
        raise InvalidParams(f"expected old and new, two CIDs; {key} is not given")
    return text


def history_blueprint(site: Site) -> Blueprint:
    """`/history` and what is below it."""
    views = _Views(site)
    pages = Blueprint("history", __name__)
    pages.add_url_rule("/history", "roots", views.history)
    pages.add_url_rule("/history/names", "names", views.names)
    pages.add_url_rule("/history/compare", "compare", views.compare)
    pages.add_url_rule("/history/rollback", "confirm", views.confirm)
    pages.add_url_rule("/history/rollback", "roll_back", views.roll_back, methods=["POST"])
    return pages

"""`/variables` and `/variables/<name>`: named texts, their contents and their history, and forms that change them.

A change is made only when the variable has the value that the form showed. An error never loses the typed text.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.boot import change_names, find_variable, read_variable_at
from patchbay.errors import ConfigError, ContentError, InvalidParams, MissingBlob, StaleUpdate
from patchbay.topics import ACCESS, LISTING, MCPS, VARIABLES
from patchbay.web.api.content import check_variable_name
from patchbay.web.operator.changes import explain_refusal, find_author, format_reason, read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.rendering.content_kinds import decode_text, detect_kind
from patchbay.web.rendering.highlighting import highlight_source
from patchbay.web.servers.server import list_moves
from patchbay.web.site.answers import is_json_address, render_answer, wants_json
from patchbay.web.site.site import Site, UnknownVariable

PAGE = "/variables"

MAX_GIST_CHARACTERS = 100
"""Characters of each value in the list, at most."""


class _VariablesViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store

    def variables(self) -> Response:
        self._site.check_shows_everything()
        found = self._store.names.all(VARIABLES)
        rows = [self._row(name.removeprefix(VARIABLES), cid) for name, cid in found.items()]
        return render_answer(
            self._site,
            "variables.html",
            "variables",
            {"variables": rows},
            name=request.args.get("name", ""),
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )

    def variable(self, name: str) -> Response:
        """GET /variables/<name>: a variable with its value and history. Raises UnknownVariable.

        A variable that the hub reads, and that has no value yet, leads a browser to the form that makes it.
        """
        self._site.check_shows_everything()
        reads_json = is_json_address() or wants_json(request.headers.get("Accept", ""))
        if not reads_json and f"{VARIABLES}{name}" in (ACCESS, LISTING, MCPS) and not self._has_value(name):
            return redirect_to(f"{PAGE}?name={name}#new")
        return self._page(name)

    def create(self) -> Response:
        """POST /variables with `name` and `source`: make a new variable. Raises Refused, ReadOnly, InvalidParams."""
        fields = read_change_form(self._site)
        name = fields.get("name", "").strip()
        self._set(name, fields.get("source", ""), None, fields.get("why", ""))
        return redirect_to(f"{PAGE}/{quote(name, safe='')}")

    def change(self, name: str) -> Response:
        """POST /variables/<name> with `source` and `base`, the CID that the form showed. With `do=remove`, remove it.

        Raises Refused, ReadOnly, UnknownVariable. Other errors show the form again, with the typed text.
        """
        fields = read_change_form(self._site)
        text = None if fields.get("do") == "remove" else fields.get("source", "")
        try:
            self._set(name, text, fields.get("base") or None, fields.get("why", ""))
        except (StaleUpdate, InvalidParams) as problem:
            response = self._page(name, problem.message, text)
            response.status_code = problem.status
            return response
        return redirect_to(PAGE if text is None else f"{PAGE}/{quote(name, safe='')}")

    def _has_value(self, name: str) -> bool:
        return self._store.names.get(f"{VARIABLES}{name}") is not None

    def _set(self, name: str, text: str | None, base: str | None, why: str) -> None:
        """Set a variable, or remove it with None. Raises StaleUpdate, InvalidParams."""
        check_variable_name(name)
        full = f"{VARIABLES}{name}"
        if base is None and self._has_value(name):
            raise InvalidParams(f"there is a variable {name} already: open its page to change it")
        cid = None if text is None else self._store.blobs.put(text.encode("utf-8", "replace"))
        reason = format_reason(why, f"{'remove' if text is None else 'set'} variable {name} on a page")
        try:
            change_names(self._store, {full: cid}, find_author(self._site), reason, {full: base})
        except ConfigError as problem:
            raise InvalidParams(problem.message) from problem
        self._site.catalogue.refresh()

    def _page(self, name: str, problem: str | None = None, typed: str | None = None) -> Response:
        """The page of a variable; `typed` is the text of its form when that was not saved. Raises UnknownVariable."""
        found = find_variable(self._store, name)
        if found is None:
            raise UnknownVariable(name)
        text = decode_text(found.value)
        response = render_answer(
            self._site,
            "variable.html",
            "variables",
            {
                "variable": name,
                "value_cid": found.cid,
                "refers": found.value != found.definition,
                "value": text,
                "problems": self._problems(f"{VARIABLES}{name}"),
                "past": list_moves(self._store, f"{VARIABLES}{name}"),
            },
            code=highlight_source(text, detect_kind(found.value)) if text is not None else None,
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
            written=decode_text(found.definition),
            typed=typed,
            problem=problem,
            returned=bool(request.args.get("back")),
        )
        response.set_etag(found.cid)  # of the read that the page shows: a later one can belong to another value
        return response

    def _problems(self, full: str) -> list[str]:
        """Say what is wrong with the listing of all servers; nothing for other variables."""
        if full != LISTING:
            return []
        return [f"{one.where}: {one.reason}" for one in self._site.catalogue.listing_problems()]

    def _row(self, name: str, cid: str) -> dict[str, Any]:
        """One row of the list; a missing or damaged value has a message instead of its text."""
        try:
            value = read_variable_at(self._store, name, cid).value
        except MissingBlob:
            return {"name": name, "cid": cid, "bytes": None, "gist": "the value is not in the store"}
        except ContentError:
            return {"name": name, "cid": cid, "bytes": None, "gist": "the value is damaged: set it again"}
        text = decode_text(value[: MAX_GIST_CHARACTERS * 8].decode("utf-8", "ignore").encode())
        gist = " ".join((text or "").split())
        return {
            "name": name,
            "cid": cid,
            "bytes": len(value),
            "gist": gist[:MAX_GIST_CHARACTERS] + ("…" if len(gist) > MAX_GIST_CHARACTERS else ""),
        }


def variable_pages_blueprint(site: Site) -> Blueprint:
    """The routes `/variables` and `/variables/<name>` of a browser; `content.py` has PUT and DELETE for programs."""
    views = _VariablesViews(site)
    pages = Blueprint("variable_pages", __name__)
    pages.add_url_rule("/variables", "variables", views.variables)
    pages.add_url_rule("/variables/<name>", "variable", views.variable)
    pages.add_url_rule(PAGE, "create", views.create, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/<name>", "change", views.change, methods=["POST"])
    return pages

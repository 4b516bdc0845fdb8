"""`/access/keys`: the personal keys of the hub. An administrator makes and revokes them; a new key is shown once."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from patchbay.access.grant_matches import describe_unmatched, entry_finder
from patchbay.access.keys import Key, PersonalKeys, parse_expiry
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.web.operator.login import read_form, redirect_to
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

PAGE = "/access/keys"
MAKE, REVOKE = "make", "revoke"


class _KeysViews:
    def __init__(self, site: Site, keys: PersonalKeys) -> None:
        self._site = site
        self._keys = keys

    def show(self) -> Response:
        """GET: the keys, and the form for a new one. Raises NotOperator."""
        self._site.operators.check_operator()
        return self._page()

    def change(self) -> Response:
        """POST: make a key (`do=make`, `name`, `expires`, `grants`) or revoke one (`do=revoke`, `name`).

        Raises Refused, NotOperator, UnknownKey, InvalidParams.
        """
        fields = read_form(self._site.settings.body_limit)
        # A read-only hub protects its configuration; keys are not part of it.
        self._site.operators.check_use(fields)
        name, do = fields.get("name", "").strip(), fields.get("do", MAKE)
        if do == REVOKE:
            self._keys.revoke(name)
            return redirect_to(PAGE)
        if do != MAKE:
            raise InvalidParams(f"do must be {MAKE} or {REVOKE}; it is {do!r:.60}")
        grants = [part.strip() for part in fields.get("grants", "").replace("\n", ",").split(",") if part.strip()]
        try:
            expires = parse_expiry(fields.get("expires", "").strip() or None, self._keys.now())
            token = self._keys.make(name, expires, grants or None)
        except PatchbayError as problem:
            return self._page(problem=problem, fields=fields)
        return self._page(made=name, token=token, warnings=self._warnings(grants))

    def _warnings(self, grants: list[str]) -> list[str]:
        """Return sentences about the grants that match nothing now."""
        catalogue = self._site.catalogue
        return describe_unmatched(grants, [server.name for server in catalogue.all()], entry_finder(catalogue))

    def _page(
        self,
        problem: PatchbayError | None = None,
        fields: dict[str, str] | None = None,
        made: str = "",
        token: str = "",
        warnings: list[str] | None = None,
    ) -> Response:
        now = self._keys.now()
        data: dict[str, Any] = {"keys": [_values(key, now) for key in self._keys.all()]}
        news: dict[str, Any] = {"made": made, "token": token, "problem": problem.message if problem else None}
        news["warnings"] = warnings or []
        if problem or token:
            data |= news
            news = {}
        response = render_answer(
            self._site,
            "keys.html",
            "keys",
            data,
            **news,
            fields=fields or {},
            mode=self._site.settings.mode,
            csrf=self._site.operators.csrf(),
        )
        response.status_code = problem.status if problem else 200
        response.headers["Cache-Control"] = "no-store"
        return response


def _values(key: Key, now: float) -> dict[str, Any]:
    """A key as a JSON object, without its hash."""
    return {
        "name": key.name,
        "principal": key.principal.id,
        "grants": None if key.scopes is None else sorted(key.scopes),
        "made": key.made,
        "expires": key.expires,
        "expired": key.is_expired(now),
        "used": key.used,
    }


def keys_blueprint(site: Site, keys: PersonalKeys) -> Blueprint:
    """The routes of `/access/keys`."""
    views = _KeysViews(site, keys)
    pages = Blueprint("access_keys", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages

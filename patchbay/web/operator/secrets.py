"""`/secrets`: the secrets that configurations name as `${NAME}`. An administrator stores and removes them.

A value is sent to the hub and never back: a form that is refused is shown again without it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode

import orjson
from flask import Blueprint, Response, request

from patchbay.access.secrets.names import MAX_NAME_CHARACTERS, is_secret_like
from patchbay.access.secrets.records import ListedSecret, Secrets
from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidParams, PatchbayError
from patchbay.web.operator.login import MAX_FORM_BYTES, read_form, redirect_to
from patchbay.web.site.answers import render_answer
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site

PAGE = "/secrets"
SET, REMOVE = "set", "remove"
FORM = "store"
"""The id of the form for a secret."""

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)")


class _SecretsViews:
    def __init__(self, site: Site, secrets: Secrets) -> None:
        self._site = site
        self._secrets = secrets

    def show(self) -> Response:
        """GET: the secrets without their values, and the form for a new one, filled in with `name` and `servers`.

        Raises NotOperator.
        """
        self._site.operators.check_operator()
        return self._page({key: request.args.get(key, "") for key in ("name", "servers")})

    def change(self) -> Response:
        """POST: store a secret (`do=set`, `name`, `value`, `servers`, `all`) or delete one (`do=remove`, `name`).

        `servers` are names with spaces or commas between them. Without them, a known secret keeps its servers, and a
        new one is for all servers; `all` opens a known one to all. Raises Refused, NotOperator, UnknownSecret,
        InvalidParams.
        """
        fields = read_form(MAX_FORM_BYTES)
        # A read-only hub protects its configuration; secrets are not part of it.
        self._site.operators.check_use(fields)
        name, do = fields.get("name", "").strip(), fields.get("do", SET)
        if do == REMOVE:
            self._secrets.remove(name)
            return redirect_to(PAGE)
        if do != SET:
            raise InvalidParams(f"do: expected {SET} or {REMOVE}")
        try:
            self._secrets.put(name, fields.get("value", ""), self._site.sender.id, _read_servers(fields))
        except PatchbayError as problem:
            return self._page(fields, problem)
        return redirect_to(PAGE)

    def _page(self, fields: Mapping[str, str], problem: PatchbayError | None = None) -> Response:
        servers = self._site.catalogue.all()
        names = {server.name: _list_names(server) for server in servers}
        data = {"secrets": [_describe(one, names) for one in self._secrets.all()]}
        response = render_answer(
            self._site,
            "secrets.html",
            "secrets",
            data,
            problem=problem.message if problem else None,
            fields=_list_fields(fields),
            is_for_all=bool(fields.get("all")),
            csrf=self._site.operators.csrf(),
        )
        response.status_code = problem.status if problem else 200
        response.headers["Cache-Control"] = "no-store"
        return response


def _read_servers(fields: Mapping[str, str]) -> list[str] | None:
    """Return the servers that a form chooses; an empty list means all servers, None the earlier choice.

    Raises InvalidParams for a choice of both.
    """
    servers = fields.get("servers", "").replace(",", " ").split()
    if not fields.get("all"):
        return servers or None
    if servers:
        raise InvalidParams("choose either servers or all servers: the form has both")
    return []


def _list_names(server: Server) -> frozenset[str]:
    """Return the names that the configuration of a server has in `${...}`."""
    text = orjson.dumps(server.config, default=str).decode()
    return frozenset(_REFERENCE.findall(text))


def _describe(one: ListedSecret, names: Mapping[str, frozenset[str]]) -> dict[str, Any]:
    """A secret as a JSON object, without its value."""
    entry = one.entry
    users = sorted(one.uses.keys() | {server for server, named in names.items() if entry.name in named})
    return {
        "name": entry.name,
        "servers": list(entry.servers),
        "made": entry.made,
        "changed": entry.changed,
        "by": entry.by,
        "readable": one.is_readable,
        "replace": f"{PAGE}?{urlencode({'name': entry.name, 'servers': ', '.join(entry.servers)})}#{FORM}",
        "used_by": [{"server": user, "page": page_path(user), "last_use": one.uses.get(user)} for user in users],
        "last_use": one.last_use,
    }


def _list_fields(given: Mapping[str, str]) -> list[dict[str, str]]:
    """The fields of the form for a secret; the value is never filled in, nor a name that may hold it."""
    name = given.get("name", "")
    return [
        {
            "name": "name",
            "label": "Name",
            "hint": f"Letters, digits and _, at most {MAX_NAME_CHARACTERS}. Configurations name it as ${{NAME}}.",
            "form": "line",
            "value": name if is_secret_like(name) else "",
            "problem": "",
        },
        {
            "name": "value",
            "label": "Value",
            "hint": "One line. For a value with several lines: patchbay secret set NAME FILE.",
            "form": "secret",
            "value": "",
            "problem": "",
        },
        {
            "name": "servers",
            "label": "Only for these servers",
            "hint": "Names with commas between them. Empty keeps the servers of a known secret; a new one is for all.",
            "form": "line",
            "value": given.get("servers", ""),
            "problem": "",
        },
    ]


def secrets_blueprint(site: Site, secrets: Secrets) -> Blueprint:
    """The routes of `/secrets`."""
    views = _SecretsViews(site, secrets)
    pages = Blueprint("secrets", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "change", views.change, methods=["POST"])
    return pages

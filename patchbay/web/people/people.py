"""`/people`: the accounts of the hub, for the operator, who invites people and removes them."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import Person, parse_name
from patchbay.errors import InvalidParams
from patchbay.web.operator.login import MAX_FORM_BYTES, read_form, redirect_to
from patchbay.web.pages.answers import list_answer
from patchbay.web.pages.site import Site
from patchbay.web.people.browsers import public_base_url
from patchbay.web.people.sign_in import check_sign_in


class _PeopleViews:
    def __init__(self, site: Site, accounts: Accounts) -> None:
        self._site = site
        self._accounts = accounts

    def show(self) -> Response:
        """GET /people: the list of accounts."""
        self._site.operators.check_operator()
        return self._page()

    def change(self) -> Response:
        """POST /people with `csrf`, `do` (invite, remove) and `name`."""
        fields = read_form(MAX_FORM_BYTES)
        self._site.operators.check_use(fields)
        do = fields.get("do", "")
        if do == "remove":
            self._accounts.people.remove(fields.get("name", ""))
            return redirect_to("/people")
        if do != "invite":
            raise InvalidParams("do: expected invite or remove")
        try:
            name = parse_name(fields.get("name", ""))
        except InvalidParams as problem:
            response = self._page(problem=problem.message)
            response.status_code = problem.status
            return response
        return self._page(link=public_base_url() + self._accounts.invitations.make(name), invited=name)

    def _page(self, link: str = "", invited: str = "", problem: str = "") -> Response:
        rows = [describe_person(each) for each in self._accounts.people.list()]
        csrf = self._site.operators.csrf()
        return list_answer(
            self._site,
            "people.html",
            "people",
            rows,
            people=rows,
            csrf=csrf,
            link=link,
            invited=invited,
            problem=problem,
        )


def describe_person(person: Person) -> dict[str, Any]:
    """One row of the list."""
    return {
        "name": person.name,
        "at": person.at,
        "has_password": bool(person.password),
        "passkeys": len(person.passkeys),
        "sessions": len(person.sessions),
        "clients": len(person.clients),
    }


def people_blueprint(site: Site, accounts: Accounts) -> Blueprint:
    """The routes of `/people`."""
    views = _PeopleViews(site, accounts)
    pages = Blueprint("people", __name__)
    pages.before_request(lambda: check_sign_in(site.settings))
    pages.add_url_rule("/people", "show", views.show)
    pages.add_url_rule("/people", "change", views.change, methods=["POST"])
    return pages

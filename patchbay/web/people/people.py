"""`/people`: the accounts of the hub, for the operator, who invites people and removes them."""

from __future__ import annotations

from typing import Any

from flask import Blueprint, Response

from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import Person, parse_name
from patchbay.access.providers.provider import Provider
from patchbay.access.providers.sign_ins import ProviderSignIns
from patchbay.errors import InvalidParams
from patchbay.web.operator.login import MAX_FORM_BYTES, read_form, redirect_to
from patchbay.web.people.browsers import public_base_url
from patchbay.web.people.providers import describe_outside
from patchbay.web.people.sign_in import check_sign_in
from patchbay.web.site.answers import list_answer
from patchbay.web.site.site import Site


class _PeopleViews:
    def __init__(self, site: Site, accounts: Accounts, providers: ProviderSignIns) -> None:
        self._site = site
        self._accounts = accounts
        self._providers = providers

    def show(self) -> Response:
        """GET /people: the list of accounts."""
        self._site.operators.check_operator()
        return self._page()

    def change(self) -> Response:
        """POST /people with `csrf`, `do` (invite, remove, withdraw) and `name`.

        With `provider` the invitation is to a sign-in with this identity provider.
        """
        fields = read_form(MAX_FORM_BYTES)
        self._site.operators.check_use(fields)
        do = fields.get("do", "")
        if do == "remove":
            self._accounts.people.remove(fields.get("name", ""))
            return redirect_to("/people")
        if do == "withdraw":
            self._providers.invited.withdraw(fields.get("name", ""), fields.get("provider", ""))
            return redirect_to("/people")
        if do != "invite":
            raise InvalidParams("do: expected invite, remove or withdraw")
        try:
            if fields.get("provider"):
                issuer = self._find_provider(fields["provider"]).issuer.url
                self._providers.invited.add(fields.get("name", ""), issuer)
                return redirect_to("/people")
            name = parse_name(fields.get("name", ""))
        except InvalidParams as problem:
            response = self._page(problem=problem.message)
            response.status_code = problem.status
            return response
        return self._page(link=public_base_url() + self._accounts.invitations.make(name), invited=name)

    def _find_provider(self, key: str) -> Provider:
        party = self._providers.parties.get(key)
        if party is None:
            raise InvalidParams(f"provider: expected one of {', '.join(self._providers.parties)}")
        return party.provider

    def _page(self, link: str = "", invited: str = "", problem: str = "") -> Response:
        rows = [
            describe_person(each) | describe_outside(each, self._providers) for each in self._accounts.people.list()
        ]
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
            providers=[each.provider for each in self._providers.parties.values()],
            needs_invitation=self._site.settings.sign_up == "invited",
            awaited=self._providers.invited.list(),
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


def people_blueprint(site: Site, accounts: Accounts, providers: ProviderSignIns) -> Blueprint:
    """The routes of `/people`."""
    views = _PeopleViews(site, accounts, providers)
    pages = Blueprint("people", __name__)
    pages.before_request(lambda: check_sign_in(site.settings))
    pages.add_url_rule("/people", "show", views.show)
    pages.add_url_rule("/people", "change", views.change, methods=["POST"])
    return pages

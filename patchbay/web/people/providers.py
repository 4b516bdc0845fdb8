"""Sign-in with an identity provider, below `/sign-in/<provider>`: its beginning, its answer, its back-channel logout.

A sign-in begins on a page of this hub, and its answer counts in the browser that began. After it the browser goes only
to a page of this hub.
Sources: OpenID Connect Core 1.0, section 3.1.2; OpenID Connect Back-Channel Logout 1.0, sections 2.5 to 2.8.
"""

from __future__ import annotations

import logging
from typing import Any, ClassVar
from urllib.parse import urlencode

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import UnknownPerson
from patchbay.access.principals import Principal
from patchbay.access.providers.pending import WrongAnswer
from patchbay.access.providers.relying_party import RelyingParty
from patchbay.access.providers.sign_ins import ProviderAway, ProviderSignIns, SignInFailed
from patchbay.access.tokens.problems import IssuerUnavailable, WrongToken
from patchbay.errors import Refused
from patchbay.limits import AddressCounter
from patchbay.web.operator.login import MAX_FORM_BYTES, local_path, read_form, redirect_to
from patchbay.web.people.browsers import Browsers, hub_address
from patchbay.web.people.sign_in import check_sign_in, refuse_sign_in
from patchbay.web.site.answers import json_answer
from patchbay.web.site.site import Site

log = logging.getLogger(__name__)

MAX_SIGN_INS, WINDOW_SECONDS = 60, 60.0
"""Sign-ins that one address may begin in this number of seconds, and as many answers of providers: each of these can
cause a request to the provider, and an answer leaves a row in the store."""


class TooManySignIns(Refused):
    """One address began or answered too many sign-ins."""

    status = 429
    headers: ClassVar = {"Retry-After": f"{WINDOW_SECONDS:.0f}"}

    def __init__(self) -> None:
        super().__init__(f"more than {MAX_SIGN_INS} sign-ins in a minute came from your address: try again in a minute")


class _ProviderViews:
    def __init__(self, site: Site, browsers: Browsers, providers: ProviderSignIns) -> None:
        self._site = site
        self._browsers = browsers
        self._providers = providers
        self._begun = AddressCounter(MAX_SIGN_INS, WINDOW_SECONDS)
        self._answered = AddressCounter(MAX_SIGN_INS, WINDOW_SECONDS)

    def begin(self, provider: str) -> Response:
        """GET /sign-in/<provider> with `next`; `again=yes` asks for a new proof of the person.

        A link of another site shows the page of the sign-in first, so that no site signs a browser in by itself.
        """
        party, then = self._find(provider), local_path(request.args.get("next", "") or "/account")
        if request.headers.get("Sec-Fetch-Site", "none") not in ("same-origin", "none"):
            return redirect_to("/login?" + urlencode({"next": then}))
        proves_again = request.args.get("again", "") == "yes"
        try:
            _count(self._begun)
            address, cookie = self._providers.begin(party, hub_address(self._site.settings), then, proves_again)
        except (ProviderAway, TooManySignIns) as problem:
            return refuse_sign_in(self._site, self._browsers, self._providers, problem, {"next": then})
        response = redirect_to(address)
        response.headers["Referrer-Policy"] = "no-referrer"
        self._browsers.remember_sign_in(response, cookie)
        return response

    def answer(self, provider: str) -> Response:
        """GET /sign-in/<provider>/callback with `code`, `state` and `iss`, or `error`."""
        party, answer = self._find(provider), request.args.to_dict()
        cookie = self._browsers.take_sign_in(deleted := Response())
        try:
            _count(self._answered)
            found = self._providers.finish(party, cookie, answer)
            response = redirect_to(found.then)
            self._browsers.sign_in(response, found.person.name, found.session)
        except (WrongAnswer, SignInFailed, ProviderAway, UnknownPerson, TooManySignIns) as problem:
            asked = {"next": self._providers.find_next_page(cookie)}
            response = refuse_sign_in(self._site, self._browsers, self._providers, problem, asked)
        response.headers.extend([("Set-Cookie", value) for value in deleted.headers.getlist("Set-Cookie")])
        response.headers["Referrer-Policy"] = "no-referrer"  # the address has the code
        return response

    def log_out(self, provider: str) -> Response:
        """POST /sign-in/<provider>/backchannel-logout with `logout_token`, sent by the provider."""
        party = self._find(provider)
        try:
            self._providers.end_by_provider(party, read_form(MAX_FORM_BYTES).get("logout_token", ""))
        except WrongToken as problem:
            log.warning("a logout token for %s was refused: %s", party.provider.name, problem.message)
            return json_answer({"error": "invalid_request", "error_description": problem.message}, 400)
        except IssuerUnavailable as problem:
            log.warning("a logout token of %s cannot be checked: %s", party.provider.name, problem.message)
            return json_answer({"error": "temporarily_unavailable"}, 503)
        return json_answer({})

    def _find(self, key: str) -> RelyingParty:
        party = self._providers.parties.get(key)
        if party is None:
            raise NotFound("There is no identity provider at this address: the page /login shows all of them.")
        return party


def _count(counter: AddressCounter) -> None:
    """Count the current request for its address. Raises TooManySignIns (429)."""
    if not counter.allows(request.remote_addr or ""):
        raise TooManySignIns


def describe_outside(person: Any, providers: ProviderSignIns) -> dict[str, Any]:
    """What the pages show of the identity of a person at a provider; empty texts for another person."""
    who, provider = person.outside, providers.find_provider(person)
    return {
        "shown": person.principal.name,
        "principal": person.principal.id,
        "provider": provider.name if provider is not None else "",
        "issuer": who.issuer if who is not None else "",
        "subject": who.subject if who is not None else "",
        "email": who.email if who is not None else "",
        "groups": list(who.groups) if who is not None else [],
        "seen": who.seen if who is not None else None,
    }


def find_new_proof(accounts: Accounts, browsers: Browsers, providers: ProviderSignIns, sender: Principal) -> str:
    """Return the page where an administrator proves itself again before an act; empty where that is not needed.

    It is for administrators who sign in with an identity provider.
    """
    person = accounts.people.find(sender.account) if sender.issuer else None
    provider = providers.find_provider(person) if person is not None else None
    if person is None or provider is None:
        return ""
    named = sender.credential.rpartition(".")[2]
    session = next((one for one in person.sessions if one.id == named), None)
    return "" if session is not None and browsers.has_proved(session) else f"{provider.page}?again=yes"


def providers_blueprint(site: Site, browsers: Browsers, providers: ProviderSignIns) -> Blueprint:
    """The routes below `/sign-in`."""
    views = _ProviderViews(site, browsers, providers)
    pages = Blueprint("providers", __name__)
    pages.before_request(lambda: check_sign_in(site.settings))
    pages.add_url_rule("/sign-in/<provider>", "begin", views.begin)
    pages.add_url_rule("/sign-in/<provider>/callback", "answer", views.answer)
    pages.add_url_rule("/sign-in/<provider>/backchannel-logout", "log_out", views.log_out, methods=["POST"])
    return pages

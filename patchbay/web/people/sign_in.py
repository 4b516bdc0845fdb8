"""Sign-in of people at `/login`: with a password or a passkey, and sign-out. `web/people/providers.py` has the sign-in
with an identity provider.

The page itself is that of the operator's login (`patchbay/web/operator/login.py`). After the sign-in the browser goes
only to a page of this hub.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flask import Blueprint, Response, request
from werkzeug.exceptions import NotFound

from patchbay.access.people.accounts import Accounts
from patchbay.access.people.passkeys import WrongPasskey, passkey_host
from patchbay.access.people.people import Person, UnknownPerson, parse_name
from patchbay.access.people.sign_in_throttle import TooManyWrongPasswords
from patchbay.access.providers.provider import Provider
from patchbay.access.providers.sign_ins import ProviderSignIns
from patchbay.access.sign_in_settings import has_sign_in
from patchbay.errors import InvalidParams, PatchbayError, Refused
from patchbay.settings import Settings
from patchbay.web.operator.login import MAX_FORM_BYTES, local_path, read_form, redirect_to
from patchbay.web.people.browsers import Browsers, hub_address, public_origin
from patchbay.web.site.answers import json_answer, render_answer
from patchbay.web.site.site import Site
from patchbay.wire.requests.bodies import drop_body
from patchbay.wire.requests.security import check_same_origin
from patchbay.wire.requests.wsgi import request_of


class WrongPassword(Refused):
    """The name or the password is wrong. The message does not say which."""

    status = 401

    def __init__(self) -> None:
        super().__init__("the name or the password is wrong")


class _SignInViews:
    def __init__(self, site: Site, accounts: Accounts, browsers: Browsers, providers: ProviderSignIns) -> None:
        self._site = site
        self._accounts = accounts
        self._browsers = browsers
        self._providers = providers

    def with_password(self) -> Response:
        """POST /login/password with `name`, `password` and `next`."""
        check_same_origin(request.headers)
        fields = read_form(MAX_FORM_BYTES)
        try:
            person = self._check_password(fields.get("name", ""), fields.get("password", ""))
        except (WrongPassword, TooManyWrongPasswords) as problem:
            return self._refused(problem, fields)
        return self._entered(person, fields)

    def challenge(self) -> Response:
        """GET /login/passkey: the options for the browser."""
        host = passkey_host(request.host)
        if not host:
            raise InvalidParams("passkeys belong to a host name: open the hub by its name, or use the password")
        ceremony = self._accounts.passkeys.ask_to_sign_in(host)
        return json_answer({"options": ceremony.options, "ticket": ceremony.ticket})

    def with_passkey(self) -> Response:
        """POST /login/passkey with `ticket`, `answer` (JSON) and `next`."""
        check_same_origin(request.headers)
        fields = read_form(MAX_FORM_BYTES)
        host = passkey_host(request.host)
        try:
            person = self._accounts.passkeys.sign_in(
                fields.get("ticket", ""), fields.get("answer", ""), public_origin(), host
            )
        except WrongPasskey as problem:
            return self._refused(problem, fields)
        return self._entered(person, fields)

    def sign_out(self) -> Response:
        """POST /logout/person: end the session of this browser, and then the one at its identity provider."""
        check_same_origin(request.headers)
        drop_body(request_of(request.environ), MAX_FORM_BYTES)
        found = self._browsers.find()
        provider = self._providers.find_provider(found[0]) if found is not None else None
        address = ""
        if found is not None and provider is not None:
            address = self._providers.sign_out(*found, hub_address(self._site.settings) + "/login")
        response = redirect_to("/login") if provider is None or not address else self._leave(provider, address)
        self._browsers.sign_out(response)
        return response

    def _leave(self, provider: Provider, address: str) -> Response:
        """A page that leads to the sign-out of a provider. The policy of pages forbids a form to lead there itself."""
        response = self._site.html("signed_out.html", "login", provider=provider.name, url=address)
        response.headers["Refresh"] = f"0; url={address}"
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _check_password(self, text: str, password: str) -> Person:
        """Return the person with this password. Raises WrongPassword (401), TooManyWrongPasswords (429)."""
        accounts, address = self._accounts, request.remote_addr or ""
        try:
            name = parse_name(text)
        except InvalidParams:
            name = ""
        known = self._browsers.known_browser(name)
        accounts.throttle.begin(name, address, known)
        person = accounts.people.find(name) if name else None
        if not accounts.passwords.fits(password, person.password if person is not None else "") or person is None:
            raise WrongPassword
        accounts.throttle.succeed(name, address, known)
        if accounts.passwords.is_outdated(person.password):
            fresh = accounts.passwords.hash(password, name)
            accounts.people.change(name, lambda present: present.model_copy(update={"password": fresh}))
        return person

    def _entered(self, person: Person, fields: dict[str, str]) -> Response:
        response = redirect_to(local_path(fields.get("next", "") or "/account"))
        try:
            self._browsers.sign_in(response, person.name)
        except UnknownPerson:  # removed a moment ago
            return self._refused(WrongPassword(), fields)
        return response

    def _refused(self, problem: Refused, fields: dict[str, str]) -> Response:
        return refuse_sign_in(self._site, self._browsers, self._providers, problem, fields)


def refuse_sign_in(
    site: Site, browsers: Browsers, providers: ProviderSignIns, problem: PatchbayError, fields: Mapping[str, str]
) -> Response:
    """The page `/login` with what was wrong, and with the fields `name` and `next` as they were."""
    response = render_answer(
        site,
        "login.html",
        "login",
        login_values(site, browsers, providers),
        problem="",
        wrong=problem.message,
        marks_fields=isinstance(problem, WrongPassword),
        then=local_path(fields.get("next", "")),
        name=fields.get("name", "")[:64],
    )
    response.status_code = problem.status
    response.headers.extend(getattr(problem, "headers", {}))
    return response


def login_values(site: Site, browsers: Browsers, providers: ProviderSignIns) -> dict[str, Any]:
    """The data of the page `/login`."""
    proof = site.operators.lenient_proof()
    found = browsers.find() if has_sign_in(site.settings) else None
    return {
        "operator": proof.is_operator,
        "how": proof.how,
        "access": site.settings.mode,
        "person": found[0].principal.name if found is not None else None,
        "providers": [
            {"name": each.provider.name, "page": each.provider.page, "is_away": each.is_away}
            for each in providers.parties.values()
        ],
        "sign_in": has_sign_in(site.settings),
        "passkeys": has_sign_in(site.settings) and bool(passkey_host(request.host)),
    }


def check_sign_in(settings: Settings) -> None:
    """Raise NotFound (404) when the hub is not in shared mode, so that people do not sign in."""
    if not has_sign_in(settings):
        raise NotFound("People do not sign in at this hub, because it is not shared: start it with --access shared.")


def sign_in_blueprint(site: Site, accounts: Accounts, browsers: Browsers, providers: ProviderSignIns) -> Blueprint:
    """The routes below `/login` for people, and `/logout/person`."""
    views = _SignInViews(site, accounts, browsers, providers)
    pages = Blueprint("sign_in", __name__)
    pages.before_request(lambda: check_sign_in(site.settings))
    pages.add_url_rule("/login/password", "password", views.with_password, methods=["POST"])
    pages.add_url_rule("/login/passkey", "challenge", views.challenge)
    pages.add_url_rule("/login/passkey", "passkey", views.with_passkey, methods=["POST"])
    pages.add_url_rule("/logout/person", "sign_out", views.sign_out, methods=["POST"])
    return pages

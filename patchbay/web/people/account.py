"""`/account`: one's own account, to see and change: sessions, signed-in clients, accounts at mounted
servers, password and passkeys.

A change of passwords or passkeys needs a sign-in of the last 15 minutes, so that a browser that was left alone, or a
stolen cookie, does not take over the account.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flask import Blueprint, Response, request

from patchbay.access.oauth.scopes import describe_scope
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.passkeys import WrongPasskey, passkey_host
from patchbay.access.people.passwords import MIN_PASSWORD_CHARACTERS
from patchbay.access.people.people import Person, Session
from patchbay.access.providers.sign_ins import ProviderSignIns
from patchbay.access.upstreams.token_store import TokenStore
from patchbay.errors import InvalidParams, Refused
from patchbay.web.operator.login import MAX_FORM_BYTES, read_form, redirect_to
from patchbay.web.people.browsers import Browsers, public_origin
from patchbay.web.people.providers import describe_outside
from patchbay.web.people.sign_in import check_sign_in
from patchbay.web.site.answers import is_json_address, json_answer, render_answer, wants_json
from patchbay.web.site.site import Site
from patchbay.web.upstreams.pages import describe_account as describe_upstream
from patchbay.web.upstreams.pages import revoke_account


class SignInAgain(Refused):
    """The change needs a recent sign-in."""

    def __init__(self) -> None:
        super().__init__("this change needs a sign-in of the last 15 minutes: sign out, sign in again and repeat it")


class _AccountViews:
    def __init__(
        self, site: Site, accounts: Accounts, browsers: Browsers, tokens: TokenStore, providers: ProviderSignIns
    ) -> None:
        self._tokens = tokens
        self._providers = providers
        self._site = site
        self._accounts = accounts
        self._browsers = browsers
        self._actions: dict[str, Callable[[Person, Session, dict[str, str]], None]] = {
            "end-session": self._end_session,
            "end-client": self._end_client,
            "disconnect": self._disconnect,
            "password": self._set_password,
            "add-passkey": self._add_passkey,
            "remove-passkey": self._remove_passkey,
        }

    def show(self) -> Response:
        """GET /account: the account of the signed-in person; a browser without a session goes to the sign-in page."""
        found = self._browsers.find()
        if found is None and not is_json_address() and not wants_json(request.headers.get("Accept", "")):
            return redirect_to("/login?next=/account")
        return self._page(*self._browsers.require(), "")

    def challenge(self) -> Response:
        """GET /account/passkey: the options for the browser to make one more passkey."""
        person, _ = self._browsers.require()
        ceremony = self._accounts.passkeys.ask_to_make(person.name, person, passkey_host(request.host))
        return json_answer({"options": ceremony.options, "ticket": ceremony.ticket})

    def change(self) -> Response:
        """POST /account with `csrf`, `do` and the fields of that action."""
        fields = read_form(MAX_FORM_BYTES)
        person, session = self._browsers.check_form(fields)
        action = self._actions.get(fields.get("do", ""))
        if action is None:
            raise InvalidParams(f"do: expected one of {', '.join(self._actions)}")
        try:
            action(person, session, fields)
        except (InvalidParams, WrongPasskey, SignInAgain) as problem:
            return self._page(person, session, problem.message, problem.status)
        return redirect_to("/account")

    def _end_session(self, person: Person, session: Session, fields: dict[str, str]) -> None:
        self._accounts.sessions.end(person.name, fields.get("id", ""))

    def _end_client(self, person: Person, session: Session, fields: dict[str, str]) -> None:
        self._accounts.tokens.end(person.name, fields.get("id", ""))

    def _disconnect(self, person: Person, session: Session, fields: dict[str, str]) -> None:
        """Delete the tokens of the person at a mounted server."""
        gone = self._tokens.disconnect(person.principal.id, fields.get("id", ""))
        if gone is not None:
            revoke_account(self._site, self._tokens, gone)

    def _set_password(self, person: Person, session: Session, fields: dict[str, str]) -> None:
        """Set a new password, and end all other sessions."""
        self._check_recent(person, session)
        if fields.get("password", "") != fields.get("again", ""):
            raise InvalidParams("the two passwords differ: type the same password twice")
        fresh = self._accounts.passwords.hash(fields.get("password", ""), person.name)

        def changed(present: Person) -> Person:
            own = tuple(each for each in present.sessions if each.id == session.id)
            return present.model_copy(update={"password": fresh, "sessions": own})

        self._accounts.people.change(person.name, changed)

    def _add_passkey(self, person: Person, session: Session, fields: dict[str, str]) -> None:
        self._check_recent(person, session)
        passkey = self._accounts.passkeys.make(
            person.name,
            fields.get("ticket", ""),
            fields.get("answer", ""),
            fields.get("label", ""),
            public_origin(),
            passkey_host(request.host),
        )
        self._accounts.passkeys.add(person.name, passkey)

    def _remove_passkey(self, person: Person, session: Session, fields: dict[str, str]) -> None:
        self._check_recent(person, session)

        def removed(present: Person) -> Person:
            rest = tuple(each for each in present.passkeys if each.id != fields.get("id", ""))
            if not rest and not present.password:
                raise InvalidParams("this is the only way to sign in to the account: set a password first")
            return present.model_copy(update={"passkeys": rest})

        self._accounts.people.change(person.name, removed)

    def _check_recent(self, person: Person, session: Session) -> None:
        """Check that the person may change what it signs in with. Raises SignInAgain, InvalidParams."""
        if person.outside is not None:
            raise InvalidParams("you sign in with an identity provider: your password and passkeys are there")
        if not self._browsers.is_recent(session):
            raise SignInAgain

    def _page(self, person: Person, session: Session, problem: str, status: int = 200) -> Response:
        response = render_answer(
            self._site,
            "account.html",
            "account",
            describe_account(person, session)
            | describe_outside(person, self._providers)
            | {"upstreams": [describe_upstream(each) for each in self._tokens.list_accounts(person.principal.id)]},
            csrf=self._browsers.csrf(session),
            problem=problem,
            least=MIN_PASSWORD_CHARACTERS,
            can_add=bool(passkey_host(request.host)) and person.outside is None,
        )
        response.status_code = status
        return response


def describe_account(person: Person, session: Session) -> dict[str, Any]:
    """The data of the page: no hash, key or secret is among them."""
    return {
        "name": person.name,
        "at": person.at,
        "has_password": bool(person.password),
        "passkeys": [{"id": each.id, "name": each.name, "host": each.host, "at": each.at} for each in person.passkeys],
        "sessions": [
            {"id": each.id, "browser": each.browser, "at": each.at, "is_this": each.id == session.id}
            for each in reversed(person.sessions)
        ],
        "clients": [
            {
                "id": each.family,
                "name": each.name,
                "client": each.client,
                "resource": each.resource,
                "may": [describe_scope(scope) for scope in each.scopes],
                "at": each.at,
            }
            for each in reversed(person.clients)
        ],
    }


def account_blueprint(
    site: Site, accounts: Accounts, browsers: Browsers, tokens: TokenStore, providers: ProviderSignIns
) -> Blueprint:
    """The routes of `/account`."""
    views = _AccountViews(site, accounts, browsers, tokens, providers)
    pages = Blueprint("account", __name__)
    pages.before_request(lambda: check_sign_in(site.settings))
    pages.add_url_rule("/account", "show", views.show)
    pages.add_url_rule("/account/passkey", "challenge", views.challenge)
    pages.add_url_rule("/account", "change", views.change, methods=["POST"])
    return pages

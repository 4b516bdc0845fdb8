"""`/invitation`: the page of an invitation link, where a person chooses a password or makes a passkey."""

from __future__ import annotations

from flask import Blueprint, Response, request

from patchbay.access.people.accounts import Accounts
from patchbay.access.people.invitations import Invitation, WrongInvitation
from patchbay.access.people.passkeys import WrongPasskey, passkey_host
from patchbay.access.people.passwords import MIN_PASSWORD_CHARACTERS
from patchbay.errors import InvalidParams
from patchbay.web.operator.login import MAX_FORM_BYTES, read_form, redirect_to
from patchbay.web.people.browsers import Browsers, public_origin
from patchbay.web.people.sign_in import check_sign_in
from patchbay.web.site.answers import json_answer, render_answer
from patchbay.web.site.site import Site
from patchbay.wire.requests.security import check_same_origin


class _InvitationViews:
    def __init__(self, site: Site, accounts: Accounts, browsers: Browsers) -> None:
        self._site = site
        self._accounts = accounts
        self._browsers = browsers

    def show(self) -> Response:
        """GET /invitation with `key`. The link stays valid until the form is sent."""
        key = request.args.get("key", "")
        return self._page(self._accounts.invitations.read(key), key, "")

    def challenge(self) -> Response:
        """GET /invitation/passkey with `key`: the options for the browser."""
        invitation = self._accounts.invitations.read(request.args.get("key", ""))
        person = self._accounts.people.find(invitation.name)
        ceremony = self._accounts.passkeys.ask_to_make(invitation.name, person, passkey_host(request.host))
        return json_answer({"options": ceremony.options, "ticket": ceremony.ticket})

    def accept(self) -> Response:
        """POST /invitation with `key` and `password`, or with `key`, `ticket`, `answer` and `label` of a passkey."""
        check_same_origin(request.headers)
        fields = read_form(MAX_FORM_BYTES)
        key = fields.get("key", "")
        invitation = self._accounts.invitations.read(key)
        try:
            self._create(invitation, fields)
        except (InvalidParams, WrongPasskey) as problem:
            return self._page(invitation, key, problem.message, problem.status)
        response = redirect_to("/account")
        self._browsers.sign_in(response, invitation.name)
        return response

    def _create(self, invitation: Invitation, fields: dict[str, str]) -> None:
        accounts, name, passkey, password = self._accounts, invitation.name, None, ""
        if fields.get("answer"):
            passkey = accounts.passkeys.make(
                name,
                fields.get("ticket", ""),
                fields["answer"],
                fields.get("label", ""),
                public_origin(),
                passkey_host(request.host),
            )
        else:
            if fields.get("password", "") != fields.get("again", ""):
                raise InvalidParams("the two passwords differ: type the same password twice")
            password = accounts.passwords.hash(fields.get("password", ""), name)
        if accounts.people.create(name, invitation.generation, password, passkey) is None:
            raise WrongInvitation

    def _page(self, invitation: Invitation, key: str, problem: str, status: int = 200) -> Response:
        data = {"name": invitation.name, "has_account": invitation.has_account}
        response = render_answer(
            self._site,
            "invitation.html",
            "login",
            data,
            key=key,
            problem=problem,
            least=MIN_PASSWORD_CHARACTERS,
            passkeys=bool(passkey_host(request.host)),
        )
        response.status_code = status
        # The address holds the invitation. With `no-referrer`, the form would have the origin `null`.
        response.headers["Referrer-Policy"] = "same-origin"
        return response


def invitation_blueprint(site: Site, accounts: Accounts, browsers: Browsers) -> Blueprint:
    """The routes of `/invitation`."""
    views = _InvitationViews(site, accounts, browsers)
    pages = Blueprint("invitation", __name__)
    pages.before_request(lambda: check_sign_in(site.settings))
    pages.add_url_rule("/invitation", "show", views.show)
    pages.add_url_rule("/invitation/passkey", "challenge", views.challenge)
    pages.add_url_rule("/invitation", "accept", views.accept, methods=["POST"])
    return pages

"""`/oauth/authorize`: the page on which a person approves a client, and its answer.

The page names the client, where it gets its answer, the servers and what it may do. The form holds the whole request,
signed for this session, so that another page cannot send it and cannot change it. The page cannot be framed; its policy
allows the redirect to the address of the client only. A request with an error is shown to the person and not
redirected, so that the hub sends no browser to an address that a stranger registered.
Sources: RFC 6749, section 4.1.1; RFC 9700, sections 4.7, 4.11 and 4.16.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlencode, urlsplit

from authlib.oauth2 import OAuth2Error
from flask import Response, request
from itsdangerous import BadData

from patchbay.access.oauth.clients import Client
from patchbay.access.oauth.redirect_uris import is_loopback_uri, redirect_origin
from patchbay.access.oauth.resources import server_of
from patchbay.access.oauth.scopes import describe_scope, parse_scopes
from patchbay.access.people.accounts import Accounts
from patchbay.access.people.people import Session
from patchbay.access.timed_signatures import SHA256, timed_serializer
from patchbay.errors import InvalidParams, PatchbayError, Refused
from patchbay.web.oauth.authorization_server import HubServer, approve
from patchbay.web.oauth.requests import HubRequest, read_query, unique
from patchbay.web.operator.login import MAX_FORM_BYTES, read_form, redirect_to
from patchbay.web.people.browsers import Browsers, public_base_url
from patchbay.web.site.site import Site
from patchbay.wire.requests.security import CSP

CONSENT_SECONDS = 600
"""Seconds that a person has to decide."""


class Consent:
    """The pages of `/oauth/authorize`."""

    def __init__(self, site: Site, accounts: Accounts, browsers: Browsers) -> None:
        self._site = site
        self._accounts = accounts
        self._browsers = browsers
        self._signer = timed_serializer(accounts.key, "consent", accounts.people.now, SHA256)

    def show(self) -> Response:
        """GET /oauth/authorize: ask the person; a browser without a session signs in first."""
        values = read_query()
        found = self._browsers.find()
        if found is None:
            return redirect_to("/login?" + urlencode({"next": f"/oauth/authorize?{urlencode(values)}"}))
        person, session = found
        server, asked = self._server(), HubRequest("GET", values, request.headers)
        try:
            server.get_consent_grant(asked, end_user=person)
            parse_scopes(asked.scope)
        except OAuth2Error as problem:
            return self._wrong(problem.description or problem.error)
        except PatchbayError as problem:
            return self._wrong(problem.message)
        return self._page(server, asked, values, session)

    def decide(self) -> Response:
        """POST /oauth/authorize with `csrf`, `request` and `decision` (allow, deny)."""
        fields = read_form(MAX_FORM_BYTES)
        person, session = self._browsers.check_form(fields)
        if fields.get("decision") not in ("allow", "deny"):
            raise InvalidParams("decision: expected allow or deny")
        values = self._read(fields.get("request", ""), session)
        server, asked = self._server(), HubRequest("GET", values, request.headers)
        try:
            grant = server.get_consent_grant(asked, end_user=person)
        except OAuth2Error as problem:
            return self._wrong(problem.description or problem.error)
        return approve(server, asked, grant, person if fields["decision"] == "allow" else None)

    def _server(self) -> HubServer:
        return HubServer(self._accounts, public_base_url(), fetches=True)

    def _page(self, server: HubServer, asked: HubRequest, values: Mapping[str, str], session: Session) -> Response:
        client: Client = asked.client.client
        redirect = values.get("redirect_uri") or client.redirect_uris[0]
        resource = server.parse_resource(values.get("resource"))
        shown = describe_request(client, redirect, resource, server.issuer, parse_scopes(asked.scope))
        signed = self._signer.dumps([session.id, list(values.items())])
        page = self._site.html(
            "consent.html", "account", **shown, csrf=self._browsers.csrf(session), signed=signed, person=self._name()
        )
        # The answer to the form is a redirect, which a browser follows only to the addresses in this policy.
        page.headers["Content-Security-Policy"] = CSP.replace(
            "form-action 'self'", f"form-action 'self' {redirect_origin(redirect)}"
        )
        page.headers["X-Frame-Options"] = "DENY"
        page.headers["Referrer-Policy"] = "same-origin"
        return page

    def _name(self) -> str:
        return self._browsers.require()[0].principal.name

    def _read(self, signed: str, session: Session) -> dict[str, str]:
        try:
            owner, pairs = self._signer.loads(signed, max_age=CONSENT_SECONDS)
        except (BadData, ValueError, TypeError) as problem:
            raise Refused("this question is too old or was changed: start the sign-in of the client again") from problem
        if not hmac.compare_digest(str(owner).encode(), session.id.encode()):
            raise Refused("this question belongs to another session: start the sign-in of the client again")
        return unique((name, value) for name, value in pairs)

    def _wrong(self, message: str) -> Response:
        response = self._site.html("consent_error.html", "account", problem=message)
        response.status_code = 400
        return response


def describe_request(
    client: Client, redirect: str, resource: str, issuer: str, scopes: tuple[str, ...]
) -> dict[str, Any]:
    """What the page shows of a request."""
    return {
        "client": client.name,
        "client_host": client.host,
        "client_id": client.id if client.has_document else "",
        "redirect_host": urlsplit(redirect).netloc,
        "is_local": is_loopback_uri(redirect),
        "server": server_of(resource, issuer),
        "resource": resource,
        "whole_hub": resource == issuer,
        "may": [describe_scope(scope) for scope in scopes],
    }

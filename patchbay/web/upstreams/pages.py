"""`/upstreams`: the accounts of the caller at mounted servers that want the credentials of each caller.

A page connects and disconnects; it shows no token and no key. The authorization server of the mounted server sends the
browser back to `/upstreams/callback/<issuer>`; `/upstreams/client/<issuer>` is the hub's client metadata document.
Sources: RFC 6749, section 4.1; draft-ietf-oauth-client-id-metadata-document.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from flask import Blueprint, Response, request

from patchbay.access.upstreams.sign_ins import Applicant, UpstreamSignIns, client_document
from patchbay.access.upstreams.token_store import ConnectedAccount, TokenStore
from patchbay.caller_accounts.credentials import KEY, PAGE, Upstream
from patchbay.caller_accounts.fields import BASIC, CredentialField
from patchbay.catalogue.servers.server import Server
from patchbay.client.errors import Unreachable
from patchbay.errors import ConfigError, InvalidParams, PatchbayError, UnknownServer
from patchbay.web.operator.login import MAX_FORM_BYTES, read_form, redirect_to
from patchbay.web.people.browsers import public_base_url
from patchbay.web.site.answers import json_answer, render_answer, wants_json
from patchbay.web.site.site import Site
from patchbay.web.upstreams.applicants import Applicants

CONNECT, DISCONNECT = "connect", "disconnect"

VALUE_PREFIX = "value."
"""How the names of the fields with what the caller enters begin in a form."""

MAX_REASON_CHARACTERS = 300


class NotByCaller(InvalidParams):
    """The server does not use the credentials of callers."""

    status = 404

    def __init__(self, name: str) -> None:
        super().__init__(f"no account can be connected at {name[:128]!r}: it does not use the credentials of callers")


class _UpstreamsViews:
    def __init__(self, site: Site, applicants: Applicants, tokens: TokenStore, sign_ins: UpstreamSignIns) -> None:
        self._site = site
        self._applicants = applicants
        self._tokens = tokens
        self._sign_ins = sign_ins

    def show_all(self) -> Response:
        """GET /upstreams: the servers that want an account of each caller, and the connected accounts."""
        applicant = self._applicants.find(request.args.get("for", ""))
        if applicant is None:
            return self._to_login()
        accounts = {each.key: each for each in self._tokens.list_accounts(applicant.principal)}
        rows = []
        for server in self._site.visible.all():
            try:
                upstream = _upstream_of(server)
            except (NotByCaller, ConfigError):
                continue
            rows.append(_describe(upstream, accounts.pop(upstream.key, None)))
        data = {
            "principal": applicant.principal,
            "servers": rows,
            "others": [describe_account(each) for each in accounts.values()],
        }
        return render_answer(self._site, "upstreams.html", "account", data, csrf=self._applicants.csrf())

    def show(self, server: str) -> Response:
        """GET /upstreams/<server>: the caller's account at this server."""
        applicant = self._applicants.find(request.args.get("for", ""))
        if applicant is None:
            return self._to_login()
        return self._page(_upstream_of(self._site.visible.find(server)), applicant)

    def change(self, server: str) -> Response:
        """POST /upstreams/<server> with `csrf`, `do` (connect, disconnect), `for`, and `id` to disconnect.

        `connect` has the entered values for a server that wants a key of the caller, under VALUE_PREFIX.

        Raises Refused, NotOperator, UnknownServer, InvalidParams.
        """
        fields = read_form(MAX_FORM_BYTES)
        self._applicants.check_form(fields)
        applicant = self._applicants.require(fields.get("for", ""))
        if fields.get("do") == DISCONNECT:
            self._disconnect(server, applicant, fields.get("id", ""))
            if wants_json(request.headers.get("Accept", "")):
                return self._page(_upstream_of(self._site.visible.find(server)), applicant)
            return redirect_to(PAGE + _for(applicant))
        if fields.get("do") != CONNECT:
            raise InvalidParams(f"do: expected {CONNECT} or {DISCONNECT}")
        upstream = _upstream_of(self._site.visible.find(server))
        if upstream.way == KEY:
            return self._store(upstream, applicant, fields)
        secret = self._applicants.remember_browser(cookie := Response())
        applicant = self._applicants.require(fields.get("for", ""), secret)
        try:
            url = self._sign_ins.begin(upstream, applicant)
        except (Unreachable, ConfigError) as problem:
            return self._page(upstream, applicant, problem=problem)
        response = self._page(upstream, applicant, url=url)
        response.headers.extend([("Set-Cookie", value) for value in cookie.headers.getlist("Set-Cookie")])
        return response

    def _store(self, upstream: Upstream, applicant: Applicant, fields: dict[str, str]) -> Response:
        """Keep what the caller entered for a server."""
        values = {
            name.removeprefix(VALUE_PREFIX): text for name, text in fields.items() if name.startswith(VALUE_PREFIX)
        }
        try:
            self._tokens.connect_values(applicant.principal, upstream, values, applicant.by)
        except InvalidParams as problem:
            if wants_json(request.headers.get("Accept", "")):
                raise
            return self._page(upstream, applicant, problem=problem)
        if wants_json(request.headers.get("Accept", "")):
            return self._page(upstream, applicant)
        return redirect_to(f"{PAGE}/{quote(upstream.server, safe='')}{_for(applicant)}")

    def answer(self, issuer: str) -> Response:
        """GET /upstreams/callback/<issuer> with `code`, `state` and `iss`, or `error`.

        Raises Refused for an answer that belongs to no sign-in of this browser.
        """
        state, code = request.args.get("state", ""), request.args.get("code", "")
        principal, by = self._sign_ins.find_principal(state)
        applicant = self._applicants.answering(by, principal)
        upstream = _upstream_of(self._site.catalogue.find(self._sign_ins.find_server(state)))
        try:
            if not code:
                self._sign_ins.cancel(upstream, state, applicant)
                why = request.args.get("error_description") or request.args.get("error") or "it gave no code"
                raise Unreachable(f"the sign-in was refused: {why[:MAX_REASON_CHARACTERS]}")
            self._sign_ins.finish(upstream, state, applicant, issuer, code, request.args.get("iss"))
        except Unreachable as problem:
            response = self._page(upstream, applicant, problem=problem, is_answer=True)
        else:
            response = self._page(upstream, applicant, is_answer=True)
        self._applicants.forget_browser(response)
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def client(self, issuer: str) -> Response:
        """GET /upstreams/client/<issuer>: the hub's client metadata document."""
        if len(issuer) != 16 or not set(issuer) <= set("0123456789abcdef"):
            raise InvalidParams("expected the key of an issuer: 16 hexadecimal digits")
        return json_answer(client_document(public_base_url(), issuer))

    def _disconnect(self, server: str, applicant: Applicant, id: str) -> None:
        """Delete the tokens, and revoke them where the server is still mounted."""
        gone = self._tokens.disconnect(applicant.principal, id)
        if gone is not None:
            revoke_account(self._site, self._tokens, gone)

    def _to_login(self) -> Response:
        if wants_json(request.headers.get("Accept", "")):
            self._applicants.require("")
        return redirect_to("/login?" + urlencode({"next": request.full_path.rstrip("?")}))

    def _page(
        self,
        upstream: Upstream,
        applicant: Applicant,
        problem: PatchbayError | None = None,
        url: str = "",
        is_answer: bool = False,
    ) -> Response:
        """The page of one server. With `url` it leads to the authorization server; an answer has no forms."""
        account = self._tokens.find_account(applicant.principal, upstream.key)
        data = _describe(upstream, account) | {"principal": applicant.principal}
        response = render_answer(
            self._site,
            "upstream.html",
            "account",
            data,
            by=applicant.by,
            problem=problem.message if problem else "",
            url=url,
            url_host=urlsplit(url).netloc,
            is_answer=is_answer,
            csrf="" if is_answer else self._applicants.csrf(),
        )
        response.status_code = problem.status if problem else 200
        response.headers["Cache-Control"] = "no-store"
        return response


def revoke_account(site: Site, tokens: TokenStore, gone: ConnectedAccount) -> None:
    """End the tokens of a disconnected account at its authorization server, if the server is still mounted."""
    try:
        upstream = _upstream_of(site.catalogue.find(gone.server))
    except (UnknownServer, NotByCaller, ConfigError):
        return
    if upstream.key == gone.key:
        tokens.revoke(upstream, gone)


def _upstream_of(server: Server) -> Upstream:
    """Return where callers of a server sign in. Raises NotByCaller, ConfigError."""
    if server.standing is None or server.standing.accounts is None or not server.standing.accounts.way.is_stored:
        raise NotByCaller(server.name)
    return server.standing.accounts.upstream


def _describe(upstream: Upstream, account: ConnectedAccount | None) -> dict[str, Any]:
    return {
        "server": upstream.server,
        "label": upstream.label,
        "account": None if account is None else describe_account(account),
        "page": f"{PAGE}/{quote(upstream.server, safe='')}",
        "way": upstream.way,
        "fields": [each for one in upstream.fields for each in _describe_field(one)],
    }


def _describe_field(one: CredentialField) -> list[dict[str, Any]]:
    """What a caller enters for a field of a configuration: one value, or a user name and a password."""
    if one.format != BASIC:
        return [{"name": one.name, "label": one.label, "is_secret": True}]
    user, password = one.inputs
    return [
        {"name": user, "label": f"{one.label}: user name", "is_secret": False},
        {"name": password, "label": f"{one.label}: password", "is_secret": True},
    ]


def describe_account(account: ConnectedAccount) -> dict[str, Any]:
    """A connected account as a JSON object, without its tokens and values."""
    return {
        "id": account.id,
        "server": account.server,
        "label": account.label,
        "issuer": account.client.issuer if account.client is not None else "",
        "scope": account.tokens.scope if account.tokens is not None else "",
        "at": account.at,
        "by": account.by,
        "refused_at": account.refused_at,
    }


def _for(applicant: Applicant) -> str:
    return "" if applicant.principal == applicant.by else "?" + urlencode({"for": applicant.principal})


def upstreams_blueprint(site: Site, applicants: Applicants, tokens: TokenStore, sign_ins: UpstreamSignIns) -> Blueprint:
    """The routes below `/upstreams`."""
    views = _UpstreamsViews(site, applicants, tokens, sign_ins)
    pages = Blueprint("upstreams", __name__)
    pages.add_url_rule(PAGE, "show_all", views.show_all)
    pages.add_url_rule(f"{PAGE}/<server>", "show", views.show)
    pages.add_url_rule(f"{PAGE}/<server>", "change", views.change, methods=["POST"])
    pages.add_url_rule(f"{PAGE}/callback/<issuer>", "answer", views.answer)
    pages.add_url_rule(f"{PAGE}/client/<issuer>", "client", views.client)
    return pages

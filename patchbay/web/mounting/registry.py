"""`/registry`: find servers of registries, see what one of them would run, and mount it.

The commands `patchbay search` and `add` use the same functions. The hub asks the registries of its settings only when
an administrator looks. Texts of a registry are those of strangers: a form shows what will run, and what it sends names
exactly that, so that an entry that changed meanwhile is shown again and not mounted.
Source: modelcontextprotocol/registry, docs/reference/api/openapi.yaml.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from flask import Blueprint, Response, request

from patchbay.catalogue.operating.proposed_lines import propose_lines
from patchbay.catalogue.operating.registry_search import search_registry
from patchbay.catalogue.watching.mount_files import check_name_is_free, write_mount
from patchbay.cid import cid_of
from patchbay.client.public_hosts import resolve_public_address
from patchbay.client.registry.choices import choose_way, describe_run, find_server, own_name
from patchbay.client.registry.lookup import Registries
from patchbay.client.registry.offers import Offer, RegisteredServer, RegistryInput, make_fields, variable_of
from patchbay.errors import ConfigError, InvalidParams, PatchbayError, Refused
from patchbay.kinds.program_proposals import Proposal
from patchbay.settings import Settings
from patchbay.web.mounting.line_boxes import add_ticked_lines, check_lines_shown, list_lines
from patchbay.web.operator.changes import explain_refusal, follow_folder, read_change_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.site.answers import render_answer, wants_json
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site
from patchbay.wire.requests.authentication import is_local_request
from patchbay.wire.requests.wsgi import request_of

PAGE = "/registry"
VALUE = "value."
"""Beginning of the form fields that have the value of a variable or header."""

MAX_WORD_CHARACTERS = 200


class _RegistryViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._registries = Registries.of(site.settings)

    def show(self) -> Response:
        """GET /registry: the search; with `q` what it finds, with `name` and `way` one server. Raises NotOperator."""
        self._site.operators.check_operator()
        word, name = _argument("q"), _argument("name")
        try:
            if name:
                server = find_server(self._registries, name)
                return self._page(word, server=server, offer=choose_way(server, _argument("way")))
            return self._page(word, found=search_registry(self._registries, word) if word else [])
        except PatchbayError as problem:
            return self._page(word, problem=problem)

    def add(self) -> Response:
        """POST /registry: mount a server: `name`, `way`, `as`, `seen`, `value.NAME` for each value, `replace`.

        `seen` is the digest of what the form showed, `shown-N` a line that it offered, and `allow-N` one that was
        ticked. What cannot be mounted is shown again with the reason (422), also when values name other lines.
        Raises Refused, NotOperator, ReadOnly, and InvalidParams for a reader of JSON.
        """
        form = read_change_form(self._site)
        values = _read_values(form)
        server, offer = None, None
        try:
            server = find_server(self._registries, form.get("name", "").strip()[:MAX_WORD_CHARACTERS])
            offer = choose_way(server, form.get("way"))
            if form.get("seen") != _digest(offer):
                raise Refused("the registry has changed this server since the page showed it; look at it again")
            return redirect_to(self._mount(server, offer, values, form))
        except PatchbayError as problem:
            if wants_json(request.headers.get("Accept", "")):
                more = (
                    f"; {problem.data['lines']}" if isinstance(problem.data, dict) and "lines" in problem.data else ""
                )
                raise InvalidParams(problem.message + more) from problem
            response = self._page("", server=server, offer=offer, problem=problem, form=form)
            response.status_code = 422
            return response

    def _mount(self, server: RegisteredServer, offer: Offer, values: Mapping[str, str], form: Mapping[str, str]) -> str:
        """Write the mount and return the path of its page. Raises ConfigError, InvalidParams."""
        fields = make_fields(offer, values) | ({"title": server.title} if server.title else {})
        check_lines_shown(_propose(offer, values, self._site.settings)["lines"], form)
        fields = add_ticked_lines(fields, form)
        if offer.kind == "remote" and not is_local_request(request_of(request.environ)):
            parts = urlsplit(offer.url)
            resolve_public_address(parts.hostname or "", parts.port or 443, "the URL of the registry")
        name, catalogue = form.get("as", "").strip() or own_name(server), self._site.catalogue
        is_replaced = bool(form.get("replace"))
        folder = self._site.settings.servers
        check_name_is_free(folder, name, {one.name for one in catalogue.all()}, is_replaced)
        write_mount(folder, name, fields, is_replaced, "the box on the page")
        follow_folder(self._site)
        return page_path(name)

    def _page(
        self,
        word: str,
        *,
        found: list[RegisteredServer] | None = None,
        server: RegisteredServer | None = None,
        offer: Offer | None = None,
        problem: PatchbayError | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Response:
        form = form or {}
        shown = None
        if server is not None and offer is not None:
            shown = _describe_offer(server, offer) | _propose(offer, _read_values(form), self._site.settings)
        data = {
            "q": word,
            "problem": problem.message if problem else None,
            "servers": [_summary(one) for one in found or ()],
            "server": shown,
        }
        typed = _keep_typed(offer, form) if offer else {}
        response = render_answer(
            self._site,
            "registry.html",
            "registry",
            data,
            registry=self._registries.label,
            refusal=explain_refusal(self._site),
            typed=typed,
            is_replaced=bool(form.get("replace")),
            own=form.get("as", "") or (own_name(server) if server else ""),
            csrf=self._site.operators.csrf(),
        )
        response.headers["Cache-Control"] = "no-store"
        return response


def _argument(name: str) -> str:
    text = request.args.get(name, "").strip()
    if len(text) > MAX_WORD_CHARACTERS:
        raise InvalidParams(f"{name} must have at most {MAX_WORD_CHARACTERS} characters; it has {len(text)}")
    return text


def _read_values(form: Mapping[str, str]) -> dict[str, str]:
    return {key.removeprefix(VALUE): text for key, text in form.items() if key.startswith(VALUE) and text.strip()}


def _keep_typed(offer: Offer, form: Mapping[str, str]) -> dict[str, str]:
    """Return the values that a form had, to show them again; a secret that was written out is not sent back."""
    typed = {one.name: form.get(VALUE + one.name, "") for one in offer.wanted}
    return {one.name: typed[one.name] for one in offer.wanted if not one.is_secret or "${" in typed[one.name]}


def _propose(offer: Offer, values: Mapping[str, str], settings: Settings) -> dict[str, Any]:
    """Return the lines that the program needs with these values, for the boxes of the form.

    What only the registry names is offered without a tick: it is the text of a stranger.
    """
    try:
        fields = make_fields(offer, values)
    except ConfigError:  # a value is missing; the form asks for it
        fields = {"kind": "upstream", "address": offer.address}
    said = {one.name: one.default for one in offer.wanted}
    own = [name for name, value in values.items() if value != said.get(name)]
    try:
        proposal = propose_lines(fields, settings, Path.cwd())
        ticked = propose_lines(fields, settings, Path.cwd(), own)
    except ConfigError:  # no mount can have it; `write_mount` says why
        proposal = ticked = Proposal({})
    return {"lines": list_lines(proposal, ticked), "refused": list(proposal.refused), "hint": proposal.hint}


def _digest(offer: Offer) -> str:
    """Return the CID of the whole content of an offer."""
    return str(cid_of(repr(offer).encode()))


def _summary(server: RegisteredServer) -> dict[str, Any]:
    return {
        "name": server.name,
        "title": server.title,
        "version": server.version,
        "description": server.description,
        "ways": sorted({one.kind for one in server.offers}),
        "others": list(server.others),
        "warning": server.warning,
    }


def _describe_offer(server: RegisteredServer, offer: Offer) -> dict[str, Any]:
    """A server with the offer that will run, as a JSON object."""
    return _summary(server) | {
        "way": offer.kind,
        "runs": describe_run(offer),
        "address": offer.address,
        "seen": _digest(offer),
        "wanted": [_describe_wanted(one) for one in offer.wanted],
    }


def _describe_wanted(one: RegistryInput) -> dict[str, Any]:
    return {
        "name": one.name,
        "description": one.description,
        "required": one.is_required,
        "secret": one.is_secret,
        "value": f"${{{variable_of(one.name)}}}" if one.is_secret else one.fixed or one.default,
        "fixed": one.fixed is not None and not one.is_secret,
        "choices": list(one.choices),
    }


def registry_blueprint(site: Site) -> Blueprint:
    """The route `/registry`."""
    views = _RegistryViews(site)
    pages = Blueprint("registry", __name__)
    pages.add_url_rule(PAGE, "show", views.show)
    pages.add_url_rule(PAGE, "add", views.add, methods=["POST"])
    return pages

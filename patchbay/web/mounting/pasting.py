"""`/servers/new/pasted`: a pasted configuration is answered with what would run, and one button mounts it.

Only the operator may paste, and each form needs the token of a page of this hub: a paste names programs, and another
site must not have one started. The first form changes nothing. The second one carries the definition that the page
showed, which has references in place of secrets, so that exactly this is mounted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import orjson
from flask import Blueprint, Response, request

from patchbay.access.secrets.folder import open_secrets_folder
from patchbay.access.secrets.records import Secrets
from patchbay.catalogue.operating.named_sources import check_sources
from patchbay.catalogue.operating.pasted_servers import (
    WHERE,
    PastedServer,
    describe_rights,
    describe_run,
    read_pasted_api,
    read_pasted_servers,
)
from patchbay.catalogue.operating.proposed_lines import propose_lines
from patchbay.catalogue.watching.mount_files import check_mount, check_name_is_free, is_mount, write_mount
from patchbay.client.addresses.targets import Http
from patchbay.client.profiles.lookup import find_homes
from patchbay.client.public_hosts import resolve_public_address
from patchbay.errors import ConfigError, InvalidParams, PatchbayError
from patchbay.kind import configured_kind
from patchbay.kinds.openapi.configuration import parse_fields
from patchbay.kinds.program_places import program_places
from patchbay.kinds.program_proposals import Proposal
from patchbay.settings import Settings, whole_environment
from patchbay.upstreams.configuration import OPENAPI, UPSTREAM, mount_of
from patchbay.web.mounting.line_boxes import add_ticked_lines, list_lines
from patchbay.web.operator.changes import explain_refusal, follow_folder, read_draft_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.operator.secrets import PAGE as SECRETS_PAGE
from patchbay.web.site.answers import render_answer, wants_json
from patchbay.web.site.data import page_path
from patchbay.web.site.site import Site
from patchbay.wire.requests.authentication import is_local_request
from patchbay.wire.requests.wsgi import request_of

PAGE = "/servers/new/pasted"
MAX_NAME_CHARACTERS = 128
_URL = re.compile(r"https?:", re.IGNORECASE)


class _PastingViews:
    def __init__(self, site: Site, secrets: Secrets) -> None:
        self._site = site
        self._secrets = secrets

    def post(self) -> Response:
        """POST /servers/new/pasted: with `text`, show its servers; with `document`, the HTTP API that it describes.

        With `definition` and `name`, mount one. A text that cannot be read is shown again with the reason (422). Raises
        Refused, ReadOnly, and InvalidParams for a reader of JSON.
        """
        fields, refused = read_draft_form(self._site)
        if refused is not None:
            return self._page(fields, problem=refused.message, status=refused.status)
        try:
            if "definition" in fields:
                return redirect_to(self._mount(fields))
            if "document" in fields:
                return self._page(fields, self._find_sources([read_pasted_api(fields["document"])]))
            return self._page(fields, self._find_sources(read_pasted_servers(fields.get("text", ""))))
        except PatchbayError as problem:
            if wants_json(request.headers.get("Accept", "")):
                raise InvalidParams(problem.message) from problem
            return self._page(fields, _kept(fields), problem.message, 422)

    def _find_sources(self, found: list[PastedServer]) -> list[PastedServer]:
        """Return the servers, with the problem of each that names a file or a profile that does not exist."""
        return [replace(one, fields={}, problem=reason) if (reason := self._check(one)) else one for one in found]

    def _check(self, one: PastedServer) -> str:
        """Return why a server finds nothing at the place that it names on this machine; "" for every other server."""
        try:
            self._check_sources(one.fields, WHERE)
        except ConfigError as problem:
            return f"at {problem.path}: {problem.expected}" if problem.path else problem.message
        return ""

    def _check_sources(self, fields: Mapping[str, Any], where: str) -> None:
        if fields:
            check_sources(fields, self._site.settings.servers, find_homes(Path.cwd(), whole_environment()), where)

    def _mount(self, fields: Mapping[str, str]) -> str:
        """Write the mount and return the path of its page. Raises ConfigError, InvalidParams."""
        definition, name = add_ticked_lines(_read_definition(fields), fields), fields.get("name", "").strip()
        if not is_local_request(request_of(request.environ)):
            check_public(definition)
        is_replaced = bool(fields.get("replace"))
        folder, taken = self._site.settings.servers, {one.name for one in self._site.catalogue.all()}
        check_name_is_free(folder, name, taken, is_replaced)
        check_mount(name, definition, "the definition")
        self._check_sources(definition, "the definition")
        write_mount(folder, name, definition, is_replaced, "the box on the page")
        follow_folder(self._site)
        return page_path(name)

    def _page(
        self,
        fields: Mapping[str, str],
        found: list[PastedServer] | None = None,
        problem: str | None = None,
        status: int = 200,
    ) -> Response:
        folder = self._site.settings.servers
        taken = {one.name for one in self._site.catalogue.all() if is_mount(folder / f"{one.name}.json")}
        secrets = {one.entry.name: one.entry.servers for one in self._secrets.all()} if found else {}
        response = render_answer(
            self._site,
            "paste.html",
            "servers",
            {
                "problem": problem,
                "servers": [_describe(one, taken, self._site.settings, secrets) for one in found or ()],
            },
            # A text that was read may hold secrets, and is not sent back.
            text=fields.get("text", fields.get("document", "")) if problem is not None else "",
            refusal=explain_refusal(self._site),
            csrf=self._site.operators.csrf(),
        )
        response.status_code = status
        response.headers["Cache-Control"] = "no-store"
        return response


def _kept(fields: Mapping[str, str]) -> list[PastedServer]:
    """Return the server of a form that was refused, to show it again with the name that was typed."""
    if "definition" not in fields:
        return []
    try:
        _read_definition(fields)
        found = read_pasted_servers(fields["definition"])
    except PatchbayError:
        return []
    return [replace(one, name=fields.get("name", "").strip()[:MAX_NAME_CHARACTERS]) for one in found]


def _read_definition(fields: Mapping[str, str]) -> dict[str, Any]:
    """Return the definition of a mount that a form carries. Raises InvalidParams."""
    try:
        definition = orjson.loads(fields["definition"])
    except orjson.JSONDecodeError as problem:
        raise InvalidParams(f"definition must be the JSON that the page showed: {problem}") from problem
    kind = configured_kind(definition) if isinstance(definition, dict) and "kind" in definition else None
    if kind is None or kind[0].name not in (UPSTREAM, OPENAPI):
        raise InvalidParams("definition must be that of a mount, as the page showed it")
    return dict(definition)


def check_public(definition: Mapping[str, Any]) -> None:
    """Refuse a URL at a private address: only an operator on the machine of the hub may mount one.

    A variable for a host has no address, and is refused too. Raises Unreachable, ConfigError.
    """
    if definition["kind"] == OPENAPI:
        urls = _list_api_urls(definition)
    else:
        reach = mount_of("", definition, "the definition").direct_reach
        urls = [reach.url] if isinstance(reach, Http) else []
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme.lower() == "https" else 80)
        resolve_public_address(parts.hostname or "", port, "the URL")


def _list_api_urls(definition: Mapping[str, Any]) -> list[str]:
    """Return the URLs of the definition of an HTTP API that the hub would ask. Raises ConfigError."""
    check_mount("name", definition, "the definition")
    credentials = [one for one in definition.get("credentials", {}).values() if isinstance(one, Mapping)]
    own = [parse_fields("", definition, "the definition")["document"], definition.get("base", "")]
    others = [str(value) for part in (definition.get("oauth", {}), *credentials) for value in part.values()]
    # The document and the base are URLs also where a variable has their beginning.
    return [text for text in (*own, *others) if _URL.match(text)] + [text for text in own if text.startswith("${")]


def _describe(
    one: PastedServer, taken: set[str], settings: Settings, secrets: Mapping[str, tuple[str, ...]]
) -> dict[str, Any]:
    """A pasted server as a JSON object. `secrets` are those of the hub, with the servers that each is for."""
    folder = open_secrets_folder(settings.secrets_dir)
    known = {*whole_environment(), *(name for name in one.variables if folder is not None and folder.has(name))}
    proposal = propose_lines(one.fields, settings, Path.cwd()) if one.fields else Proposal({})
    return {
        "name": one.name,
        "problem": one.problem or None,
        "runs": describe_run(one.fields) if one.fields else "",
        "rights": describe_rights(one.fields, one.name, program_places(settings)) if one.fields else "",
        "lines": list_lines(proposal),
        "refused": list(proposal.refused),
        "hint": proposal.hint,
        "definition": orjson.dumps(one.fields, option=orjson.OPT_INDENT_2).decode() if one.fields else "",
        "unused": [{"name": name, "reason": reason} for name, reason in one.unused.items()],
        "variables": [
            {
                "name": name,
                "set": _is_set(name, one.name, known, secrets),
                "dropped": name in one.dropped,
                "store": f"{SECRETS_PAGE}?{urlencode({'name': name, 'servers': one.name})}",
            }
            for name in one.variables
        ],
        "taken": one.name in taken,
    }


def _is_set(name: str, server: str, known: Set[str], secrets: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether a server of this name would get a value for a variable.

    A secret comes before the `known` files and variables of the environment.
    """
    return (not secrets[name] or server in secrets[name]) if name in secrets else name in known


def pasting_blueprint(site: Site, secrets: Secrets) -> Blueprint:
    """The route `/servers/new/pasted`."""
    pages = Blueprint("pasting", __name__)
    pages.add_url_rule(PAGE, "post", _PastingViews(site, secrets).post, methods=["POST"])
    return pages

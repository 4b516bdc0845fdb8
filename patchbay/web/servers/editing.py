"""The editor for servers: it shows a preview of the definition; the code runs only after it is saved.

A preview needs the same right as saving, because a preview that runs code is an attack (CVE-2026-42271). A broken
definition is saved only on explicit request, and never as a new server. An error never loses the typed text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response, request

from patchbay.catalogue.building.previews import Preview, preview
from patchbay.catalogue.operating.new_servers import PYTHON_SAMPLE, SHELL_SAMPLE, write_configuration
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers.server import Server
from patchbay.errors import ConfigError, InvalidParams, Refused, StaleUpdate, UnknownServer
from patchbay.kind import CONFIGURATION_KIND, DEFAULT_KIND, kind_named
from patchbay.kinds.discovery import MAX_DEFINITION_BYTES
from patchbay.web.operator.changes import (
    explain_refusal,
    find_author,
    follow_folder,
    format_reason,
    read_change_form,
    read_draft_form,
)
from patchbay.web.operator.login import redirect_to
from patchbay.web.rendering.content_kinds import detect_definition_kind
from patchbay.web.rendering.highlighting import excerpt
from patchbay.web.servers.mcp import definition_text, find_shown_server
from patchbay.web.servers.server import describe_impact
from patchbay.web.site.answers import render_answer
from patchbay.web.site.data import describe_tool, page_path
from patchbay.web.site.site import Site
from patchbay.wire.requests.authentication import is_local_request
from patchbay.wire.requests.wsgi import request_of

STATIC_SAMPLE = """{
  "kind": "static",
  "description": "Describe the server in one sentence.",
  "resources": {
    "hours": {"uri": "shop://hours", "mimeType": "text/plain", "text": "Monday to Friday, 9 to 17.", "description": "When the shop is open."}
  },
  "prompts": {
    "plan": {
      "description": "Plan a visit.",
      "arguments": [{"name": "day", "required": true}],
      "messages": [{"content": "Plan a visit on {{day}}."}]
    }
  }
}
"""  # noqa: E501
"""A definition with texts and prompts, without code."""

SAMPLES = {
    "python": (DEFAULT_KIND, PYTHON_SAMPLE),
    "shell": ("shell", SHELL_SAMPLE),
    "static": (CONFIGURATION_KIND, STATIC_SAMPLE),
}
"""Kinds of new servers that the editor writes: the kind of the definition, and its sample."""

MAX_DETAILED_TOOLS = 50
"""Tools of a preview with their arguments; the other tools are listed by name."""


@dataclass(frozen=True, slots=True)
class DefinitionDraft:
    """A definition in the editor. `base` is the CID of the original definition, None for a new server."""

    name: str
    kind: str
    text: str
    base: str | None = None
    current: Server | None = None
    fields: dict[str, str] = field(default_factory=dict)


class _EditingViews:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._saving = ServerEditor(self._store, site.settings.servers)

    def new(self) -> Response:
        """GET /servers/new: the editor with a sample of the `kind` python, shell or static."""
        kind, sample = SAMPLES.get(request.args.get("kind", ""), SAMPLES["python"])
        return self._page(DefinitionDraft("", kind, sample))

    def post_folder(self) -> Response:
        """POST /servers/new/documents with `name` and `root`: serve the documents of a folder.

        Only an operator on the machine of the hub can do this, because the server shows the files of that folder.
        Raises Refused, ReadOnly, InvalidParams.
        """
        fields = read_change_form(self._site)
        name, root = fields.get("name", "").strip(), fields.get("root", "").strip()
        if not is_local_request(request_of(request.environ)):
            raise Refused("only an operator on the machine of the hub can serve a folder of it")
        if not root.startswith(("/", "~/")):
            raise InvalidParams(f"root must be the path of a folder, /... or ~/...; it is {root!r:.200}")
        try:
            write_configuration(self._site.settings.servers, name, {"kind": "documents", "root": root})
        except ConfigError as problem:
            raise InvalidParams(problem.message) from problem
        follow_folder(self._site)
        return redirect_to(page_path(name))

    def edit(self, name: str) -> Response:
        """GET /servers/<name>/edit. Raises UnknownServer, and Refused for a definition that is not text."""
        return self._page(self._existing(name))

    def post_new(self) -> Response:
        """POST /servers/new with `action` check or save."""
        fields, refused = read_draft_form(self._site)
        return self._act(_new_draft(fields.get("name", "").strip(), fields), refused)

    def post_edit(self, name: str) -> Response:
        """POST /servers/<name>/edit with `action` check or save."""
        fields, refused = read_draft_form(self._site)
        try:
            found = self._existing(name)
        except UnknownServer as problem:
            gone = f"{problem.message}. Your text is kept below; saving it makes a new server"
            return self._page(_new_draft(name, fields), gone, problem.status, with_preview=False)
        base = fields.get("base") or found.base
        return self._act(
            DefinitionDraft(found.name, found.kind, fields.get("source", ""), base, found.current, fields), refused
        )

    def _existing(self, name: str) -> DefinitionDraft:
        found, _ = find_shown_server(self._site, name)
        if not self._site.visible.shows_source(found.name):
            raise UnknownServer(f"there is no server {name[:128]!r} here")
        text = definition_text(self._store, found)
        if text is None:
            raise Refused(f"the definition of {name[:128]} is not text: a page cannot edit it")
        return DefinitionDraft(found.name, found.kind, text, found.definition, found)

    def _act(self, draft: DefinitionDraft, refused: Refused | None) -> Response:
        if refused is not None:
            # A sender without the right to save gets no preview.
            kept = f"{refused.message}. Your text is kept below"
            again = (
                "press the button again"
                if self._site.operators.lenient_proof().is_operator
                else "log in in another tab first"
            )
            return self._page(draft, f"{kept}: {again}", refused.status, with_preview=False)
        if draft.fields.get("action") != "save":
            return self._page(draft)
        source = draft.text.encode("utf-8", "replace")
        found_preview = self._preview(draft)
        if not found_preview.is_valid and (draft.current is None or not draft.fields.get("anyway")):
            return self._page(draft, problem="The definition was not saved. The preview shows the error.", status=422)
        why = format_reason(
            draft.fields.get("why", ""), f"{'edited' if draft.current else 'made'} {draft.name} on a page"
        )
        try:
            self._saving.definition(draft.name, draft.kind, source, draft.base, find_author(self._site), why)
        except (StaleUpdate, InvalidParams, Refused) as problem:
            return self._page(draft, problem=problem.message, status=problem.status)
        self._site.catalogue.refresh()
        return redirect_to(f"/servers/{quote(draft.name, safe='')}")

    def _preview(self, draft: DefinitionDraft) -> Preview:
        source = draft.text.encode("utf-8", "replace")
        connections = self._site.catalogue.connections
        return preview(draft.name, draft.kind, source, self._store.blobs, draft.current, connections)

    def _page(
        self, draft: DefinitionDraft, problem: str | None = None, status: int = 200, with_preview: bool = True
    ) -> Response:
        found_preview = self._preview(draft) if with_preview else None
        response = render_answer(
            self._site,
            "edit.html",
            "servers",
            {"name": draft.name, "kind": draft.kind, "source": draft.text, "problem": problem},
            draft=draft,
            label=kind_named(draft.kind).title,
            # The kind of a new server follows its text.
            language=kind_named(draft.kind).language if draft.current else "",
            largest=MAX_DEFINITION_BYTES,
            preview=_preview_values(draft, found_preview) if found_preview else None,
            change=describe_impact(draft.current, found_preview.server)
            if found_preview and draft.current and found_preview.server and not found_preview.is_unread
            else None,
            refusal=explain_refusal(self._site) if with_preview else None,
            csrf=self._site.operators.csrf(),
        )
        response.status_code = status
        return response


def _new_draft(name: str, fields: dict[str, str]) -> DefinitionDraft:
    text = fields.get("source", "")
    return DefinitionDraft(name, detect_definition_kind(text), text, fields=fields)


def _preview_values(draft: DefinitionDraft, found_preview: Preview) -> dict[str, Any]:
    """A preview as plain values; `excerpt` holds the lines around the wrong line."""
    server = found_preview.server
    tools = list(server.tools.values()) if server else []
    line = found_preview.fault.line if found_preview.fault else None
    return {
        # An empty name is not an error yet.
        "naming": found_preview.naming if draft.name else None,
        "fault": found_preview.fault,
        "excerpt": excerpt(draft.text, kind_named(draft.kind).language, line) if line else [],
        "kind": draft.kind,
        "is_unread": found_preview.is_unread,
        "tools": [describe_tool(server.name, one) for one in tools[:MAX_DETAILED_TOOLS]] if server else [],
        "more": [one.name for one in tools[MAX_DETAILED_TOOLS:]],
        "others": [*server.resources.values(), *server.templates.values(), *server.prompts.values()] if server else [],
        "problems": server.problems if server else (),
        "description": server.description if server else "",
    }


def editing_blueprint(site: Site) -> Blueprint:
    """The routes `/servers/new` and `/servers/<name>/edit`."""
    views = _EditingViews(site)
    pages = Blueprint("editing", __name__)
    pages.add_url_rule("/servers/new", "new", views.new)
    pages.add_url_rule("/servers/new", "post_new", views.post_new, methods=["POST"])
    pages.add_url_rule("/servers/new/documents", "post_folder", views.post_folder, methods=["POST"])
    pages.add_url_rule("/servers/<name>/edit", "edit", views.edit)
    pages.add_url_rule("/servers/<name>/edit", "post_edit", views.post_edit, methods=["POST"])
    return pages

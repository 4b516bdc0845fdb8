"""Writing a server on a page: what it would list is shown while it is written; nothing runs until it is saved.

Rules: looking takes the same right as saving; a definition that is broken is saved only by somebody who says so, and
never as a new server; what was typed is never lost to an error.
Sources: CVE-2026-42271 (a preview that ran); DESIGN section 5; THREATS 1.4; VWR-22.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from flask import Blueprint, Response

from patchbay.catalogue.previews import Preview, preview
from patchbay.catalogue.saving import ServerEditor
from patchbay.catalogue.servers import Server
from patchbay.errors import InvalidParams, Refused, StaleUpdate, UnknownServer
from patchbay.kind import DEFAULT_KIND, kind_named
from patchbay.kinds.discovery import MAX_DEFINITION_BYTES, detect_kind
from patchbay.web.operator.changes import WHO, reason, typed, why_not
from patchbay.web.operator.login import seen_elsewhere
from patchbay.web.pages.answers import render_answer
from patchbay.web.pages.data import tool
from patchbay.web.pages.mcp import find_shown_server
from patchbay.web.pages.server import definition_text, meaning
from patchbay.web.rendering.highlighting import highlighted
from patchbay.web.site import Site

SAMPLE = '''"""What this server is for, in one sentence."""


def greet(name: str, loudly: bool = False) -> str:
    """Greet somebody.

    Args:
        name: Who is greeted.
        loudly: Whether to shout.
    """
    greeting = f"Hello {name}"
    return greeting.upper() if loudly else greeting
'''

LISTED = 50
"""Tools of a preview that are shown with their arguments; of the rest, only the names."""

AROUND = 2
"""Lines that are shown before and after one that is wrong."""


@dataclass(frozen=True, slots=True)
class DefinitionDraft:
    """What somebody is writing: `base` is the definition it started from, None for a new server."""

    name: str
    kind: str
    text: str
    base: str | None = None
    current: Server | None = None
    fields: dict[str, str] = field(default_factory=dict)


class _Views:
    def __init__(self, site: Site) -> None:
        self._site = site
        self._store = site.catalogue.store
        self._saving = ServerEditor(self._store, site.settings.servers)

    def new(self) -> Response:
        return self._page(DefinitionDraft("", DEFAULT_KIND, SAMPLE))

    def edit(self, name: str) -> Response:
        """Raises UnknownServer, Refused for a definition that is no text."""
        return self._page(self._existing(name))

    def post_new(self) -> Response:
        """POST /servers/new: `action` check or save."""
        fields, refused = typed(self._site)
        return self._act(_new(fields.get("name", "").strip(), fields), refused)

    def post_edit(self, name: str) -> Response:
        """POST /servers/<name>/edit: the same."""
        fields, refused = typed(self._site)
        try:
            found = self._existing(name)
        except UnknownServer as problem:
            gone = f"{problem.message}. What you wrote is still here; to save it makes a new server"
            return self._page(_new(name, fields), gone, problem.status, looked=False)
        base = fields.get("base") or found.base
        return self._act(
            DefinitionDraft(found.name, found.kind, fields.get("source", ""), base, found.current, fields), refused
        )

    def _existing(self, name: str) -> DefinitionDraft:
        found, _ = find_shown_server(self._site, name)
        text = definition_text(self._store, found)
        if text is None:
            raise Refused(f"the definition of {name[:128]} is no text that could be changed on a page")
        return DefinitionDraft(found.name, found.kind, text, found.definition, found)

    def _act(self, draft: DefinitionDraft, refused: Refused | None) -> Response:
        if refused is not None:
            # Whoever may not save may not look either: the text comes back as it was.
            kept = f"{refused.message}. What you wrote is still here"
            again = "press the button again" if self._site.operators.shown().operator else "log in in another tab first"
            return self._page(draft, f"{kept}: {again}", refused.status, looked=False)
        if draft.fields.get("action") != "save":
            return self._page(draft)
        source = draft.text.encode("utf-8", "replace")
        seen = preview(draft.name, draft.kind, source, self._store.blobs, draft.current)
        if not seen.is_valid and (draft.current is None or not draft.fields.get("anyway")):
            return self._page(draft, problem="It was not saved: see what is wrong with it.", status=422)
        why = reason(draft.fields.get("why", ""), f"{'edited' if draft.current else 'made'} {draft.name} on a page")
        try:
            self._saving.definition(draft.name, draft.kind, source, draft.base, WHO, why)
        except (StaleUpdate, InvalidParams, Refused) as problem:
            return self._page(draft, problem=problem.message, status=problem.status)
        self._site.catalogue.refresh()
        return seen_elsewhere(f"/servers/{quote(draft.name, safe='')}")

    def _page(
        self, draft: DefinitionDraft, problem: str | None = None, status: int = 200, looked: bool = True
    ) -> Response:
        source = draft.text.encode("utf-8", "replace")
        seen = preview(draft.name, draft.kind, source, self._store.blobs, draft.current) if looked else None
        response = render_answer(
            self._site,
            "edit.html",
            "servers",
            {"name": draft.name, "kind": draft.kind, "source": draft.text, "problem": problem},
            draft=draft,
            label=kind_named(draft.kind).title,
            largest=MAX_DEFINITION_BYTES,
            seen=_told(draft, seen) if seen else None,
            change=meaning(draft.current, seen.server) if seen and draft.current and seen.server else None,
            sealed=why_not(self._site) if looked else None,
            csrf=self._site.operators.csrf(),
        )
        response.status_code = status
        return response


def _new(name: str, fields: dict[str, str]) -> DefinitionDraft:
    text = fields.get("source", "")
    return DefinitionDraft(name, detect_kind(text.encode()), text, fields=fields)


def _told(draft: DefinitionDraft, seen: Preview) -> dict[str, Any]:
    """A preview as plain values; `excerpt` are the lines around the one that is wrong."""
    server = seen.server
    tools = list(server.tools.values()) if server else []
    line = seen.fault.line if seen.fault else None
    return {
        # An empty name is not yet a mistake.
        "naming": seen.naming if draft.name else None,
        "fault": seen.fault,
        "excerpt": excerpt(draft.text, kind_named(draft.kind).language, line) if line else [],
        "kind": draft.kind,
        "tools": [tool(server.name, one) for one in tools[:LISTED]] if server else [],
        "more": [one.name for one in tools[LISTED:]],
        "others": [*server.resources.values(), *server.templates.values(), *server.prompts.values()] if server else [],
        "problems": server.problems if server else (),
        "description": server.description if server else "",
    }


def excerpt(text: str, language: str, line: int) -> list[dict[str, Any]]:
    """The lines around one, coloured, each with its number and whether it is that one."""
    lines = highlighted(text, language)
    first = max(1, line - AROUND)
    return [
        {"number": number, "pieces": lines[number - 1], "wrong": number == line}
        for number in range(first, min(len(lines), line + AROUND) + 1)
    ]


def editing_blueprint(site: Site) -> Blueprint:
    """`/servers/new` and `/servers/<name>/edit`."""
    views = _Views(site)
    pages = Blueprint("editing", __name__)
    pages.add_url_rule("/servers/new", "new", views.new)
    pages.add_url_rule("/servers/new", "post_new", views.post_new, methods=["POST"])
    pages.add_url_rule("/servers/<name>/edit", "edit", views.edit)
    pages.add_url_rule("/servers/<name>/edit", "post_edit", views.post_edit, methods=["POST"])
    return pages

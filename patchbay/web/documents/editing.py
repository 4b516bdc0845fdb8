"""The editor for documents: a form with a preview. A document that changed meanwhile is not overwritten.

An error never loses the typed text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, Response, request
from markupsafe import Markup
from werkzeug.exceptions import NotFound

from patchbay.documents import front_matter
from patchbay.documents.errors import BadPath, DocumentExists, Overwritten
from patchbay.errors import PatchbayError, Refused, ToolFailed
from patchbay.web.documents.libraries import ShownLibrary, find_library
from patchbay.web.documents.reader import make_linker
from patchbay.web.documents.rendering import page_of, render_document
from patchbay.web.operator.changes import explain_refusal, read_draft_form
from patchbay.web.operator.login import redirect_to
from patchbay.web.rendering.time_limits import TookTooLong
from patchbay.web.site.answers import render_answer
from patchbay.web.site.site import Site

SAMPLE_DOCUMENT = "---\ntitle: A new document\n---\n\n# A new document\n"


@dataclass(frozen=True, slots=True)
class DocumentDraft:
    """A document in the editor. `base` is the CID of the text that the user began with; empty for a new document."""

    path: str
    text: str
    base: str = ""


class _DocumentEditingViews:
    def __init__(self, site: Site) -> None:
        self._site = site

    def edit(self, name: str) -> Response:
        """GET /servers/<name>/documents/edit: the document `path`, or its earlier `version`; without, a new one."""
        shown = self._writable(name)
        path = request.args.get("path", "")
        if not path:
            folder = request.args.get("folder", "").strip("/")
            return self._page(shown, DocumentDraft(f"{folder}/new.md".lstrip("/"), SAMPLE_DOCUMENT))
        present = shown.read(path)
        version = request.args.get("version", "")
        text = shown.read(path, version).text if version else present.text
        return self._page(shown, DocumentDraft(path, text, present.row.cid))

    def post_edit(self, name: str) -> Response:
        """POST /servers/<name>/documents/edit with `action` check or save."""
        shown = self._writable(name)
        fields, refused = read_draft_form(self._site)
        draft = DocumentDraft(fields.get("path", "").strip(), fields.get("text", ""), fields.get("base", ""))
        if refused is not None:
            return self._page(shown, draft, refused, "Your text is kept below")
        if fields.get("action") != "save":
            return self._page(shown, draft)
        try:
            self._save(shown, draft)
        except Overwritten as problem:
            return self._page(shown, draft, problem, "Open the document in another tab, and add your change there")
        except DocumentExists as problem:
            return self._page(shown, draft, problem, "Choose another path, or edit that document")
        except ToolFailed as problem:
            return self._page(shown, draft, problem)
        return redirect_to(page_of(shown.server, draft.path))

    def _writable(self, name: str) -> ShownLibrary:
        shown = find_library(self._site, name)
        if shown.library.readonly:
            raise NotFound(f"the library of {shown.server} is read-only: edit its files with another program")
        return shown

    def _save(self, shown: ShownLibrary, draft: DocumentDraft) -> None:
        if draft.base:
            shown.library.replace(shown.check(draft.path), draft.text, draft.base)
        elif not shown.may_read(draft.path):
            raise BadPath(f"{draft.path[:200]!r} is in no collection of {shown.server}: choose a path like its others")
        else:
            shown.library.add(draft.path, draft.text)

    def _page(
        self, shown: ShownLibrary, draft: DocumentDraft, problem: PatchbayError | None = None, advice: str = ""
    ) -> Response:
        parts = front_matter.split(draft.text)
        known = {row.key for row in shown.rows()}
        data: dict[str, Any] = {
            "server": shown.server,
            "path": draft.path,
            "text": draft.text,
            "problem": ". ".join(filter(None, (problem.message, advice))) if problem else parts.problem or None,
        }
        response = render_answer(
            self._site,
            "document_edit.html",
            "servers",
            data,
            draft=draft,
            html=_preview(parts.body, make_linker(request.script_root, shown.server, draft.path, known)),
            refusal=explain_refusal(self._site) if problem is None else None,
            csrf=self._site.operators.csrf(),
        )
        response.status_code = _status_of(problem)
        return response


def _preview(body: str, link_to: Callable[[str, str], str | None]) -> Markup | None:
    """Render the text of a draft; None when it takes too long. The form with the typed text is shown all the same."""
    try:
        return render_document(body, link_to)
    except TookTooLong:
        return None


def _status_of(problem: PatchbayError | None) -> int:
    if problem is None:
        return 200
    if isinstance(problem, (Overwritten, DocumentExists)):
        return 409
    return problem.status if isinstance(problem, Refused) else 422


def document_editing_blueprint(site: Site) -> Blueprint:
    """The route `/servers/<name>/documents/edit`."""
    views = _DocumentEditingViews(site)
    pages = Blueprint("document_editing", __name__)
    pages.add_url_rule("/servers/<name>/documents/edit", "edit", views.edit)
    pages.add_url_rule("/servers/<name>/documents/edit", "post_edit", views.post_edit, methods=["POST"])
    return pages

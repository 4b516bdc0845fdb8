"""Shared parts of pages that change the hub: the rights of the reader, the author of a change, the fields of forms.

Every change calls `read_change_form` first, which asks `Operators`. A page with a form shows beforehand why the hub
would refuse the change.
"""

from __future__ import annotations

from collections.abc import Callable

from flask import request

from patchbay.access.principals import LOCAL_ID, OPERATOR_ID
from patchbay.errors import Refused
from patchbay.web.operator.login import MAX_FIELDS, read_form
from patchbay.web.site.site import Site
from patchbay.wire.replies.accept import wants_html
from patchbay.wire.requests.security import check_same_origin

MAX_REASON_CHARACTERS = 500
"""Characters of a stored reason, at most."""


def find_author(site: Site) -> str:
    """The author of a change that a page causes: the id of the principal, `operator` in personal and open mode."""
    sender = site.sender
    return OPERATOR_ID if sender.id == LOCAL_ID else sender.id


def follow_folder(site: Site) -> None:
    """Bring this process up to date after a change of the servers folder or of the store, before the next page.

    Other processes follow by themselves.
    """
    site.catalogue.read_folder()
    site.catalogue.refresh()


def read_change_form(site: Site) -> dict[str, str]:
    """Read a form that changes something; check the rights of its sender. Line ends become LF.

    Raises Refused (401, 403), ReadOnly (405), Unsupported (415).
    """
    fields = read_form(site.settings.body_limit)
    site.operators.check_change(fields)
    return _normalize_line_ends(fields)


def read_draft_form(
    site: Site,
    most: int = MAX_FIELDS,
    find_toolset: Callable[[dict[str, str]], str] = lambda fields: "",
    read: Callable[[int, int], dict[str, str]] = read_form,
) -> tuple[dict[str, str], Refused | None]:
    """Read a form with a text that the user typed; also return the refusal, so that the page can show the text again.

    A session may have ended, or the page may be too old. The refusal is returned only when the browser proves that the
    form is a page of this hub, because another site could have sent it; otherwise it is raised. `most` is the number of
    fields at most. `find_toolset` returns the name of the toolset that a form changes, which others than the operator
    may change too; empty for every other change. `read` reads the form with these limits of bytes and of fields.
    """
    check_same_origin(request.headers)
    fields = read(site.settings.body_limit, most)
    try:
        site.operators.check_toolset_change(find_toolset(fields), fields)
    except Refused as problem:
        proven = {"Sec-Fetch-Site", "Origin"} & {name for name, _ in request.headers}
        if not (proven and wants_html(request.headers.get("Accept", ""))):
            raise
        return _normalize_line_ends(fields), problem
    return _normalize_line_ends(fields), None


def _normalize_line_ends(fields: dict[str, str]) -> dict[str, str]:
    return {name: value.replace("\r\n", "\n").replace("\r", "\n") for name, value in fields.items()}


def explain_refusal(site: Site, toolset: str = "") -> str | None:
    """The reason why the current reader cannot change anything, or the toolset of a name, as a sentence; None when the
    reader can.
    """
    if site.catalogue.readonly:
        return "This hub was booted read-only: you cannot change anything."
    if site.operators.toolset_proof(toolset).is_operator:
        return None
    return "Only the operator can make changes. Log in first."


def format_reason(given: str, otherwise: str) -> str:
    """The reason for the history, on one line."""
    return " ".join(given.split())[:MAX_REASON_CHARACTERS] or otherwise

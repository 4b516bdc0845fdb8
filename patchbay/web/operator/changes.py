"""Pages that change what the hub serves: who may, in whose name, and the fields of the form that says so.

Rules: every change asks `sent` first, which asks the operator's one place; a page that shows a form says beforehand
why it would be refused.
Sources: THREATS 1.4; DESIGN section 11.
"""

from __future__ import annotations

from flask import request

from patchbay.errors import Refused
from patchbay.web.operator.login import form_fields
from patchbay.web.site import Site, wants_html
from patchbay.wire.security import check_same_origin

WHO = "operator"
"""Who the history names for a change that was made on a page."""

LONGEST_WHY = 500
"""Characters of a reason that are kept."""


def sent(site: Site) -> dict[str, str]:
    """The fields of a form that may change something, line ends as LF.

    Raises Refused (401, 403) or ReadOnly (405) for whoever may not, Unsupported (415) for what is no form.
    """
    fields = form_fields(site.settings.body_limit)
    site.operators.check_change(fields)
    return _with_lines(fields)


def typed(site: Site) -> tuple[dict[str, str], Refused | None]:
    """The same for a form that somebody wrote a text into, and why they may change nothing now: a session that has
    ended, or a page that is too old, must not cost them the text.

    Only where a browser proves that the form is one of the hub's own pages, for whoever reads this page may be
    somebody who never wrote it; all else is raised as `sent` does.
    """
    check_same_origin(request.headers)
    fields = form_fields(site.settings.body_limit)
    try:
        site.operators.check_change(fields)
    except Refused as problem:
        proven = {"Sec-Fetch-Site", "Origin"} & {name for name, _ in request.headers}
        if not (proven and wants_html(request.headers.get("Accept", ""))):
            raise
        return _with_lines(fields), problem
    return _with_lines(fields), None


def _with_lines(fields: dict[str, str]) -> dict[str, str]:
    return {name: value.replace("\r\n", "\n").replace("\r", "\n") for name, value in fields.items()}


def why_not(site: Site) -> str | None:
    """Why the reader of the present page could change nothing, as a sentence; None for one who could."""
    if site.catalogue.readonly:
        return "This hub was booted read-only: nothing can be changed here."
    if site.operators.shown().operator:
        return None
    return "Only the operator can change something here. Log in first."


def reason(given: str, otherwise: str) -> str:
    """The reason that the history shows, on one line."""
    return " ".join(given.split())[:LONGEST_WHY] or otherwise

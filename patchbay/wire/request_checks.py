"""Whether the head of a request can be trusted to mean one thing, as far as the web server shows it.

The web server joins a header that is given twice by a comma, takes an underscore in a name for a hyphen, and drops the
authority of an absolute-form target; docs/operation.md says what a proxy has to do about what cannot be seen here.
Sources: RFC 9110 sections 5.3 and 7.2; RFC 9112 section 3.2; Fetch Metadata; issue 12 item 11; THREATS 0.2 (M12).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.errors import InvalidRequest, PatchbayError, Refused

OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site of requests that the hub's own pages or a person caused."""

_UNDERSCORED = ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH")
"""Names in the environ that only a header with an underscore in its name can have."""


def check_head(environ: Mapping[str, Any]) -> PatchbayError | None:
    """Why a request is refused before anything else is looked at, 400 or 403; None for one that is fine."""
    if environ["PATH_INFO"][:1] != "/":
        return InvalidRequest("the request names no path: expected one that begins with a slash")
    if _UNDERSCORED[0] in environ or _UNDERSCORED[1] in environ:
        return InvalidRequest("a header has an underscore in its name: expected Content-Type and Content-Length")
    if "," in environ.get("HTTP_HOST", ""):
        return InvalidRequest("the request has several Host headers: expected exactly one")
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is None or site in OWN_SITES or "HTTP_ORIGIN" in environ or _navigates(environ):
        return None
    return Refused(f"a page of another site caused this request (Sec-Fetch-Site: {site[:40]}); use the hub's own pages")


def _navigates(environ: Mapping[str, Any]) -> bool:
    """Whether a person followed a link of another site to a page."""
    return environ.get("HTTP_SEC_FETCH_MODE") == "navigate" and environ["REQUEST_METHOD"] in ("GET", "HEAD")

"""Checks that the head of a request is unambiguous, as far as the web server shows it.

The front of `patchbay serve` sees the head as it was sent. Other web servers join a repeated header with a comma, treat
an underscore in a name as a hyphen, and drop the authority of an absolute-form target; docs/operation.md lists the
checks that a proxy must make itself.
Sources: RFC 9110 sections 5.3 and 7.2; RFC 9112 section 3.2; https://www.w3.org/TR/fetch-metadata/.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.errors import InvalidRequest, PatchbayError, Refused
from patchbay.wire.requests.rsgi import AMBIGUOUS

OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for requests from the hub's own pages or from the user directly."""

CHECKED = "patchbay.checked"
"""Name in the environ of a request whose head, `Host` and `Origin` are checked already."""

_UNDERSCORED = ("HTTP_CONTENT_TYPE", "HTTP_CONTENT_LENGTH")
"""Names in the environ that only a header with an underscore in its name gets."""


def check_head(environ: Mapping[str, Any]) -> PatchbayError | None:
    """Return the error for a request with an ambiguous head, 400 or 403; None for a good one."""
    if environ["PATH_INFO"][:1] != "/":
        return InvalidRequest("the request names no path: expected one that begins with a slash")
    if AMBIGUOUS in environ:
        return InvalidRequest(environ[AMBIGUOUS])
    if _UNDERSCORED[0] in environ or _UNDERSCORED[1] in environ:
        return InvalidRequest("a header has an underscore in its name: expected Content-Type and Content-Length")
    if "," in environ.get("HTTP_HOST", ""):
        return InvalidRequest("the request has several Host headers: expected exactly one")
    site = environ.get("HTTP_SEC_FETCH_SITE")
    if site is None or site in OWN_SITES or "HTTP_ORIGIN" in environ or _navigates(environ):
        return None
    return Refused(f"a page of another site caused this request (Sec-Fetch-Site: {site[:40]}); use the hub's own pages")


def _navigates(environ: Mapping[str, Any]) -> bool:
    """Whether the request follows a link from another site to a page."""
    return environ.get("HTTP_SEC_FETCH_MODE") == "navigate" and environ["REQUEST_METHOD"] in ("GET", "HEAD")

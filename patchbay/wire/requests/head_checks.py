"""Checks that the head of a request is unambiguous, as far as the web server shows it.

The front of `patchbay serve` sees the head as it was sent. Other web servers join a repeated header with a comma, treat
an underscore in a name as a hyphen, and drop the authority of an absolute-form target; docs/operation.md lists the
checks that a proxy must make itself.
Sources: RFC 9110 sections 5.3 and 7.2; RFC 9112 section 3.2; https://www.w3.org/TR/fetch-metadata/.
"""

from __future__ import annotations

from patchbay.errors import InvalidRequest, PatchbayError, Refused
from patchbay.wire.requests.request import Request

OWN_SITES = ("same-origin", "none")
"""Values of Sec-Fetch-Site for requests from the hub's own pages or from the user directly."""


def check_head(request: Request) -> PatchbayError | None:
    """Return the error for a request with an ambiguous head, 400 or 403; None for a good one."""
    if request.path[:1] != "/":
        return InvalidRequest("the request names no path: expected one that begins with a slash")
    if request.fault:
        return InvalidRequest(request.fault)
    headers = request.headers
    if "," in headers.get("host", ""):
        return InvalidRequest("the request has several Host headers: expected exactly one")
    site = headers.get("sec-fetch-site")
    if site is None or site in OWN_SITES or "origin" in headers or _navigates(request):
        return None
    return Refused(f"a page of another site caused this request (Sec-Fetch-Site: {site[:40]}); use the hub's own pages")


def _navigates(request: Request) -> bool:
    """Whether the request follows a link from another site to a page."""
    return request.headers.get("sec-fetch-mode") == "navigate" and request.method in ("GET", "HEAD")

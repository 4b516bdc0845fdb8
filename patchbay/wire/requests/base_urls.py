"""The URL of the hub as the client of a request used it."""

from __future__ import annotations

from patchbay.access.tokens.audiences import get_origin
from patchbay.wire.requests.request import Request


def find_client_origin(request: Request) -> str:
    """Return scheme, host and port of the URL that the client used. `Host` has to be checked before.

    A proxy with TLS names the scheme in `X-Forwarded-Proto`. A sender that writes this header itself changes only what
    it gets to see: the host stays one of `allowed_hosts`.
    """
    forwarded = request.headers.get("x-forwarded-proto", "").partition(",")[0].strip().lower()
    scheme = forwarded if forwarded in ("http", "https") else request.scheme
    return get_origin(f"{scheme}://{request.headers.get('host', '')}")


def find_base_url(request: Request) -> str:
    """Return the URL of the hub that the client used: its origin, and its prefix, without a slash at the end."""
    return find_client_origin(request) + request.prefix

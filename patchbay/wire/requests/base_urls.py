"""The URL of the hub as the client of a request used it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.access.tokens.audiences import get_origin
from patchbay.hosts.path_prefix import prefix_of

Environ = Mapping[str, Any]


def find_client_origin(environ: Environ) -> str:
    """Return scheme, host and port of the URL that the client used. `Host` has to be checked before.

    A proxy with TLS names the scheme in `X-Forwarded-Proto`. A sender that writes this header itself changes only what
    it gets to see: the host stays one of `allowed_hosts`.
    """
    forwarded = environ.get("HTTP_X_FORWARDED_PROTO", "").partition(",")[0].strip().lower()
    scheme = forwarded if forwarded in ("http", "https") else environ["wsgi.url_scheme"]
    return get_origin(f"{scheme}://{environ.get('HTTP_HOST', '')}")


def find_base_url(environ: Environ) -> str:
    """Return the URL of the hub that the client used: its origin, and its prefix, without a slash at the end."""
    return find_client_origin(environ) + prefix_of(environ)

"""The certificates that the HTTP clients of this process trust, loaded once: that takes longer than a request.

They are those of the system, or those that the variable `SSL_CERT_FILE` or `SSL_CERT_DIR` names.
"""

from __future__ import annotations

import ssl
from functools import lru_cache

import httpx2

from patchbay.settings import whole_environment


def load_certificates() -> ssl.SSLContext:
    """Return the context of all TLS connections of this process, for the present values of the two variables."""
    environ = whole_environment()
    return _load(environ.get("SSL_CERT_FILE"), environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=8)
def _load(file: str | None, folder: str | None) -> ssl.SSLContext:
    found = httpx2.create_ssl_context()  # reads the variables
    assert isinstance(found, ssl.SSLContext)
    return found

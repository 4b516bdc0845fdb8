"""Which redirect URIs a client may register, and which of them a request may use.

A registered URI is https, or http on the machine of the browser. A request names one of them, character for character;
only the port of a loopback address may be another one, because programs take a free port at each start.
Sources: RFC 6749, section 3.1.2; RFC 8252, sections 7.3 and 8.3; RFC 9700, sections 2.1 and 4.1.3.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import SplitResult, urlsplit

MAX_REDIRECT_URIS = 10
MAX_REDIRECT_CHARACTERS = 500

LOOPBACK_HOSTS = frozenset(("127.0.0.1", "::1", "localhost"))

_CHARACTERS = re.compile(r"[A-Za-z0-9._~:/?@!$&'()*+,;=%\[\]-]+", re.ASCII)
_HOST = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?", re.ASCII)
_NETLOC = re.compile(r"(?:\[::1\]|[A-Za-z0-9.-]+)(?::[1-9][0-9]{0,4})?", re.ASCII)


class BadRedirectUri(ValueError):
    """The redirect URI is not allowed; the message says what was expected."""


def check_redirect_uri(uri: object) -> None:
    """Check a redirect URI of a client. Raises BadRedirectUri."""
    if not isinstance(uri, str) or not 0 < len(uri) <= MAX_REDIRECT_CHARACTERS:
        raise BadRedirectUri(f"expected a string of at most {MAX_REDIRECT_CHARACTERS} characters")
    if not _CHARACTERS.fullmatch(uri):
        raise BadRedirectUri("expected a URI without a fragment, spaces, backslashes or other special characters")
    parts = _split(uri)
    if parts is None or not _NETLOC.fullmatch(parts.netloc):
        raise BadRedirectUri("expected a host, and a port where there is one, without a user name")
    host = parts.hostname or ""
    if host not in LOOPBACK_HOSTS and not _HOST.fullmatch(host):
        raise BadRedirectUri("expected a host name")
    if parts.scheme != "https" and not (parts.scheme == "http" and host in LOOPBACK_HOSTS):
        raise BadRedirectUri("expected https://, or http:// with 127.0.0.1, [::1] or localhost")
    if uri != uri.strip() or not uri.startswith(("https://", "http://")):
        raise BadRedirectUri("expected a scheme in lower case")


def is_registered(uri: str, registered: Iterable[str]) -> bool:
    """Whether a request may use a redirect URI, when the client has these."""
    try:
        check_redirect_uri(uri)
    except BadRedirectUri:
        return False
    return any(uri == known or _differs_by_loopback_port(uri, known) for known in registered)


def redirect_origin(uri: str) -> str:
    """Return scheme, host and port of a checked redirect URI."""
    parts = urlsplit(uri)
    return f"{parts.scheme}://{parts.netloc}"


def is_loopback_uri(uri: str) -> bool:
    """Whether a checked redirect URI leads to a program on the machine of the browser."""
    return urlsplit(uri).hostname in LOOPBACK_HOSTS


def _differs_by_loopback_port(uri: str, known: str) -> bool:
    asked, registered = _split(uri), _split(known)
    if asked is None or registered is None:
        return False
    return (
        registered.scheme == "http"
        and registered.hostname in LOOPBACK_HOSTS
        and asked.hostname == registered.hostname
        and uri.split("/", 3)[3:] == known.split("/", 3)[3:]
        and uri.startswith("http://")
        and "?" not in asked.netloc
    )


def _split(uri: str) -> SplitResult | None:
    try:
        parts = urlsplit(uri)
        if parts.port is not None and not 0 < parts.port < 65536:
            return None
    except ValueError:
        return None
    return parts

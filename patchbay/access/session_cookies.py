"""The names and paths of the cookies of the hub. Which cookie counts when there are several.

Over TLS the browser binds a cookie to its host (`__Host-`), which asks for the path `/`. A hub with a path prefix
shares its host with others, so that its cookies go to its own path only, with `__Secure-` in place of `__Host-`.
Source: RFC 6265bis, section 4.1.3 (`__Host-`, `__Secure-`), section 5.1.4 (paths: `/hub` covers `/hub/a`, not `/hubs`).
"""

from __future__ import annotations

from collections.abc import Mapping


def cookie_name(name: str, port: int, over_tls: bool, prefix: str = "") -> str:
    """The name of a cookie of a hub with this path prefix.

    Cookies ignore ports, so that the name has the port where TLS does not bind the host.
    """
    if not over_tls:
        return f"{name}-{port}"
    return f"__Secure-{name}" if prefix else f"__Host-{name}"


def cookie_path(prefix: str) -> str:
    """The path of every cookie of a hub with this path prefix."""
    return prefix or "/"


def session_cookie_name(port: int, over_tls: bool, prefix: str = "") -> str:
    """The name of the cookie with the session of a person."""
    return cookie_name("patchbay-person", port, over_tls, prefix)


def operator_cookie_name(port: int, over_tls: bool, prefix: str = "") -> str:
    """The name of the cookie with the session of the operator."""
    return cookie_name("patchbay", port, over_tls, prefix)


def find_session_cookie(cookies: Mapping[str, str], port: int, prefix: str = "") -> str:
    """Return the value of the one cookie that names a person's session; that of TLS comes first. Empty without one.

    Further cookies are not tried, so that one session has one value, also when its sender adds cookies.
    """
    names = (session_cookie_name(port, over_tls, prefix) for over_tls in (True, False))
    return next((value for name in names if (value := cookies.get(name, ""))), "")

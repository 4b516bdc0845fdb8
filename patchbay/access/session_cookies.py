"""The names of the cookies with sessions: of people, and of the operator. Which cookie counts when there are several.

Source: RFC 6265bis (`__Host-`).
"""

from __future__ import annotations

from collections.abc import Mapping


def session_cookie_name(port: int, over_tls: bool) -> str:
    """The name of the cookie. Cookies ignore ports, so that the name has the port where TLS does not bind the host."""
    return "__Host-patchbay-person" if over_tls else f"patchbay-person-{port}"


def operator_cookie_name(port: int, over_tls: bool) -> str:
    """The name of the cookie of the operator's session; it has the port for the same reason."""
    return "__Host-patchbay" if over_tls else f"patchbay-{port}"


def find_session_cookie(cookies: Mapping[str, str], port: int) -> str:
    """Return the value of the one cookie that names a person's session; that of TLS comes first. Empty without one.

    Further cookies are not tried, so that one session has one value, also when its sender adds cookies.
    """
    names = (session_cookie_name(port, over_tls) for over_tls in (True, False))
    return next((value for name in names if (value := cookies.get(name, ""))), "")

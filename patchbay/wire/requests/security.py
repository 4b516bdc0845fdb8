"""Protects the hub from other sites in a browser: Host, Origin, same-origin proof, and the headers of every answer.

The allow-lists are exact and compared after parsing; missing, empty and repeated values are refused. The checks are
pure functions of strings, so that every transport shares them and results can be cached.
Sources: MCP specification, basic/transports (security warning); https://fetch.spec.whatwg.org; https://www.w3.org/TR/CSP3/.
"""

from __future__ import annotations

import re
from functools import lru_cache

from werkzeug.datastructures import Headers

from patchbay.errors import Refused
from patchbay.hosts.names import Authority, authority, is_loopback
from patchbay.settings import Settings
from patchbay.text_cache import MAX_CACHED_CHARACTERS

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; media-src data:;"
    " connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The policy for pages of the hub: they load only the hub's own files."""

CSP_WITH_APPS = f"{CSP}; frame-src 'self'"
"""The policy for pages that show apps: the frame of an app is the only page of the hub that may be framed."""

SANDBOX_CSP = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'none'"
"""The policy for content from elsewhere (a blob, a tool's own page): it may run and load nothing."""

_ORIGIN = re.compile(r"(https?)://([^/?#@\s]+)", re.ASCII)
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Misdirected(Refused):
    """The request names a host that this hub does not answer for."""

    status = 421


def check_host_and_origin(host: str | None, origin: str | None, settings: Settings) -> None:
    """Check the `Host` and `Origin` headers of a request (None: not sent).

    Raises Misdirected (421) for a host that is not in `allowed_hosts`; an entry without a port allows every port.
    Raises Refused (403) for an origin that is not in `allowed_origins`, not on an allowed loopback name (any port), and
    not the host and port of the request.
    """
    is_short = len(host or "") + len(origin or "") <= MAX_CACHED_CHARACTERS
    allows_host = _host_allowed if is_short else _host_allowed.__wrapped__
    allows_origin = _origin_allowed if is_short else _origin_allowed.__wrapped__
    if not allows_host(host or "", settings.allowed_hosts):
        raise Misdirected(
            f"this hub does not answer for the host {(host or '')[:100]!r};"
            f" it answers for {', '.join(settings.allowed_hosts)} (setting allowed_hosts)"
        )
    if origin is not None and not allows_origin(origin, host or "", settings.allowed_hosts, settings.allowed_origins):
        raise Refused(f"requests from the origin {origin[:100]!r} are not allowed (setting allowed_origins)")


@lru_cache(maxsize=1024)
def _host_allowed(host: str, allowed: tuple[str, ...]) -> bool:
    here = authority(host)
    return here is not None and any(_covers(entry, here) for entry in allowed)


def _covers(entry: str, here: Authority) -> bool:
    wanted = authority(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
    return wanted is not None and wanted[0] == here[0] and wanted[1] in (None, here[1])


@lru_cache(maxsize=1024)
def _origin_allowed(origin: str, host: str, hosts: tuple[str, ...], origins: tuple[str, ...]) -> bool:
    if origin == "null":
        return False
    if origin.lower() in {entry.lower().rstrip("/") for entry in origins}:
        return True
    if same_authority(origin, host):
        return True
    found = _ORIGIN.fullmatch(origin.lower())
    there = authority(found[2]) if found else None
    return there is not None and is_loopback(there[0]) and any(_covers(entry, there) for entry in hosts)


def same_authority(origin: str, host: str) -> bool:
    """Whether an origin equals the host and port of a request (`Host`)."""
    found = _ORIGIN.fullmatch(origin.lower())
    there, here = authority(found[2]) if found else None, authority(host)
    if found is None or there is None or here is None:
        return False
    default = _DEFAULT_PORTS[found[1]]
    return (there[0], there[1] or default) == (here[0], here[1] or default)


def check_same_origin(headers: Headers) -> None:
    """Check that no other site caused a request that changes or runs something. Raises Refused (403).

    The proof is `Sec-Fetch-Site: same-origin` or `none`; without that header an `Origin` equal to `Host`; a request
    without both headers does not come from a browser.
    """
    site, origin = headers.get("Sec-Fetch-Site"), headers.get("Origin")
    if site is not None:
        proven = site in ("same-origin", "none")
    else:
        proven = origin is None or same_authority(origin, headers.get("Host", ""))
    if not proven:
        raise Refused(
            "this request changes or runs something and came from another site; send it from the hub's own pages"
        )

"""Names and addresses of hosts: how they are written, and which of them stay on this machine."""

from __future__ import annotations

import re
from ipaddress import ip_address

from patchbay.text_cache import cached_by_text

_AUTHORITY = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::([0-9]{1,5}))?", re.ASCII)

Authority = tuple[str, int | None]


@cached_by_text(1024)
def authority(text: str) -> Authority | None:
    """Return host name (lower case, IPv6 in brackets) and port of a text like `Host`; None for other text."""
    found = _AUTHORITY.fullmatch(text.lower()) if len(text) <= 255 else None
    if found is None:
        return None
    port = int(found[2]) if found[2] else None
    return None if port is not None and not 0 < port < 65536 else (found[1], port)


@cached_by_text(1024)
def is_loopback(host: str) -> bool:
    """Whether a host name or address, with or without brackets, stays on this machine."""
    name = host.strip("[]").lower()
    if name == "localhost":
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback_name(entry: str) -> bool:
    """Whether an entry of the setting `allowed_hosts` (a name or address, with or without a port) is loopback."""
    found = authority(f"[{entry}]" if entry.count(":") > 1 and not entry.startswith("[") else entry)
    return found is not None and is_loopback(found[0])

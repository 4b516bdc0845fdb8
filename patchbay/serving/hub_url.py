"""The URLs of the hub from its settings: for clients on the same machine, and for people elsewhere.

Their path is the path prefix of the hub; they have no slash at the end.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from patchbay.errors import ConfigError
from patchbay.hosts.names import is_loopback, is_loopback_name
from patchbay.hosts.path_prefix import choose_path_prefix
from patchbay.settings import Settings


def hub_url(settings: Settings) -> str:
    """Return the URL of the hub for clients on the same machine. Raises ConfigError for a wrong prefix."""
    return f"http://{authority(reachable(settings.host))}:{settings.port}{_find_prefix(settings)}"


def public_url(settings: Settings) -> str:
    """Return the URL of the hub for people elsewhere.

    That is the setting `public_url`. Without it, a hub that listens on loopback and has a name of another machine in
    `allowed_hosts` is behind a proxy that ends TLS; any other hub is reached where it listens. Raises ConfigError.
    """
    if settings.public_url:
        parts = urlsplit(settings.public_url)
        if parts.scheme not in ("http", "https") or not parts.hostname or "?" in settings.public_url or parts.fragment:
            wanted = "expected a URL such as https://hub.example or https://example.org/hub"
            raise ConfigError("public_url", "", f"{wanted}; got {settings.public_url!r}")
        return f"{parts.scheme}://{parts.netloc}{_find_prefix(settings)}"
    names = [name for name in settings.allowed_hosts if not is_loopback_name(name)]
    is_proxied = names and is_loopback(settings.host)
    return f"https://{names[0]}{_find_prefix(settings)}" if is_proxied else hub_url(settings)


def _find_prefix(settings: Settings) -> str:
    return choose_path_prefix(settings.path_prefix, settings.public_url)


def reachable(host: str) -> str:
    """Return an address to connect to, for an address to listen on."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def authority(host: str) -> str:
    """Return a host in the form for a URL."""
    return f"[{host}]" if ":" in host else host


def host_header(settings: Settings) -> str:
    """Return a `Host` that the hub accepts from clients on the same machine."""
    name = settings.allowed_hosts[0] if settings.allowed_hosts else authority(reachable(settings.host))
    return f"{name}:{settings.port}"


def hub_note(settings: Settings) -> dict[str, Any]:
    """Return what a running hub writes beside its lock: its addresses, its servers folder, its mode of access.

    Raises ConfigError for a wrong public URL.
    """
    return {
        "url": hub_url(settings),
        "public": public_url(settings),
        "host": host_header(settings),
        "servers": str(settings.servers),
        "access": settings.mode,
    }

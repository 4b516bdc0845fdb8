"""The URL of the hub for clients on the same machine, from the settings."""

from __future__ import annotations

from patchbay.settings import Settings


def hub_url(settings: Settings) -> str:
    """Return the URL of the hub for clients on the same machine, without a path."""
    return f"http://{authority(reachable(settings.host))}:{settings.port}"


def reachable(host: str) -> str:
    """Return an address to connect to, for an address to listen on."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def authority(host: str) -> str:
    """Return a host in the form for a URL."""
    return f"[{host}]" if ":" in host else host

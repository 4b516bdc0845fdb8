"""The URL of the hub for clients on the same machine, from the settings."""

from __future__ import annotations

from typing import Any

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


def host_header(settings: Settings) -> str:
    """Return a `Host` that the hub accepts from clients on the same machine."""
    name = settings.allowed_hosts[0] if settings.allowed_hosts else authority(reachable(settings.host))
    return f"{name}:{settings.port}"


def hub_note(settings: Settings) -> dict[str, Any]:
    """Return what a running hub writes beside its lock: where it listens, its servers folder, its mode of access."""
    return {
        "url": hub_url(settings),
        "host": host_header(settings),
        "servers": str(settings.servers),
        "access": settings.mode,
    }

"""Where this machine reaches the hub that the settings describe."""

from __future__ import annotations

from patchbay.settings import Settings


def hub_url(settings: Settings) -> str:
    """The URL under which this machine reaches the hub, without a path."""
    return f"http://{authority(reachable(settings.host))}:{settings.port}"


def reachable(host: str) -> str:
    """An address to connect to, for an address to listen on."""
    return {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(host, host)


def authority(host: str) -> str:
    """A host as it stands in a URL."""
    return f"[{host}]" if ":" in host else host

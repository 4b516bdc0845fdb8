"""The documents that web pages of every origin may read, where every reader gets the same.

They are read before a program connects, have no secrets, and change nothing. The check of `Host` stays.
"""

from __future__ import annotations

import re

from patchbay.settings import OPEN, Settings

REGISTRY_PATH = "/v0.1/servers"

_CARDS = re.compile(r"/\.well-known/ai-catalog\.json|/mcp(?:/[^/]+)?/server-card")


def is_registry(path: str) -> bool:
    """Whether a path is one of the registry's."""
    return path == REGISTRY_PATH or path.startswith(f"{REGISTRY_PATH}/")


def find_checked_origin(origin: str | None, method: str, path: str, settings: Settings) -> str | None:
    """Return the `Origin` of a request that has to be allowed; None without one, or where each one is."""
    return None if origin is None or _serves_every_origin(method, path, settings) else origin


def _serves_every_origin(method: str, path: str, settings: Settings) -> bool:
    """Whether web pages of every origin may send this request."""
    if method not in ("GET", "HEAD", "OPTIONS"):
        return False
    if is_registry(path):
        return settings.mode == OPEN or settings.registry_readers == "all"
    return settings.mode == OPEN and _CARDS.fullmatch(path) is not None

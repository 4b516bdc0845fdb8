"""The credential of the newest caller of a server, for reading its lists; for ways without accounts in the hub."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from patchbay.caller_accounts.credentials import CallerCredential
from patchbay.caller_accounts.way import WayContext
from patchbay.topics import UPSTREAM_SIGN_INS_CHANGED


@dataclass(frozen=True, slots=True)
class _Recent:
    """A credential. `expires` is Unix time in seconds, 0 for one without an end."""

    credential: CallerCredential
    expires: float


class RecentCaller:
    """The newest credential of any caller, until it expires or its caller may no longer use the server. Thread-safe."""

    def __init__(self, context: WayContext) -> None:
        self._context = context
        self._recent: _Recent | None = None
        self._lock = threading.Lock()

    def remember(self, credential: CallerCredential, expires: float) -> None:
        """Keep a credential until it expires; after a time without one, let the lists be read now."""
        with self._lock:
            is_first = self.find() is None
            self._recent = _Recent(credential, expires)
        if is_first and self._context.credentials is not None:
            self._context.credentials.bus.publish_here(UPSTREAM_SIGN_INS_CHANGED)

    def find(self) -> CallerCredential | None:
        """Return the newest credential; None without one that is still valid."""
        recent = self._recent
        if recent is None or (recent.expires and recent.expires <= time.time()):
            return None
        return recent.credential if recent.credential.may_continue() else None

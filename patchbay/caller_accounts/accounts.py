"""The credentials of callers at one mount: how each call gets one, and the calls that run with them now."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from patchbay.activation import Call
from patchbay.caller_accounts.credentials import PAGE, Upstream
from patchbay.caller_accounts.way import CredentialWay, Require
from patchbay.errors import PatchbayError


class CallersAccounts:
    """The credentials of callers at the mount `name`. Thread-safe."""

    def __init__(self, name: str, way: CredentialWay) -> None:
        self.way = way
        self._name = name
        self._running: dict[int, tuple[Call, Callable[[], str]]] = {}
        """The calls that run with a credential, and what names its present id, by their own identity."""
        self._lock = threading.Lock()

    @property
    def upstream(self) -> Upstream:
        """The server. Raises ConfigError for a missing profile or variable."""
        return self.way.upstream

    def require(self, call: Call, refused: str = "") -> Require:
        """Return the credential of a caller, who is asked for it first if needed. Raises ToolFailed, Unreachable."""
        return self.way.require(call, refused)

    def explain(self, call: Call) -> str:
        """Say what a caller does whose credential was refused."""
        return self.way.explain(call)

    @contextmanager
    def using(self, call: Call, get_id: Callable[[], str]) -> Iterator[None]:
        """Count a call as running with the credential with this id: it is cancelled when the credential ends."""
        with self._lock:
            self._running[id(call)] = call, get_id
        try:
            yield
        finally:
            with self._lock:
                self._running.pop(id(call), None)

    def end_outdated(self) -> None:
        """Cancel the running calls whose credential was disconnected, or whose caller was removed."""
        with self._lock:
            running = list(self._running.values())
        for call, get_id in running:
            if not self.is_current(call.principal, get_id()):
                call.cancelled.end(
                    f"your account at {self._name} was disconnected or replaced while it ran; the page"
                    f" {PAGE}/{self._name} of this hub shows your account"
                )

    def is_current(self, principal: str, id: str) -> bool:
        """Whether a credential may still be used; also while the server cannot be named."""
        try:
            return self.way.is_current(principal, id)
        except PatchbayError:  # a missing variable: nothing can be sent anyway
            return True

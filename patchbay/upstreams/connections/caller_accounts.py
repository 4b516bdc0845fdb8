"""The accounts of callers at one mounted server: whose token a connection sends.

Each call uses a connection of its own principal and sign-in (`call_connections.py`). The lists are read with the token
of the first principal that has connected an account; after a failure, with the token of the next one. Resources may
differ between callers, so that they are not part of the lists, and nothing subscribes to them.
"""

from __future__ import annotations

from dataclasses import replace
from threading import Event as Flag

from patchbay.client.auth.methods import SuppliedTokens
from patchbay.client.errors import SignInNeeded
from patchbay.config import FindVariables
from patchbay.topics import UPSTREAM_SIGN_INS_CHANGED
from patchbay.caller_accounts.credentials import CallerCredentials, CallersAccounts
from patchbay.upstreams.configuration import Mount
from patchbay.upstreams.connections.call_connections import Key
from patchbay.upstreams.connections.event_queue import EventQueue
from patchbay.upstreams.lists.snapshots import Snapshot

LOOK_SECONDS = 60.0
"""Seconds between two looks for a first sign-in, beside the messages about new ones."""

SIGNED_IN = "signed in"
"""An event of the mount: a principal has connected an account."""

RESOURCES = "resources/list"


class MountAccounts(CallersAccounts):
    """The accounts at one mount. `credentials` is None for a hub that keeps no tokens of callers."""

    def __init__(self, mount: Mount, find_variables: FindVariables, credentials: CallerCredentials | None) -> None:
        super().__init__(mount.name, lambda: mount.upstream(find_variables(mount.name)), credentials)

    def sign_in_of(self, key: Key) -> SuppliedTokens:
        """Return the tokens for a connection of a call. Raises SignInNeeded if that sign-in is over."""
        found = self.credentials.find(key.principal, self.upstream)
        if found is None or found.id != key.sign_in:
            raise SignInNeeded(f"the caller is not signed in at {self.upstream.label}")
        return SuppliedTokens(found.source)

    def has_principals(self) -> bool:
        """Whether a principal has connected an account."""
        return self._credentials is not None and bool(self._credentials.list_principals(self.upstream))

    def wait_for_principal(self, events: EventQueue, ending: Flag) -> None:
        """Wait until a principal has connected an account, or `ending` is set, which also puts an event."""
        if self._credentials is None:
            ending.wait()
            return
        with self._credentials.bus.subscribe([UPSTREAM_SIGN_INS_CHANGED]) as mailbox:
            while not ending.is_set() and not self.has_principals():
                mailbox.get(0)
                if mailbox.call_when_ready(lambda: events.put(SIGNED_IN)):
                    events.get_all(LOOK_SECONDS)

    def sign_in_for_lists(self, tries: int) -> SuppliedTokens:
        """Return the tokens for reading the lists: of the first principal, after failures of the next ones.

        Raises SignInNeeded without one.
        """
        upstream = self.upstream
        names = self.credentials.list_principals(upstream)
        found = self.credentials.find(names[tries % len(names)], upstream) if names else None
        if found is None:
            raise SignInNeeded(f"no caller has connected an account at {upstream.label}")
        return SuppliedTokens(found.source)


def without_resources(found: Snapshot) -> Snapshot:
    """Return lists without the resources, which may be those of one caller only."""
    lists = {method: entries for method, entries in found.lists.items() if method != RESOURCES}
    left_out = dict(found.left_out)
    if found.lists.get(RESOURCES):
        left_out[RESOURCES] = ["not listed: each caller may have other resources there"]
    capabilities = dict(found.capabilities)
    if "resources" in capabilities:
        capabilities["resources"] = {}
    return replace(found, lists=lists, left_out=left_out, capabilities=capabilities)

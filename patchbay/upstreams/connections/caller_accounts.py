"""The credentials of callers at one mounted server: which of them a connection uses.

Each call uses a connection of its own principal and credential (`call_connections.py`). The lists are read with the
credential of the first principal that has connected an account, after a failure with that of the next one; where the
way needs no caller for them, without one. Resources may differ between callers, so that they are not part of the lists,
and nothing subscribes to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from threading import Event as Flag

from patchbay.caller_accounts.accounts import CallersAccounts
from patchbay.caller_accounts.credentials import MAX_PRINCIPALS, CallerCredential, CallerCredentials, digest_account
from patchbay.caller_accounts.way import WayContext
from patchbay.caller_accounts.ways import open_way
from patchbay.config import FindVariables
from patchbay.topics import UPSTREAM_SIGN_INS_CHANGED
from patchbay.upstreams.configuration import Mount
from patchbay.upstreams.connections.event_queue import EventQueue
from patchbay.upstreams.lists.snapshots import Snapshot

LOOK_SECONDS = 60.0
"""Seconds between two looks for a first credential, beside the messages about new ones."""

SIGNED_IN = "signed in"
"""An event of the mount: a principal has a credential there."""

RESOURCES = "resources/list"


class MountAccounts(CallersAccounts):
    """The credentials at one mount. `credentials` is None for a hub that keeps no accounts of callers."""

    def __init__(self, mount: Mount, find_variables: FindVariables, credentials: CallerCredentials | None) -> None:
        assert mount.way is not None
        context = WayContext(mount.name, mount.way, lambda: mount.upstream(find_variables(mount.name)), credentials)
        super().__init__(mount.name, open_way(context))
        self._credentials = credentials

    def has_for_lists(self) -> bool:
        """Whether the lists can be read now."""
        return self.way.has_for_lists()

    def wait_for_principal(self, events: EventQueue, ending: Flag) -> None:
        """Wait until the lists can be read, or `ending` is set, which also puts an event."""
        if self._credentials is None:
            ending.wait()
            return
        with self._credentials.bus.subscribe([UPSTREAM_SIGN_INS_CHANGED]) as mailbox:
            while not ending.is_set() and not self.has_for_lists():
                mailbox.get(0)
                if mailbox.call_when_ready(lambda: events.put(SIGNED_IN)):
                    events.get_all(LOOK_SECONDS)

    def find_for_lists(self, tries: int) -> CallerCredential | None:
        """Return the credential for reading the lists, None to read them without one. Raises SignInNeeded."""
        return self.way.find_for_lists(tries)

    def list_ended(self, accounts: Iterable[str], known: Mapping[str, tuple[str, str]]) -> list[str]:
        """Return those of these accounts, by digest, that have ended; one of which that is not sure is left out.

        `known` are the principals and ids of some of them. Raises PatchbayError while the server cannot be named.
        """
        if self._credentials is None:
            return []
        upstream = self.upstream
        principals = self._credentials.list_principals(upstream)
        found = [(one, self._credentials.find(one, upstream)) for one in principals]
        current = {digest_account(one, account.id) for one, account in found if account is not None}
        is_whole = len(principals) < MAX_PRINCIPALS
        return [
            one
            for one in accounts
            if one not in current and (not self.is_current(*known[one]) if one in known else is_whole)
        ]


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

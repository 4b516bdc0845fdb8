"""A tally: what a principal writes in many small pieces, counted in one account of the ledger.

One row of the account stands for many pieces, so that most of them cost no access to the store. A row is due after
SETTLE_BYTES, or after a share of a small limit. What a process has not written yet is not counted after a crash.
Source: CWE-770 (allocation of resources without limits).
"""

from __future__ import annotations

import threading

from patchbay.catalogue.contents.ledger import SETTLE_BYTES, Ledger

SHARE_OF_LIMIT = 16
"""A row is due, too, when this fraction of the limit is not counted yet."""

MAX_PENDING = 1024
"""Principals whose bytes wait for a row."""


class Tally:
    """Counts for the principals of this process. Safe to use from many threads. A row lasts `keep` seconds."""

    def __init__(self, ledger: Ledger, account: str, keep: float) -> None:
        self._ledger = ledger
        self._account = account
        self._keep = keep
        self._pending: dict[str, int] = {}
        self._lock = threading.Lock()

    def count(self, principal: str, size: int) -> None:
        """Count `size` bytes that are about to be written. Raises OverQuota if the account has no room for them."""
        limit = self._ledger.limit_of(principal, self._account).bytes
        most = SETTLE_BYTES if limit is None else min(SETTLE_BYTES, limit // SHARE_OF_LIMIT)
        with self._lock:
            pending = self._pending.pop(principal, 0)
            if pending + size < most and len(self._pending) < MAX_PENDING:
                self._pending[principal] = pending + size
                return
        try:
            self._ledger.check(principal, self._account, pending + size, 0)
            self._ledger.note(principal, self._account, pending + size, self._keep)
        except BaseException:
            with self._lock:
                self._pending[principal] = self._pending.get(principal, 0) + pending
            raise

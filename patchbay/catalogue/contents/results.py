"""Large results of calls: each has an owner, an access key and an expiry; each owner has a quota.

Results are stored in the journal, apart from the blobs of the configuration, which do not expire. Only the caller gets
the link `cid://<cid>?key=<key>`. The CID without the key gives no access, and neither does the key for another
principal. Results are in the account of stored things of their owner (`ledger.py`): when it is full, a new result
replaces the oldest things.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from hashlib import sha256
from urllib.parse import parse_qs

from patchbay.catalogue.contents.ledger import STORED, Ledger, Limit, owner_of
from patchbay.cid import cid_of
from patchbay.store import Store
from patchbay.topics import RESULTS

MAX_STORED_THINGS = 4096
"""Results and answers of one owner that are stored, at most, unless its quota says another number."""


class Results:
    """The large results of one store. Thread-safe.

    `key` is the hub's secret, `minutes` the minimum time a result is stored, `max_bytes` the quota of one owner.
    """

    def __init__(self, store: Store, key: bytes, minutes: float, max_bytes: int) -> None:
        self._journal = store.journal
        self._key = key
        self._seconds = minutes * 60
        self.ledger = Ledger(store.journal, lambda principal, account: _stored(account, max_bytes))

    def keep(self, data: bytes, principal: str) -> str | None:
        """Store a result for a principal and return its URI; None when it is larger than the quota."""
        max_bytes = self.ledger.limit_of(principal, STORED).bytes
        if max_bytes is not None and len(data) > max_bytes:
            return None
        cid = cid_of(data)
        topic = f"{RESULTS}{owner_of(principal)}/{cid}"
        known = self._journal.tail(topic, 1)
        # Store a repeated result again when less than `minutes` of its time are left.
        if not known or self._journal.now() - known[0].at > self._seconds / 2:
            lasts = self._seconds * 1.5
            row = self.ledger.row(principal, STORED, cid, len(data), lasts)
            self._journal.append_all([(topic, data, lasts), row], {})
            if known:
                self._journal.trim(topic, len(data))
            self.ledger.make_room(principal)
        return f"cid://{cid}?key={self._key_of(cid, principal)}"

    def is_own(self, cid: str, key: str, principal: str) -> bool:
        """Whether this hub made the key for this canonical CID and this principal."""
        return hmac.compare_digest(self._key_of(cid, principal).encode(), key.encode("utf-8", "replace"))

    def read(self, cid: str, key: str, principal: str) -> bytes | None:
        """Return the result of a canonical CID; None for a wrong key, another principal, or an expired result."""
        if not self.is_own(cid, key, principal):
            return None
        found = self._journal.tail(f"{RESULTS}{owner_of(principal)}/{cid}", 1)
        if not found or self._journal.now() - found[0].at > self._seconds * 1.5:
            return None
        return found[0].data if cid_of(found[0].data) == cid else None

    def _key_of(self, cid: str, principal: str) -> str:
        made = hmac.new(self._key, f"large result\0{principal}\0{cid}".encode(), sha256).digest()
        return urlsafe_b64encode(made).rstrip(b"=").decode()


def key_in_query(query: str) -> str:
    """Return the key in the query of a `cid://` URI; empty without one."""
    return parse_qs(query, max_num_fields=10).get("key", [""])[0]


def without_key(uri: str) -> str:
    """Return a URI for records: without the key of a large result."""
    return uri.partition("?")[0] if uri.startswith("cid://") else uri


def _stored(account: str, max_bytes: int) -> Limit:
    """Return the limits of an account without quotas: only what is stored has some."""
    return Limit(max_bytes, MAX_STORED_THINGS) if account == STORED else Limit()

"""Large results of calls: each has an owner, an access key and an expiry; each owner has a quota.

Results are stored in the journal, apart from the blobs of the configuration, which do not expire. Only the caller gets
the link `cid://<cid>?key=<key>`. The CID without the key gives no access, and neither does the key for another
principal. When the quota of an owner is full, a new result replaces the oldest ones.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import parse_qs

import orjson

from patchbay.cid import cid_of
from patchbay.store import Store
from patchbay.topics import RESULTS

MAX_COUNTED_RESULTS = 100_000
"""Maximum number of an owner's results that are counted when a new one is stored."""


class Results:
    """The large results of one store. Thread-safe.

    `key` is the hub's secret, `minutes` the minimum time a result is stored, `most` the quota of one owner in bytes.
    `quota_of` returns the quota of a principal that has one of its own, by its id; None for `most`.
    """

    def __init__(self, store: Store, key: bytes, minutes: float, most: int) -> None:
        self._journal = store.journal
        self._key = key
        self._seconds = minutes * 60
        self._most = most
        self.quota_of: Callable[[str], int | None] = lambda principal: None

    def keep(self, data: bytes, principal: str) -> str | None:
        """Store a result for a principal and return its URI; None when it is larger than the quota."""
        quota = self.quota_of(principal)
        most = self._most if quota is None else quota
        if len(data) > most:
            return None
        cid, owner = cid_of(data), _owner(principal)
        topic = f"{RESULTS}{owner}/{cid}"
        known = self._journal.tail(topic, 1)
        # Store a repeated result again when less than `minutes` of its time are left.
        if not known or self._journal.now() - known[0].at > self._seconds / 2:
            lasts = self._seconds * 1.5
            self._journal.append(topic, data, lasts)
            self._journal.trim(topic, len(data))
            self._journal.append(RESULTS + owner, orjson.dumps([cid, len(data)]), lasts)
            self._make_room(owner, most)
        return f"cid://{cid}?key={self._key_of(cid, principal)}"

    def is_own(self, cid: str, key: str, principal: str) -> bool:
        """Whether this hub made the key for this canonical CID and this principal."""
        return hmac.compare_digest(self._key_of(cid, principal).encode(), key.encode("utf-8", "replace"))

    def read(self, cid: str, key: str, principal: str) -> bytes | None:
        """Return the result of a canonical CID; None for a wrong key, another principal, or an expired result."""
        if not self.is_own(cid, key, principal):
            return None
        found = self._journal.tail(f"{RESULTS}{_owner(principal)}/{cid}", 1)
        if not found or self._journal.now() - found[0].at > self._seconds * 1.5:
            return None
        return found[0].data if cid_of(found[0].data) == cid else None

    def _key_of(self, cid: str, principal: str) -> str:
        made = hmac.new(self._key, f"large result\0{principal}\0{cid}".encode(), sha256).digest()
        return urlsafe_b64encode(made).rstrip(b"=").decode()

    def _make_room(self, owner: str, most: int) -> None:
        """Delete the oldest results of an owner until the rest fits the quota."""
        total = listed = 0
        sizes: dict[str, int] = {}
        dropped: set[str] = set()
        for entry in self._journal.tail(RESULTS + owner, MAX_COUNTED_RESULTS):
            cid, size = orjson.loads(entry.data)
            total += 0 if cid in sizes else size
            if total > most:
                dropped.add(cid)
            else:
                sizes[cid] = size
                listed += len(entry.data)
        for cid in dropped - sizes.keys():
            self._journal.trim(f"{RESULTS}{owner}/{cid}", 0)
        if dropped:
            self._journal.trim(RESULTS + owner, listed)


def key_in_query(query: str) -> str:
    """Return the key in the query of a `cid://` URI; empty without one."""
    return parse_qs(query, max_num_fields=10).get("key", [""])[0]


def without_key(uri: str) -> str:
    """Return a URI for records: without the key of a large result."""
    return uri.partition("?")[0] if uri.startswith("cid://") else uri


def _owner(principal: str) -> str:
    """Return the name of a principal in a topic, as a digest."""
    return sha256(principal.encode()).hexdigest()[:32]

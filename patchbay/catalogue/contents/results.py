"""Large results and uploads: each has an owner, an access key and an expiry; each owner has a quota.

Both are stored in the journal, apart from the blobs of the configuration, which do not expire. Only the caller gets
the link `cid://<cid>?key=<key>`. The CID without the key gives no access, and neither does the key for another
principal. Results are in the account of stored things of their owner (`ledger.py`): when it is full, a new result
replaces the oldest things. A file that is larger than PIECE_BYTES is stored in pieces, behind an entry that names them.
"""

from __future__ import annotations

import hmac
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from hashlib import sha256
from secrets import token_hex
from typing import IO
from urllib.parse import parse_qs

import orjson

from patchbay.catalogue.contents.ledger import STORED, Entry, Ledger, Limit, owner_of
from patchbay.cid import canonical, cid_of
from patchbay.errors import BadCid
from patchbay.store import JournalEntry, Store
from patchbay.topics import RESULTS

MAX_STORED_THINGS = 4096
"""Results and answers of one owner that are stored, at most, unless its quota says another number."""

PIECE_BYTES = 256 * 1024
"""Bytes of one piece of an upload in the store, and in the memory of the process that stores it."""

PIECES_PER_READ = 16

LINK_SCHEME = "cid"


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
        if not self.has_quota(len(data), principal):
            return None
        cid = cid_of(data)
        known = self._journal.tail(_topic_of(cid, principal), 1)
        if not self._is_fresh(known):
            self._append(data, cid, principal, bool(known))
        return self._link(cid, principal)

    def keep_file(self, file: IO[bytes], cid: str, size: int, principal: str) -> str | None:
        """Store a file of `size` bytes with this CID, piece by piece, as `keep` stores a result."""
        if not self.has_quota(size, principal):
            return None
        file.seek(0)
        if size <= PIECE_BYTES:
            return self.keep(file.read(), principal)
        known = self._journal.tail(_topic_of(cid, principal), 1)
        if not self._is_fresh(known):
            name, lasts = token_hex(16), self._seconds * 1.5
            topic = f"{_topic_of(cid, principal)}/{name}"
            entry = orjson.dumps([name, size])
            try:
                while piece := file.read(PIECE_BYTES):
                    self._journal.append(topic, piece, lasts)
                # The row of the pieces is newer than that of the entry: when room is made, the entry goes first.
                self._write(entry, cid, principal, self.ledger.row(principal, STORED, topic, size, lasts))
            except BaseException:  # pieces without an entry are in no account
                self._journal.remove(topic, self._journal.last(topic) + 1)
                raise
            self._make_room(cid, principal, len(entry), bool(known))
        return self._link(cid, principal)

    def has_quota(self, size: int, principal: str) -> bool:
        """Whether a content of `size` bytes fits into the quota of a principal, if it has nothing else stored."""
        max_bytes = self.ledger.limit_of(principal, STORED).bytes
        return max_bytes is None or size <= max_bytes

    def _append(self, data: bytes, cid: str, principal: str, has_older: bool) -> None:
        """Store a content in place of an older one."""
        self._write(data, cid, principal)
        self._make_room(cid, principal, len(data), has_older)

    def _write(self, data: bytes, cid: str, principal: str, *rows: Entry) -> None:
        """Append a content, or the entry that names its pieces with `rows` of these, and its row, all or nothing."""
        topic, lasts = _topic_of(cid, principal), self._seconds * 1.5
        row = self.ledger.row(principal, STORED, cid, len(data), lasts)
        self._journal.append_all([(topic, data, lasts), row, *rows], {})

    def _make_room(self, cid: str, principal: str, size: int, has_older: bool) -> None:
        """Delete what a new content of `size` bytes replaces, and what is beyond the quota of its owner."""
        if has_older:
            self._journal.trim(_topic_of(cid, principal), size)
        self.ledger.make_room(principal)

    def _is_fresh(self, known: Sequence[JournalEntry]) -> bool:
        """Whether a stored content has more than `minutes` of its time left; `known` is its newest entry, if any."""
        return bool(known) and self._journal.now() - known[0].at <= self._seconds / 2

    def _link(self, cid: str, principal: str) -> str:
        return f"cid://{cid}?key={self._key_of(cid, principal)}"

    def is_own(self, cid: str, key: str, principal: str) -> bool:
        """Whether this hub made the key for this canonical CID and this principal."""
        return hmac.compare_digest(self._key_of(cid, principal).encode(), key.encode("utf-8", "replace"))

    def read(self, cid: str, key: str, principal: str) -> bytes | None:
        """Return the result of a canonical CID; None for a wrong key, another principal, or an expired result."""
        if not self.is_own(cid, key, principal):
            return None
        topic = _topic_of(cid, principal)
        found = self._journal.tail(topic, 1)
        if not found or self._journal.now() - found[0].at > self._seconds * 1.5:
            return None
        data = found[0].data
        if cid_of(data) != cid:
            data = self._join(topic, data)
        return data if cid_of(data) == cid else None

    def read_link(self, uri: str, principal: str) -> bytes | None:
        """Return the content of a link that this hub gave to this principal; None for any other text.

        The answer is the same for the link of another principal, a missing content, and a text that is no link.
        """
        scheme, separator, rest = uri.partition("://")
        if scheme.lower() != LINK_SCHEME or not separator:
            return None
        cid, _, query = rest.partition("?")
        try:
            return self.read(canonical(cid), key_in_query(query), principal)
        except (BadCid, ValueError):  # ValueError: a query of too many fields
            return None

    def _join(self, topic: str, entry: bytes) -> bytes:
        """Return the pieces that an entry names, as far as they are there; empty for an entry that names none."""
        try:
            name, size = orjson.loads(entry)
        except (orjson.JSONDecodeError, TypeError, ValueError):
            return b""
        pieces: list[bytes] = []
        after = 0
        while sum(map(len, pieces)) < size:
            entries = self._journal.read(f"{topic}/{name}", after, PIECES_PER_READ)
            if not entries:
                break
            pieces += [one.data for one in entries]
            after = entries[-1].seq
        return b"".join(pieces)

    def _key_of(self, cid: str, principal: str) -> str:
        made = hmac.new(self._key, f"large result\0{principal}\0{cid}".encode(), sha256).digest()
        return urlsafe_b64encode(made).rstrip(b"=").decode()


def _topic_of(cid: str, principal: str) -> str:
    return f"{RESULTS}{owner_of(principal)}/{cid}"


def key_in_query(query: str) -> str:
    """Return the key in the query of a `cid://` URI; empty without one."""
    return parse_qs(query, max_num_fields=10).get("key", [""])[0]


def without_key(uri: str) -> str:
    """Return a URI for records: without the key of a large result."""
    return uri.partition("?")[0] if uri.startswith("cid://") else uri


def _stored(account: str, max_bytes: int) -> Limit:
    """Return the limits of an account without quotas: only what is stored has some."""
    return Limit(max_bytes, MAX_STORED_THINGS) if account == STORED else Limit()

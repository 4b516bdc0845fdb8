"""Legacy sessions: the id is signed, not stored, so that any process can check it.

The journal (topic `session/<nonce>`) stores only later changes: the log level, subscriptions, the end. An id with a
wrong signature, an expired id, an id of another endpoint or principal and the id of an ended session are all unknown:
404.
Source: MCP specification 2025-11-25, basic/transports, session management.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import orjson
from itsdangerous import BadData

from patchbay.access.timed_signatures import timed_serializer
from patchbay.catalogue.contents.ledger import SESSION_CHANGES, Ledger
from patchbay.errors import NO_SESSION, OverQuota, UnknownSession
from patchbay.messages.callers import LegacySession
from patchbay.messages.versions import REVISIONS, Revision
from patchbay.store import Journal
from patchbay.topics import SESSIONS

REMEMBERED = 4096
"""Limit on the sessions in the memory of each process."""

OWN_REMEMBERED = REMEMBERED // 8
"""Sessions of one principal from which on a new one takes the place of its own oldest one, when the memory is full."""

PAGE = 1000
"""Changes of a session in one read."""

_KEPT = ("elicitation", "sampling", "roots", "extensions")


@dataclass(slots=True)
class _AtHand:
    """A session, and the last change that was read; reading further changes needs the lock."""

    session: LegacySession
    seq: int = 0
    lock: Lock = field(default_factory=Lock)


class Sessions:
    """Opens, finds, changes and ends sessions. Safe to use from many threads.

    Unless this process is `alone`, every access reads the changes by other processes from the journal. Stored changes
    count in the account of the session's principal in `ledger`; without one, nothing is limited.
    """

    def __init__(
        self, key: bytes, journal: Journal, hours: float = 24.0, alone: bool = True, ledger: Ledger | None = None
    ) -> None:
        self._serializer = timed_serializer(key, "mcp-session", journal.now)
        self._journal = journal
        self._ledger = ledger or Ledger(journal)
        self._seconds = hours * 3600
        self._alone = alone
        self._at_hand: OrderedDict[str, _AtHand] = OrderedDict()
        self._of_principal: dict[str, OrderedDict[str, None]] = {}
        self._lock = Lock()

    def open(
        self, endpoint: str, revision: Revision, capabilities: Mapping[str, Any], principal: str, client: str = ""
    ) -> LegacySession:
        """Open a session; its id is printable ASCII. `client` is the client's own name and version."""
        nonce = secrets.token_urlsafe(16)
        known = [name for name in _KEPT if revision.elicitation or name != "elicitation"]
        kept = {name: value for name, value in capabilities.items() if name in known and isinstance(value, dict)}
        if len(orjson.dumps(kept)) > 1024:
            kept = {name: {} for name in kept if name != "extensions"}
        text = str(self._serializer.dumps([nonce, endpoint, revision.name, kept, principal, client]))
        session = LegacySession(
            text, nonce, endpoint, revision, kept, principal, self._journal.now(), caught_up=True, client=client
        )
        self._keep(session)
        return session

    def find(self, id: str, endpoint: str, principal: str) -> LegacySession:
        """Return the session of an id. Raises UnknownSession."""
        with self._lock:
            known = self._at_hand.get(id)
        if known is None:
            known = self._read(id)
        session = known.session
        if not (self._alone and session.caught_up):
            self._catch_up(known)
        expired = self._journal.now() - session.opened > self._seconds
        if session.ended or expired or session.endpoint != endpoint or session.principal != principal:
            raise UnknownSession(f"{NO_SESSION}; it may have ended: send initialize to open a new one")
        return session

    def change(self, session: LegacySession, **changes: Any) -> None:
        """Record a change of a session: `level`, `subscribed`, `unsubscribed` or `ended`.

        A change without an effect is not stored. Raises OverQuota when the principal has changed its sessions too
        often; an end is never refused.
        """
        if not _is_news(session, changes):
            return
        topic = f"{SESSIONS}{session.nonce}"
        entry = (topic, orjson.dumps(changes), self._seconds)
        row = self._ledger.row(session.principal, SESSION_CHANGES, "", len(entry[1]), self._seconds, things=1)
        try:
            self._ledger.add(session.principal, SESSION_CHANGES, [entry], row)
        except OverQuota:
            if "ended" not in changes:
                raise
            # The end takes the place of the earlier changes. A session that has none is forgotten by this process only:
            # its id is of no use to another principal.
            if self._journal.last(topic):
                self._journal.remove(topic, self._journal.append(*entry))
        _apply(session, changes)

    def subscribed(self, session: LegacySession) -> Set[str]:
        """Return the URIs that a session is subscribed to, in every process; an empty set for an ended session.

        The session object of a long stream may be out of date: other processes change their own object, and this
        process does so after it dropped the session from memory.
        """
        try:
            return self.find(session.id, session.endpoint, session.principal).subscribed
        except UnknownSession:
            return frozenset()

    def has_ended(self, session: LegacySession) -> bool:
        """Whether a session has ended, in any process."""
        try:
            return self.find(session.id, session.endpoint, session.principal).ended
        except UnknownSession:
            return True

    def _read(self, id: str) -> _AtHand:
        try:
            value, moment = self._serializer.loads(id, max_age=int(self._seconds), return_timestamp=True)
            nonce, endpoint, revision, capabilities, principal, client = value
            row = REVISIONS[revision]
        except (BadData, ValueError, TypeError, KeyError) as problem:
            raise UnknownSession(f"{NO_SESSION}; send initialize to open a new one") from problem
        opened = moment.timestamp()
        return self._keep(LegacySession(id, nonce, endpoint, row, capabilities, principal, opened, client=client))

    def _keep(self, session: LegacySession) -> _AtHand:
        with self._lock:
            # If two threads read the same id, both get the first object.
            known = self._at_hand.setdefault(session.id, _AtHand(session))
            self._of_principal.setdefault(session.principal, OrderedDict())[session.id] = None
            while len(self._at_hand) > REMEMBERED:
                own = self._of_principal[session.principal]
                self._forget(next(iter(own if len(own) > OWN_REMEMBERED else self._at_hand)))
        return known

    def _forget(self, id: str) -> None:
        """Take a session out of memory; it is read again when it is used. The caller holds the lock."""
        principal = self._at_hand.pop(id).session.principal
        own = self._of_principal[principal]
        del own[id]
        if not own:
            del self._of_principal[principal]

    def _catch_up(self, known: _AtHand) -> None:
        """Apply all changes since the last read."""
        session, topic = known.session, f"{SESSIONS}{known.session.nonce}"
        with known.lock:
            while entries := self._journal.read(topic, known.seq, PAGE):
                for entry in entries:
                    known.seq = entry.seq
                    _apply(session, orjson.loads(entry.data))
                if len(entries) < PAGE:
                    break
            session.caught_up = True


def _is_news(session: LegacySession, changes: Mapping[str, Any]) -> bool:
    """Whether a session differs after some changes."""
    return (
        changes.get("level", session.level) != session.level
        or (bool(changes.get("ended")) and not session.ended)
        or ("subscribed" in changes and changes["subscribed"] not in session.subscribed)
        or ("unsubscribed" in changes and changes["unsubscribed"] in session.subscribed)
    )


def _apply(session: LegacySession, changes: Mapping[str, Any]) -> None:
    session.level = changes.get("level", session.level)
    session.ended = session.ended or bool(changes.get("ended", False))
    if "subscribed" in changes:
        session.subscribed.add(changes["subscribed"])
    if "unsubscribed" in changes:
        session.subscribed.discard(changes["unsubscribed"])

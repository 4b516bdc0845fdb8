"""The secrets that the hub stores: each value is sealed with the hub's key, and shown nowhere.

An index in the journal has the names, and an entry for each name has its times and servers, so that a hub that has lost
its key can still say which secrets it cannot read. The servers that a secret is for are sealed with its value too: a
changed entry opens no secret to another server. Every process and every machine reads the same journal; a message on
the bus tells them of a change.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from patchbay.access.secrets.names import SecretRefused, check_name, check_value
from patchbay.access.upstreams.sealed_records import SealedRecords
from patchbay.coordination.records import Records, Write, write_records
from patchbay.errors import InvalidParams, PatchbayError, StaleUpdate
from patchbay.store import Store
from patchbay.topics import SECRET_ENTRIES, SECRET_NAMES, SECRET_USES, SECRETS

log = logging.getLogger(__name__)

MAX_SECRETS = 500
MAX_SERVERS = 32
"""Servers that one secret may be for."""

MAX_USERS = 100
"""Servers whose last use of a secret is remembered."""

USE_SECONDS = 60.0
"""Seconds between two records of the use of a secret by a server."""


class UnknownSecret(PatchbayError):
    """There is no secret of this name in the store of the hub."""

    code, status = -32602, 404


@dataclass(frozen=True, slots=True)
class SecretEntry:
    """What everyone who may list secrets sees of one. `made` and `changed` are Unix times, `by` is who changed it.

    `servers` are those that may use it; empty for all of this hub.
    """

    name: str
    made: float
    changed: float
    by: str
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ListedSecret:
    """A secret for a list: its entry, whether the key of this hub opens it, and its last use by each server."""

    entry: SecretEntry
    is_readable: bool
    uses: Mapping[str, float]

    @property
    def last_use(self) -> float | None:
        """The Unix time of the last use; None before the first one."""
        return max(self.uses.values(), default=None)


@dataclass(frozen=True, slots=True)
class _Index:
    names: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Value:
    value: str = field(repr=False)
    servers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Uses:
    at: dict[str, float] = field(default_factory=dict)


class Secrets:
    """The secrets of one hub. Thread-safe. `key` is the secret key of the hub."""

    def __init__(self, store: Store, key: bytes) -> None:
        self._store = store
        self._journal = store.journal
        self._index = Records(store.journal, _Index)
        self._entries = Records(store.journal, SecretEntry)
        self._values = SealedRecords(store.journal, _Value, key)
        self._uses = Records(store.journal, _Uses)
        self._lock = threading.Lock()
        self._names: tuple[int, frozenset[str]] = (-1, frozenset())
        self._noted: dict[tuple[str, str], float] = {}

    @property
    def version(self) -> int:
        """A number that changes with every change of a secret; one short read."""
        return self._journal.last(SECRET_NAMES)

    def put(
        self, name: str, value: str, by: str, servers: Iterable[str] | None = None, is_known: bool = False
    ) -> SecretEntry:
        """Store a secret, in place of an earlier one of this name. `servers` None keeps those of the earlier one.

        `is_known` refuses a new name, and the value that the secret has already. Raises InvalidParams for a wrong name
        or value, or too many secrets; UnknownSecret.
        """
        check_name(name)
        check_value(value)
        wanted = None if servers is None else _check_servers(servers)

        def change(index: _Index, old: SecretEntry | None) -> tuple[SecretEntry, _Value]:
            if old is None and is_known:
                raise _unknown(name)
            if old is None and len(index.names) >= MAX_SECRETS:
                raise InvalidParams(f"the hub has {MAX_SECRETS} secrets: remove one first")
            known = self._values.load(SECRETS + name)[0] if old is not None else None
            if is_known and known is not None and known.value == value:
                raise InvalidParams(f"this is the value that {name} has already: expected a new one")
            earlier = known or old
            kept = wanted if wanted is not None else earlier.servers if earlier is not None else ()
            now = self._store.now()
            return SecretEntry(name, old.made if old is not None else now, now, by, kept), _Value(value, kept)

        return self._put(name, change)

    def allow(self, name: str, servers: Iterable[str]) -> SecretEntry:
        """Let these servers use a secret beside those that may use it; its value and its times stay.

        A secret that is for all servers stays so. Raises UnknownSecret, and InvalidParams for too many servers or for a
        secret that the key of this hub does not open.
        """
        check_name(name)
        added = _check_servers(servers)

        def change(_: _Index, old: SecretEntry | None) -> tuple[SecretEntry, _Value]:
            if old is None:
                raise _unknown(name)
            known = self._values.load(SECRETS + name)[0]
            if known is None:
                raise InvalidParams(_describe_unreadable(name))
            servers = _check_servers((*known.servers, *added)) if known.servers else ()
            return replace(old, servers=servers), _Value(known.value, servers)

        return self._put(name, change)

    def remove(self, name: str) -> None:
        """Delete a secret and what was known of its use. Raises UnknownSecret."""
        topics = [kind + name for kind in (SECRETS, SECRET_ENTRIES, SECRET_USES)]
        while True:
            index, seq = self._load_index()
            if name not in index.names:
                raise _unknown(name)
            last = {topic: self._journal.last(topic) for topic in topics}
            try:
                write_records(self._journal, [Write(SECRET_NAMES, _Index(index.names - {name}))], {SECRET_NAMES: seq})
            except StaleUpdate:
                continue  # another process changed a secret in the meantime
            break
        for topic, newest in last.items():
            # Another process may have stored the name again since: what is newer stays.
            self._journal.remove(topic, newest + 1)
        self._store.bus.publish(SECRET_NAMES, name.encode())

    def find(self, name: str, server: str) -> str | None:
        """Return the value of a secret for a server, None without a secret of this name.

        Raises SecretRefused for a secret of other servers, and for one that the key of this hub does not open.
        """
        if name not in self._list_names():
            return None
        found = self._values.load(SECRETS + name)[0]
        if found is None:
            if name not in self._load_index()[0].names:  # removed in the meantime
                return None
            raise SecretRefused(server, "", _describe_unreadable(name))
        if found.servers and server not in found.servers:
            raise SecretRefused(
                server,
                "",
                f"the secret {name} is for other servers: `patchbay secret allow {name} {server}` lets this one use it"
                " too",
            )
        return found.value

    def all(self) -> list[ListedSecret]:
        """Return the secrets by name, without their values."""
        found = (self._entries.load(SECRET_ENTRIES + name)[0] for name in sorted(self._load_index()[0].names))
        return [
            ListedSecret(
                entry,
                self._values.load(SECRETS + entry.name)[0] is not None,
                (self._uses.load(SECRET_USES + entry.name)[0] or _Uses()).at,
            )
            for entry in found
            if entry is not None  # removed in the meantime
        ]

    def note_use(self, name: str, server: str) -> None:
        """Remember that a server used a secret now; at most one record in USE_SECONDS."""
        now = time.monotonic()
        with self._lock:
            if now - self._noted.get((name, server), -USE_SECONDS) < USE_SECONDS:
                return
            self._noted[name, server] = now

        def used(old: _Uses | None) -> _Uses:
            at = {**(old or _Uses()).at, server: self._store.now()}
            newest = sorted(at, key=at.__getitem__)[-MAX_USERS:]
            return _Uses({each: at[each] for each in newest})

        try:
            self._uses.update(SECRET_USES + name, used)
        except PatchbayError as problem:  # the secret can be used all the same
            log.info("the use of the secret %s is not recorded: %s", name, problem.message)

    def _put(
        self, name: str, change: Callable[[_Index, SecretEntry | None], tuple[SecretEntry, _Value]]
    ) -> SecretEntry:
        """Write the index, the entry and the value in one transaction, and tell every process; return the new entry.

        `change` may run several times, each time with the present index and entry.
        """
        topic = SECRETS + name
        while True:
            index, seq = self._load_index()
            old = self._entries.load(SECRET_ENTRIES + name)[0] if name in index.names else None
            entry, value = change(index, old)
            writes = [
                Write(SECRET_NAMES, _Index(index.names | {name})),
                Write(SECRET_ENTRIES + name, entry),
                Write(topic, self._values.seal(topic, value)),
            ]
            try:
                write_records(self._journal, writes, {SECRET_NAMES: seq})
            except StaleUpdate:
                continue  # another process changed a secret in the meantime
            break
        self._journal.remove(topic, self._journal.last(topic))
        self._store.bus.publish(SECRET_NAMES, name.encode())
        return entry

    def _load_index(self) -> tuple[_Index, int]:
        index, seq = self._index.load(SECRET_NAMES)
        return index or _Index(), seq

    def _list_names(self) -> frozenset[str]:
        """Return the names of all secrets; the index is read again only after a change."""
        seq = self.version
        known = self._names
        if known[0] != seq:
            index, seq = self._load_index()
            known = self._names = seq, index.names
        return known[1]


def list_names(store: Store) -> list[str]:
    """Return the names of the secrets in a store, without its key."""
    return sorted((Records(store.journal, _Index).load(SECRET_NAMES)[0] or _Index()).names)


def _check_servers(servers: Iterable[str]) -> tuple[str, ...]:
    """Return the servers of a secret in order. Raises InvalidParams for too many."""
    found = tuple(sorted(set(servers)))
    if len(found) > MAX_SERVERS:
        raise InvalidParams(f"a secret is for at most {MAX_SERVERS} servers; without servers it is for all of them")
    return found


def _describe_unreadable(name: str) -> str:
    return (
        f"the secret {name} was stored with another key of this hub, and cannot be read: store it again with"
        f" `patchbay secret set {name}`"
    )


def _unknown(name: str) -> UnknownSecret:
    return UnknownSecret(f"there is no secret {name[:80]!r}: `patchbay secret list` shows the secrets")

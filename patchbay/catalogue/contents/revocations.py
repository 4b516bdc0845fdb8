"""Revocations: contents and servers that the operator has revoked, with the reason.

A revocation is the name `revoked/<cid>` or `revoked/servers/<name>`; its moves record who, when and why, and a rollback
does not undo it. A revoked content is not served, neither at a pin nor under the current name. It stays readable in the
history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patchbay.catalogue.contents.links import cids_in, format_time
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.cid import canonical, cid_of, is_cid
from patchbay.errors import ContentError, InvalidParams, UnknownServer
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED, REVOKED, SERVED, SERVERS

MARK = b"revoked\n"
"""The content that every revocation points to; its move holds the reason."""


class RevokedServer(UnknownServer):
    """A server or version is revoked; the message gives the time, the person and the reason."""


@dataclass(frozen=True, slots=True)
class Revocation:
    """One revocation. `what` is a CID or `servers/<name>`; `at` is Unix time in seconds."""

    what: str
    at: float
    who: str
    why: str

    @property
    def sentence(self) -> str:
        return f"{self.what} was revoked on {format_time(self.at)} by {self.who}: {self.why}"


class Revocations:
    """The revocations of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def state(self) -> dict[str, str]:
        """Return the names of all active revocations, for comparison with an earlier state."""
        return self._store.names.all(REVOKED)

    def all(self) -> list[Revocation]:
        """Return all active revocations, newest first."""
        found = [self._load(name.removeprefix(REVOKED)) for name in self.state()]
        return sorted(found, key=lambda each: -each.at)

    def find(self, name: str, cids: Iterable[str]) -> Revocation | None:
        """Return the revocation of a server's name, or else of the first revoked one of its CIDs; None without one."""
        state = self.state()
        if not state:
            return None
        for what in (SERVERS + name, *cids):
            if REVOKED + what in state:
                return self._load(what)
        return None

    def find_for_row(self, row: ServerRow) -> Revocation | None:
        """Return the revocation of a row: of its name, its version, or any content that it uses."""
        return self.find(row.name, self._parts(row)) if self.state() else None

    def _parts(self, row: ServerRow) -> Iterator[str]:
        yield cid_of(row.manifest())
        yield row.definition_cid
        if row.config_cid:
            yield row.config_cid
            try:
                yield from cids_in(self._store.blobs.get(row.config_cid))
            except ContentError:
                return

    def revoke(self, target: str, who: str, why: str) -> Revocation:
        """Revoke a CID or a server name. Raises InvalidParams for an unknown target, or without a reason.

        A target that is revoked already keeps its first reason.
        """
        what = self._resolve(target)
        if not why:
            raise InvalidParams("a revocation needs a reason: give it in the field why or with --why")
        self._move(what, self._store.blobs.put(MARK), who, why)
        return self._load(what)

    def lift(self, target: str, who: str, why: str) -> str:
        """Lift a revocation; returns its target. Raises InvalidParams when the target is not revoked."""
        what = self._resolve(target)
        if self._store.names.get(REVOKED + what) is None:
            raise InvalidParams(f"{what} is not revoked")
        self._move(what, None, who, why or f"the revocation of {what} is lifted")
        return what

    def _move(self, what: str, cid: str | None, who: str, why: str) -> None:
        self._store.names.move({REVOKED + what: cid}, who, why)
        self._store.bus.publish(NAMES_CHANGED)

    def _resolve(self, target: str) -> str:
        if is_cid(target):
            what = canonical(target)
            known = not self._store.blobs.missing([what])
        else:
            name = target.removeprefix(SERVERS)
            what = SERVERS + name
            known = bool(self._store.names.past(what, 1) or self._store.names.past(f"{SERVED}{name}", 1))
        if not known:
            raise InvalidParams(
                f"expected the CID of a content or the name of a server; this hub does not know {target!r}:"
                " `patchbay list` shows the servers"
            )
        return what

    def _load(self, what: str) -> Revocation:
        [move] = self._store.names.past(REVOKED + what, 1)
        return Revocation(what, move.at, move.who, move.why)

"""Revocations: contents and servers that the operator has ended, with the reason.

Rules: a revocation is the name `revoked/<cid>` or `revoked/servers/<name>`; its moves say who, when and why, and a
rollback does not undo it. What is revoked is served nowhere: neither at a pin nor under the moving name. It stays in
the history, where it can be read.
Sources: DESIGN section 4 (knowing a CID is no permission); ACCESS section 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from patchbay.catalogue.contents.links import format_time, mentioned
from patchbay.catalogue.rows import ServerRow
from patchbay.cid import canonical, cid_of, is_cid
from patchbay.errors import ContentError, InvalidParams, UnknownServer
from patchbay.store import Store
from patchbay.topics import NAMES_CHANGED, REVOKED, SERVED, SERVERS

MARK = b"revoked\n"
"""The content that every revocation points to; what it says is in its move."""


class RevokedServer(UnknownServer):
    """A server or a version that the operator has revoked; the message says when, by whom and why."""


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
        """The names of all revocations in force, for comparing with an earlier state."""
        return self._store.names.all(REVOKED)

    def all(self) -> list[Revocation]:
        """All revocations in force, newest first."""
        found = [self._told(name.removeprefix(REVOKED)) for name in self.state()]
        return sorted(found, key=lambda each: -each.at)

    def find(self, name: str, cids: Iterable[str]) -> Revocation | None:
        """The revocation of a server's name, or else of the first revoked one of its CIDs; None where there is none."""
        state = self.state()
        if not state:
            return None
        for what in (SERVERS + name, *cids):
            if REVOKED + what in state:
                return self._told(what)
        return None

    def of_row(self, row: ServerRow) -> Revocation | None:
        """The revocation of what a row serves: its name, its version, or any content that it is made of."""
        return self.find(row.name, self._parts(row)) if self.state() else None

    def _parts(self, row: ServerRow) -> Iterator[str]:
        yield cid_of(row.manifest())
        yield row.definition_cid
        if row.config_cid:
            yield row.config_cid
            try:
                yield from mentioned(self._store.blobs.get(row.config_cid))
            except ContentError:
                return

    def revoke(self, target: str, who: str, why: str) -> Revocation:
        """Revoke a CID or the name of a server. Raises InvalidParams for what this hub never had, or without a reason.

        What stands revoked already keeps its first reason.
        """
        what = self._checked(target)
        if not why:
            raise InvalidParams("a revocation needs a reason: say why, in the field why or with --why")
        self._move(what, self._store.blobs.put(MARK), who, why)
        return self._told(what)

    def lift(self, target: str, who: str, why: str) -> str:
        """Take a revocation back; answers what may be served again. Raises InvalidParams where there is none."""
        what = self._checked(target)
        if self._store.names.get(REVOKED + what) is None:
            raise InvalidParams(f"{what} is not revoked")
        self._move(what, None, who, why or f"the revocation of {what} is lifted")
        return what

    def _move(self, what: str, cid: str | None, who: str, why: str) -> None:
        self._store.names.move({REVOKED + what: cid}, who, why)
        self._store.bus.publish(NAMES_CHANGED)

    def _checked(self, target: str) -> str:
        if is_cid(target):
            what = canonical(target)
            known = not self._store.blobs.missing([what])
        else:
            name = target.removeprefix(SERVERS)
            what = SERVERS + name
            known = bool(self._store.names.past(what, 1) or self._store.names.past(f"{SERVED}{name}", 1))
        if not known:
            raise InvalidParams(f"expected the CID of a content or the name of a server; this hub never had {target!r}")
        return what

    def _told(self, what: str) -> Revocation:
        [move] = self._store.names.past(REVOKED + what, 1)
        return Revocation(what, move.at, move.who, move.why)

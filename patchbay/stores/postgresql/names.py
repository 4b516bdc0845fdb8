"""Names as rows, each with the change that set it. One lock for all changes, inside which the seq is taken."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import psycopg

from patchbay.cid import canonical, content_in
from patchbay.errors import MissingBlob, StaleUpdate
from patchbay.store import NameChange
from patchbay.stores.postgresql.database import MISSING, STALE, Connection, Database

LAST_CHARACTER = chr(0x10FFFF)
"""The last Unicode character: the end of the range of names with a prefix."""


class PostgresqlNames:
    """Names that point to CIDs, with the history of their changes."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # A seq that every later move exceeds: where a repeat looks for its own rows.
        self._newest = int(database.read_one("SELECT coalesce(max(seq), 0) FROM moves")[0])

    def get(self, name: str) -> str | None:
        if "\0" in name:  # no text of PostgreSQL has it, so no name does
            return None
        rows = self._database.execute("SELECT cid FROM names WHERE name = %s", (name,))
        return str(rows[0][0]) if rows else None

    def all(self, prefix: str = "") -> dict[str, str]:
        if "\0" in prefix:
            return {}
        query = "SELECT name, cid FROM names WHERE name >= %s AND name < %s AND starts_with(name, %s) ORDER BY name"
        rows = self._database.execute(query, (prefix, f"{prefix}{LAST_CHARACTER}", prefix))
        return dict(rows)

    def move(
        self, changes: Mapping[str, str | None], who: str, why: str, expected: Mapping[str, str | None] | None = None
    ) -> int:
        wanted = {name: None if cid is None else canonical(cid) for name, cid in changes.items()}
        seen = {name: None if cid is None else canonical(cid) for name, cid in (expected or {}).items()}
        needed = [cid for cid in dict.fromkeys(wanted.values()) if cid is not None and content_in(cid) is None]
        query = b"SELECT move_names(%s, %s, %s::text[], %s::text[], %s::text[], %s::text[], %s::text[], %s, %s)"
        given = [uuid4(), self._newest, list(wanted), list(wanted.values()), needed, list(seen), list(seen.values())]
        given += [_without_nul(who), _without_nul(why)]

        def work(connection: Connection) -> int:
            try:
                row = connection.execute(query, given, binary=True).fetchone()
            except psycopg.Error as problem:
                if problem.sqlstate == STALE:
                    raise StaleUpdate(f"{problem.diag.message_primary} was changed meanwhile") from problem
                if problem.sqlstate == MISSING:
                    raise MissingBlob((problem.diag.message_primary or "").split(), why) from problem
                raise
            assert row is not None
            return int(row[0])

        newest = self._database.run(work)
        self._newest = max(self._newest, newest)
        return newest

    def past(
        self,
        name: str = "",
        limit: int = 100,
        before: int | None = None,
        prefixes: Sequence[str] = (),
        after: int = 0,
    ) -> list[NameChange]:
        begun = " OR ".join(f"(name >= %(from{place})s AND name < %(to{place})s)" for place in range(len(prefixes)))
        query = (
            "SELECT seq, name, cid, at, who, why FROM moves WHERE seq > %(after)s"
            + (" AND name = %(name)s" if name else "")
            + (" AND seq < %(before)s" if before is not None else "")
            + f" AND ({begun or 'true'}) ORDER BY seq DESC LIMIT %(limit)s"
        )
        given: dict[str, Any] = {"name": name, "after": after, "before": before, "limit": max(0, limit)}
        for place, prefix in enumerate(prefixes):
            given |= {f"from{place}": prefix, f"to{place}": f"{prefix}{LAST_CHARACTER}"}
        return [NameChange(*row) for row in self._database.execute(query, given)]


def _without_nul(text: str) -> str:
    """Return a text that PostgreSQL can store: it has no NUL."""
    return text.replace("\0", "\ufffd")

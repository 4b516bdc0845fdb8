"""Records of drop-ins in the store: the file of each server, and the row it replaced.

The name `dropins/<name>` points to `{"base", "definition_cid", "file"}` as canonical JSON: the row that is restored
when the file is removed (null: no row), the definition of the file, the file's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

import orjson

from patchbay.boot import canonical_json
from patchbay.store import Store
from patchbay.topics import DROP_INS


@dataclass(frozen=True, slots=True)
class DropIn:
    """One file that is a server. `base` is the CID of the row it replaces."""

    file: str
    definition_cid: str
    base: str | None = None

    def to_json(self) -> bytes:
        """Return the stored form."""
        return canonical_json(asdict(self))


class DropInReader:
    """Reads the drop-ins of a store. A content never changes, so each one is read once."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, DropIn] = {}

    def all(self) -> dict[str, DropIn]:
        """Return every drop-in by the name of its server."""
        return self.read(self._store.names.all(DROP_INS))

    def read(self, names: Mapping[str, str]) -> dict[str, DropIn]:
        """Return the drop-ins of these names, the CIDs of all names of drop-ins, by the name of the server."""
        blobs, known = self._store.blobs, self._known
        fresh = {cid for cid in names.values() if cid not in known}
        read = blobs.get_many(fresh) if fresh else {}
        known = known | {cid: DropIn(**orjson.loads(read.get(cid) or blobs.get(cid))) for cid in fresh}
        self._known = {cid: known[cid] for cid in names.values()}
        return {name.removeprefix(DROP_INS): known[cid] for name, cid in names.items()}


def drop_ins(store: Store) -> dict[str, DropIn]:
    """Return every drop-in by the name of its server."""
    return DropInReader(store).all()

"""What the store remembers of drop-ins: which file stands behind a server, and what stood there before it.

The name `dropins/<name>` points to `{"base", "definition_cid", "file"}` as canonical JSON: the row that
comes back when the file goes (null: none), the definition the file had, the file's name.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import orjson

from patchbay.boot import canonical_json
from patchbay.store import Store
from patchbay.topics import DROP_INS


@dataclass(frozen=True, slots=True)
class DropIn:
    """One file that is a server. `base` is the CID of the row it stands before."""

    file: str
    definition_cid: str
    base: str | None = None

    def encoded(self) -> bytes:
        """As it is kept."""
        return canonical_json(asdict(self))


def drop_ins(store: Store) -> dict[str, DropIn]:
    """Every drop-in by the name of its server."""
    names = store.names.all(DROP_INS)
    return {name.removeprefix(DROP_INS): DropIn(**orjson.loads(store.blobs.get(cid))) for name, cid in names.items()}

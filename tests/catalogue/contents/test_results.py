"""Contents that are stored in pieces: what a failed write leaves."""

from __future__ import annotations

import io
import random
from collections.abc import Mapping, Sequence

import pytest

from patchbay.catalogue.contents.ledger import STORED, Entry
from patchbay.catalogue.contents.results import PIECE_BYTES, Results
from patchbay.cid import cid_of
from patchbay.stores.memory import MemoryStore

DATA = random.Random(1).randbytes(4 * PIECE_BYTES)


@pytest.mark.parametrize("place", ["append", "append_all"])
def test_an_upload_that_fails_leaves_no_pieces(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    """Pieces without an entry are in no account, so that each failed upload would take room that no quota limits."""
    store = MemoryStore()
    results = Results(store, b"k" * 32, 60, 64 * 1024 * 1024)
    topics: list[str] = []
    append, append_all = store.journal.append, store.journal.append_all

    def fill(topic: str, data: bytes, keep: float | None = None) -> int:
        if place == "append" and len(topics) == 3:
            raise OSError(28, "No space left on device")
        topics.append(topic)
        return append(topic, data, keep)

    def fail(entries: Sequence[Entry], last: Mapping[str, int]) -> list[int]:
        if len(entries) > 1:  # the entry that names the pieces, with its rows
            raise OSError(28, "No space left on device")
        return append_all(entries, last)

    with monkeypatch.context() as patch:
        patch.setattr(store.journal, "append", fill)
        if place == "append_all":
            patch.setattr(store.journal, "append_all", fail)
        with pytest.raises(OSError, match="No space"):
            results.keep_file(io.BytesIO(DATA), cid_of(DATA), len(DATA), "ann")
    assert len(topics) >= 3 and [store.journal.read(topic) for topic in set(topics)] == [[]]
    assert results.ledger.used("ann", STORED).bytes == 0
    uri = results.keep_file(io.BytesIO(DATA), cid_of(DATA), len(DATA), "ann")
    assert uri is not None and results.read_link(uri, "ann") == DATA

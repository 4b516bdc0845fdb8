"""The last output of a tool: one per server and tool, stored for a limited time."""

from __future__ import annotations

from patchbay.catalogue.reading.last_outputs import last_output, store_output
from patchbay.store import Store


def test_the_last_output_is_the_one_that_was_kept_last(store: Store) -> None:
    """V-C10"""
    assert last_output(store, "my", "echo") is None
    for output in (b"one", b"two", b""):
        store_output(store, "my", "echo", output)
        store_output(store, "my", "add", b"other")
        assert last_output(store, "my", "echo") == output


def test_outputs_are_not_names_and_expire(store: Store) -> None:
    """A busy tool does not fill the store."""
    store_output(store, "my", "echo", b"one")
    assert store.names.all() == {}
    assert store.names.past() == []
    assert store.blobs.count() == 0

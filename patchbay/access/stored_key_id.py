"""The store keeps the public id of the key that the hub was made with, so that another key is noticed.

The key signs the entries of rooms and the heads of the audit chain, and seals the tokens of connected accounts. A hub
with another key could neither verify nor open them, and would not know why.
"""

from __future__ import annotations

import secrets
from pathlib import Path

from patchbay.access.hub_key import KEY_FILE, has_key, hub_id, load_key
from patchbay.errors import ConfigError, StaleUpdate
from patchbay.store import Store
from patchbay.topics import HUB_KEY

NEXT_STEP = (
    "Put the file of the key back from a backup of the data folder, or run `patchbay key replace`, which says what is"
    " lost without it"
)

SHOWN_DIGITS = 8
"""Digits of the id of a key that a message shows."""


def open_key(store: Store, folder: Path | None) -> bytes:
    """Return the key in a data folder; make it at the first start. None makes a key that is not kept.

    A store without the id of a key, which is new or of an earlier version, takes that of this key. Raises ConfigError
    for an unusable file, and when the store was made with another key.
    """
    if folder is None:
        return load_key(None)
    problem = find_problem(store, folder)
    if problem is not None:
        raise ConfigError(str(folder / KEY_FILE), "", f"{problem}. {NEXT_STEP}")
    key = load_key(folder)
    if stored_id(store) is None:
        try:
            _store_id(store, hub_id(key), None, "the key of this hub")
        except StaleUpdate:  # another process was first, and may have another key
            return open_key(store, folder)
    return key


def find_problem(store: Store, folder: Path) -> str | None:
    """Return a sentence when the key in a folder is not that of the store, None when it is or can become it.

    Raises ConfigError for an unusable file. Makes no key.
    """
    known = stored_id(store)
    if known is None:
        return None
    if not has_key(folder):
        return f"expected the key of this hub ({known[:SHOWN_DIGITS]}…), but there is no such file"
    found = hub_id(load_key(folder))
    if found != known:
        other = f"found that of another hub ({found[:SHOWN_DIGITS]}…)"
        return f"expected the key of this hub ({known[:SHOWN_DIGITS]}…), {other}"
    return None


def stored_id(store: Store) -> str | None:
    """Return the public id of the key that the store was made with; None for a store that has none."""
    cid = store.names.get(HUB_KEY)
    return None if cid is None else store.blobs.get(cid).decode()


def replace_key(store: Store, folder: Path) -> Path | None:
    """Make a new key in a folder, and let the store expect it. A key that is there moves to the returned file."""
    path, aside = folder / KEY_FILE, None
    if path.exists():
        aside = path.with_name(f"{KEY_FILE}.replaced-{secrets.token_hex(4)}")
        path.rename(aside)
    _store_id(store, hub_id(load_key(folder)), store.names.get(HUB_KEY), "patchbay key replace")
    return aside


def _store_id(store: Store, id: str, before: str | None, why: str) -> None:
    store.names.move({HUB_KEY: store.blobs.put(id.encode())}, "hub", why, {HUB_KEY: before})

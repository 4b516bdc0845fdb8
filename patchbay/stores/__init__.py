"""The implementations of `patchbay.store.Store`; `open_store` selects one by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from patchbay.errors import ConfigError
from patchbay.store import Store
from patchbay.stores.folder_lock import share_folder
from patchbay.stores.memory import MemoryStore
from patchbay.stores.sqlite import SqliteStore

KINDS = ("memory", "sqlite")


def open_store(kind: str, folder: Path, served: Mapping[str, str] | None = None) -> Store:
    """Open the store of a kind in `folder`; make the folder if it is absent.

    `served` holds the settings that all hubs on this folder must share, None for a program that only reads. Raises
    ConfigError for an unknown kind, FolderInUse while a hub with other settings uses the folder, and ContentError for
    an unusable database.
    """
    if kind == "memory":
        return MemoryStore()
    if kind == "sqlite":
        return SqliteStore(folder, share_folder(folder, served) if served is not None else None)
    raise ConfigError("the setting store", "", f"expected one of {', '.join(KINDS)}; got {kind!r}")

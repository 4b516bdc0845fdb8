"""Which environments the servers of a store need, and the collection of the others.

An environment stays while a present server requires its packages, and for the grace time after its last use. The locked
versions of a removed one stay, so that an earlier version that is called again gets the same packages.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from patchbay.catalogue.planning import Planner
from patchbay.catalogue.servers.rows import ServerRow
from patchbay.config import Configs
from patchbay.environments.environments import FOLDER, remove_environments, unneeded_environments
from patchbay.environments.installation import clean_cache, disk_bytes
from patchbay.environments.requirements import requirements_of
from patchbay.errors import ContentError
from patchbay.store import Collected, Store


class EnvironmentCollector:
    """Collects the environments below `data` that no server of the store needs. `grace` is in seconds."""

    def __init__(self, store: Store, data: Path, grace: float) -> None:
        self._store = store
        self._data = data
        self._grace = grace

    def preview(self) -> Collected:
        """Return how many environments `collect` would remove now, and their bytes. Changes nothing."""
        found = self._unneeded()
        return Collected(len(found), sum(disk_bytes(each) for each in found))

    def collect(self) -> Collected:
        """Remove them, and the downloads in the cache of uv; return how many, and the bytes that this frees."""
        folder = self._data / FOLDER
        before = disk_bytes(folder)
        count = remove_environments(self._unneeded())
        clean_cache(folder)
        return Collected(count, max(0, before - disk_bytes(folder)))

    def _unneeded(self) -> list[Path]:
        return unneeded_environments(self._data, set(self._needed()), self._grace)

    def _needed(self) -> Iterator[str]:
        """Yield the keys of the environments of all present servers."""
        configs = Configs(self._store.blobs)
        for row in Planner(self._store, configs).plan({}).rows.values():
            if isinstance(row, ServerRow) and row.kind == "python":
                try:
                    fields = configs.config(row.config_cid).fields if row.config_cid else {}
                    needs = requirements_of(self._store.blobs.get(row.definition_cid), row.name, fields)
                except ContentError:
                    continue
                if needs is not None:
                    yield needs.key

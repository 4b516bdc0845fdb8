"""Which files the code of a tool may read and change.

It may read everything except the hub's own data and the devices of the machine. It may change its working folder, the
folder of its server, and the folders that its configuration lists under `writes`. Landlock has no rule that forbids, so
everything beside a hidden folder is listed entry by entry.

Source: landlock(7).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"))
"""The devices that any program may use. Other devices expose what the file system protects, such as whole disks."""

DEVICE_FOLDER = Path("/dev")
SHARED_MEMORY = "/dev/shm"
KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), DEVICE_FOLDER)
"""Where files control the kernel: never writable, whatever a configuration lists."""


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """Which paths the code of one server may use.

    `hidden` cannot be read, except `own` and `shown` folders inside it; `own` and `writes` can be changed; `kept` and
    `shown` can be read and never be changed.
    """

    hidden: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()

    def readable(self, covered: bool) -> list[str]:
        """Return the trees that can be read; `covered` means that mounts already hide the hidden folders."""
        hidden = (DEVICE_FOLDER,) if covered else (DEVICE_FOLDER, *self.hidden)
        return [*trees_without(Path("/"), hidden), *map(str, self.own), *map(str, self.shown), *DEVICES]

    def writable(self, covered: bool) -> list[str]:
        """Return the trees that can be changed; `covered` means that mounts already protect the hub's folders."""
        protected = KERNEL_FOLDERS if covered else (*KERNEL_FOLDERS, *self.kept, *self.shown, *self.hidden)
        named = [one for place in self.writes for one in trees_without(place.resolve(), protected)]
        return [*map(str, self.own), *named, *DEVICES, *((SHARED_MEMORY,) if covered else ())]

    @property
    def lists_everything(self) -> bool:
        """Whether the code may list all folders: true for a server that may change the whole file system."""
        return Path("/") in self.writes


def trees_without(root: Path, hidden: Iterable[Path]) -> Iterator[str]:
    """Yield the largest trees below `root` without a hidden path. Symbolic links are skipped: their targets count."""
    places = {str(one.resolve()) for one in hidden}
    if any(root == Path(one) or root.is_relative_to(one) for one in places):
        return
    above = {str(parent) for one in places for parent in Path(one).parents}
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        if folder not in above:
            yield folder
            continue
        try:
            with os.scandir(folder) as entries:
                found = [entry.path for entry in entries if not entry.is_symlink()]
        except OSError:  # it is gone, or the hub may not read it, and then a tool may not either
            continue
        waiting += [path for path in found if path not in places]


def existing_folders(places: Sequence[str]) -> tuple[Path, ...]:
    """Return the folders of a configuration that exist, with `~` expanded."""
    return tuple(place for one in places if (place := Path(one).expanduser()).is_absolute() and place.exists())

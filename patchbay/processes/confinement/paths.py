"""Which files the code of a tool may read and change.

It may read everything but the hub's own data and the devices of the machine. It may change its working folder, the
folder of its server, and what its configuration names under `writes`. Landlock has no rule that forbids, so what
is allowed beside a hidden folder is listed entry by entry.
Sources: THREATS 1.6; landlock(7).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

DEVICES = tuple(f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts"))
"""The devices that any program may use. Others hold what the file system protects, such as whole disks."""

DEVICE_FOLDER = Path("/dev")
SHARED_MEMORY = "/dev/shm"
KERNEL_FOLDERS = (Path("/proc"), Path("/sys"), DEVICE_FOLDER)
"""Where files are switches of the kernel: nothing there is changed, however much a configuration names."""


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """What one server's code may use.

    `hidden` cannot be read, apart from `own` folders inside it; `own` and `writes` can be changed; what is in
    `kept` can be read and never be changed.
    """

    hidden: tuple[Path, ...] = ()
    own: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()

    def readable(self, covered: bool) -> list[str]:
        """The trees that can be read; `covered` says that mounts lie over the hidden folders already."""
        hidden = (DEVICE_FOLDER,) if covered else (DEVICE_FOLDER, *self.hidden)
        return [*beside(Path("/"), hidden), *map(str, self.own), *DEVICES]

    def writable(self, covered: bool) -> list[str]:
        """The trees that can be changed; `covered` says that mounts protect the hub's folders already."""
        protected = KERNEL_FOLDERS if covered else (*KERNEL_FOLDERS, *self.kept, *self.hidden)
        named = [one for place in self.writes for one in beside(place.resolve(), protected)]
        return [*map(str, self.own), *named, *DEVICES, *((SHARED_MEMORY,) if covered else ())]

    @property
    def lists_everything(self) -> bool:
        """Whether it may see the names of all files, as a server does that may change the whole file system."""
        return Path("/") in self.writes


def beside(root: Path, hidden: Iterable[Path]) -> Iterator[str]:
    """The largest trees below `root` that hold nothing hidden. Symbolic links are left out: their targets count."""
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
        except OSError:  # it went, or is not ours to look at: then it is not the tool's either
            continue
        waiting += [path for path in found if path not in places]


def existing(places: Sequence[str]) -> tuple[Path, ...]:
    """Folders of a configuration, with `~` filled in; one that is not there cannot be opened to a tool."""
    return tuple(place for one in places if (place := Path(one).expanduser()).is_absolute() and place.exists())

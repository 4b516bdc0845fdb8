"""Which process of this machine listens on a port.

Source: proc(5), /proc/net/tcp and /proc/<pid>/fd.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

LISTENING = "0A"
"""The state of a listening socket in /proc/net/tcp."""


def find_listener(port: int) -> str:
    """Return the process that listens on a port as text, such as `nginx (process 12)`.

    The text is `another process` where the system does not say more: for processes of other users, and beside Linux.
    """
    wanted = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in Path("/proc").glob("[0-9]*") if wanted else ():
        try:
            if any(str(link.readlink()) in wanted for link in (process / "fd").iterdir()):
                return f"{(process / 'comm').read_text().strip()} (process {process.name})"
        except OSError:
            continue
    return "another process"


def _inodes(port: int) -> Iterator[str]:
    for table in (Path("/proc/net/tcp"), Path("/proc/net/tcp6")):
        try:
            rows = table.read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            cells = row.split()
            if cells[3] == LISTENING and int(cells[1].rpartition(":")[2], 16) == port:
                yield cells[9]

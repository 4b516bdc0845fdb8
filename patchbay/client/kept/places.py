"""Where the background processes of a user listen, and who is at the other end of a socket.

The folder is `patchbay-connections` in XDG_RUNTIME_DIR, or `patchbay-UID` in TMPDIR or /tmp; only the user may open it.
A socket is named after everything that decides what the program does, so that a command never gets a program that was
started for another folder, environment or version.
Sources: XDG Base Directory Specification; unix(7), SO_PEERCRED.
"""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from patchbay.errors import PatchbayError

MAX_SOCKET_PATH_BYTES = 100
"""Bytes of the path of a socket; systems allow 104 or 108 with the final NUL."""

ENDING = ".socket"


class NotKept(PatchbayError):
    """A connection cannot be kept between commands; the message says why."""


def open_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of the sockets; make it if absent. Raises NotKept if another user could open it."""
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime:
        folder = Path(runtime) / "patchbay-connections"
    else:
        folder = Path(environ.get("TMPDIR") or "/tmp") / f"patchbay-{os.getuid()}"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
    except OSError as problem:
        raise NotKept(f"the folder {folder} cannot be made ({problem.strerror})") from problem
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o077:
        raise NotKept(f"{folder} has to be a folder of this user with mode 0700; remove it, or correct it with chmod")
    return folder


def socket_of(folder: Path, identity: Mapping[str, Any]) -> Path:
    """Return the socket of the connection with this identity, a JSON object. Raises NotKept for a path too long."""
    program = {"python": sys.executable, "package": str(Path(__file__).parent), **identity}
    name = hashlib.sha256(orjson.dumps(program, option=orjson.OPT_SORT_KEYS)).hexdigest()[:24]
    path = folder / f"{name}{ENDING}"
    if len(os.fsencode(path)) > MAX_SOCKET_PATH_BYTES:
        raise NotKept(f"the path {path} is too long for a socket; set XDG_RUNTIME_DIR to a shorter folder")
    return path


def is_of_this_user(peer: socket.socket) -> bool:
    """Whether the process at the other end belongs to this user. Without SO_PEERCRED the folder alone protects."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, uid, _ = struct.unpack("3i", peer.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return bool(uid == os.getuid())

"""Landlock: the kernel denies this thread, and everything that it starts, each access without a rule.

Files since ABI 1 (Linux 5.13), TCP ports since 4 (6.7), signals to processes outside since 6 (6.12). A restricted
process can also not debug, or read through `/proc`, a process that is not restricted by the same rules. Connecting is
allowed. Listening is allowed only on ports that the kernel chooses, so that no tool listens on the hub's own port (the
workers share that port, and the kernel would share it with the tool too).

Source: landlock(7).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct

from patchbay.processes.confinement.kernel import (
    LANDLOCK_ADD_RULE,
    LANDLOCK_CREATE_RULESET,
    LANDLOCK_RESTRICT_SELF,
    LINUX,
    PR_SET_NO_NEW_PRIVS,
    control_process,
    system_call,
)

TYPE_CHECKING = False  # the start of a confined program loads this module, and has no time for `typing` and more
if TYPE_CHECKING:
    from patchbay.processes.confinement.paths import AllowedPaths

NETWORK_ABI, SCOPE_ABI = 4, 6
"""The first versions that can restrict ports, and signals."""

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REFER, TRUNCATE = 1 << 13, 1 << 14
FIRST_RIGHTS = (1 << 13) - 1
"""All rights on files of ABI 1."""

READ = EXECUTE | READ_FILE | READ_DIR
FILE_RIGHTS = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
"""The rights that a rule for a single file may contain."""

BIND_TCP = 1 << 0
SCOPE_ABSTRACT_UNIX_SOCKET, SCOPE_SIGNAL = 1 << 0, 1 << 1
RULE_PATH_BENEATH, RULE_NET_PORT = 1, 2
CREATE_RULESET_VERSION = 1

_RULESET = Struct("=QQQ")
_PATH = Struct("=Qi")
_PORT = Struct("=QQ")


@lru_cache(maxsize=1)
def version() -> int:
    """Return the version of Landlock that this kernel has; 0 without Landlock."""
    if not LINUX:
        return 0
    try:
        return system_call(LANDLOCK_CREATE_RULESET, 0, 0, CREATE_RULESET_VERSION)
    except OSError:
        return 0


def restrict(places: AllowedPaths, covered: bool = False) -> None:
    """Restrict this thread, and everything that it starts, permanently. Raises OSError.

    `covered` means that mounts already hide the hidden folders, so that whole trees may be allowed.
    """
    ruleset = make_ruleset(places, covered)
    try:
        enforce(ruleset)
    finally:
        os.close(ruleset)


def make_ruleset(places: AllowedPaths, covered: bool = False) -> int:
    """Return the rules for these paths as a file descriptor, which can be enforced many times. Raises OSError."""
    return make_ruleset_of(list_rules(places, covered))


def list_rules(places: AllowedPaths, covered: bool = False) -> dict[str, int]:
    """Return the rights below each path that these places allow."""
    rules = dict.fromkeys(places.readable(covered), READ)
    if covered or places.lists_everything:
        rules["/"] = READ_DIR
    return rules | dict.fromkeys(places.writable(covered), all_rights())


def make_ruleset_of(rules: Mapping[str, int], ports: Iterable[int] = ()) -> int:
    """Return a ruleset with these rights below each path as a file descriptor. Raises OSError.

    `ports` are TCP ports on which the code may listen, beside those that the kernel chooses.
    """
    abi = version()
    scope = SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL if abi >= SCOPE_ABI else 0
    ruleset = _new(all_rights(), BIND_TCP if abi >= NETWORK_ABI else 0, scope, abi)
    try:
        for place, rights in rules.items():
            _allow(ruleset, place, rights)
        for port in (0, *ports) if abi >= NETWORK_ABI else ():
            system_call(LANDLOCK_ADD_RULE, ruleset, RULE_NET_PORT, _PORT.pack(BIND_TCP, port), 0)
    except OSError:
        os.close(ruleset)
        raise
    return ruleset


def enforce(ruleset: int) -> None:
    """Restrict this thread, and everything that it starts, by an existing ruleset. Raises OSError."""
    control_process(PR_SET_NO_NEW_PRIVS, 1)
    system_call(LANDLOCK_RESTRICT_SELF, ruleset, 0)


def all_rights() -> int:
    """Return all rights on files that this kernel knows."""
    abi = version()
    return FIRST_RIGHTS | (REFER if abi >= 2 else 0) | (TRUNCATE if abi >= 3 else 0)


def _new(files: int, network: int, scope: int, abi: int) -> int:
    size = 8 if abi < NETWORK_ABI else 16 if abi < SCOPE_ABI else 24
    return system_call(LANDLOCK_CREATE_RULESET, _RULESET.pack(files, network, scope), size, 0)


def _allow(ruleset: int, place: str, rights: int) -> None:
    """Allow rights below a path; skip one that does not exist or is a symbolic link."""
    try:
        found = os.open(place, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return
    try:
        kind = os.fstat(found).st_mode
        if not stat.S_ISLNK(kind):
            allowed = rights if stat.S_ISDIR(kind) else rights & FILE_RIGHTS
            system_call(LANDLOCK_ADD_RULE, ruleset, RULE_PATH_BENEATH, _PATH.pack(allowed, found), 0)
    finally:
        os.close(found)

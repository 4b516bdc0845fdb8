"""What a program of a stranger may do on this machine; `program_plans.py` makes the plan by which it starts so.

A confined program sees its own processes only. It reads the machine except the hub's data, the servers folder and the
private places of the user (`private_places.py`), and changes its own folder and its own /tmp. `reads` and `writes` of
its configuration open more; nothing opens the files of the hub. Its stores of packages are those of
`package_stores.py`. What a machine lacks is missing, and `describe_program_protections` says so.

Sources: landlock(7), namespaces(7).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from patchbay.processes.confinement.kernel import LINUX
from patchbay.processes.confinement.landlock import NETWORK_ABI, SCOPE_ABI, version
from patchbay.processes.confinement.paths import AllowedPaths
from patchbay.processes.confinement.private_places import find_home, find_private_places
from patchbay.processes.confinement.program_folders import ACCOUNT_MARK
from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES
from patchbay.processes.confinement.start_code import confining_words, make_start_file
from patchbay.processes.confinement.user_settings import IsSecret, find_user_settings
from patchbay.processes.egress.egress_list import EgressList, describe_egress, parse_egress_list
from patchbay.processes.egress.egress_records import EgressRecords
from patchbay.processes.limits import MAX_FILE_BYTES

DEFAULT, REQUIRED, OFF = "default", "required", "off"
"""Whether a program is confined: as far as this machine can, fully or not started, or not."""

OWN, USER = "own", "user"
"""The values of `home`: HOME is the program's own folder, or that of the user."""

BROWSER = "browser"
"""The value of `needs` for a program that starts a browser."""

MEMORY_MIB, BROWSER_MEMORY_MIB = 4096, 16384
"""MiB of memory for each process of a program, beyond which the kernel refuses more."""

NOT_CONFINED_BY_SETTING = "the setting confine is off"
NOT_CONFINED_BY_MACHINE = (
    "this machine has neither Landlock nor namespaces for users, or the setting protections is off"
)
"""Why programs have all rights of the hub's user."""

PROBE_SECONDS = 20.0
TMP = Path("/tmp")


@dataclass(frozen=True, slots=True)
class ProgramPermissions:
    """What the configuration of one program allows; `confine` empty is the default of the hub.

    `reads` and `writes` are paths, `~` is the home folder of the user. `network` is whether the program has one, or the
    only hosts and ports that it may reach (`egress_list.py`). `memory` is in MiB, 0 for the default.
    """

    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    home: str = OWN
    needs: str = ""
    network: bool | tuple[str, ...] = True
    confine: str = ""
    memory: int = 0


def _takes_all_for_secrets(name: str, value: str) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class ProgramPlaces:
    """The places of a hub that starts programs.

    `folder` holds the own folder of each program; `hidden` cannot be read, and `kept` not be changed, by any program;
    `wanted` are the names of the setting `protections`; `confine` applies to programs that do not say otherwise;
    `writes` are folders that each of them may change, `own` folders inside hidden ones that they may change.
    `is_secret` says which settings of the user's npm and git are secrets, by name and value; without it all are.
    `file_bytes` is the largest file that a program may write.
    """

    folder: Path
    hidden: tuple[Path, ...] = ()
    kept: tuple[Path, ...] = ()
    wanted: tuple[str, ...] = (LANDLOCK, NAMESPACES)
    confine: str = DEFAULT
    writes: tuple[str, ...] = ()
    is_secret: IsSecret = _takes_all_for_secrets
    own: tuple[Path, ...] = ()
    file_bytes: int = MAX_FILE_BYTES


def find_mode(permissions: ProgramPermissions, confine: str) -> str:
    """Return DEFAULT, REQUIRED or OFF for a program of a hub with this setting `confine`."""
    return REQUIRED if confine == REQUIRED else permissions.confine or confine


class ConfinementMissing(OSError):
    """A program requires a confinement that this machine does not have, or its own folder cannot be made."""


@lru_cache(maxsize=1)
def find_namespace_way() -> str:
    """Return how namespaces can be made here: `user`, `root`, or empty for not at all. Tried in another process."""
    if not LINUX:
        return ""
    plan = None
    try:
        plan = make_start_file(None)
        found = subprocess.run(
            confining_words([plan]),
            capture_output=True,
            timeout=PROBE_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
            pass_fds=[plan],
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    finally:
        if plan is not None:
            os.close(plan)
    return found.stdout.decode().split(" ")[0].strip()


def active_program_protections(wanted: Collection[str]) -> tuple[str, ...]:
    """Return the wanted protections of programs that this machine has: LANDLOCK, NAMESPACES, both or none."""
    found = [LANDLOCK] if LANDLOCK in wanted and version() > 0 else []
    return (*found, *([NAMESPACES] if NAMESPACES in wanted and find_namespace_way() else []))


def describe_program_protections(
    names: Collection[str], version: int, is_root: bool, network: bool | tuple[str, ...] = False
) -> Sequence[tuple[str, bool, str]]:
    """Return a row for each protection: its title, whether it holds, and what it does or what is missing.

    `names` are the active protections, `version` is that of Landlock, `is_root` says whether the hub runs as root, and
    `network` is that of a configuration; without one, the row says whether this machine can restrict a network.
    """
    walled, locked = NAMESPACES in names, LANDLOCK in names
    files = walled or locked
    signals = walled or (locked and version >= SCOPE_ABI)
    ports = locked and version >= NETWORK_ABI
    spaces = "namespaces for users"
    return (
        _row("files", files, "reads no file of the hub and no private place of the user", f"Landlock or {spaces}"),
        _row("changes", files, "changes only its own folder and what its writes name", f"Landlock or {spaces}"),
        _row("environments", files, "reads no environment and no memory of other processes", f"Landlock or {spaces}"),
        _row("signals", signals, "signals no process but its own", f"Landlock of Linux 6.12 or {spaces}"),
        _row("processes", walled, "sees no process but its own", spaces),
        _row("sockets", walled, "reaches no control socket, such as those of docker and D-Bus", spaces),
        _row("temporary files", walled, "has a /tmp of its own", spaces),
        _row("ports", ports, "cannot listen on the hub's port", "Landlock of Linux 6.7"),
        _describe_network(network, walled, spaces),
        _row("processor", not is_root, "has a limited number of processes", "a hub that does not run as root"),
    )


def _describe_network(network: bool | tuple[str, ...], walled: bool, needs: str) -> tuple[str, bool, str]:
    if network is True:
        what = "the program uses the network of this machine, the services on localhost and the hub included"
        return "network", False, f'{what}; "network" in its configuration restricts it'
    reach = f"reaches only {describe_egress(network)}" if network else "reaches no host"
    return _row("network", walled, reach, f"{needs}: the program does not start")


def _row(title: str, holds: bool, what: str, needs: str) -> tuple[str, bool, str]:
    return title, holds, f"the program {what}" if holds else f"not protected here; needs {needs}"


def describe_missing_protections(confine: str, wanted: Collection[str], version: int) -> str:
    """Return what the confinement of mounted programs lacks on this machine, as a sentence; empty if it is complete.

    `confine` is the setting, `wanted` are the names of the setting `protections`, `version` is that of Landlock.
    """
    names = active_program_protections(wanted)
    missing = [title for title, holds, _ in describe_program_protections(names, version, False) if not holds]
    if confine == OFF:
        return f"mounted programs are not confined: {NOT_CONFINED_BY_SETTING}"
    if not missing:
        return ""
    if confine == REQUIRED and not {LANDLOCK, NAMESPACES} <= set(names):
        lacking = " and ".join(one for one in (LANDLOCK, NAMESPACES) if one not in names)
        return f"mounted programs do not start: the setting confine is {REQUIRED}, and this machine lacks {lacking}"
    if not names:
        return f"mounted programs are not confined: {NOT_CONFINED_BY_MACHINE}"
    return (
        f"mounted programs are confined in part: this machine lacks protections of {', '.join(missing)};"
        " the settings page of each program says what they need"
    )


@dataclass(frozen=True)
class ProgramConfinement:
    """The confinement of one program: `name` names it for people, `environ` is the environment of the hub.

    `program` says which program it is: another one under the same name gets another folder. `account` is a digest of
    the account whose credential the process has, which gets a folder of its own too; empty for the hub's. `records` are
    the hosts that it asked its proxy for. `start_folder` is the folder in which it starts when its target names none;
    empty for its own folder. `is_typed` says that a command line started it, whose options say what it may do; else a
    configuration does, which stands in the `file` of the servers folder, empty for NAME.json. `record` is a descriptor
    to which what it tries is written (`tracing.py`); None for no record.
    """

    name: str
    places: ProgramPlaces
    permissions: ProgramPermissions
    environ: Mapping[str, str]
    program: str = ""
    start_folder: str = ""
    is_typed: bool = False
    record: int | None = None
    account: str = ""
    records: EgressRecords = field(default_factory=EgressRecords, compare=False)
    file: str = ""

    @property
    def is_on(self) -> bool:
        """Whether the program is confined, as far as this machine can."""
        return self.mode != OFF and bool(self.names or self.mode == REQUIRED)

    @property
    def reason_off(self) -> str:
        """Why the program is not confined; empty for a confined one."""
        if self.is_on:
            return ""
        if self.mode != OFF:
            return NOT_CONFINED_BY_MACHINE
        return 'its configuration has "confine": "off"' if self.permissions.confine == OFF else NOT_CONFINED_BY_SETTING

    @property
    def mode(self) -> str:
        """DEFAULT, REQUIRED or OFF. A hub that requires confinement requires it of each program."""
        return find_mode(self.permissions, self.places.confine)

    @property
    def names(self) -> tuple[str, ...]:
        """The protections that apply."""
        return active_program_protections(self.places.wanted)

    @property
    def own_folder(self) -> Path:
        """The folder that the program may change: its name has a digest of the program, and that of the account."""
        digest = f"-{sha256(self.program.encode(errors='surrogatepass')).hexdigest()[:12]}" if self.program else ""
        account = f"{ACCOUNT_MARK}{self.account}" if self.account else ""
        return (self.places.folder / f"{self.name}{digest}{account}").absolute()

    @property
    def writes(self) -> tuple[str, ...]:
        """The places that it may change beside its own, as written."""
        return (*self.places.writes, *self.permissions.writes)

    @property
    def memory_mib(self) -> int:
        """The memory in MiB that each process may have."""
        is_browser = self.permissions.needs == BROWSER
        return self.permissions.memory or (BROWSER_MEMORY_MIB if is_browser else MEMORY_MIB)

    @property
    def sentence(self) -> str:
        """What the program may do, as a sentence."""
        refused = dict.fromkeys(place for field, place in self.refused_places() if field == "writes")
        opened = [one for one in self.writes if one not in refused]
        changes = ", ".join((str(self.own_folder), "its own /tmp", *opened))
        reads = f", except {', '.join(self.permissions.reads)}" if self.permissions.reads else ""
        network = f" {self._network_sentence}" if self.permissions.network is not True else ""
        return (
            "It reads neither the files of the hub nor private places of the user, such as ~/.ssh and ~/.config"
            f"{reads}; it changes only {changes}.{network}"
        )

    @property
    def egress(self) -> EgressList | None:
        """The only hosts and ports that it may reach; None without a list. Raises EgressEntryError."""
        entries = self.permissions.network
        return None if isinstance(entries, bool) else parse_egress_list(entries)

    @property
    def _network_sentence(self) -> str:
        entries = self.permissions.network
        if isinstance(entries, bool):
            return "It has no network."
        return f"Of the network it reaches only {describe_egress(entries)}, through a proxy of the hub."

    def hidden_places(self) -> tuple[Path, ...]:
        """Return the private places that stay hidden: without those that the configuration opens."""
        opened = set(_existing((*self.permissions.reads, *self.writes), self.environ))
        opened |= {Path(one).resolve() for one in find_user_settings(self.environ, self.places.is_secret).values()}
        return tuple(one for one in find_private_places(self.environ) if one not in opened)

    def allowed_paths(self) -> AllowedPaths:
        """Return what the program may read and change."""
        hub = tuple(one.resolve() for one in self.places.hidden)
        private = self.hidden_places()
        kept = tuple(one.resolve() for one in self.places.kept)
        writes = [one for one in _existing(self.writes, self.environ) if not is_within(one, (*hub, *kept))]
        open_writes = [one for one in writes if is_within(one, private)]
        reads = [one for one in _existing(self.permissions.reads, self.environ) if not is_within(one, hub)]
        return AllowedPaths(
            hidden=(*hub, *private),
            own=(self.own_folder.resolve(), *(one.resolve() for one in self.places.own), *open_writes),
            writes=tuple(one for one in writes if one not in open_writes),
            kept=kept,
            shown=tuple(one for one in reads if is_within(one, (*private, TMP))),
        )

    def refused_places(self) -> list[tuple[str, str]]:
        """Return the places of the hub itself that the configuration names: the field and the place as written.

        Nothing opens them. The program's own folder does not count as a place of the hub.
        """
        hub = tuple(one.resolve() for one in self.places.hidden)
        kept = tuple(one.resolve() for one in self.places.kept)
        named = [("reads", one, hub) for one in self.permissions.reads]
        named += [("writes", one, (*hub, *kept)) for one in self.writes]
        own = self.own_folder.resolve()
        found = []
        for name, text, closed in named:
            with suppress(ValueError):
                place = resolve_place(text, self.environ)
                found += [(name, text)] if is_within(place, closed) and not place.is_relative_to(own) else []
        return found

    @property
    def refusal(self) -> str:
        """Why the program does not start on this machine; empty for one that does."""
        try:
            self.check()
        except ConfinementMissing as problem:
            return str(problem)
        return ""

    def check(self) -> None:
        """Raise ConfinementMissing where the program needs what this machine does not have."""
        lacking = [one for one in (LANDLOCK, NAMESPACES) if one not in self.names]
        source = "the command" if self.is_typed else "its configuration"
        if self.mode == REQUIRED and lacking:
            raise ConfinementMissing(
                f'{source} requires confinement ("confine": "{REQUIRED}"), and this machine lacks'
                f" {' and '.join(lacking)}; `patchbay doctor` says why"
            )
        if self.permissions.network is not True and (NAMESPACES not in self.names or not self.is_on):
            what = "a list of hosts" if self.permissions.network is not False else '"network": false'
            missing = "this machine has no namespaces to enforce it; `patchbay doctor` says why"
            if self.mode == OFF:
                missing = f'its confinement is switched off ("confine": "{OFF}"), so nothing would enforce it'
            raise ConfinementMissing(f"{source} has {what}, and {missing}")


def resolve_place(place: str, environ: Mapping[str, str]) -> Path:
    """Return a path of a configuration as an absolute one without symbolic links; `~` is the home folder.

    Links that lead in a circle stay as they are. Raises ValueError for a text that is no path, such as one with NUL.
    """
    home = str(find_home(environ))
    text = home + place[1:] if place == "~" or place.startswith("~/") else place
    return Path(os.path.realpath(text))


def is_there(place: Path) -> bool:
    """Whether a path exists; False for a text that no file system takes as a path."""
    try:
        return place.exists()
    except (OSError, ValueError):
        return False


def is_within(place: Path, folders: Collection[Path]) -> bool:
    """Whether a path is one of these or lies inside one."""
    return any(place.is_relative_to(one) for one in folders)


def _existing(places: Sequence[str], environ: Mapping[str, str]) -> list[Path]:
    """Return the places of a configuration that exist, resolved."""
    found = []
    for place in places:
        with suppress(ValueError):
            found.append(resolve_place(place, environ))
    return [one for one in found if is_there(one)]

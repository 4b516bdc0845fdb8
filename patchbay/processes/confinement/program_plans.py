"""Plan the start of a confined program: its environment, its folder, and the steps of `confined_start.py`.

The steps make the view of the file system where the machine has namespaces: stores of packages, an own /tmp, and empty
folders over what is hidden. Landlock then restricts what is left. Without namespaces Landlock lists what may be read
beside the hidden places; without Landlock everything else is mounted read-only.

Sources: landlock(7), mount_namespaces(7), setrlimit(2).
"""

from __future__ import annotations

import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patchbay.processes.confinement.landlock import all_rights, list_rules
from patchbay.processes.confinement.package_stores import find_overlays, find_store_variables
from patchbay.processes.confinement.paths import SHARED_MEMORY, AllowedPaths
from patchbay.processes.confinement.private_places import CONTROL_SOCKETS, RUN_FOLDERS, SHOWN_RUN_PLACES
from patchbay.processes.confinement.program_folders import make_own_folder, make_temporary_folder
from patchbay.processes.confinement.programs import (
    BROWSER,
    OWN,
    TMP,
    ConfinementMissing,
    ProgramConfinement,
    find_namespace_way,
    is_there,
    is_within,
    resolve_place,
)
from patchbay.processes.confinement.protections import LANDLOCK, NAMESPACES
from patchbay.processes.confinement.user_settings import find_user_settings
from patchbay.processes.egress.egress_plans import EgressPlan, plan_egress
from patchbay.processes.limits import MIB, max_user_tasks

SHARED_MEMORY_MIB, BROWSER_SHARED_MEMORY_MIB = 256, 2048
MAX_DESCRIPTORS = 65536
MAX_PATH_CHARACTERS = 4095
"""Characters of a path; a longer word of a command line is none."""

USER_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_RUNTIME_DIR")
"""Variables that lead to folders of the user; a program with a home of its own does not get them."""


@dataclass(frozen=True, slots=True)
class ProgramStart:
    """How a confined program starts: its environment, its folder, and its plan for `confined_start.py`.

    `temporary` is the folder that it sees as /tmp; `remove_temporary_folder` removes it when the program has ended.
    `egress` is what it has in place of a network, None without a list of hosts.
    """

    environment: Mapping[str, str]
    folder: str
    plan: dict[str, Any]
    temporary: Path
    egress: EgressPlan | None


def plan_start(
    confinement: ProgramConfinement,
    words: Sequence[str],
    environment: Mapping[str, str],
    given: Mapping[str, str],
    cwd: str | None,
) -> ProgramStart:
    """Return how a program starts. Raises ConfinementMissing.

    `words` are its command line, beginning with the path of the program; `environment` is what it inherits, `given` the
    variables of its configuration, which take precedence; `cwd` None is the start folder of its confinement.
    """
    confinement.check()
    walled, locked = NAMESPACES in confinement.names, LANDLOCK in confinement.names
    own, temporary = _make_folders(confinement)
    places = confinement.allowed_paths()
    folder = cwd or _start_folder(confinement, places)
    folder = str(Path(folder).absolute()) if folder else str(own)
    listed = confinement.egress
    egress = plan_egress(listed) if listed is not None else None
    steps = [*_steps(confinement, places, (*words, folder), temporary, egress)] if walled else []
    plan = {
        "namespaces": find_namespace_way() if walled else "",
        "network": confinement.permissions.network is True,
        "egress": (egress.addresses, egress.listeners) if egress is not None else None,
        "mounts": steps,
        "rules": _rules(confinement, places, temporary, walled) if locked else None,
        "ports": [],
        "record": confinement.record,
        "limits": _limits(confinement),
    }
    changed = _environment(confinement, environment, str(TMP) if walled else str(temporary))
    if egress is not None:
        changed |= egress.environment
    return ProgramStart(changed | dict(given), folder, plan, temporary, egress)


def _start_folder(confinement: ProgramConfinement, places: AllowedPaths) -> str:
    """Return the folder in which a program starts when its target names none; empty for its own folder.

    A folder that is hidden from the program is replaced by its own one.
    """
    folder = confinement.start_folder
    place = Path(folder).resolve()
    shown = (*places.own, *places.writes, *places.shown)
    return "" if is_within(place, places.hidden) and not is_within(place, shown) else folder


def _make_folders(confinement: ProgramConfinement) -> tuple[Path, Path]:
    """Make the own folder of the program with its stores, and an empty folder for its /tmp; return both."""
    own = confinement.own_folder
    stores = [one for _, store, work in find_overlays(confinement.environ, own) for one in (store, work)]
    try:
        make_own_folder(own, stores)
        return own, make_temporary_folder(own)
    except OSError as problem:
        raise ConfinementMissing(f"its own folder {own} cannot be made: {problem.strerror}") from problem


def _environment(confinement: ProgramConfinement, inherited: Mapping[str, str], temporary: str) -> dict[str, str]:
    environ, own = confinement.environ, confinement.own_folder
    stores = find_store_variables(environ, own)
    changed = {name.lower() for name in stores}
    found = {name: value for name, value in inherited.items() if name.lower() not in changed}
    found |= {"TMPDIR": temporary}
    if confinement.permissions.home == OWN:
        found = {name: value for name, value in found.items() if name not in USER_FOLDERS}
        found |= {"HOME": str(own), **find_user_settings(environ, confinement.places.is_secret)}
    return found | stores


def _limits(confinement: ProgramConfinement) -> list[tuple[int, int]]:
    is_browser = confinement.permissions.needs == BROWSER
    tasks = max_user_tasks()
    return [
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, confinement.places.file_bytes * (4 if is_browser else 1)),
        (resource.RLIMIT_NOFILE, MAX_DESCRIPTORS),
        (resource.RLIMIT_DATA, confinement.memory_mib * MIB),
        *([(resource.RLIMIT_NPROC, tasks)] if tasks is not None else []),
    ]


def _rules(confinement: ProgramConfinement, places: AllowedPaths, temporary: Path, walled: bool) -> dict[str, int]:
    """Return the rights for Landlock below each path, as the program sees it."""
    rules = list_rules(places, walled)
    rules[str(TMP if walled else temporary)] = all_rights()
    if walled and confinement.permissions.needs == BROWSER:
        # A browser makes namespaces for its pages, which it sets up by files of its own processes.
        rules["/proc"] = all_rights()
    return rules


def _steps(
    confinement: ProgramConfinement,
    places: AllowedPaths,
    words: Sequence[str],
    temporary: Path,
    egress: EgressPlan | None,
) -> Iterator[tuple[str | int | list[tuple[str, bool]] | list[str], ...]]:
    """Yield the steps that make the program's view of the file system, each with its name in `confined_start.STEPS`."""
    own = confinement.own_folder
    yield ("proc",)
    for shared, store, work in find_overlays(confinement.environ, own):
        yield "overlay", str(shared), str(store), str(work)
    if Path(SHARED_MEMORY).is_dir():
        is_browser = confinement.permissions.needs == BROWSER
        yield "memory", SHARED_MEMORY, BROWSER_SHARED_MEMORY_MIB if is_browser else SHARED_MEMORY_MIB
        if egress is not None:
            yield "hosts", egress.hosts, f"{SHARED_MEMORY}/hosts"
    writable = [*places.own, *places.writes]
    # What a line lets the program change stays so where another line, or the command line, lets it read.
    shown = [(str(one), False) for one in writable]
    shown += [(str(one), True) for one in places.shown if not is_within(one, writable)]
    beside_tmp = [(str(one), True) for one in _temporary_places(confinement, writable, words)]
    yield "replace", str(TMP), str(temporary), _inside(TMP, [*beside_tmp, *shown])
    for folder in (Path(one) for one in RUN_FOLDERS):
        if not folder.is_symlink():
            yield "hide", str(folder), _inside(folder, [*((one, True) for one in SHOWN_RUN_PLACES), *shown])
    for place in places.hidden:
        yield ("hide", str(place), _inside(place, shown)) if place.is_dir() else ("cover", str(place))
    for place in (Path(one) for one in CONTROL_SOCKETS):
        yield "cover", str(place)
    for place in places.kept:
        yield "read-only", str(place)
    if LANDLOCK not in confinement.names:
        yield "freeze", [*map(str, writable), str(TMP), SHARED_MEMORY]


def _inside(folder: Path, places: Sequence[tuple[str, bool]]) -> list[tuple[str, bool]]:
    """Return the places inside a folder, those that contain others first."""
    return sorted(one for one in places if one[0] != str(folder) and Path(one[0]).is_relative_to(folder))


def _temporary_places(
    confinement: ProgramConfinement, writable: Sequence[Path], words: Sequence[str]
) -> Iterator[Path]:
    """Yield what the program needs below /tmp to start: the program, what its command line names, this Python.

    The command line was written by the operator, as the other folders that a program may read. The `writable` places
    are left out.
    """
    yield from (Path(sys.prefix), Path(sys.base_prefix), Path(__file__).parents[3])
    for word in words:
        for part in (word, word.partition("=")[2]):
            if not part.startswith(f"{TMP}/") or len(part) > MAX_PATH_CHARACTERS:
                continue
            place = resolve_place(os.path.normpath(part), confinement.environ)
            if is_there(place) and not is_within(place, writable):
                beside = place if place.is_dir() or place.parent == TMP else place.parent
                yield from {Path(part), beside} if Path(part) == place else {place, beside}

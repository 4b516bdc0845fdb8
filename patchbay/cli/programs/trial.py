"""Run a program once, confined and with an empty folder of its own, list its tools, and say what it tried.

The kernel confines it as always; beside that, a supervisor records which files it opens and where it connects to
(`processes/confinement/tracing.py`). No tool is called, and what it wrote is removed at the end. Only a user who
switches its confinement off runs it without; then there is no record, and what it changed stays.
"""

from __future__ import annotations

import ast
import os
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import patchbay
from patchbay.cli.programs.rights import confine_typed
from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.connection import Connection
from patchbay.client.connection.programs.environment import make_launch_environment
from patchbay.client.errors import Unreachable
from patchbay.errors import PatchbayError
from patchbay.kinds.program_places import program_places
from patchbay.processes.confinement.paths import KERNEL_FOLDERS
from patchbay.processes.confinement.private_places import find_home
from patchbay.processes.confinement.program_denials import is_proposable
from patchbay.processes.confinement.programs import (
    DEFAULT,
    OFF,
    TMP,
    ConfinementMissing,
    ProgramConfinement,
    ProgramPermissions,
    is_within,
    resolve_place,
)
from patchbay.processes.confinement.protections import NAMESPACES
from patchbay.processes.confinement.tracing import CONNECT, MAX_RECORDS, READ, WRITE, is_supported
from patchbay.settings import Settings

DNS_PORT = "port 53"
COMPILED = "__pycache__"
"""Where Python keeps compiled modules; every program tries to write there, and works without."""

MAX_RECORD_BYTES = 8 * 1024 * 1024
"""Bytes of a record that are kept; the record of most programs has some hundred thousand."""

CUT = "It tried more than the record holds, so this list is not complete."
UNREADABLE = "A part of the record cannot be read, so this list is not complete."
NOT_RECORDED = "What it tried is not recorded on this machine."
UNCONFINED = (
    "With --confine off it has all rights of your user: what it tried is not recorded, and what it changed stays."
)
"""Why a record does not say everything."""


@dataclass
class Tried:
    """What a program tried beside its own folder, without repetitions.

    `reads` are private places and places of the hub, `writes` places that it may not change, `reaches` addresses and
    sockets. `missing` is a sentence that says why there is more that is not recorded; empty for a complete record.
    """

    reads: list[str] = field(default_factory=list)
    writes: list[str] = field(default_factory=list)
    reaches: list[str] = field(default_factory=list)
    missing: str = ""


@dataclass(frozen=True)
class Trial:
    """The result of one run: the tools, what was tried, and the failure of a program that did not start."""

    tools: list[dict[str, Any]]
    tried: Tried
    failure: PatchbayError | None = None


def try_program(
    target: Stdio,
    settings: Settings,
    environ: Mapping[str, str],
    permissions: ProgramPermissions,
    start_timeout: float,
) -> Trial:
    """Run a program once, and return what it offers and tried, or why it did not start.

    `start_timeout` is in seconds. Everything that a confined program wrote is removed. Raises Unreachable for one that
    this machine cannot confine as `permissions` say.
    """
    with TemporaryDirectory(prefix="patchbay-try-") as folder:
        places = replace(program_places(settings), folder=Path(folder) / "programs", writes=())
        permissions = replace(permissions, confine=permissions.confine or DEFAULT)
        confinement = replace(confine_typed(target, places, permissions, environ), start_folder="")
        _check(target, confinement)
        missing = UNCONFINED if not confinement.is_on else "" if is_supported() else NOT_RECORDED
        record = bytearray()
        reading, writing = os.pipe()
        reader = threading.Thread(target=_read_record, args=(reading, record))
        reader.start()
        tools: list[dict[str, Any]] = []
        failure: PatchbayError | None = None
        try:
            with Connection.open(
                target,
                version=patchbay.__version__,
                start_timeout=start_timeout,
                environ=make_launch_environment(environ),
                confinement=replace(confinement, record=None if missing else writing),
            ) as connection:
                tools = connection.list_tools()
        except PatchbayError as problem:
            failure = problem
        finally:
            os.close(writing)
            reader.join()
        tried = sort_record(bytes(record), confinement)
        tried.missing = missing or tried.missing
        return Trial(tools, tried, failure)


def _check(target: Stdio, confinement: ProgramConfinement) -> None:
    """Raise Unreachable for a program that cannot be confined, unless the user has switched its confinement off."""
    try:
        confinement.check()
    except ConfinementMissing as problem:
        raise Unreachable(f"{target.label} cannot be started: {problem}") from problem
    if not confinement.is_on and confinement.mode != OFF:
        raise Unreachable(
            f"{target.label} is not started, because nothing would confine it: {confinement.reason_off};"
            " `--confine off` runs it with all rights of your user"
        )


def _read_record(descriptor: int, record: bytearray) -> None:
    """Read a record to its end, so that the supervisor never waits; keep one byte more than the limit."""
    with os.fdopen(descriptor, "rb") as file:
        while piece := file.read1(65536):
            record += piece[: MAX_RECORD_BYTES + 1 - len(record)]


def sort_record(record: bytes, confinement: ProgramConfinement) -> Tried:
    """Return what a record says that the program was refused, or reached.

    What is behind MAX_RECORD_BYTES, and a line that cannot be read, are left out; `missing` says so.
    """
    found = Tried()
    text = record[:MAX_RECORD_BYTES].decode("utf-8", "surrogateescape")
    lines = text.split("\n")[:-1]  # each line ends with a line feed; the last one of a cut record may be a half
    if len(record) > MAX_RECORD_BYTES or len(lines) >= MAX_RECORDS:
        found.missing = CUT
    paths = confinement.allowed_paths()
    free = (*paths.own, *paths.writes, *KERNEL_FOLDERS)
    has_own_tmp = NAMESPACES in confinement.names
    shown = (*paths.own, *paths.writes, *paths.shown)
    for line in lines:
        try:
            kind, text = _parse(line)
        except _UNREADABLE:
            found.missing = found.missing or UNREADABLE
            continue
        if kind == CONNECT:
            if not text.endswith(DNS_PORT) and text not in found.reaches:
                found.reaches.append(text)
            continue
        try:
            place = resolve_place(text, confinement.environ)
            is_hidden = is_within(place, paths.hidden) and not is_within(place, shown)
            if kind == READ and is_hidden and os.path.lexists(place) and not _is_above(place, shown):
                _add(found.reads, place, confinement)
            elif kind == WRITE and has_own_tmp and _is_in_own_tmp(place):
                continue
            elif kind == WRITE and not is_within(place, free) and COMPILED not in place.parts and not place.is_dir():
                _add(found.writes, place, confinement)
        except (OSError, ValueError):  # a text of a stranger that is no path
            continue
    return found


_UNREADABLE = (ValueError, TypeError, SyntaxError, RecursionError, MemoryError)
"""What `ast.literal_eval` raises."""


def _parse(line: str) -> tuple[str, str]:
    """Return the kind of a line of a record, and what it names. Raises one of _UNREADABLE."""
    kind, _, text = line.partition(" ")
    named = ast.literal_eval(text)
    if kind not in (READ, WRITE, CONNECT) or not isinstance(named, str):
        raise ValueError("expected a kind of a record and a text")
    return kind, named


def _is_in_own_tmp(place: Path) -> bool:
    """Whether a place is in the program's own /tmp: this machine has no such folder in its /tmp."""
    return place.is_relative_to(TMP) and (place.parent == TMP or not place.parent.exists())


def _is_above(place: Path, shown: Iterable[Path]) -> bool:
    return any(one.is_relative_to(place) for one in shown)


def _add(found: list[str], place: Path, confinement: ProgramConfinement) -> None:
    home = find_home(confinement.environ).resolve()
    text = f"~/{place.relative_to(home)}" if place != home and place.is_relative_to(home) else str(place)
    if text not in found:
        found.append(text)


def list_folders_to_write(tried: Tried, environ: Mapping[str, str], hub: Iterable[Path]) -> list[str]:
    """Return the folders of what a program tried to change that a line may open."""
    folders = dict.fromkeys(str(resolve_place(one, environ).parent) for one in tried.writes)
    return [one for one in folders if Path(one).is_dir() and is_proposable(one, environ, tuple(hub))]

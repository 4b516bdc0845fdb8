"""Remove a server, and restore it.

The files of a removed server move to `.deleted/NAME-TIME/` in the watched folder. A server without a file loses its
name in the store; its contents and its history stay there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path, PurePath

from patchbay.boot import change_names
from patchbay.catalogue.operating.switching import check_changeable, check_not_of_room
from patchbay.catalogue.servers.rows import name_problem, parse_row
from patchbay.catalogue.servers.server import unknown_server
from patchbay.catalogue.watching.drop_ins import drop_ins
from patchbay.catalogue.watching.settling import CONFIG_ENDING
from patchbay.errors import ConfigError, Refused
from patchbay.kind import known_kinds
from patchbay.store import Store
from patchbay.topics import SERVERS

DELETED = ".deleted"
"""The folder in the watched folder with the files of removed servers."""

MAX_MOVES = 500
"""Limit on the changes of a name that a search for the last row reads."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What was removed: `files` with their places in `.deleted`, empty for a server that only the store had."""

    files: tuple[Path, ...] = ()


def find_files(folder: Path, name: str) -> list[Path]:
    """Return the files of a server in the watched folder: its definition and its configuration."""
    endings = dict.fromkeys([*(ending for kind in known_kinds() for ending in kind.endings), CONFIG_ENDING])
    return [path for ending in endings if (path := folder / f"{name}{ending}").is_file()]


def remove_server(store: Store, folder: Path, name: str, who: str, known: Iterable[str] = ()) -> Removal:
    """Remove a server; `restore_server` undoes this. A running hub follows within a second.

    Raises UnknownServer with similar names of `known`, ReadOnly, and Refused when a file cannot be moved.
    """
    check_changeable(store)
    _check_alone_in_file(store, folder, name)
    if name_problem(name) is None and (files := find_files(folder, name)):
        return Removal(tuple(_move_files(files, _new_place(folder, name))))
    cid = store.names.get(SERVERS + name)
    if cid is None:
        raise unknown_server(name, known)
    check_not_of_room(parse_row(name, store.blobs.get(cid)))
    change_names(store, {SERVERS + name: None}, who, f"{name} is removed", {SERVERS + name: cid})
    return Removal()


def _check_alone_in_file(store: Store, folder: Path, name: str) -> None:
    """Raise Refused for a server whose file describes others too, or has another name."""
    known = drop_ins(store)
    file = known[name].file if name in known else f"{name}.json"
    others = sorted(other for other, mark in known.items() if mark.file == file and other != name)
    if not (folder / file).is_file() or not (others or (name in known and PurePath(file).stem != name)):
        return
    also = f", which also describes {', '.join(others)}" if others else ""
    raise Refused(f"{name} was not removed: remove it from {file}{also}")


def restore_server(store: Store, folder: Path, name: str, who: str) -> Removal:
    """Bring a removed server back, with its last files or its last row. Raises ConfigError when there is nothing to
    restore or a server of this name exists, ReadOnly, and Refused when a file cannot be moved.
    """
    check_changeable(store)
    problem = name_problem(name)
    if problem:
        raise ConfigError("NAME", "", problem)
    if find_files(folder, name):
        raise ConfigError(str(folder), name, "expected no file of this server; remove or rename it first")
    places = find_deleted(folder).get(name, [])
    if places:
        moved = tuple(_move_files(sorted(places[-1].iterdir()), folder))
        places[-1].rmdir()
        return Removal(moved)
    if store.names.get(SERVERS + name) is not None:
        raise ConfigError(name, "", "expected a removed server; this one exists: `patchbay enable` switches it on")
    last = next((move.cid for move in store.names.past(SERVERS + name, MAX_MOVES) if move.cid is not None), None)
    if last is None:
        removed = ", ".join(sorted(find_deleted(folder))) or "none"
        raise ConfigError(name, "", f"expected a removed server; those with files are: {removed}")
    change_names(store, {SERVERS + name: last}, who, f"{name} is restored", {SERVERS + name: None})
    return Removal()


def find_deleted(folder: Path) -> dict[str, list[Path]]:
    """Return the folders of removed servers by name, each list from the oldest to the newest."""
    found: dict[str, list[Path]] = {}
    for place in sorted((folder / DELETED).glob("*-*")):
        if place.is_dir() and (parts := re.fullmatch(r"(.+)-([0-9]{8}T[0-9]{6}\.[0-9]{6}Z)", place.name)):
            found.setdefault(parts[1], []).append(place)
    return found


def list_removed(store: Store, folder: Path) -> list[str]:
    """Return the names of servers that `restore_server` can bring back, sorted."""
    now = {full.removeprefix(SERVERS) for full in store.names.all(SERVERS)}
    gone = {move.name.removeprefix(SERVERS) for move in store.names.past("", MAX_MOVES, prefixes=[SERVERS])} - now
    found = gone | find_deleted(folder).keys()
    return sorted(name for name in found if name_problem(name) is None and not find_files(folder, name))


def _new_place(folder: Path, name: str) -> Path:
    return folder / DELETED / f"{name}-{datetime.now(UTC).strftime('%Y%m%dT%H%M%S.%fZ')}"


def _move_files(files: Iterable[Path], place: Path) -> list[Path]:
    moved = []
    try:
        place.mkdir(parents=True, exist_ok=True)
        for file in files:
            moved.append(file.rename(place / file.name))
    except OSError as problem:
        raise Refused(f"{problem.filename} cannot be moved to {place}: {problem.strerror}") from problem
    return moved

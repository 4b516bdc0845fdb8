"""The stores that released versions made, each with what that version answered, and hubs of this version on them."""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any

from tests.checkout import ROOT
from tests.hubs import Hub

FOLDER = ROOT / "tests" / "upgrade"
RELEASED = sorted(path.name.removeprefix("hub-").partition(".")[0] for path in FOLDER.glob("hub-*.sqlite3.gz"))
"""The commits that made the stores."""

OFF = ("bash", "claudecode", "everything")
"""Shipped servers that are off unless the operator enables them."""


@cache
def expected(commit: str) -> dict[str, Any]:
    """What the version answered: `lists` of every server at its pin, and some `calls`."""
    found: dict[str, Any] = json.loads((FOLDER / f"expected-{commit}.json").read_text("utf-8"))
    return found


def unpack(commit: str, folder: Path) -> Path:
    """Write the database of a version into a new folder, and return its path."""
    folder.mkdir(parents=True)
    database = folder / "patchbay.sqlite3"
    database.write_bytes(gzip.decompress((FOLDER / f"hub-{commit}.sqlite3.gz").read_bytes()))
    return database


def served(database: Path) -> dict[str, str]:
    """Server -> the CID of the version that the released hub served."""
    with closing(sqlite3.connect(database)) as connection:
        rows = connection.execute("SELECT name, cid FROM names WHERE name LIKE 'served/%'").fetchall()
    return {name.removeprefix("served/"): cid for name, cid in rows}


def named(database: Path, name: str) -> str:
    """The CID that a name has in a database."""
    with closing(sqlite3.connect(database)) as connection:
        (cid,) = connection.execute("SELECT cid FROM names WHERE name = ?", (name,)).fetchone()
    return str(cid)


def content(database: Path, cid: str) -> bytes:
    """The bytes of a CID in a database."""
    with closing(sqlite3.connect(database)) as connection:
        (data,) = connection.execute("SELECT data FROM blobs WHERE cid = ?", (cid,)).fetchone()
    return bytes(data)


def definition(database: Path, server: str) -> str:
    """The text of the definition that the released hub served."""
    row = json.loads(content(database, named(database, f"servers/{server}")))
    return content(database, row["definition_cid"]).decode()


def upgraded(commit: str, folder: Path, files: Mapping[str, str] | None = None) -> Hub:
    """A hub of this version on a copy of the store, with all its servers on."""
    unpack(commit, folder / "data")
    return Hub(folder, files, store="sqlite", data=folder / "data", enable=OFF).as_operator()

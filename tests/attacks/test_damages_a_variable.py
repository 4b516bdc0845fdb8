"""The stored bytes of a variable are damaged or lost: other changes still work, and no restriction is lifted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from patchbay.store import DATABASE_FILE
from tests.attacks.requests import send
from tests.serving.running import running

pytestmark = pytest.mark.process


def damage(folder: Path, name: str, statement: str) -> None:
    with closing(sqlite3.connect(folder / "data" / DATABASE_FILE, timeout=60)) as database, database:
        row = database.execute("SELECT cid FROM names WHERE name = ?", (name,)).fetchone()
        assert database.execute(statement, row).rowcount == 1


def test_other_changes_go_on_and_the_damaged_variable_comes_back(tmp_path: Path) -> None:
    with running(tmp_path) as hub:
        sent = hub.as_operator()
        for name, text in (("motto", b"plug anything in"), ("other", b"1")):
            assert send(hub, "PUT", f"/variables/{name}", text, sent).status == 201
        for number, statement in enumerate(
            ["UPDATE blobs SET data = x'00ff' WHERE cid = ?", "DELETE FROM blobs WHERE cid = ?"], 2
        ):
            damage(tmp_path, "variables/motto", statement)
            damage(tmp_path, "servers/echo", statement)
            changed = send(hub, "PUT", "/variables/other", str(number).encode(), sent)
            assert changed.status == 200, changed.body
            assert send(hub, "GET", "/variables/motto.json").json["value"] == "plug anything in"
            assert send(hub, "GET", "/variables.json").status == 200
            assert send(hub, "GET", "/mcp/meta/echo.json").status == 200
        assert send(hub, "DELETE", "/variables/motto", headers=sent).status == 200

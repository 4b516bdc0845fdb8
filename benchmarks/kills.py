"""Kills a hub in the middle of its writes, again and again, and looks for what it had acknowledged.

    .venv/bin/python -m benchmarks.kills                         50 rounds with one worker, 50 with two
    .venv/bin/python -m benchmarks.kills --rounds 5 --workers 2  a first look

Each round starts the hub on the data folder of the round before, writes to it from several threads, and ends the whole
hub with `kill -9` at a random moment. Then the database is checked, and every write that was ever answered is looked
up in it. The exit code is 0 when nothing is lost or damaged.
"""

from __future__ import annotations

import argparse
import http.client
import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from rich.console import Console

from benchmarks.processes import find_descendants
from patchbay.access.operator_token import TOKEN_FILE
from patchbay.cid import cid_of
from patchbay.sqlite import sqlite3
from patchbay.store import DATABASE_FILE
from patchbay.stores.sqlite import SqliteStore

ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0
"""How long a hub may take to start on a busy machine."""

WRITES_SECONDS = (0.2, 1.2)
"""The hub is killed so long after the first write, at a random moment."""

KEEPER = '''"""Remembers values."""


def remember(context, key: str, number: int) -> int:
    """Remember a number."""
    context.state[key] = number
    return number
'''


@dataclass
class Told:
    """What the hub has acknowledged: the last number of each name, and every content by its CID.

    `tried` is the last number that was sent for a name: a write under way when the hub was killed may be there though
    it was not answered.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    tried: dict[str, int] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)
    writes: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)


class Hub:
    """One hub that was started to be killed."""

    def __init__(self, folder: Path, workers: int) -> None:
        settings = ["--port", "0", "--data", str(folder / "data"), "--servers", str(folder / "servers")]
        command = [sys.executable, "-m", "patchbay", "serve", *settings, "--workers", str(workers)]
        begun = time.monotonic()
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(START_SECONDS, self.process.kill)
        watchdog.start()
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if "Patchbay is at " in line:
                break
        else:
            raise SystemExit(f"the hub did not start again: {''.join(said)}")
        watchdog.cancel()
        self.seconds = time.monotonic() - begun
        self.port = int(line.split("Patchbay is at ")[1].rsplit(":", 1)[1].split("/")[0])
        self.token = (folder / "data" / TOKEN_FILE).read_text().strip()
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self) -> None:
        """End every process of the hub at once, without a word."""
        os.kill(self.process.pid, signal.SIGSTOP)
        processes = find_descendants(self.process.pid)
        os.kill(self.process.pid, signal.SIGKILL)
        for pid in processes:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self.process.wait()

    def connection(self) -> http.client.HTTPConnection:
        """A connection of its own for one writer."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


class Writer:
    """Writes until the hub is gone, each sort of write in turn, and notes what was answered."""

    def __init__(self, hub: Hub, told: Told, name: str) -> None:
        self._hub = hub
        self._told = told
        self._name = name
        self._connection = hub.connection()
        self._number = max([0, *(number for key, number in told.tried.items() if key.endswith(name))])

    def run(self) -> None:
        """Write in a circle: a tool's own memory, a variable, a content."""
        sorts: list[Callable[[], None]] = [self._remember, self._set_variable, self._keep_content]
        try:
            while True:
                self._number += 1
                for write in sorts:
                    write()
        except (OSError, http.client.HTTPException):
            return

    def _remember(self) -> None:
        name = self._try(f"state/keeper/k-{self._name}")
        arguments = {"key": f"k-{self._name}", "number": self._number}
        params = {"name": "remember", "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = self._ask("POST", "/mcp/keeper", orjson.dumps(message), "application/json")
        if body and not orjson.loads(body).get("result", {"isError": True}).get("isError"):
            self._note("memory of tools", name)

    def _set_variable(self) -> None:
        name = self._try(f"variables/v-{self._name}")
        if self._ask("PUT", f"/{name}", str(self._number).encode(), "text/plain"):
            self._note("variables", name)

    def _keep_content(self) -> None:
        content = f"{self._name} {self._number} ".encode() * random.randint(1, 2000)
        if self._ask("POST", "/cid", content, "application/octet-stream"):
            with self._told.lock:
                self._told.writes["contents"] += 1
                self._told.contents.add(cid_of(content))

    def _ask(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        """The body of a good answer; empty for another one."""
        accept = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}
        proof = {"Authorization": f"Bearer {self._hub.token}"}
        self._connection.request(method, path, body, {"Content-Type": kind, **accept, **proof})
        answer = self._connection.getresponse()
        data = answer.read()
        return data if answer.status in (200, 201) else b""

    def _try(self, name: str) -> str:
        with self._told.lock:
            self._told.tried[name] = self._number
        return name

    def _note(self, sort: str, name: str) -> None:
        with self._told.lock:
            self._told.writes[sort] += 1
            self._told.numbers[name] = self._number


def check(folder: Path, told: Told) -> list[str]:
    """Return the faults of the database after a kill: damage, and acknowledged data that is missing."""
    connection = sqlite3.connect(folder / "data" / DATABASE_FILE)
    try:
        [(verdict,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    finally:
        connection.close()
    wrong = [] if verdict == "ok" else [f"the database is damaged: {verdict}"]
    store = SqliteStore(folder / "data")
    try:
        for name, number in told.numbers.items():
            cid = store.names.get(name)
            there = int(store.blobs.get(cid)) if cid else None
            if there is None or not number <= there <= told.tried[name]:
                wrong.append(f"{name} was {number}, and is {there}")
        wrong += [f"the content {cid} is not there" for cid in store.blobs.missing(told.contents)]
    finally:
        store.close()
    return wrong


def play(workers: int, rounds: int, writers: int) -> bool:
    """All rounds with so many workers; prints the figures, and answers whether nothing was lost."""
    told, wrong, starts = Told(), list[str](), list[float]()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "servers").mkdir()
        (folder / "servers" / "keeper.py").write_text(KEEPER)
        for number in range(1, rounds + 1):
            hub = Hub(folder, workers)
            starts.append(hub.seconds)
            threads = [threading.Thread(target=Writer(hub, told, f"w{one}").run) for one in range(writers)]
            for thread in threads:
                thread.start()
            time.sleep(random.uniform(*WRITES_SECONDS))
            hub.kill()
            for thread in threads:
                thread.join()
            wrong += [f"round {number}: {sentence}" for sentence in check(folder, told)]
    counts = ", ".join(f"{count} {sort}" for sort, count in sorted(told.writes.items()))
    say = Console(soft_wrap=True, highlight=False).print
    say(f"workers {workers}: {rounds} rounds of kill -9, {told.writes.total()} acknowledged writes ({counts})")
    say(f"  lost or damaged: {len(wrong)}")
    say(f"  start: median {statistics.median(starts):.2f} s, at most {max(starts):.2f} s")
    for sentence in wrong[:20]:
        say(f"  {sentence}")
    return not wrong and bool(told.writes)


def main() -> int:
    """Play all rounds; the exit code."""
    parser = argparse.ArgumentParser(description="Kill a hub in the middle of its writes, and look for what it lost.")
    parser.add_argument("--rounds", type=int, default=50, help="rounds for each number of workers")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of workers")
    parser.add_argument("--writers", type=int, default=4, help="threads that write")
    given = parser.parse_args()
    kept = [play(workers, given.rounds, given.writers) for workers in given.workers]
    return 0 if all(kept) else 1


if __name__ == "__main__":
    sys.exit(main())

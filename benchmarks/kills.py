"""Kills a hub in the middle of its writes, again and again, and checks that every acknowledged write is stored.

    .venv/bin/python -m benchmarks.kills                         50 rounds with one worker, 50 with two
    .venv/bin/python -m benchmarks.kills --rounds 5 --workers 2  a first look

Each round starts the hub on the data folder of the round before, writes to it from several threads, and ends the whole
hub with `kill -9` at a random moment. Then the database is checked, and every write that was ever answered is looked
up in it; the log of the room and the audit chain are verified. The exit code is 0 when nothing is lost or damaged.
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
from dataclasses import dataclass, field
from pathlib import Path

import orjson
from rich.console import Console

from benchmarks.processes import find_descendants
from patchbay.access.audit.chain import read_lines, texts_of
from patchbay.access.audit.verification import verify as verify_audit
from patchbay.access.operator_token import TOKEN_FILE
from patchbay.cid import cid_of
from patchbay.client.rooms.connection import make_envelope
from patchbay.rooms.record.verification import verify as verify_log
from patchbay.sqlite import sqlite3
from patchbay.store import DATABASE_FILE, Store
from patchbay.stores.sqlite import SqliteStore
from patchbay.topics import AUDIT
from tests.rooms.people import rooms_of

ROOM = "/rooms/kept"
ROOT = Path(__file__).resolve().parent.parent
START_SECONDS = 120.0
"""The longest time for the start of a hub."""

WRITES_SECONDS = (0.5, 2.5)
"""Bounds of the random time between the first write and the kill."""

DEFINITION = '''"""Remembers values."""


def remember(context, key: str, number: int) -> int:
    """Remember a number."""
    context.state[key] = number
    return number
'''


@dataclass
class AcknowledgedWrites:
    """The writes that the hub has acknowledged: the last number of each name, and the CID of each content.

    `attempted` is the last number that was sent for a name. A killed hub may have stored it without an answer.
    `envelopes` are the ids of the messages in the room.
    """

    numbers: dict[str, int] = field(default_factory=dict)
    attempted: dict[str, int] = field(default_factory=dict)
    contents: set[str] = field(default_factory=set)
    envelopes: set[str] = field(default_factory=set)
    writes: Counter[str] = field(default_factory=Counter)
    audited: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


class Hub:
    """A running hub that a round kills."""

    def __init__(self, folder: Path, workers: int) -> None:
        settings = ["--port", "0", "--data", str(folder / "data"), "--servers", str(folder / "servers")]
        command = [sys.executable, "-m", "patchbay", "serve", *settings, "--workers", str(workers)]
        command += ["--audit", "on"]
        begun = time.monotonic()
        self.process = subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE, text=True)
        watchdog = threading.Timer(START_SECONDS, self.process.kill)
        watchdog.start()
        assert self.process.stderr is not None
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if "Patchbay is at " in line:
                break
        else:
            raise SystemExit(f"the hub did not start again: {''.join(lines)}")
        watchdog.cancel()
        self.seconds = time.monotonic() - begun
        self.port = int(line.split("Patchbay is at ")[1].rsplit(":", 1)[1].split("/")[0])
        self.token = (folder / "data" / TOKEN_FILE).read_text().strip()
        threading.Thread(target=self.process.stderr.read, daemon=True).start()

    def kill(self) -> None:
        """End every process of the hub at once with SIGKILL."""
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
        """Return a new connection to the hub."""
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)


class Writer:
    """Writes each kind of value in turn until the hub has ended, and notes the acknowledged writes."""

    def __init__(self, hub: Hub, acknowledged: AcknowledgedWrites, name: str) -> None:
        self._hub = hub
        self._acknowledged = acknowledged
        self._name = name
        self._session = ""
        self._connection = hub.connection()
        self._number = max([0, *(number for key, number in acknowledged.attempted.items() if key.endswith(name))])

    def run(self) -> None:
        """Write the state of a tool, a variable, a content and a message in a room, again and again."""
        writes = [self._write_tool_state, self._set_variable, self._write_content, self._write_message]
        try:
            while True:
                self._number += 1
                for write in writes:
                    write()
        except (OSError, http.client.HTTPException):
            return

    def _write_tool_state(self) -> None:
        name = self._note_attempt(f"state/keeper/k-{self._name}")
        arguments = {"key": f"k-{self._name}", "number": self._number}
        params = {"name": "remember", "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        body = self._request("POST", "/mcp/keeper", orjson.dumps(message), "application/json")
        if body and not orjson.loads(body).get("result", {"isError": True}).get("isError"):
            self._note_acknowledged("memory of tools", name)

    def _set_variable(self) -> None:
        name = self._note_attempt(f"variables/v-{self._name}")
        if self._request("PUT", f"/{name}", str(self._number).encode(), "text/plain"):
            self._note_acknowledged("variables", name)

    def _write_content(self) -> None:
        content = f"{self._name} {self._number} ".encode() * random.randint(1, 2000)
        if self._request("POST", "/cid", content, "application/octet-stream"):
            with self._acknowledged.lock:
                self._acknowledged.writes["contents"] += 1
                self._acknowledged.contents.add(cid_of(content))

    def join_room(self) -> None:
        """Make the room if it is missing, and begin a session in it."""
        self._request("PUT", ROOM, b'{"policy": {"history": "all"}}', "application/json")
        hello = make_envelope("hello", {"proto": "ENSO-1", "caps": ["can.speak"], "agent": {"name": self._name}})
        self._request("POST", ROOM, orjson.dumps(hello), "application/json")

    def _write_message(self) -> None:
        parts = [{"kind": "text", "mime": "text/plain", "text": f"{self._name} {self._number}"}]
        said = make_envelope("content.post", {"room": "kept", "message": {"role": "human", "parts": parts}})
        body = self._request("POST", ROOM, orjson.dumps(said), "application/json")
        receipts = orjson.loads(body) if body else []
        if any(receipt.get("seq") is not None for receipt in (receipts if isinstance(receipts, list) else [receipts])):
            with self._acknowledged.lock:
                self._acknowledged.writes["messages in a room"] += 1
                self._acknowledged.envelopes.add(said["id"])

    def _request(self, method: str, path: str, body: bytes, kind: str) -> bytes:
        """Send a request; return the body of a successful response, empty bytes for any other."""
        accept = {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"}
        accept |= {"Enso-Session": self._session} if self._session else {}
        proof = {"Authorization": f"Bearer {self._hub.token}"}
        self._connection.request(method, path, body, {"Content-Type": kind, **accept, **proof})
        answer = self._connection.getresponse()
        self._session = answer.headers.get("Enso-Session") or self._session
        data = answer.read()
        return data if answer.status in (200, 201) else b""

    def _note_attempt(self, name: str) -> str:
        with self._acknowledged.lock:
            self._acknowledged.attempted[name] = self._number
        return name

    def _note_acknowledged(self, sort: str, name: str) -> None:
        with self._acknowledged.lock:
            self._acknowledged.writes[sort] += 1
            self._acknowledged.numbers[name] = self._number


def check(folder: Path, acknowledged: AcknowledgedWrites) -> list[str]:
    """Return the faults of the database after a kill: damage, and acknowledged data that is missing."""
    connection = sqlite3.connect(folder / "data" / DATABASE_FILE)
    try:
        [(verdict,)] = connection.execute("PRAGMA integrity_check(1)").fetchall()
    finally:
        connection.close()
    wrong = [] if verdict == "ok" else [f"the database is damaged: {verdict}"]
    store = SqliteStore(folder / "data")
    try:
        for name, number in acknowledged.numbers.items():
            cid = store.names.get(name)
            stored = int(store.blobs.get(cid)) if cid else None
            if stored is None or not number <= stored <= acknowledged.attempted[name]:
                wrong.append(f"{name} was {number}, and is {stored}")
        wrong += [f"the content {cid} is not stored" for cid in store.blobs.missing(acknowledged.contents)]
        wrong += check_room(store, acknowledged.envelopes)
        audit = verify_audit(texts_of(read_lines(store.journal)), is_running=True)
        if not audit.ok and store.journal.last(AUDIT):
            wrong.append(f"the audit chain: {audit.sentence()}")
        acknowledged.audited = audit.rows
    finally:
        store.close()
    return wrong


def check_room(store: Store, envelopes: set[str]) -> list[str]:
    """Return the faults of the room: a log that cannot be verified, and messages that are not in it exactly once."""
    with rooms_of(store) as rooms:
        room = rooms.open("kept")
        verdict = verify_log(room.lines(), room.head)
        stored = Counter(one.entry.envelope["id"] for one in room.entries(0, 10**9))
    wrong = [] if verdict.ok else [f"the log of the room: {verdict}"]
    return wrong + [f"the message {id} is there {stored[id]} times" for id in envelopes if stored[id] != 1]


def run_rounds(workers: int, rounds: int, writers: int) -> bool:
    """Run all rounds with a number of workers; print the figures; return whether every write is stored."""
    acknowledged, wrong, starts = AcknowledgedWrites(), list[str](), list[float]()
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory)
        (folder / "servers").mkdir()
        (folder / "servers" / "keeper.py").write_text(DEFINITION)
        for number in range(1, rounds + 1):
            hub = Hub(folder, workers)
            starts.append(hub.seconds)
            working = [Writer(hub, acknowledged, f"w{index}") for index in range(writers)]
            for writer in working:
                writer.join_room()
            threads = [threading.Thread(target=writer.run) for writer in working]
            for thread in threads:
                thread.start()
            time.sleep(random.uniform(*WRITES_SECONDS))
            hub.kill()
            for thread in threads:
                thread.join()
            wrong += [f"round {number}: {sentence}" for sentence in check(folder, acknowledged)]
    counts = ", ".join(f"{count} {sort}" for sort, count in sorted(acknowledged.writes.items()))
    print_line = Console(soft_wrap=True, highlight=False).print
    print_line(
        f"workers {workers}: {rounds} rounds of kill -9, {acknowledged.writes.total()} acknowledged writes ({counts})"
    )
    print_line(
        f"  the log of the room ({len(acknowledged.envelopes)} acknowledged messages) and the audit chain"
        f" ({acknowledged.audited} rows) verified in each round"
    )
    print_line(f"  lost or damaged: {len(wrong)}")
    print_line(f"  start: median {statistics.median(starts):.2f} s, at most {max(starts):.2f} s")
    for sentence in wrong[:20]:
        print_line(f"  {sentence}")
    return not wrong and bool(acknowledged.writes)


def main() -> int:
    """Run all rounds; return the exit code."""
    parser = argparse.ArgumentParser(description="Kill a hub in the middle of its writes, and check its data.")
    parser.add_argument("--rounds", type=int, default=50, help="rounds for each number of workers")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2], help="numbers of workers")
    parser.add_argument("--writers", type=int, default=4, help="threads that write")
    options = parser.parse_args()
    results = [run_rounds(workers, options.rounds, options.writers) for workers in options.workers]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())

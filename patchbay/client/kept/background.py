"""The background process that holds one connection: `python -m patchbay.client.kept.background`.

Its plan is one JSON object on standard input, its report one line on standard output. It starts the program, listens,
and ends when it was idle for the time of the plan, when the program has ended, on SIGTERM, or when a command stops it.
Each command has a thread here; a command that leaves cancels its request.
"""

from __future__ import annotations

import itertools
import os
import signal
import socket
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from patchbay.client.addresses.targets import Stdio
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure
from patchbay.client.kept.confinement_fields import decode_confinement
from patchbay.client.kept.messages import Channel, decode_failure, encode_failure, encode_item
from patchbay.client.kept.places import is_of_this_user
from patchbay.errors import PatchbayError
from patchbay.events import Pause, Question
from patchbay.settings import whole_environment

CHECK_SECONDS = 0.5
"""Seconds between two looks at the idle time, at the program, and at a command whose request runs."""

ALIVE_SECONDS = 3.0
"""Seconds after which a command hears that its request still runs."""

MAX_COMMANDS = 64
"""Commands that are served at once; further ones use a connection of their own."""

Json = dict[str, Any]


@dataclass
class Background:
    """One kept connection and its socket. `label` shows the program without its secrets; `idle` is in seconds."""

    connection: Connection
    place: Path
    label: str
    folder: str
    idle: float
    began: float = field(default_factory=time.time)
    calls: int = 0
    _active: int = 0
    _used: float = field(default_factory=time.monotonic)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def serve(self, listener: socket.socket) -> None:
        """Serve commands until the end of this process is due, or its socket is gone: no command could find it."""
        listener.settimeout(CHECK_SECONDS)
        while not (self._stopped.is_set() or self.connection.closed or self._is_idle()) and self.place.exists():
            with suppress(TimeoutError):
                peer, _ = listener.accept()
                peer.setblocking(True)
                if not is_of_this_user(peer) or self._active >= MAX_COMMANDS:
                    peer.close()
                    continue
                threading.Thread(target=self._serve_command, args=(Channel(peer),), daemon=True).start()

    def _is_idle(self) -> bool:
        with self._lock:
            return not self._active and time.monotonic() - self._used > self.idle

    def _serve_command(self, channel: Channel) -> None:
        try:
            with suppress(OSError):
                while (message := channel.receive()) is not None:
                    self._answer(channel, message)
        finally:
            channel.close()

    def _answer(self, channel: Channel, message: Json) -> None:
        operation = message.get("op")
        if operation == "request":
            self._run_request(channel, message)
        elif operation == "hello":
            found = self.connection
            channel.send({
                "info": found.info, "revision": found.revision, "modern": found.modern,
                "capabilities": found.capabilities, "instructions": found.instructions,
            })  # fmt: skip
        elif operation == "stop":
            self._stopped.set()
            self.place.unlink(missing_ok=True)
            self.connection.close()
            channel.send({"stopped": True})
        else:
            channel.send(self._describe())

    def _describe(self) -> Json:
        with self._lock:
            idle = 0.0 if self._active else time.monotonic() - self._used
        return {
            "name": self.place.stem, "program": self.label, "folder": self.folder, "process": os.getpid(),
            "began": self.began, "calls": self.calls, "idle": idle, "ends_after": self.idle,
        }  # fmt: skip

    def _run_request(self, channel: Channel, message: Json) -> None:
        with self._lock:
            self._active += 1
            self.calls += 1
        try:
            end = self._relay(channel, message)
        except PatchbayError as problem:
            end = {"failure": encode_failure(problem)}
        finally:
            with self._lock:
                self._active -= 1
                self._used = time.monotonic()
        if end is not None:
            channel.send(end)

    def _relay(self, channel: Channel, message: Json) -> Json | None:
        """Send the request, pass the server's messages on, and return the result; None if the command has ended."""
        timeout = message.get("timeout")
        running = self.connection.request(
            str(message["method"]),
            message.get("params") or {},
            timeout=float("inf") if timeout is None else float(timeout),
            progress=bool(message.get("progress", True)),
            capabilities=message.get("capabilities"),
            pauses=itertools.repeat(CHECK_SECONDS),
            manual_input=bool(message.get("manual_input")),
            caller=channel,
        )
        answer: Json | McpFailure | None = None
        told = time.monotonic()
        try:
            while True:
                item = running.send(answer)
                answer = None
                if isinstance(item, Question):
                    channel.send({"question": {"method": item.method, "params": dict(item.params)}})
                    answer = _receive_answer(channel)
                elif not isinstance(item, Pause):
                    channel.send({"item": encode_item(item)})
                elif channel.has_left():
                    return None
                elif time.monotonic() - told > ALIVE_SECONDS:
                    channel.send({"alive": True})
                    told = time.monotonic()
        except StopIteration as end:
            return {"result": end.value}
        finally:
            running.close()


def _receive_answer(channel: Channel) -> Json | McpFailure:
    message = channel.receive()
    if message is None:
        raise ConnectionError("the command has left")
    if "failure" in message:
        problem = decode_failure(message["failure"])
        return problem if isinstance(problem, McpFailure) else McpFailure(problem.code, problem.message)
    return dict(message["answer"])


def main() -> None:
    """Read the plan, start the program, report, and serve."""
    plan = orjson.loads(sys.stdin.buffer.read())
    # The process that started this one waits for the first of the two; the second one belongs to no command.
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    target, place = Stdio(**plan["target"] | {"args": tuple(plan["target"]["args"])}), Path(plan["place"])
    try:
        connection = Connection.open(
            target,
            environ=plan["environ"],
            questions=plan.pop("questions"),
            confinement=decode_confinement(plan["confinement"], whole_environment()),
            **plan["options"],
        )
    except PatchbayError as problem:
        _report({"failure": encode_failure(problem)})
        return
    with connection, socket.socket(socket.AF_UNIX) as listener:
        before = os.umask(0o177)
        place.unlink(missing_ok=True)
        listener.bind(os.fspath(place))
        listener.listen(MAX_COMMANDS)
        os.umask(before)
        try:
            own = place.stat().st_ino
            _report({"ready": True})
            Background(connection, place, target.label, str(Path.cwd()), plan["idle"]).serve(listener)
        finally:
            _remove(place, own)


def _remove(place: Path, own: int) -> None:
    """Remove the socket, unless another process has put its own there."""
    with suppress(FileNotFoundError):
        if place.stat().st_ino == own:
            place.unlink()


def _report(report: Json) -> None:
    """Write the report, and close standard output, so that the command does not wait for it."""
    with suppress(BrokenPipeError):
        os.write(1, orjson.dumps(report, default=str) + b"\n")
    empty = os.open(os.devnull, os.O_RDWR)
    os.dup2(empty, 1)
    os.close(empty)


if __name__ == "__main__":
    main()

"""Clients of the published Enso wire, by way of `enso.mjs`: what each has received, and how it was closed."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.checkout import ROOT
from tests.interaction.peers import NODE, PACKAGES
from tests.interaction.programs import plain_environment

BOUND = 60.0

Json = dict[str, Any]


class EnsoClient:
    """One WebSocket of the process. `frames` is everything that it received, in order."""

    def __init__(self, process: EnsoProcess, name: str) -> None:
        self.frames: list[Json] = []
        self.closed: tuple[int, str] | None = None
        self.refused: int | None = None
        self.opened = False
        self._process = process
        self._name = name

    def asks(self, **what: Any) -> None:
        """Give the process an order for this client."""
        self._process.write({"client": self._name, **what})

    def says(self, type: str, payload: Json, **more: Any) -> None:
        """Send an envelope."""
        self.asks(event=type, payload=payload, **more)

    def waits_for(self, type: str, condition: Callable[[Json], bool] = lambda payload: True) -> Json:
        """The first envelope of a type whose payload fits."""

        def found() -> Json | None:
            payloads = (one["payload"] for one in self.frames if one["type"] == "envelope")
            return next((one for one in payloads if one["type"] == type and condition(one["payload"])), None)

        envelope: Json = self._process.wait(found, f"{type} for {self._name}, which has {self.frames[-5:]}")
        return envelope

    def waits_for_close(self) -> tuple[int, str]:
        """Code and reason of the close."""
        found: tuple[int, str] = self._process.wait(lambda: self.closed, f"the close of {self._name}")
        return found

    def waits_for_refusal(self) -> int:
        """The HTTP status in place of a WebSocket."""
        found: int = self._process.wait(lambda: self.refused, f"the refusal of {self._name}")
        return found


class EnsoProcess:
    """The Node process, and the clients in it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._clients: dict[str, EnsoClient] = {}
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def client(self, url: str, **hello: Any) -> EnsoClient:
        """Open a WebSocket; with `caps` or more, say hello and wait for the answers."""
        name = f"client {len(self._clients)}"
        made = self._clients[name] = EnsoClient(self, name)
        made.asks(open=url)
        self.wait(lambda: made.opened or made.refused or made.closed, f"the WebSocket {url}")
        if hello:
            made.asks(hello={"proto": "ENSO-1", **hello})
            made.waits_for("presence.join")
        return made

    def write(self, order: Json) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        with self._changed:
            found = self._changed.wait_for(condition, BOUND)
        assert found, f"waited {BOUND} s in vain: {what}"
        return found

    def close(self) -> None:
        """End the process, and read its output to the end."""
        self._process.kill()
        self._reader.join()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            client = self._clients[told["client"]]
            with self._changed:
                if "frame" in told:
                    client.frames.append(told["frame"])
                elif "closed" in told:
                    client.closed = (told["closed"][0], told["closed"][1])
                elif "refused" in told:
                    client.refused = told["refused"]
                else:
                    client.opened = True
                self._changed.notify_all()


@contextmanager
def enso_clients(home: Path) -> Iterator[EnsoProcess]:
    """A process for clients of one test module."""
    command = [str(NODE), str(ROOT / "tests/wire/rooms/enso.mjs"), str(PACKAGES)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, env=plain_environment(home), text=True, stdin=pipe, stdout=pipe) as process:
        clients = EnsoProcess(process)
        try:
            yield clients
        finally:
            clients.close()

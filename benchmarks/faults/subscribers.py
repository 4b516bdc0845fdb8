"""Subscriptions to the list of a server at each node, and an operator who changes the server at one of them."""

from __future__ import annotations

import re
import time
from typing import Any
from urllib.parse import urlencode

from benchmarks.faults.load import Client, Refusal, SteadyClient

FORM = "application/x-www-form-urlencoded"
SOURCE = "def version_%d() -> str:\n    return ''\n"
VERSION = re.compile(rb"version_(\d+)")


class Changer(SteadyClient):
    """Saves the definition of a server again and again: each version has a tool of its own."""

    pause_seconds = 1.0

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._number = 0

    def step(self) -> None:
        self._number += 1
        if self.attempt("change", lambda: self.save(self._number)):
            self.log.changes[self._number] = time.monotonic()

    def save(self, number: int) -> None:
        """Save a version; the first one makes the server. Raises Refusal, OSError, HTTPException."""
        fields = {"action": "save", "source": SOURCE % number}
        path = "/servers/changing/edit"
        if not number:
            fields, path = fields | {"name": "changing"}, "/servers/new"
        self.send("POST", path, urlencode(fields).encode(), Content_Type=FORM)


class Subscriber(SteadyClient):
    """Listens for changes of the list, and reads the list after each of them."""

    def step(self) -> None:
        self.attempt("subscription", self._listen)
        self.close()

    def _listen(self) -> None:
        answer = self.ask("changing", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
        if answer.status != 200:
            raise Refusal(f"listen: {answer.status} {answer.read()[:300]!r}")
        reader = Client(self.hub, self.node, self.log, self.ending)
        try:
            while line := answer.readline():
                if self.ending.is_set():
                    return
                if line.startswith(b"data:") and b'"method"' in line:
                    self.attempt_list(reader)
        finally:
            reader.close()
        raise ConnectionError("the stream of a subscription ended")

    def attempt_list(self, reader: Client) -> None:
        """Read the list, and note its version."""

        def read() -> None:
            answer = reader.ask("changing", "tools/list", {})
            data = answer.read()
            found = VERSION.findall(data)
            if len(found) != 1:
                raise Refusal(f"the list of node {self.node}: {data[:300]!r}")
            self.log.seen[self.node].setdefault(int(found[0]), time.monotonic())

        reader.attempt("list", read)

"""Webhooks through a hub that is killed: in order, none lost, and twice only with the same id."""

from __future__ import annotations

import faulthandler
import http.client
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import orjson
import pytest

from tests.checkout import ROOT
from tests.hubs import BOTH, modern_request
from tests.interaction.programs import free_port, plain_environment, status_of
from tests.protocol.webhooks.receiver import HOST, SECRET, Receiver, receiving
from tests.waiting import BOUND, until

SOURCE = """
from typing import TypedDict


class Count(TypedDict):
    number: int


EVENTS = {"counted": Count}


def count(first: int, many: int, context) -> int:
    for number in range(first, first + many):
        context.emit("counted", {"number": number}, f"n{number}")
    return first + many
"""
AT_ONCE = 10

pytestmark = pytest.mark.process


class KilledHub:
    """A hub as a program that can be killed and started again on the same folder."""

    def __init__(self, folder: Path, authority: Path) -> None:
        self._folder = folder
        self._environment = plain_environment(folder) | {"SSL_CERT_FILE": str(authority)}
        (folder / "servers").mkdir(parents=True)
        (folder / "servers" / "counter.py").write_text(SOURCE)
        self.port = free_port()
        self.starts = 0
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "patchbay", "serve", "--port", str(self.port), "--enable", ""]
        command += ["--data", str(self._folder / "data"), "--servers", str(self._folder / "servers")]
        command += ["--webhook-hosts", HOST]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )
        self.starts += 1
        until(self.is_ready, "the hub is ready")

    def is_ready(self) -> bool:
        return status_of(f"http://127.0.0.1:{self.port}/readyz") == 200

    def kill(self) -> None:
        """Kill every process of the hub at once."""
        assert self._process is not None
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(BOUND)

    def ask(self, method: str, params: dict[str, object]) -> dict[str, object] | None:
        """Return a result; None if the hub was killed meanwhile."""
        message, headers = modern_request(method, params)
        known = {"Content-Type": "application/json", "Accept": BOTH, "Host": f"127.0.0.1:{self.port}"} | dict(headers)
        connection = http.client.HTTPConnection(urlsplit(f"http://127.0.0.1:{self.port}").netloc, timeout=BOUND)
        try:
            connection.request("POST", "/mcp/counter", orjson.dumps(message), known)
            body = connection.getresponse().read()
            lines = [line[6:] for line in body.split(b"\n") if line.startswith(b"data: ")] or [body]
            answer = orjson.loads(lines[-1])
            assert "result" in answer, answer
            return dict(answer["result"])
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError):
            return None
        finally:
            connection.close()


def has_arrived(receiver: Receiver, count: int) -> bool:
    return len(receiver.events) >= count


@contextmanager
def killed_hub(folder: Path) -> Iterator[tuple[KilledHub, Receiver]]:
    with receiving(folder) as (receiver, authority):
        hub = KilledHub(folder / "hub", authority)
        hub.start()
        try:
            yield hub, receiver
        finally:
            hub.kill()


@pytest.mark.parametrize(
    ("events", "kills"),
    [(600, 2), pytest.param(10_000, 10, marks=pytest.mark.full)],
    ids=["few", "many"],
)
def test_events_arrive_in_order_through_failures_and_kills_and_none_is_lost(
    tmp_path: Path, events: int, kills: int
) -> None:
    """37.1: an event whose call was answered is delivered; what is delivered twice has the same id."""
    # Ten thousand deliveries need longer than the limit of one test; each wait below has its own.
    faulthandler.cancel_dump_traceback_later()
    with killed_hub(tmp_path) as (hub, receiver):
        receiver.failures = 0.1
        delivery = {"mode": "webhook", "url": receiver.url, "secret": SECRET}
        made = hub.ask("events/subscribe", {"name": "counted", "delivery": delivery, "ttlMs": None})
        assert made is not None and made["refreshBefore"] is None
        answered: list[int] = []

        def emit_all() -> None:
            first = 0
            while first < events:
                arguments = {"first": first, "many": AT_ONCE}
                result = hub.ask("tools/call", {"name": "count", "arguments": arguments})
                if result is not None and not result.get("isError"):
                    answered.extend(range(first, first + AT_ONCE))
                elif result is None:
                    until(hub.is_ready, "the next start")
                first += AT_ONCE

        emitting = threading.Thread(target=emit_all, daemon=True)
        emitting.start()
        for kill in range(1, kills + 1):
            mark = events * kill // (kills + 2)
            until(partial(has_arrived, receiver, mark), f"{mark} deliveries")
            hub.kill()
            hub.start()
        emitting.join()
        while not set(answered) <= {one["data"]["number"] for one in receiver.events}:
            until(partial(has_arrived, receiver, len(receiver.events) + 1), "the next delivery")
        numbers = [one["data"]["number"] for one in receiver.events]
        ids = [one["eventId"] for one in receiver.events]
    first_seen = list(dict.fromkeys(numbers))
    assert first_seen == sorted(first_seen), "in order"
    assert hub.starts == kills + 1 and receiver.wrong_signatures == 0
    assert all(id == f"n{number}" for id, number in zip(ids, numbers, strict=True))
    assert len(answered) > events * 0.8

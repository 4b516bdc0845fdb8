"""What tests of keys of callers share: a server that wants them, its mounts, and callers that store theirs."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flask.testing import FlaskClient
from werkzeug.test import TestResponse

from tests.access.upstreams.guarded import page_of
from tests.checkout import ROOT
from tests.interaction.programs import free_port, running
from tests.signing_in import HTML, hidden_fields

PROGRAM = ROOT / "tests/access/upstreams/keyed_program.py"


@dataclass(frozen=True)
class Keyed:
    """A running server that wants a key of each caller."""

    url: str
    log: Path
    refused: Path

    def mount(self, **fields: Any) -> str:
        """A configuration that mounts it with the keys of callers."""
        return json.dumps({"kind": "upstream", "address": self.url, "account": "caller", "way": "key"} | fields)

    def seen(self) -> list[dict[str, Any]]:
        """All requests so far."""
        return [json.loads(line) for line in self.log.read_text("utf-8").splitlines()]

    def refuse(self, *keys: str) -> None:
        """Refuse these keys from now on, and no others."""
        self.refused.write_text("\n".join(keys), "utf-8")


@contextmanager
def running_keyed(folder: Path) -> Iterator[Keyed]:
    """A server that wants keys, while it runs."""
    folder.mkdir(exist_ok=True)
    port, log, refused = free_port(), folder / "requests", folder / "refused"
    log.touch()
    refused.touch()
    program = str(ROOT / "tests/access/upstreams/keyed_server.py")
    url = f"http://127.0.0.1:{port}/mcp"
    command = [sys.executable, program, str(port), str(log), str(refused)]
    with running(command, url, folder, statuses=(401,), ends=(0, -15)):
        yield Keyed(url, log, refused)


def program_mount(**fields: Any) -> str:
    """A configuration that mounts the program, each caller's key being a variable of their own process."""
    address = f"mcp+stdio:{sys.executable} {PROGRAM}"
    entered = [{"name": "key", "title": "Service key", "variable": "SERVICE_KEY"}]
    own = {"account": "caller", "way": "key", "fields": entered}
    return json.dumps({"kind": "upstream", "address": address} | own | fields)


def key_of(name: str) -> str:
    """A new key that stands for a name."""
    return f"key-of-{name}-{secrets.token_urlsafe(24).replace('-', '_')}"


def store(browser: FlaskClient, server: str, values: Mapping[str, str] | str, query: str = "") -> TestResponse:
    """Enter a key, or several values by field, on the page of a server."""
    entered = {"token": values} if isinstance(values, str) else values
    fields = hidden_fields(page_of(browser, server, query).text, "csrf", "for")
    form = fields | {"do": "connect"} | {f"value.{name}": value for name, value in entered.items()}
    return browser.post(f"/upstreams/{server}", data=form, headers=HTML)


def disconnect(browser: FlaskClient, server: str) -> TestResponse:
    """Press `Disconnect` on the page of a server."""
    fields = hidden_fields(page_of(browser, server).text, "csrf", "for", "id")
    return browser.post(f"/upstreams/{server}", data=fields | {"do": "disconnect"}, headers=HTML)


def read_processes(file: str) -> Iterator[tuple[str, bytes]]:
    """A file of each process of the machine, such as `environ`."""
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        with suppress(OSError):
            yield path.parent.name, path.read_bytes()


def processes_with(key: str) -> set[str]:
    """The processes with a key in their environment."""
    return {pid for pid, data in read_processes("environ") if key.encode() in data}

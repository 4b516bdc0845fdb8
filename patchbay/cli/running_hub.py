"""The hub that runs on the data folder of a command: where it listens, and requests to it as the operator.

`patchbay serve` notes its address and its servers folder beside its lock in the data folder. A command of the same
user finds the hub there, on any port.
"""

from __future__ import annotations

import http.client
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import click
import orjson

from patchbay.access.operator_token import OperatorToken
from patchbay.cli.options import find_source, load_settings
from patchbay.client.errors import Unreachable
from patchbay.errors import ConfigError
from patchbay.settings import Settings
from patchbay.stores.folder_lock import CLAIMED, SHARED, read_note

REQUEST_SECONDS = 30.0
"""Limit on the seconds of one request."""

FOLLOW_SECONDS = 10.0
"""Seconds within which a hub follows a change of its store or its servers folder."""

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunningHub:
    """A hub on this machine: its address without a path, the `Host` that it accepts, its process, its data folder."""

    url: str
    host: str
    process: int
    data: Path

    def get(self, path: str) -> Any:
        """Return the JSON at a path, as the operator sees it; None for 404. Raises Unreachable."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=REQUEST_SECONDS)
        headers = {"Host": self.host, "Accept": "application/json"}
        with suppress(ConfigError):
            token = OperatorToken(self.data).read_stored()
            headers |= {"Authorization": f"Bearer {token}"} if token else {}
        try:
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            data = answer.read()
            if answer.status == 404:
                return None
            if answer.status != 200:
                raise Unreachable(
                    f"the hub at {self.url} refuses {path} with status {answer.status}: `patchbay doctor`"
                )
            return orjson.loads(data)
        except (OSError, http.client.HTTPException, orjson.JSONDecodeError) as problem:
            raise Unreachable(
                f"the hub at {self.url} (process {self.process}) does not answer ({problem}): run `patchbay doctor`"
            ) from problem
        finally:
            connection.close()

    def servers(self) -> dict[str, dict[str, Any]]:
        """Return the summaries of all servers by name. Raises Unreachable."""
        return {row["name"]: row for row in self.get("/servers.json")}

    def server(self, name: str) -> dict[str, Any] | None:
        """Return all values of one server, None for an unknown one. Raises Unreachable."""
        found = self.get(f"/mcp/meta/{quote(name, safe='')}.json")
        return found["server"] if found is not None else None

    def wait_for(self, name: str, is_done: Callable[[dict[str, Any] | None], bool]) -> bool:
        """Wait until the summary of a server (None without one) is as wanted; return whether it is in time."""
        until = time.monotonic() + FOLLOW_SECONDS
        while not is_done(self.servers().get(name)):
            if time.monotonic() > until:
                return False
            time.sleep(POLL_SECONDS)
        return True


def find_running_hub(settings: Settings) -> RunningHub | None:
    """Return the hub that runs on the data folder; None without one."""
    if settings.store == "memory":
        return None
    note = read_note(settings.data, CLAIMED)
    url, host, process = note.get("url"), note.get("host"), note.get("process")
    if not (isinstance(url, str) and isinstance(host, str) and isinstance(process, int) and is_alive(process)):
        return None
    return RunningHub(url, host, process, settings.data)


def is_alive(process: int) -> bool:
    """Whether a process with this id exists."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


def load_hub_settings(context: click.Context) -> Settings:
    """Load the settings of a command. Unless named, the servers folder is that of the hub that used the data folder
    last. Raises ConfigError.
    """
    settings = load_settings(context)
    if find_source(context, "servers") != "default" or settings.store == "memory":
        return settings
    noted = read_note(settings.data, CLAIMED).get("servers") or read_note(settings.data, SHARED).get("servers")
    return replace(settings, servers=Path(noted)) if isinstance(noted, str) else settings

"""The hub that runs on the data folder of a command: where it listens, and requests to it as the operator.

`patchbay serve` notes its address and its servers folder beside its lock in the data folder. A command of the same
user finds the hub there, on any port.
"""

from __future__ import annotations

import http.client
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

import click
import orjson

from patchbay.access.operator_token import OperatorToken
from patchbay.cli.options import find_source, load_settings
from patchbay.client.addresses.targets import Http, Local
from patchbay.client.connection.connection import Connection
from patchbay.client.errors import McpFailure, Unreachable
from patchbay.errors import ConfigError, ContentError, UnavailableServer, UnknownServer
from patchbay.processes.process_trees import is_running
from patchbay.serving.hub_url import hub_url, public_url
from patchbay.settings import Settings
from patchbay.stores.folder_lock import CLAIMED, SHARED, is_claimed, read_note

REQUEST_SECONDS = 30.0
"""Limit on the seconds of one request."""

FOLLOW_SECONDS = 10.0
"""Seconds within which a hub follows a change of its store or its servers folder."""

POLL_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunningHub:
    """A hub on this machine: its URL, the `Host` that it accepts, its process, its data folder.

    The path of `url` is the path prefix of the hub; the hub answers on this machine without the prefix too.

    `folder` is its servers folder, None when the hub has not noted one. `mode` is its mode of access, "" when the hub
    of an older version has not noted it. `public` is its address for people elsewhere.
    """

    url: str
    host: str
    process: int
    data: Path
    folder: Path | None = None
    mode: str = ""
    public: str = ""

    def address_of(self, link: str) -> str:
        """Return the URL of a link in an answer of the hub, which has the path prefix."""
        return str(urljoin(self.url, link))

    def get(self, path: str) -> Any:
        """Return the JSON at a path, as the operator sees it; None for 404. Raises Unreachable."""
        status, data = self._read(path, "application/json")
        if status == 404:
            return None
        if status != 200:
            raise Unreachable(f"the hub at {self.url} refuses {path} with status {status}: `patchbay doctor`")
        try:
            return orjson.loads(data)
        except orjson.JSONDecodeError as problem:
            raise self._silence(problem) from problem

    def post(self, path: str, fields: dict[str, str]) -> Any:
        """Send a form as the operator; return the JSON of the answer.

        Raises Unreachable, and ContentError with the hub's sentence for a refusal.
        """
        status, data = self._read(path, "application/json", urlencode(fields))
        try:
            found = orjson.loads(data)
        except orjson.JSONDecodeError as problem:
            raise self._silence(problem) from problem
        if status != 200:
            raise ContentError(found["error"])
        return found

    def _read(self, path: str, accept: str, form: str | None = None) -> tuple[int, bytes]:
        """Return status and body of the answer to a GET by the operator, or a POST of a form. Raises Unreachable."""
        address = urlsplit(self.url)
        connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=REQUEST_SECONDS)
        headers = {"accept": accept, **self.headers()}
        if form is not None:
            headers |= {"content-type": "application/x-www-form-urlencoded", "sec-fetch-site": "same-origin"}
        try:
            connection.request("GET" if form is None else "POST", path, form, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException) as problem:
            raise self._silence(problem) from problem
        finally:
            connection.close()

    def _silence(self, problem: Exception) -> Unreachable:
        return Unreachable(
            f"the hub at {self.url} (process {self.process}) does not answer ({problem}): run `patchbay doctor`"
        )

    def headers(self) -> dict[str, str]:
        """Return the headers of a request by the operator."""
        token = self.token()
        return {"host": self.host} | ({"authorization": f"Bearer {token}"} if token else {})

    def token(self) -> str:
        """Return the operator's token; "" when the data folder has none that can be read."""
        with suppress(ConfigError):
            return OperatorToken(self.data).read_stored() or ""
        return ""

    def accepts_connections(self) -> bool:
        """Whether the hub accepts connections now."""
        address = urlsplit(self.url)
        try:
            socket.create_connection((address.hostname or "", address.port or 80), REQUEST_SECONDS).close()
        except OSError:
            return False
        return True

    def check_served(self, endpoint: str) -> None:
        """Check that the hub serves `name`, `name@cid` or "" (all). Wait for a server whose file is new.

        Raises UnknownServer or UnavailableServer with the hub's sentence, Unreachable.
        """
        target, name = Local(endpoint), endpoint.partition("@")[0]
        try:
            self._check_server(target, name)
        except UnknownServer:
            if not self._follows_file(name):
                raise
            self._check_server(target, name)

    def connect(self, target: Local, open_connection: Callable[[Http], Connection]) -> Connection:
        """Open a connection to a server of this hub, as the operator. Wait for a server whose file is new.

        Raises UnknownServer, UnavailableServer, Unreachable, and what `open_connection` raises.
        """
        url = f"{self.url}{target.label}"
        place = Http(url, self.headers(), "streamable-http", name=target.label, is_proxied=False)
        name = target.endpoint.partition("@")[0]
        try:
            return open_connection(place)
        except (McpFailure, Unreachable):
            if not self._follows_file(name):
                self._check_server(target, name)
                raise
        return open_connection(place)

    def _follows_file(self, name: str) -> bool:
        """Wait until the hub knows the file or folder of this name in its servers folder; False without such a file."""
        try:
            has_file = self.folder is not None and any(one.name.split(".")[0] == name for one in self.folder.iterdir())
        except OSError:
            has_file = False
        return has_file and self.wait_for(name, lambda row: row is not None)

    def _check_server(self, target: Local, name: str) -> None:
        """Check that the hub serves this address. Raises UnknownServer or UnavailableServer with the hub's sentence."""
        status, data = self._read(target.label, "text/event-stream")
        if status == 404:
            row = self.servers().get(name)
            kind = UnavailableServer if row is not None and row["status"] != "on" else UnknownServer
            raise kind(orjson.loads(data)["error"]["message"])

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
    folder = note.get("servers")
    if not (isinstance(url, str) and isinstance(host, str) and isinstance(process, int) and is_running(process)):
        return None
    if not is_claimed(settings.data):  # another process has the id of a hub that was killed
        return None
    place = Path(folder) if isinstance(folder, str) else None
    public = note.get("public")
    return RunningHub(
        *(url, host, process, settings.data, place, str(note.get("access", ""))),
        public if isinstance(public, str) else url,
    )


@dataclass(frozen=True, slots=True)
class HubAddress:
    """Where a hub is reached: on this machine, and by people elsewhere. The path is the path prefix of the hub."""

    local: str
    public: str


def find_hub_address(context: click.Context, settings: Settings) -> HubAddress:
    """Return the addresses of the hub of a command: every command that prints an address asks here.

    The options --host and --port come first, then the hub that runs on the data folder, then the settings. Raises
    ConfigError.
    """
    hub = find_running_hub(settings)
    if hub is None or "flag" in (find_source(context, "host"), find_source(context, "port")):
        return HubAddress(hub_url(settings), public_url(settings))
    return HubAddress(hub.url, public_url(settings) if find_source(context, "public_url") != "default" else hub.public)


def load_hub_settings(context: click.Context) -> Settings:
    """Load the settings of a command. Unless named, the servers folder is that of the hub that used the data folder
    last. Raises ConfigError.
    """
    settings = load_settings(context)
    if find_source(context, "servers") != "default" or settings.store == "memory":
        return settings
    noted = read_note(settings.data, CLAIMED).get("servers") or read_note(settings.data, SHARED).get("servers")
    return replace(settings, servers=Path(noted)) if isinstance(noted, str) else settings

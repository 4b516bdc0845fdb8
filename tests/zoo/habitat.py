"""The zoo while it runs: every animal over every transport that fits, each mounted in one hub."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.checkout import ROOT
from tests.interaction.programs import Hub, free_port, plain_environment, running, running_hub
from tests.waiting import until
from tests.zoo.animals import ANIMALS
from tests.zoo.clients import Clients, Seen, use_directly

PLACES = [(name, transport) for name, kind in ANIMALS.items() for transport in kind.transports]
REFUSED = {"wrong-revision"}
"""Animals that no client can use: the specification wants the connection closed."""

CALL_SECONDS = 50
"""A call that works while its server is probed twice takes up to 30 seconds."""

OVER_STDIO, OVER_HTTP = ROOT / "tests/zoo/over_stdio.py", ROOT / "tests/zoo/over_http.py"


@dataclass
class Zoo:
    """The hub with the mounts, the folder of the animals' logs, the address of their HTTP server, and the clients."""

    hub: Hub
    folder: Path
    far: str
    clients: Clients

    @cached_property
    def direct(self) -> dict[tuple[str, str], Seen | str]:
        """What the official Python SDK sees of each animal without the hub; the error where it fails."""
        return {place: self._use_directly(*place) for place in PLACES}

    def _use_directly(self, name: str, transport: str) -> Seen | str:
        address: Any = f"{self.far}/direct/{name}/{'mcp' if transport == 'http' else 'sse'}"
        if transport == "stdio":
            address = [sys.executable, "-S", str(OVER_STDIO), name, "direct"]
        return use_directly(transport, address, ANIMALS[name].call)

    def use_directly_over_http(self, client: str, name: str) -> Seen | str:
        """Let a client that knows the handshake use an animal without the hub."""
        return self.clients.use(client, f"{self.far}/direct/{name}/mcp", ANIMALS[name].call)

    def endpoint(self, name: str, transport: str) -> str:
        """The address of a mount."""
        return self.hub.endpoint(f"{name}-{transport}")

    def log(self, name: str, transport: str) -> list[str]:
        """What an animal has received from the hub: `start`, and each method."""
        file = self.folder / f"{name}-{transport}.log"
        return file.read_text("utf-8").splitlines() if file.exists() else []

    def count(self, name: str, transport: str, what: str) -> int:
        """How often an animal started, or received a method."""
        return self.log(name, transport).count(what)

    def count_starts(self) -> dict[str, int]:
        """How often each animal was started that the hub has to start once."""
        again = {"ends-after-each-call", *REFUSED}
        names = [name for name, transport in PLACES if transport == "stdio" and name not in again]
        return {name: self.count(name, "stdio", "start") for name in names}

    def release(self, file: str) -> None:
        """Create a file that an animal waits for."""
        (self.folder / file).touch()


def mount(name: str, transport: str, far: str, folder: Path) -> dict[str, Any]:
    """Return the entry of a mount, in the form that MCP clients read."""
    if transport != "stdio":
        place = "mcp" if transport == "http" else "sse"
        return {"type": transport, "url": f"{far}/{name}/{place}", "timeout": CALL_SECONDS}
    environment = {"PYTHONPATH": str(ROOT), "ZOO_FOLDER": str(folder)}
    return {
        "command": sys.executable,
        "args": ["-S", str(OVER_STDIO), name],
        "env": environment,
        "timeout": CALL_SECONDS,
    }


@contextmanager
def running_zoo(folder: Path) -> Iterator[Zoo]:
    """Run the zoo; it begins when every animal that has started is listed by the hub."""
    port, logs = free_port(), folder / "logs"
    for each in (folder, logs, folder / "far"):
        each.mkdir(exist_ok=True)
    far = f"http://127.0.0.1:{port}"
    entries = {f"{name}-{transport}": mount(name, transport, far, logs) for name, transport in PLACES}
    (folder / "zoo.json").write_text(json.dumps({"mcpServers": entries}))
    environment = plain_environment(folder / "far") | {"PYTHONPATH": str(ROOT), "ZOO_FOLDER": str(logs)}
    command = [sys.executable, "-S", str(OVER_HTTP), str(port)]
    with ExitStack() as stack:
        ready = f"{far}/plain/mcp"
        stack.enter_context(running(command, ready, folder / "far", (405,), (-15,), environment))
        hub = stack.enter_context(running_hub(folder / "hub", [folder / "zoo.json"], options=["--writes", str(logs)]))
        zoo = Zoo(hub, logs, far, Clients(stack, folder))
        waiting = [place for place in PLACES if place[0] not in {*REFUSED, "slow-to-start"}]
        until(lambda: all(zoo.count(*place, "tools/list") for place in waiting), lambda: missing(zoo, waiting))
        yield zoo


def missing(zoo: Zoo, places: list[tuple[str, str]]) -> str:
    """Name the animals that were never asked for their tools."""
    found = [f"{' '.join(place)}: {zoo.log(*place)[-3:]}" for place in places if not zoo.count(*place, "tools/list")]
    return f"the lists of {shlex.join(found)}\n{zoo.hub.log.read_text('utf-8', 'replace')[-3000:]}"

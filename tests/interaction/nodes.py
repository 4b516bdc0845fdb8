"""Several hubs on one PostgreSQL, and HTTP clients each request of which goes to the next of them."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import mcp
from mcp.client.streamable_http import streamable_http_client

from tests.serving.running import Hub, running
from tests.waiting import BOUND


class RoundRobin(httpx2.AsyncBaseTransport):
    """Sends each request to the next node, as a balancer without affinity does."""

    def __init__(self, ports: Sequence[int]) -> None:
        self._ports = itertools.cycle(ports)
        self._inner = httpx2.AsyncHTTPTransport(retries=0)
        self.asked: list[int] = []
        """The ports in the order of the requests."""
        self.listening = 0
        """Streams of sessions that have begun."""

    def use(self, ports: Sequence[int]) -> None:
        """Send the next requests to these nodes."""
        self._ports = itertools.cycle(ports)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Send a request to the next node."""
        port = next(self._ports)
        self.asked.append(port)
        request.url = request.url.copy_with(port=port)
        request.headers["Host"] = f"127.0.0.1:{port}"
        answer = await self._inner.handle_async_request(request)
        self.listening += request.method == "GET" and answer.status_code == 200
        return answer

    async def aclose(self) -> None:
        """Close the connections to the nodes."""
        await self._inner.aclose()


@dataclass
class Nodes:
    """Running hubs on one database; all watch the same folder."""

    folder: Path
    address: str
    key: str = field(default_factory=lambda: secrets.token_hex(32))
    hubs: list[Hub] = field(default_factory=list)

    @property
    def servers(self) -> Path:
        """The servers folder of all nodes."""
        return self.folder / "servers"

    @property
    def ports(self) -> list[int]:
        """The ports of the nodes."""
        return [hub.port for hub in self.hubs]

    def start(self, stack: ExitStack, *options: str) -> Hub:
        """Start one more node; it ends with the stack."""
        folder = self.folder / f"node{len(self.hubs)}"
        folder.mkdir()
        self.servers.mkdir(exist_ok=True)
        (self.folder / "key").write_text(self.key)
        own = ["--store", self.address, "--key-file", str(self.folder / "key"), "--servers", str(self.servers)]
        hub = stack.enter_context(running(folder, *own, *options))
        self.hubs.append(hub)
        return hub

    @asynccontextmanager
    async def client(self, server: str, mode: str, **options: Any) -> AsyncIterator[tuple[mcp.Client, RoundRobin]]:
        """The official client; each of its requests goes to the next node."""
        transport = RoundRobin(self.ports)
        async with httpx2.AsyncClient(transport=transport, timeout=BOUND) as http:
            streams = streamable_http_client(f"http://127.0.0.1:{self.ports[0]}/mcp/{server}", http_client=http)
            async with mcp.Client(streams, mode=mode, read_timeout_seconds=BOUND, **options) as client:
                yield client, transport


@contextmanager
def running_nodes(folder: Path, address: str, count: int, *options: str) -> Iterator[Nodes]:
    """Start so many nodes."""
    with ExitStack() as stack:
        nodes = Nodes(folder, address)
        for _ in range(count):
            nodes.start(stack, *options)
        yield nodes

"""Calls through gateways: this hub, FastMCP's proxy, ContextForge, mcp-hub and bridges from a program to HTTP, in turn.

All of them pass the same call to the same upstream: the official TypeScript SDK's server at a URL, or a small program
on standard input and output. The processor time is that of the gateway, with a program that it starts; the server at
the URL runs on the load's processor and does not count. Gateways that are not packages of this project are fetched by
uv and npx.
"""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from benchmarks import processes
from benchmarks.calls import figures_of
from benchmarks.contenders import ENDED_BY_SIGTERM, HUB, NODE, RunningServer, run_typescript_peer
from benchmarks.load import CALL, COMMON, EXPECTED, SESSION, STATELESS, RequestTemplate, condition_of, prepare_request
from benchmarks.mounts import INLINE_ISOLATION, STDIO_ECHO
from benchmarks.parameters import Parameters
from benchmarks.placement import Placement
from benchmarks.reporting.results import Row
from benchmarks.reporting.targets import OVER_HTTP, OVER_STDIO
from tests.interaction.programs import free_port, running, running_hub

CONTEXTFORGE = "mcp-contextforge-gateway==1.0.7"
SUPERGATEWAY, NPM_PROXY, PYPI_PROXY = "supergateway@4.0.0", "mcp-proxy@6.7.19", "mcp-proxy==0.13.0"
MCP_HUB = "mcp-hub@4.2.1"
NPX = (str(NODE), str(NODE.parent.parent / "lib/node_modules/npm/bin/npx-cli.js"), "--yes")
UVX = Path(sys.executable).with_name("uvx")
CONNECTIONS = 16
START_SECONDS = 120.0
"""Seconds in which a gateway has to answer its first call; its package may have to be fetched."""

ECHO_COMMAND = (sys.executable, str(STDIO_ECHO))
ADMINISTRATOR = "bench@example.com"


@dataclass(frozen=True)
class RunningGateway:
    """A started gateway: its server, and the headers that its calls need.

    `body` is that of a call where it is not one of MCP, before and after its number.
    """

    server: RunningServer
    headers: Mapping[str, str] = field(default_factory=dict)
    body: tuple[str, str] | None = None


Start = Callable[[str, Path, Sequence[str]], AbstractContextManager[RunningGateway]]


@dataclass(frozen=True)
class Gateway:
    """A gateway. `start` takes the URL of the upstream (empty for a program), a folder and a command prefix."""

    name: str
    start: Start
    conversation: str = SESSION


def measure_gateways(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure each gateway; one that fails is named on standard error and left out."""
    with tempfile.TemporaryDirectory() as name, run_typescript_peer("sdk-2", Path(name), placement.load_prefix) as far:
        for gateway in HTTP_GATEWAYS:
            yield from _measure(gateway, OVER_HTTP, far.url, parameters, placement)
    for gateway in STDIO_GATEWAYS:
        yield from _measure(gateway, OVER_STDIO, "", parameters, placement)


def _measure(gateway: Gateway, upstream: str, url: str, parameters: Parameters, placement: Placement) -> Iterator[Row]:
    try:
        with (
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name,
            gateway.start(url, Path(name), placement.server_prefix) as found,
        ):
            request = _wait_for_request(found, gateway.conversation)
            placement.warm_up(found.server, request, CONNECTIONS)
            cost = placement.measure_cost(found.server, request, parameters.seconds, CONNECTIONS)
            figures = figures_of(cost) | {"memory_mib": processes.memory_bytes(found.server.pid) / 2**20}
    except (OSError, RuntimeError, ValueError, AssertionError) as problem:
        sys.stderr.write(f"{gateway.name} before {upstream} failed: {type(problem).__name__}: {problem}\n")
        return
    yield Row("gateways", gateway.name, condition_of(upstream, CONNECTIONS), figures)


def _wait_for_request(gateway: RunningGateway, conversation: str) -> RequestTemplate:
    """Return the request of a call, once the gateway reaches its upstream. Raises RuntimeError after START_SECONDS."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            if gateway.body is not None:
                request = RequestTemplate(gateway.server.url, gateway.body, {**COMMON, **gateway.headers})
            else:
                request = prepare_request(gateway.server.url, conversation)
                request = replace(request, headers={**request.headers, **gateway.headers})
            answer = str(_send(request.url, f"{request.body[0]}1{request.body[1]}".encode(), request.headers))
            if EXPECTED in answer:
                return request
            problem = RuntimeError(f"{request.url} answered {answer[:300]}")
        except (OSError, RuntimeError) as failure:
            problem = RuntimeError(str(failure))
        if time.monotonic() > end:
            raise problem
        time.sleep(0.5)


def _send(url: str, body: bytes, headers: Mapping[str, str]) -> Any:
    """POST and return the JSON of the answer, or the text of an event stream."""
    try:
        with urlopen(Request(url, data=body, headers=dict(headers)), timeout=60) as answer:
            text = answer.read().decode()
    except URLError as problem:
        raise RuntimeError(f"{url}: {problem}") from problem
    return json.loads(text) if text.startswith(("{", "[")) else text


@contextmanager
def _run_hub(url: str, folder: Path, prefix: Sequence[str]) -> Iterator[RunningGateway]:
    address = url or f"mcp+stdio:{shlex.join(ECHO_COMMAND)}"
    file = folder / "bench.json"
    file.write_text(json.dumps({"kind": "upstream", "address": address}), "utf-8")
    with running_hub(folder / "hub", [file], prefix, INLINE_ISOLATION) as hub:
        yield RunningGateway(RunningServer(hub.endpoint("bench"), hub.pid))


@contextmanager
def _run_program(
    words: Sequence[str], folder: Path, prefix: Sequence[str], port: int, environment: Mapping[str, str] | None = None
) -> Iterator[RunningGateway]:
    url = f"http://127.0.0.1:{port}/mcp"
    # The caches of uv and npm are those of the user.
    own = {**os.environ, "PATH": f"{NODE.parent}:{os.environ['PATH']}", **(environment or {})}
    started: set[int] = set()
    try:
        with running([*prefix, *words], url, folder, range(200, 501), ENDED_BY_SIGTERM, own) as process:
            try:
                yield RunningGateway(RunningServer(url, process.pid))
            finally:
                started = processes.find_descendants(process.pid)
    finally:
        # uv and npx end without the program that they started, which would disturb the next measurement.
        for pid in started:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def _run_fastmcp(url: str, folder: Path, prefix: Sequence[str], *, options: Sequence[str] = ()) -> Any:
    port = free_port()
    words = [sys.executable, "-m", "benchmarks.peers.fastmcp_proxy", str(port), url, *options]
    return _run_program(words, folder, prefix, port)


def _make_password() -> str:
    return f"Aa1-{secrets.token_hex(24)}"


def _make_contextforge_environment(folder: Path, password: str) -> dict[str, str]:
    """Make what ContextForge needs to start: it refuses to start without secrets."""
    return {
        "DATABASE_URL": f"sqlite:///{folder / 'contextforge.db'}",
        "PLATFORM_ADMIN_EMAIL": ADMINISTRATOR,
        "PLATFORM_ADMIN_PASSWORD": password,
        "DEFAULT_USER_PASSWORD": password,
        "BASIC_AUTH_PASSWORD": password,
        "JWT_SECRET_KEY": secrets.token_hex(32),
        "AUTH_ENCRYPTION_SECRET": secrets.token_hex(32),
        "ADMIN_REQUIRE_PASSWORD_CHANGE_ON_BOOTSTRAP": "false",
        "SSRF_ALLOW_LOCALHOST": "true",
        "CACHE_TYPE": "memory",
        "LOG_LEVEL": "ERROR",
        "MCPGATEWAY_UI_ENABLED": "false",
    }


@contextmanager
def _run_contextforge(url: str, folder: Path, prefix: Sequence[str]) -> Iterator[RunningGateway]:
    port, password = free_port(), _make_password()
    environment = _make_contextforge_environment(folder, password)
    words = [str(UVX), "--from", CONTEXTFORGE, "mcpgateway", "--host", "127.0.0.1", "--port", str(port)]
    with _run_program(words, folder, prefix, port, environment) as found:
        base, headers = f"http://127.0.0.1:{port}", {"Content-Type": "application/json"}

        def ask(path: str, body: Mapping[str, Any]) -> Any:
            return _send(f"{base}{path}", json.dumps(body).encode(), headers)

        token = ask("/auth/login", {"email": ADMINISTRATOR, "password": password})["access_token"]
        headers["Authorization"] = f"Bearer {token}"
        ask("/gateways", {"name": "far", "url": url, "transport": "STREAMABLEHTTP"})
        with urlopen(Request(f"{base}/tools", headers=headers), timeout=60) as answer:
            tools = {tool["originalName"]: tool for tool in json.load(answer)}
        server = {"name": "bench", "associated_tools": [tools["echo"]["id"]]}
        id = ask("/servers", {"server": server})["id"]
        yield RunningGateway(RunningServer(f"{base}/servers/{id}/mcp", found.server.pid), dict(headers))


@contextmanager
def _run_mcp_hub(url: str, folder: Path, prefix: Sequence[str]) -> Iterator[RunningGateway]:
    """Run mcp-hub. Its calls go to its own HTTP API, because its MCP endpoint has only the transport of 2024-11-05."""
    port, file = free_port(), folder / "servers.json"
    target = {"url": url} if url else {"command": ECHO_COMMAND[0], "args": [*ECHO_COMMAND[1:]]}
    file.write_text(json.dumps({"mcpServers": {"bench": target}}), "utf-8")
    with _run_program((*NPX, MCP_HUB, "--port", str(port), "--config", str(file)), folder, prefix, port) as found:
        call = json.dumps({"server_name": "bench", "tool": CALL["name"], "arguments": CALL["arguments"]})
        body = (f'{call[:-1]}, "number": ', "}")
        server = RunningServer(f"http://127.0.0.1:{port}/api/servers/tools", found.server.pid)
        yield RunningGateway(server, body=body)


def _run_bridge(
    words: Callable[[str, str], Sequence[str]], url: str, folder: Path, prefix: Sequence[str]
) -> AbstractContextManager[RunningGateway]:
    """Run a program that serves another one over HTTP; `words` makes its command of the port and the other command."""
    port = free_port()
    own = _make_contextforge_environment(folder, _make_password())
    return _run_program(words(str(port), shlex.join(ECHO_COMMAND)), folder, prefix, port, own)


def _translate(port: str, command: str) -> Sequence[str]:
    program = (str(UVX), "--from", CONTEXTFORGE, "python", "-m", "mcpgateway.translate")
    return (*program, "--stdio", command, "--expose-streamable-http", "--port", port)


def _supergateway(port: str, command: str) -> Sequence[str]:
    options = ("--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none")
    return (*NPX, SUPERGATEWAY, "--stdio", command, *options)


def _npm_proxy(port: str, command: str) -> Sequence[str]:
    return (*NPX, NPM_PROXY, "--port", port, "--", *shlex.split(command))


def _pypi_proxy(port: str, command: str) -> Sequence[str]:
    return (str(UVX), "--from", PYPI_PROXY, "mcp-proxy", "--port", port, "--", *shlex.split(command))


HTTP_GATEWAYS = (
    Gateway(HUB, _run_hub),
    Gateway("FastMCP's proxy", _run_fastmcp),
    Gateway("FastMCP's proxy, one connection", partial(_run_fastmcp, options=["shared"])),
    Gateway("ContextForge", _run_contextforge, STATELESS),
    Gateway("mcp-hub", _run_mcp_hub),
)
STDIO_GATEWAYS = (
    Gateway(HUB, _run_hub),
    Gateway("ContextForge translate", partial(_run_bridge, _translate)),
    Gateway("mcp-hub", _run_mcp_hub),
    Gateway("supergateway", partial(_run_bridge, _supergateway)),
    Gateway("mcp-proxy (npm)", partial(_run_bridge, _npm_proxy)),
    Gateway("mcp-proxy (PyPI)", partial(_run_bridge, _pypi_proxy)),
)

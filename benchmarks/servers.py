"""Large hubs: a list of 1,000 tools beside that of FastMCP, and a call in a hub with 1,000 servers."""

from __future__ import annotations

import http.client
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks import processes
from benchmarks.calls import figures_of
from benchmarks.contenders import (
    FASTMCP,
    INLINE,
    SDK,
    TYPESCRIPT,
    RunningServer,
    list_definitions,
    run_hub_with,
    run_python_peer,
    run_typescript_peer,
)
from benchmarks.load import MODERN, RequestTemplate, condition_of, prepare_request
from benchmarks.parameters import Parameters
from benchmarks.placement import Placement
from benchmarks.reporting.results import Row

TOOL = '''

def tool_{number}(message: str) -> str:
    """Return the message."""
    return message
'''
SERVER = '''"""Server {number}."""


def echo(message: str) -> str:
    """Return the message of server {number}."""
    return message
'''
READY_SECONDS = 300.0
"""The longest time until the last server of a hub answers."""

POLL_SECONDS = 0.05


def measure_lists(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure `tools/list` of a server with many tools: one page with all of them."""
    tools, connections = parameters.tools, parameters.connections[0]
    starts: dict[str, Callable[[Path, Sequence[str]], AbstractContextManager[RunningServer]]] = {
        INLINE: partial(_hub_with_tools, tools),
        FASTMCP: partial(run_python_peer, "fastmcp_server", tools=tools),
        SDK: partial(run_python_peer, "sdk_server", tools=tools),
        TYPESCRIPT: partial(run_typescript_peer, "sdk-2", tools=tools),
    }
    last = f'"tool_{tools - 1}"'
    for name, start in starts.items():
        with tempfile.TemporaryDirectory() as folder, start(Path(folder), placement.server_prefix) as found:
            request = prepare_request(found.url, MODERN, {}, "tools/list")
            placement.warm_up(found, request, connections, last)
            cost = placement.measure_cost(found, request, parameters.seconds, connections, last)
            yield Row("lists", name, f"{tools:,} tools, {condition_of(MODERN, connections)}", figures_of(cost))


def measure_servers(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure a hub with many servers: the first call of each, then calls of one, and the hub's memory."""
    count, connections = parameters.drop_ins, parameters.connections[0]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = [folder / f"server_{number}.py" for number in range(count)]
        for number, file in enumerate(files):
            file.write_text(SERVER.format(number=number), "utf-8")
        with run_hub_with([*list_definitions(), *files], "inline", folder, placement.server_prefix) as found:
            urls = [found.url.removesuffix("bench") + file.stem for file in files]
            for url in urls:
                _wait_until_answered(prepare_request(url, MODERN))
            firsts = [_time_call(prepare_request(url, MODERN)) * 1e3 for url in urls]
            request = prepare_request(found.url, MODERN)
            placement.warm_up(found, request, connections)
            figures = figures_of(placement.measure_cost(found, request, parameters.seconds, connections))
            figures["one_call_p99_ms"] = statistics.quantiles(firsts, n=100)[98]
            figures["memory_mib"] = processes.memory_bytes(found.pid) / 2**20
            yield Row("servers", INLINE, f"{count:,} servers, {condition_of(MODERN, connections)}", figures)


def _hub_with_tools(tools: int, folder: Path, prefix: Sequence[str]) -> AbstractContextManager[RunningServer]:
    file = folder / "bench.py"
    file.write_text('"""Many tools."""\n' + "".join(TOOL.format(number=number) for number in range(tools)), "utf-8")
    options = ["--page-size", str(tools)]
    return run_hub_with(
        [file, *(one for one in list_definitions() if one.suffix == ".json")], "inline", folder, prefix, options
    )


def _wait_until_answered(request: RequestTemplate) -> None:
    """Wait until a server answers. Raises RuntimeError after READY_SECONDS."""
    end = time.monotonic() + READY_SECONDS
    while True:
        try:
            _time_call(request)
            return
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(POLL_SECONDS)


def _time_call(request: RequestTemplate) -> float:
    """Make one call on a connection of its own; return its seconds. Raises RuntimeError for a wrong answer."""
    parts = urlsplit(request.url)
    begun = time.perf_counter()
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    connection.request("POST", parts.path, "1".join(request.body), dict(request.headers))
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    if answer.status != 200 or b"hello, hello" not in body:
        raise RuntimeError(f"{request.url} answered {answer.status}: {body[:300]!r}")
    return time.perf_counter() - begun

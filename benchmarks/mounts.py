"""The time that a mount adds to a call: the same call to a server directly and through a hub that mounts it, in turn.

One caller, one kept-alive connection each, loopback HTTP. Direct and mounted calls alternate, so that other work of
the machine has the same effect on both; the times are medians. The processor time is that of the hub that mounts,
beside that of the hub that answers the call itself.
"""

from __future__ import annotations

import http.client
import json
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.contenders import RunningServer, list_definitions
from benchmarks.load import CALL, EXPECTED, MODERN, SESSION, STATELESS, RequestTemplate, prepare_request
from benchmarks.parameters import Parameters
from benchmarks.placement import Placement
from benchmarks.reporting.results import Row
from tests.interaction.programs import Hub, running_hub

ERAS = {SESSION: "legacy", MODERN: "modern"}
STDIO_ECHO = Path(__file__).parent / "peers" / "stdio_echo.py"
STDIO = "a program on stdio"
INLINE_ISOLATION = ("--isolation", "inline")
START_SECONDS = 30.0
WARM_UP_CALLS = 50


def measure_mounts(parameters: Parameters, placement: Placement) -> Iterator[Row]:
    """Measure mounts over HTTP in each era, and the mount of a program."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with running_hub(folder / "upstream", list_definitions(), placement.load_prefix, INLINE_ISOLATION) as upstream:
            direct = upstream.endpoint("bench")
            mounts = [_write_mount(folder, era, {"address": direct, "era": era}) for era in ERAS.values()]
            mounts.append(_write_mount(folder, "echo", {"address": f"mcp+stdio:{_echo_command()}"}))
            with running_hub(folder / "mounting", mounts, placement.server_prefix, INLINE_ISOLATION) as mounting:
                for conversation, era in ERAS.items():
                    mounted = mounting.endpoint(era)
                    _wait_until_answered(prepare_request(mounted, conversation))
                    figures = _measure_times(
                        _time_http_calls(prepare_request(direct, conversation)),
                        _time_http_calls(prepare_request(mounted, conversation)),
                        parameters.calls,
                    )
                    figures |= _measure_costs(upstream, mounting, era, conversation, parameters, placement)
                    yield Row("mount", "mount over HTTP", conversation, figures)
                yield _stdio_row(mounting, parameters, placement)


def _write_mount(folder: Path, name: str, fields: dict[str, str]) -> Path:
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"kind": "upstream", **fields}), "utf-8")
    return file


def _echo_command() -> str:
    return shlex.join([sys.executable, str(STDIO_ECHO)])


def _stdio_row(mounting: Hub, parameters: Parameters, placement: Placement) -> Row:
    """Compare a mounted program with the program itself. The processor time is that of the hub with the program."""
    request = prepare_request(mounting.endpoint("echo"), STATELESS)
    _wait_until_answered(request)
    with subprocess.Popen(
        [sys.executable, str(STDIO_ECHO)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as program:
        figures = _measure_times(_time_pipe_calls(program), _time_http_calls(request), parameters.calls)
        assert program.stdin is not None
        program.stdin.close()
    figures["processor_us"] = _measure_cost(mounting, request, parameters, placement)
    return Row("mount", "mount of a program", STDIO, figures)


def _measure_costs(
    upstream: Hub, mounting: Hub, era: str, conversation: str, parameters: Parameters, placement: Placement
) -> dict[str, float]:
    """Measure processor time: of a call that the first hub answers, and of the second hub when it passes one on."""
    found = {}
    for name, hub, url in (
        ("direct_processor_us", upstream, upstream.endpoint("bench")),
        ("processor_us", mounting, mounting.endpoint(era)),
    ):
        found[name] = _measure_cost(hub, prepare_request(url, conversation), parameters, placement)
    return found


def _measure_cost(hub: Hub, request: RequestTemplate, parameters: Parameters, placement: Placement) -> float:
    """Measure the processor time of a hub for a call, in microseconds."""
    running, connections = RunningServer(request.url, hub.pid), parameters.connections[0]
    placement.warm_up(running, request, connections)
    return placement.measure_cost(running, request, parameters.seconds, connections).processor_us


def _measure_times(direct: Iterator[float], mounted: Iterator[float], calls: int) -> dict[str, float]:
    """Call in turn; return medians in milliseconds."""
    for _ in range(WARM_UP_CALLS):
        next(direct)
        next(mounted)
    pairs = [(next(direct), next(mounted)) for _ in range(calls)]
    straight, through = (statistics.median(column) for column in zip(*pairs, strict=True))
    return {"direct_ms": straight, "mounted_ms": through, "added_ms": through - straight}


def _wait_until_answered(request: RequestTemplate) -> None:
    """Wait until a hub that has just started reaches its mount. Raises RuntimeError after START_SECONDS."""
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            next(_time_http_calls(request))
            return
        except RuntimeError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def _time_http_calls(request: RequestTemplate) -> Iterator[float]:
    """Call again and again; yield the milliseconds of each. Raises RuntimeError for a wrong answer."""
    parts = urlsplit(request.url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    number = 0
    while True:
        number += 1
        begun = time.perf_counter()
        connection.request("POST", parts.path, f"{request.body[0]}{number}{request.body[1]}", dict(request.headers))
        answer = connection.getresponse()
        body = answer.read()
        passed = time.perf_counter() - begun
        if answer.status != 200 or EXPECTED.encode() not in body:
            raise RuntimeError(f"{request.url} answered {answer.status}: {body[:300]!r}")
        yield passed * 1000


def _time_pipe_calls(program: subprocess.Popen[str]) -> Iterator[float]:
    """Call a program on its pipes again and again; yield the milliseconds of each."""
    assert program.stdin is not None
    assert program.stdout is not None
    number = 0
    while True:
        number += 1
        message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": CALL}
        begun = time.perf_counter()
        program.stdin.write(json.dumps(message) + "\n")
        program.stdin.flush()
        line = program.stdout.readline()
        passed = time.perf_counter() - begun
        if EXPECTED not in line:
            raise RuntimeError(f"the program answered {line!r}")
        yield passed * 1000

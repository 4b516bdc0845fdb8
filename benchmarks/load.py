"""The load: builds a call of `echo` for each kind of conversation, and sends many of them with `wrk`.

`wrk` (Debian package of this name) holds some connections open and sends the next request on each as soon
as the last is answered. `calls.lua` checks every answer; a wrong answer is an error.
"""

from __future__ import annotations

import http.client
import json
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SCRIPT = Path(__file__).parent / "calls.lua"
CALL = {"name": "echo", "arguments": {"message": "hello, hello"}}
EXPECTED = "hello, hello"
COMMON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
CLIENT = {"name": "bench", "version": "1"}

SESSION_REVISION = "2025-11-25"
SESSION = "2025-11-25 with a session"
STATELESS = "2025-11-25 without a session"
MODERN = "2026-07-28"
PLAIN = "no MCP"
"""The request to the bare view: the same body, without a session and further headers."""


def condition_of(conversation: str, connections: int) -> str:
    """Name the condition of a measurement of calls."""
    return f"{conversation}, {connections} connections"


@dataclass(frozen=True)
class RequestTemplate:
    """An HTTP POST to `url`. The body of request number `id` is `body[0]`, the id, `body[1]`."""

    url: str
    body: tuple[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)

    def encode(self, id: int) -> bytes:
        """Return the bytes of an HTTP/1.1 request with this JSON-RPC id."""
        parts = urlsplit(self.url)
        body = f"{self.body[0]}{id}{self.body[1]}".encode()
        headers = {"Host": parts.netloc, "Content-Length": str(len(body)), **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        return f"POST {parts.path} HTTP/1.1\r\n{head}\r\n".encode() + body


@dataclass(frozen=True)
class LoadResult:
    """The result of one run of `wrk`: answered requests, requests per second, and delays in milliseconds."""

    requests: int
    rate: float
    p50: float
    p99: float


def prepare_request(
    url: str, conversation: str, params: Mapping[str, Any] = CALL, method: str = "tools/call"
) -> RequestTemplate:
    """Return a request for a kind of conversation (SESSION, STATELESS, MODERN, PLAIN); by default a call of `echo`.

    Opens a session for SESSION.
    """
    full_params: dict[str, Any] = dict(params)
    headers = dict(COMMON)
    if conversation == MODERN:
        prefix = "io.modelcontextprotocol/"
        meta = {"protocolVersion": MODERN, "clientInfo": CLIENT, "clientCapabilities": {}}
        full_params["_meta"] = {f"{prefix}{name}": value for name, value in meta.items()} | dict(
            full_params.get("_meta", {})
        )
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        headers |= {"Mcp-Name": full_params["name"]} if "name" in full_params else {}
    if conversation in (SESSION, STATELESS):
        headers |= {"MCP-Protocol-Version": SESSION_REVISION}
    if conversation == SESSION:
        headers |= _open_session(url)
    after = "," + json.dumps({"method": method, "params": full_params})[1:]
    return RequestTemplate(url, ('{"jsonrpc":"2.0","id":', after), headers)


def _open_session(url: str) -> dict[str, str]:
    """Open a session; return its header, or no header when the server has no sessions."""
    params = {"protocolVersion": SESSION_REVISION, "capabilities": {}, "clientInfo": CLIENT}
    answer = _post(url, {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, COMMON)
    id = answer.headers["Mcp-Session-Id"]
    session = {"Mcp-Session-Id": id} if id else {}
    _post(url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, {**COMMON, **session})
    return session


def _post(url: str, message: Mapping[str, Any], headers: Mapping[str, str]) -> http.client.HTTPResponse:
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.netloc, timeout=30)
    try:
        connection.request("POST", parts.path, json.dumps(message), dict(headers))
        answer = connection.getresponse()
        body = answer.read()
    finally:
        connection.close()
    if not 200 <= answer.status < 300:
        raise RuntimeError(f"{url} answered {message['method']} with {answer.status}: {body[:500]!r}")
    return answer


def measure_load(
    request: RequestTemplate, seconds: float, connections: int, prefix: Sequence[str] = (), expected: str = EXPECTED
) -> LoadResult:
    """Send a request again and again on several connections; each answer has to contain the text `expected`.

    Raises RuntimeError when an answer is wrong, and when the server answers no request.
    """
    result = run_wrk(request, seconds, connections, prefix, expected)
    if not result["requests"]:
        raise RuntimeError(f"{request.url} answered no call in {seconds:g} s on {connections} connections")
    return LoadResult(
        requests=result["requests"],
        rate=result["requests"] / result["microseconds"] * 1e6,
        p50=result["p50"] / 1e3,
        p99=result["p99"] / 1e3,
    )


def run_wrk(
    request: RequestTemplate, seconds: float, connections: int, prefix: Sequence[str] = (), expected: str = EXPECTED
) -> dict[str, int]:
    """Run `wrk` for some seconds; return the counts of `calls.lua`. Raises RuntimeError when an answer is wrong."""
    command = [*prefix, "wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds:g}s"]
    command += ["--timeout", "30s", "--script", str(SCRIPT), request.url, "--", *request.body, expected]
    command += [f"{name}: {value}" for name, value in request.headers.items()]
    process = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    if process.returncode != 0:
        raise RuntimeError(f"wrk failed: {process.stderr or process.stdout}")
    result: dict[str, int] = json.loads(process.stdout.splitlines()[-1])
    if result["wrong"] or result["errors"]:
        raise RuntimeError(f"{request.url} gave wrong answers or errors: {result}")
    return result

"""The load: how one call of `echo` looks in each kind of conversation, and what `wrk` measures when many are made.

`wrk` (Debian package of this name) holds some connections open and sends the next request on each as soon
as the last is answered. Every answer is looked at; a run with a wrong one is no result.
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
class Target:
    """What is to be posted where: the body is that of every request but for its id, which stands between two parts."""

    url: str
    body: tuple[str, str]
    headers: Mapping[str, str] = field(default_factory=dict)

    def request(self, id: int) -> bytes:
        """The whole request, as it goes over a connection."""
        parts = urlsplit(self.url)
        body = f"{self.body[0]}{id}{self.body[1]}".encode()
        known = {"Host": parts.netloc, "Content-Length": str(len(body)), **self.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in known.items())
        return f"POST {parts.path} HTTP/1.1\r\n{head}\r\n".encode() + body


@dataclass(frozen=True)
class Measured:
    """What one run gave: answers, requests per second, and half and 99% of the answers within so many milliseconds."""

    requests: int
    rate: float
    p50: float
    p99: float


def target(url: str, conversation: str, params: Mapping[str, Any] = CALL, method: str = "tools/call") -> Target:
    """Return a request in a conversation (SESSION, STATELESS, MODERN, PLAIN), by default a call of `echo`.

    Opens a session for SESSION.
    """
    sent: dict[str, Any] = dict(params)
    headers = dict(COMMON)
    if conversation == MODERN:
        prefix = "io.modelcontextprotocol/"
        own = {"protocolVersion": MODERN, "clientInfo": CLIENT, "clientCapabilities": {}}
        sent["_meta"] = {f"{prefix}{name}": value for name, value in own.items()} | dict(sent.get("_meta", {}))
        headers |= {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        headers |= {"Mcp-Name": sent["name"]} if "name" in sent else {}
    if conversation in (SESSION, STATELESS):
        headers |= {"MCP-Protocol-Version": SESSION_REVISION}
    if conversation == SESSION:
        headers |= _session(url)
    after = "," + json.dumps({"method": method, "params": sent})[1:]
    return Target(url, ('{"jsonrpc":"2.0","id":', after), headers)


def _session(url: str) -> dict[str, str]:
    """The header of a new session; none where the server gives none."""
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


def measure(
    aim: Target, seconds: float, connections: int, prefix: Sequence[str] = (), expected: str = EXPECTED
) -> Measured:
    """Call for so many seconds on so many connections; each answer has to contain the text `expected`.

    Raises RuntimeError when an answer is wrong, or when there is no answer.
    """
    result = send(aim, seconds, connections, prefix, expected)
    if not result["requests"]:
        raise RuntimeError(f"{aim.url} answered no call in {seconds:g} s on {connections} connections")
    return Measured(
        requests=result["requests"],
        rate=result["requests"] / result["microseconds"] * 1e6,
        p50=result["p50"] / 1e3,
        p99=result["p99"] / 1e3,
    )


def send(
    aim: Target, seconds: float, connections: int, prefix: Sequence[str] = (), expected: str = EXPECTED
) -> dict[str, int]:
    """Call for so many seconds; return what `calls.lua` counts. Raises RuntimeError when an answer is wrong."""
    command = [*prefix, "wrk", "--threads", "1", "--connections", str(connections), "--duration", f"{seconds:g}s"]
    command += ["--timeout", "30s", "--script", str(SCRIPT), aim.url, "--", *aim.body, expected]
    command += [f"{name}: {value}" for name, value in aim.headers.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    if done.returncode != 0:
        raise RuntimeError(f"wrk failed: {done.stderr or done.stdout}")
    result: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    if result["wrong"] or result["errors"]:
        raise RuntimeError(f"{aim.url} did not answer every call rightly: {result}")
    return result

"""A program of a mount that gets a URL with the library that a tool names: an MCP server over standard streams."""

import asyncio
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

SECONDS = 30.0
CADDYFILE = """{
    admin off
    auto_https off
    persist_config off
    skip_install_trust
}
http:// {
    bind unix/%s
    reverse_proxy %s {
        header_up Host {upstream_hostport}
    }
}
"""


def with_urllib(url: str) -> str:
    """Python's own library."""
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return str(answer.read().decode())


def with_requests(url: str) -> str:
    """The package requests."""
    import requests

    answer = requests.get(url, timeout=SECONDS)
    return f"{answer.status_code} {answer.text}"


def with_httpx(url: str) -> str:
    """The package httpx2, the successor of httpx."""
    import httpx2

    return httpx2.get(url, timeout=SECONDS).text


def with_aiohttp(url: str) -> str:
    """The package aiohttp, which reads the environment where it is told so."""
    import aiohttp

    async def get() -> str:
        limit = aiohttp.ClientTimeout(SECONDS)
        async with aiohttp.ClientSession(trust_env=True, timeout=limit) as session, session.get(url) as answer:
            return await answer.text()

    return asyncio.run(get())


def with_socket(url: str) -> str:
    """A connection of its own, without any proxy."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port or 443
    with (
        socket.create_connection((host, port), SECONDS) as plain,
        ssl.create_default_context().wrap_socket(plain, server_hostname=host) as connection,
    ):
        connection.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n\r\n".encode())
        found = b""
        while piece := connection.recv(65536):
            found += piece
    return found.decode()


def with_go(url: str) -> str:
    """A program of Go: Caddy, as a proxy of this program that listens on a socket of its folder."""
    parts = urlsplit(url)
    with tempfile.TemporaryDirectory() as folder:
        place, config = Path(folder) / "socket", Path(folder) / "Caddyfile"
        config.write_text(CADDYFILE % (place, f"{parts.scheme}://{parts.netloc}"))
        words = [str(Path(sys.executable).with_name("caddy")), "run", "--config", str(config), "--adapter", "caddyfile"]
        pipe = subprocess.PIPE
        with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=pipe, stderr=subprocess.STDOUT) as caddy:
            assert caddy.stdout is not None
            try:
                log = b""
                while b"serving initial configuration" not in log:
                    line = caddy.stdout.readline()
                    if not line:
                        raise OSError(f"Caddy does not start: {log.decode()}")
                    log += line
                return _get_over(place, parts.path)
            finally:
                caddy.terminate()


def _get_over(place: Path, path: str) -> str:
    """Get a path from the server on a socket."""
    connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
    connection.sock = socket.socket(socket.AF_UNIX)
    connection.sock.connect(str(place))
    connection.request("GET", path)
    answer = connection.getresponse()
    return f"{answer.status} {answer.read().decode()}"


def environment() -> str:
    """Its own environment."""
    return json.dumps(dict(os.environ))


TOOLS: dict[str, Callable[..., str]] = {
    tool.__name__: tool
    for tool in (with_urllib, with_requests, with_httpx, with_aiohttp, with_socket, with_go, environment)
}
INFO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "a", "version": "1"}}


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the result of a request."""
    if method == "initialize":
        return INFO
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        is_refused = False
        try:
            text = TOOLS[params["name"]](*params.get("arguments", {}).values())
        except Exception as problem:
            is_refused, text = True, f"refused: {type(problem).__name__}: {problem}"
        return {"content": [{"type": "text", "text": text}], "isError": is_refused}
    return {}


if __name__ == "__main__":
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            result = answer(message["method"], message.get("params", {}))
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}) + "\n")
            sys.stdout.flush()

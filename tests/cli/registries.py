"""A local copy of three registries: servers of the official registry in its form, and the newest versions of packages.

Each entry is as the registry has it, for a server that exists; only the versions are those of this copy.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit


def package(kind: str, name: str, version: str, **more: Any) -> dict[str, Any]:
    """A package that is started over standard input and output."""
    return {
        "registryType": kind,
        "identifier": name,
        "version": version,
        "transport": {"type": "stdio"},
        **more,
    }


def server(name: str, description: str, version: str, **ways: Any) -> dict[str, Any]:
    """An entry of the registry."""
    about = {"status": "active", "isLatest": True}
    return {
        "server": {"name": name, "description": description, "version": version, **ways},
        "_meta": {"io.modelcontextprotocol.registry/official": about},
    }


VERSIONS = {
    ("pypi", "mcp-server-time"): "2026.10.19",
    ("pypi", "mcp-server-git"): "2026.10.19",
    ("pypi", "mcp-server-fetch"): "2026.10.24",
    ("npm", "@modelcontextprotocol/server-memory"): "2026.8.31",
    ("npm", "@modelcontextprotocol/server-everything"): "2026.8.31",
}


def servers() -> list[dict[str, Any]]:
    """The entries of the copy, with the versions of `VERSIONS`."""

    def one(name: str, kind: str, identifier: str, **more: Any) -> dict[str, Any]:
        version = VERSIONS[kind, identifier]
        made = package(kind, identifier, version, **more)
        return server(
            f"io.github.modelcontextprotocol/{name}", f"The reference server {name}", version, packages=[made]
        )

    zone = [{"type": "named", "name": "--local-timezone", "value": "UTC"}]
    return [
        one("time", "pypi", "mcp-server-time", packageArguments=zone),
        one("git", "pypi", "mcp-server-git"),
        one("fetch", "pypi", "mcp-server-fetch"),
        one("memory", "npm", "@modelcontextprotocol/server-memory"),
        one("everything", "npm", "@modelcontextprotocol/server-everything"),
        server(
            "com.example/weather",
            "Forecasts",
            "1.2.0",
            remotes=[
                {
                    "type": "streamable-http",
                    "url": "https://weather.example/mcp",
                    "headers": [
                        {"name": "Authorization", "isRequired": True, "isSecret": True},
                        {"name": "X-Region", "isRequired": True, "description": "The region"},
                    ],
                }
            ],
        ),
        server("com.example/boxed", "In a container", "1.0.0", packages=[{"registryType": "oci", "identifier": "x/y"}]),
        server("com.example/evil", "x", "1.0.0", packages=[package("npm", "--registry=http://evil", "1.0.0")]),
        server("com.other/weather", "Other forecasts", "2.0.0", packages=[package("pypi", "other-weather", "2.0.0")]),
    ]


def _find(path: str, query: dict[str, list[str]], entries: list[dict[str, Any]]) -> Any:
    if path == "/v0.1/servers":
        word = query.get("search", [""])[0].lower()
        found = [one for one in entries if word in one["server"]["name"].lower()]
        begin = int(query.get("cursor", ["0"])[0])
        more = {"nextCursor": str(begin + 2)} if begin + 2 < len(found) else {}
        return {"servers": found[begin : begin + 2], "metadata": {"count": 2, **more}}
    if path.startswith("/v0.1/servers/"):
        name = unquote(path.removeprefix("/v0.1/servers/").removesuffix("/versions/latest"))
        return next((one for one in entries if one["server"]["name"] == name), None)
    if path.startswith("/pypi/"):
        version = VERSIONS.get(("pypi", path.split("/")[2]))
        return {"info": {"version": version}} if version else None
    version = VERSIONS.get(("npm", unquote(path[1:].removesuffix("/latest"))))
    return {"version": version} if version else None


@contextmanager
def registries(*more: dict[str, Any]) -> Iterator[str]:
    """The three registries at one URL while they run; `more` are further entries of the registry of servers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            found = _find(parts.path, parse_qs(parts.query), [*servers(), *more])
            data = json.dumps(found if found is not None else {"error": "not found"}).encode()
            self.send_response(200 if found is not None else 404)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Write no log line."""

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=running.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{running.server_address[1]}"
    finally:
        running.shutdown()
        running.server_close()

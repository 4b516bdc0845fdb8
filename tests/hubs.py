"""A whole hub in this process for tests: temporary servers, the shipped boot image, and an MCP client of a few lines.

Everything is real: the app that `patchbay serve` serves, with Flask's test client in place of a socket.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import orjson
from werkzeug.datastructures import Headers
from werkzeug.test import TestResponse

from patchbay.activity.recorder import Activity
from patchbay.app import create_app
from patchbay.boot import change_names
from patchbay.kinds.python.workers.worker_pool import WorkerPool
from patchbay.settings import Settings

BOTH = "application/json, text/event-stream"
MODERN = "2026-07-28"
NAMED = {
    **{"tools/call": "name", "prompts/get": "name", "resources/read": "uri"},
    **{"tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"},
}


_NEVER = threading.Event()


def sse_messages(body: bytes) -> list[dict[str, Any]]:
    """The JSON messages of an event stream."""
    found = []
    for block in body.decode().split("\n\n"):
        data = [line[6:] for line in block.split("\n") if line.startswith("data: ")]
        if data and data[0]:
            found.append(orjson.loads("".join(data)))
    return found


@dataclass
class Answer:
    """What came back: HTTP status, headers, and the JSON-RPC messages, the answer last."""

    status: int
    headers: Headers | Mapping[str, str]
    body: bytes
    messages: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def of(cls, response: TestResponse) -> Answer:
        body = response.get_data()
        if response.mimetype == "text/event-stream":
            messages = sse_messages(body)
        elif response.mimetype == "application/json" and body:
            messages = [orjson.loads(body)]
        else:
            messages = []
        return cls(response.status_code, response.headers, body, messages)

    @property
    def streamed(self) -> bool:
        return self.headers.get("Content-Type", "").startswith("text/event-stream")

    @property
    def last(self) -> Any:
        return self.messages[-1]

    @property
    def result(self) -> dict[str, Any]:
        assert "result" in self.last, self.last
        return dict(self.last["result"])

    @property
    def error(self) -> dict[str, Any]:
        assert "error" in self.last, self.last
        return dict(self.last["error"])

    @property
    def text(self) -> str:
        return "".join(item.get("text", "") for item in self.result["content"])


def path(server: str) -> str:
    """The address of a server, or of all of them for an empty name."""
    return f"/mcp/{server}" if server else "/mcp"


class Stream:
    """An answer that is read as it comes; closing it is what a client does that goes away."""

    def __init__(self, response: TestResponse) -> None:
        self._response = response
        self._frames = iter(response.response)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        frame = next(self._frames)
        assert isinstance(frame, bytes)
        return frame

    def close(self) -> None:
        self._response.close()


@cache
def shared_hosts() -> WorkerPool:
    """The host processes of all hubs here, so that not each of them has to start its own."""
    hosts = WorkerPool()
    atexit.register(hosts.close)
    return hosts


class Hub:
    """A hub with its own folders. `files` go into its servers folder."""

    def __init__(
        self, folder: Path, files: Mapping[str, str] | None = None, hosts: WorkerPool | None = None, **settings: Any
    ) -> None:
        self.servers = folder / "servers"
        self.servers.mkdir(parents=True, exist_ok=True)
        for name, text in (files or {}).items():
            (self.servers / name).write_text(text)
        values: dict[str, Any] = {"data": folder / "data", "servers": self.servers, "store": "memory"}
        # Vectors are made in the background: with them, the score of a document changes between two searches.
        values |= {"embeddings": "off"} | settings
        self.settings = Settings(**values)
        self.hosts = hosts or shared_hosts()
        self.app = create_app(self.settings, self.hosts)
        self.client = self.app.test_client()

    @property
    def catalogue(self) -> Any:
        return self.app.parts.catalogue

    @property
    def activity(self) -> Activity:
        """The hub's record of its calls."""
        found = self.app.parts.dispatcher.services.activity
        assert isinstance(found, Activity)
        return found

    def configured(self, data: bytes) -> str:
        """Keep bytes as a part of the configuration: a variable names their CID, which is answered."""
        blobs = self.catalogue.store.blobs
        cid = str(blobs.put(data))
        change_names(
            self.catalogue.store, {f"variables/kept-{cid[-16:]}": blobs.put(cid.encode())}, "test", "keep bytes"
        )
        return cid

    def list_at_mcp(self, *patterns: str) -> Self:
        """Put built-in servers into the list of all servers, as the operator does with the variable `listing`."""
        store = self.catalogue.store
        text = orjson.dumps({"built_in": patterns})
        change_names(store, {"variables/listing": store.blobs.put(text)}, "test", "list built-in servers")
        self.catalogue.refresh()
        return self

    @property
    def token(self) -> str:
        """The operator's token."""
        token = self.app.parts.operators.token.read_stored()
        assert isinstance(token, str)
        return token

    def as_operator(self) -> Self:
        """Let the client send the operator's token with every request from now on, as programs do."""
        self.client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {self.token}"
        return self

    def log_in(self) -> Self:
        """Let the client be a browser of the operator, which has a session and says where its requests come from."""
        answer = self.client.get(self.app.parts.operators.links.make())
        assert answer.status_code == 303, answer.text
        self.client.environ_base["HTTP_ORIGIN"] = "http://localhost"
        return self

    def close(self) -> None:
        self.catalogue.close()
        self.catalogue.store.close()

    def raw(self, server: str, body: bytes, headers: Mapping[str, str] | None = None) -> Answer:
        """POST any bytes."""
        known = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"} | dict(headers or {})
        return Answer.of(self.client.post(path(server), data=body, headers=known))

    def send(self, server: str, message: Any, headers: Mapping[str, str] | None = None) -> Answer:
        """POST one JSON value."""
        return self.raw(server, orjson.dumps(message), headers)

    def legacy(
        self,
        server: str,
        method: str,
        params: Any = None,
        session: str | None = None,
        version: str | None = "2025-11-25",
        id: Any = 1,
    ) -> Answer:
        """A request as the revisions up to 2025-11-25 send it."""
        headers = {"Mcp-Session-Id": session} if session else {}
        if version:
            headers["MCP-Protocol-Version"] = version
        message = {"jsonrpc": "2.0", "id": id, "method": method}
        return self.send(server, message | ({"params": params} if params is not None else {}), headers)

    def modern(
        self,
        server: str,
        method: str,
        params: Mapping[str, Any] | None = None,
        capabilities: Mapping[str, Any] | None = None,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        id: Any = 1,
    ) -> Answer:
        """A request as 2026-07-28 sends it."""
        return self.send(server, *modern_request(method, params, capabilities, meta, headers, id))

    def open(self, server: str, version: str = "2025-11-25", capabilities: Mapping[str, Any] | None = None) -> str:
        """Initialize; answers the session id."""
        params = {
            "protocolVersion": version,
            "capabilities": dict(capabilities or {}),
            "clientInfo": {"name": "tests", "version": "1"},
        }
        answer = self.legacy(server, "initialize", params, version=None)
        assert answer.status == 200, answer
        return str(answer.headers["Mcp-Session-Id"])

    def call(self, server: str, tool: str, arguments: Any = None, version: str = "2025-11-25") -> Answer:
        """tools/call in any revision, without a session."""
        params = {"name": tool} | ({"arguments": arguments} if arguments is not None else {})
        if version == MODERN:
            return self.modern(server, "tools/call", params)
        return self.legacy(server, "tools/call", params, version=version)

    def stream(self, server: str, message: Any, headers: Mapping[str, str]) -> Stream:
        """POST and read the answer's stream as it comes."""
        known = {"Content-Type": "application/json", "Accept": BOTH, "Host": "localhost"} | dict(headers)
        response = self.client.post(path(server), data=orjson.dumps(message), headers=known, buffered=False)
        assert response.mimetype == "text/event-stream", response.get_data()
        return Stream(response)


def modern_request(
    method: str,
    params: Mapping[str, Any] | None = None,
    capabilities: Mapping[str, Any] | None = None,
    meta: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    id: Any = 1,
) -> tuple[dict[str, Any], dict[str, str]]:
    """Body and headers of a request as 2026-07-28 sends it."""
    known = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
    if method in NAMED and params and isinstance(params.get(NAMED[method]), str):
        known["Mcp-Name"] = params[NAMED[method]]
    claim = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": dict(capabilities or {}),
    }
    full = {**(params or {}), "_meta": claim | dict(meta or {})}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": full}, known | dict(headers or {})

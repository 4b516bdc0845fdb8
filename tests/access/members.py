"""A member of a shared hub for tests: a principal under one document, who asks the hub in this process.

It asks the dispatcher, as every transport does, or sends HTTP requests with a token that stands for the principal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from io import BytesIO
from math import inf
from typing import Any

import httpx2
import mcp
import orjson
from mcp.client.streamable_http import streamable_http_client
from werkzeug.test import run_wsgi_app

from patchbay.access.authentication import Credentials
from patchbay.access.credentials.names import name_token
from patchbay.access.principals import KEY_IDS, Principal
from patchbay.boot.grants import parse_grants
from patchbay.jsonrpc import Request, encode
from patchbay.messages.callers import TransportInfo
from tests.access.team import CALLS, PROMPTS, READS, TEMPLATES, Json, may
from tests.hubs import MODERN, Hub
from tests.waiting import BOUND

TOKEN = "stands-for-a-member"

META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
}


class MemberScheme:
    """A scheme of authentication that takes one token for the member of now: random principals have no credentials."""

    def __init__(self) -> None:
        self.who: Principal | None = None

    def authenticate(self, credentials: Credentials) -> Principal | None:
        """Return the member of now for its token."""
        return self.who if credentials.token == TOKEN else None


def accept_member_tokens(hub: Hub) -> MemberScheme:
    """Let a hub accept the token of members."""
    scheme = MemberScheme()
    hub.app.parts.authentication.schemes.insert(0, scheme)
    return scheme


class Member:
    """A principal that asks a hub, under one document. A key is proved by a token that never ends."""

    def __init__(self, hub: Hub, document: Any, who: Principal, scheme: MemberScheme | None = None) -> None:
        if who.id.startswith(KEY_IDS):  # a key of the same name and scopes does not exist: streams would end without it
            who = replace(who, credential=name_token(inf))
        self.hub, self.document, self.who = hub, document, who
        self.dispatcher = hub.app.parts.dispatcher
        hub.catalogue.grants = None if document is None else parse_grants(orjson.dumps(document), "access")
        if scheme is not None:
            scheme.who = who

    def exchange(self, endpoint: str, method: str, waits: bool = False, **params: Any) -> Any:
        """The messages of one request, as the dispatcher yields them."""
        wire = TransportInfo(endpoint, sender=self.who, connection="one", waits=waits)
        return self.dispatcher.exchange(wire)(Request(1, method, {**params, "_meta": META}))

    def ask(self, endpoint: str, method: str, **params: Any) -> Json:
        """The whole answer of one request: `result` or `error`."""
        *_, last = self.exchange(endpoint, method, **params)
        found: Json = orjson.loads(encode(last))
        return found

    def listed(self, endpoint: str, method: str, member: str, key: str) -> set[str]:
        """The names in a list; empty where the list is refused."""
        answer = self.ask(endpoint, method)
        return {one[key] for one in answer["result"][member]} if "result" in answer else set()

    def call(self, endpoint: str, tool: str, /, **arguments: Any) -> Json:
        """The result of a tool."""
        found: Json = self.ask(endpoint, "tools/call", name=tool, arguments=arguments)["result"]
        return found

    def send(self, method: str, path: str, json: Any = None, accept: str = "application/json") -> tuple[int, str]:
        """Status and text of an HTTP request."""
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept": accept, "Host": "localhost"}
        answer = self.hub.client.open(path, method=method, json=json, headers=headers)
        return answer.status_code, answer.text

    def may(self, action: str, server: str, entry: str = "") -> bool:
        """What the independent account says."""
        return may(self.document, self.who, action, server, entry)

    def sees(self, server: str) -> bool:
        """Whether any entry of a server, or the server itself, is visible."""
        reads = (*READS[server], *TEMPLATES[server], *PROMPTS[server])
        entries = [("call", name) for name in CALLS[server]] + [("read", name) for name in reads]
        return self.may("see", server) or any(self.may(action, server, name) for action, name in entries)


class InProcess(httpx2.AsyncBaseTransport):
    """Sends the requests of an HTTP client to a hub in this process, without a socket. It has no listening streams."""

    def __init__(self, hub: Hub) -> None:
        self._app = hub.app.wsgi_app

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """Answer a request of the client."""
        if request.method == "GET":
            return httpx2.Response(405)
        body = await request.aread()
        environ = {
            **{"REQUEST_METHOD": request.method, "PATH_INFO": request.url.path, "QUERY_STRING": ""},
            **{"SERVER_NAME": "localhost", "SERVER_PORT": "80", "SERVER_PROTOCOL": "HTTP/1.1", "SCRIPT_NAME": ""},
            **{"wsgi.url_scheme": "http", "wsgi.input": BytesIO(body), "wsgi.errors": BytesIO()},
            **{"REMOTE_ADDR": "127.0.0.1", "CONTENT_LENGTH": str(len(body))},
            **{f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()},
        }
        environ["CONTENT_TYPE"] = environ.pop("HTTP_CONTENT_TYPE", "")
        environ.pop("HTTP_CONTENT_LENGTH", None)
        parts, status, headers = run_wsgi_app(self._app, environ, buffered=True)
        return httpx2.Response(int(status[:3]), headers=list(headers), content=b"".join(parts))


def with_sdk(hub: Hub, server: str, work: Callable[[mcp.Client], Awaitable[Any]]) -> Any:
    """Let the official SDK client do work at the endpoint of a server, as the member of now."""

    async def run() -> Any:
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with httpx2.AsyncClient(transport=InProcess(hub), headers=headers, timeout=BOUND) as http:
            transport = streamable_http_client(f"http://localhost/mcp/{server}", http_client=http)
            async with mcp.Client(transport, read_timeout_seconds=BOUND) as client:
                return await work(client)

    try:
        return asyncio.run(run())
    except BaseExceptionGroup as group:
        # The SDK works in task groups; the check failed in one of them.
        problem: BaseException = group
        while isinstance(problem, BaseExceptionGroup):
            problem = problem.exceptions[0]
        raise problem from group

"""A session with a server at an `http:` URL without the official client, whose import takes longer than a plain call.

It negotiates the revision like the official client and sends the same requests. Everything else (a sign-in, a question,
an error, a header that the server requires, the older HTTP+SSE pair) is left to the official client, which continues
the session or begins anew; no tool call is sent twice.

Sources: MCP specification, basic/lifecycle, basic/versioning.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

from patchbay.client.addresses.targets import Http, check_headers
from patchbay.client.connection.direct_http import (
    PLAIN_METHODS,
    DirectHttp,
    HttpExchange,
    HttpLine,
    HttpTarget,
    make_request_id,
)
from patchbay.client.connection.plan import AgreedSession, ConnectionPlan
from patchbay.client.connection.requests import CLIENT_CAPABILITIES_META_KEY, AddSessionFields, Item, Json, RequestRun
from patchbay.client.errors import ServerTimeout
from patchbay.client.http_messages import Head, add_body, write_head
from patchbay.client.question_tasks import QUESTION_TASKS, TASKS_CAPABILITY
from patchbay.jsonrpc import dump_json
from patchbay.settings import names_proxy

MODERN_REVISION = "2026-07-28"
"""The revision with `server/discover`."""
HANDSHAKE_REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""The revisions with `initialize`; the last one is offered."""

LIST_METHODS = frozenset({"tools/list", "resources/list", "resources/templates/list", "prompts/list"})
SESSION_METHODS = PLAIN_METHODS | LIST_METHODS
"""Methods that a plain session can send."""

NAME_PARAMETERS = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
HEADER_KEYWORD = "x-mcp-header"
"""Keyword of a tool's schema: the argument goes into a header, which only the official client supports."""

CAPABILITIES: Mapping[str, tuple[str, Json]] = {
    "elicitation": ("elicitation", {"form": {}, "url": {}}),
    "sampling": ("sampling", {}),
    "list_roots": ("roots", {"listChanged": True}),
    QUESTION_TASKS: ("tasks", TASKS_CAPABILITY),
}

NEGOTIATION_SECONDS = 5.0
"""Seconds in which a server has to agree on a revision, before the official client tries."""

CLOSE_SECONDS = 0.5
_HEADER_VALUE = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_ENCODED_PREFIX = "=?"
_SERVER_INFO = "io.modelcontextprotocol/serverInfo"


class PlainSession:
    """A session with a server that has agreed on a revision. Made by `open_plain_session`."""

    def __init__(self, plan: ConnectionPlan, place: HttpTarget) -> None:
        assert isinstance(plan.target, Http)
        self._plan = plan
        self._target = place
        self._headers = {"accept-encoding": "identity", **{k.lower(): v for k, v in plan.target.headers.items()}}
        self.agreed = AgreedSession({}, False, None)
        self._direct: DirectHttp | None = None

    @property
    def version(self) -> str:
        """The revision that was agreed on."""
        return MODERN_REVISION if self.agreed.modern else str(self.agreed.result["protocolVersion"])

    @property
    def info(self) -> Json:
        """The server's `serverInfo`; empty when it sent none."""
        result = self.agreed.result
        holder = result.get("_meta") if self.agreed.modern else result
        found = holder.get(_SERVER_INFO if self.agreed.modern else "serverInfo") if isinstance(holder, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def capabilities(self) -> Json:
        """The server's capabilities."""
        found = self.agreed.result.get("capabilities")
        return found if isinstance(found, dict) else {}

    def request(self, run: RequestRun, method: str, params: Json, on_item: Callable[[Item], None]) -> Json | None:
        """Send a request and return its result; None when the official client has to send it (see `DirectHttp`)."""
        name = params.get(NAME_PARAMETERS.get(method, ""))
        if self._direct is None or method not in SESSION_METHODS or run.manual_input or run.capabilities is not None:
            return None
        if isinstance(name, str) and not is_plain_header(name):
            return None
        begun = time.monotonic()
        try:
            result = self._direct.send(run, method, params, None, on_item)
            if result is None and run.seconds is not None and time.monotonic() - begun >= run.seconds:
                raise ServerTimeout(f"{self._plan.target.label} did not answer {method} within {run.seconds:g} s")
        except BaseException:
            self._send_cancelled(run)
            raise
        if method == "tools/list" and result is not None and HEADER_KEYWORD.encode() in dump_json(result):
            return None
        run.clock.deduct(time.monotonic() - begun)
        return result

    def close(self) -> None:
        """End the session."""
        if self._direct is not None:
            self._direct.close()
        if self.agreed.session_id is not None:
            self._send_message("DELETE", {}, b"", CLOSE_SECONDS)

    def negotiate(self) -> bool:
        """Agree on a revision; False when the official client has to try."""
        era = self._plan.era
        refused = True
        if era != "legacy":
            stamp = self._make_modern_fields()
            data: Json = {"method": "server/discover", "params": {"_meta": {}}}
            options: Json = {}
            stamp(data, options)
            result, head = self._request_result(data, options["headers"])
            versions = result.get("supportedVersions") if result is not None else None
            if result is not None and isinstance(versions, list) and MODERN_REVISION in versions:
                return self._open(AgreedSession(result, True, None), stamp)
            refused = head is not None and head.status_code not in (401, 403)
        return refused and era != "modern" and self._initialize()

    def _initialize(self) -> bool:
        params = {
            "protocolVersion": HANDSHAKE_REVISIONS[-1],
            "capabilities": self._declare_capabilities(),
            "clientInfo": {"name": self._plan.name, "version": self._plan.version},
        }
        result, head = self._request_result({"method": "initialize", "params": params}, {})
        version = result.get("protocolVersion") if result is not None else None
        if result is None or head is None or version not in HANDSHAKE_REVISIONS:
            return False
        session_id = head.headers.get(b"mcp-session-id", b"").decode("ascii", "replace") or None

        def stamp(data: Json, options: Any) -> None:
            options.setdefault("headers", {})["mcp-protocol-version"] = version

        self._open(AgreedSession(result, False, session_id), stamp)
        body = dump_json({"jsonrpc": "2.0", "method": "notifications/initialized"})
        head = self._send_message("POST", {"mcp-protocol-version": str(version)}, body, NEGOTIATION_SECONDS)
        return head is not None and head.status_code < 300

    def _open(self, adopted: AgreedSession, stamp: AddSessionFields) -> bool:
        self.agreed = adopted
        limit, session = self._plan.limit, adopted.session_id
        self._direct = DirectHttp(self._target, self._headers, stamp, session, limit, math.inf)
        return True

    def _declare_capabilities(self, without: frozenset[str] = frozenset()) -> Json:
        found = {CAPABILITIES[name][0]: CAPABILITIES[name][1] for name in sorted(self._plan.capabilities - without)}
        return found | ({"extensions": dict(self._plan.extensions)} if self._plan.extensions else {})

    def _make_modern_fields(self) -> AddSessionFields:
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN_REVISION,
            "io.modelcontextprotocol/clientInfo": {"name": self._plan.name, "version": self._plan.version},
            CLIENT_CAPABILITIES_META_KEY: self._declare_capabilities(frozenset({QUESTION_TASKS})),
        }

        def stamp(data: Json, options: Any) -> None:
            params = data.setdefault("params", {})
            params.setdefault("_meta", {}).update(meta)
            headers = options.setdefault("headers", {})
            headers |= {"mcp-protocol-version": MODERN_REVISION, "mcp-method": data["method"]}
            name = params.get(NAME_PARAMETERS.get(data["method"], ""))
            if isinstance(name, str):
                headers["mcp-name"] = name

        return stamp

    def _request_result(self, data: Json, headers: Mapping[str, str]) -> tuple[Json | None, Head | None]:
        """Send a request before there is a session; return its result and the head of the answer, None for each if
        missing.
        """
        id = make_request_id()
        body = dump_json({"jsonrpc": "2.0", "id": id, **data})
        exchange = self._start_exchange(id, "POST", headers, body)
        if exchange is None:
            return None, None
        try:
            return exchange.read_result(NEGOTIATION_SECONDS, self._plan.limit), exchange.head
        finally:
            exchange.close()

    def _send_message(self, method: str, headers: Mapping[str, str], body: bytes, seconds: float) -> Head | None:
        """Send a message that has no result, and return the head of the answer."""
        exchange = self._start_exchange("", method, headers, body)
        if exchange is None:
            return None
        try:
            exchange.read_result(seconds, self._plan.limit)
            return exchange.head
        finally:
            exchange.close()

    def _start_exchange(self, id: str, method: str, headers: Mapping[str, str], body: bytes) -> HttpExchange | None:
        try:
            line = HttpLine(self._target.host, self._target.port)
        except OSError:
            return None
        session = {"mcp-session-id": self.agreed.session_id} if self.agreed.session_id else {}
        found = {
            "host": self._target.authority,
            **self._headers,
            "accept": "application/json, text/event-stream",
            **({"content-type": "application/json"} if body else {}),
            **session,
            **headers,
        }
        request = add_body(write_head(method, self._target.target, found.items()), body)
        return HttpExchange(id, line, request, lambda line, _: line.socket.close(), lambda _: None)

    def _send_cancelled(self, run: RequestRun) -> None:
        """Cancel a request whose caller has left: by closing the connection in 2026-07-28, by a notification before."""
        if run.exchange is None:
            return
        run.exchange.close()
        if self.agreed.modern:
            return
        params = {"requestId": run.exchange.id, "reason": "caller left"}
        body = dump_json({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params})
        self._send_message("POST", {"mcp-protocol-version": self.version}, body, CLOSE_SECONDS)


def open_plain_session(plan: ConnectionPlan) -> PlainSession | None:
    """Open a plain session with a server; None when that is not possible or the server's answer is not plain."""
    place = _find_http_target(plan)
    if place is None:
        return None
    assert isinstance(plan.target, Http)
    check_headers(plan.target.headers, plan.target.label)
    session = PlainSession(plan, place)
    agreed = False
    try:
        agreed = session.negotiate()
    finally:
        if not agreed:
            session.close()
    return session if agreed else None


def is_plain_header(text: str) -> bool:
    """Whether a text can be sent as a header value without encoding."""
    return bool(_HEADER_VALUE.fullmatch(text)) and not text.startswith(_ENCODED_PREFIX)


def _find_http_target(plan: ConnectionPlan) -> HttpTarget | None:
    target = plan.target
    odd = plan.exchange is not None or plan.extensions or plan.log_level is not None or plan.auth is not None
    if odd or not isinstance(target, Http) or target.public or target.transport == "sse":
        return None
    if target.is_proxied and names_proxy():
        return None
    parts = urlsplit(target.url)
    if parts.scheme.lower() != "http" or "@" in parts.netloc or not parts.hostname or not target.url.isascii():
        return None
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    if not all("!" <= letter <= "~" for letter in path + parts.netloc):
        return None
    authority = parts.netloc.lower().removesuffix(":80")
    return HttpTarget(parts.hostname, parts.port or 80, authority, path.encode())

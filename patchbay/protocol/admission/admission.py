"""Decides the era of a message, modern or legacy, and checks its terms in order; the first failing check answers.

A message is modern if its `_meta` names a protocol version, or if its version header is not one of the four legacy
versions; every other message is legacy.
Source: MCP specification 2026-07-28, basic/versioning and basic/transports; 2025-11-25, basic/lifecycle.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.errors import HeaderMismatch, InvalidParams, InvalidRequest, UnknownSession, UnsupportedVersion
from patchbay.events import LOG_LEVELS
from patchbay.jsonrpc import Message, Notification, Request
from patchbay.messages.callers import Caller, TransportInfo
from patchbay.messages.versions import ASSUMED, LEGACY, MODERN, REVISIONS, Revision, negotiated
from patchbay.protocol.admission.headers import check_routing
from patchbay.protocol.admission.sessions import Sessions

PREFIX = "io.modelcontextprotocol/"
VERSION = PREFIX + "protocolVersion"
CAPABILITIES = PREFIX + "clientCapabilities"
LOG_LEVEL = PREFIX + "logLevel"

MAX_NAME_CHARACTERS = 64
"""Characters of a client's name, and of its version, that a session stores."""


def claims(params: Mapping[str, Any]) -> bool:
    """Whether the params of a message claim the modern era."""
    meta = params.get("_meta")
    return isinstance(meta, dict) and VERSION in meta


def modern_header(version: str | None) -> bool:
    """Whether a version header names a version that is not legacy."""
    return version is not None and version not in LEGACY


def admit(message: Message, wire: TransportInfo, sessions: Sessions) -> Caller:
    """Return the terms under which a message is served. Raises the error of the first failing check."""
    if isinstance(message, Request):
        if claims(message.params) or modern_header(wire.version):
            if not claims(message.params) and wire.version not in MODERN:
                # Only the header names a revision, and that revision does not exist.
                raise UnsupportedVersion(str(wire.version), (*LEGACY, *MODERN))
            return admit_modern(message, wire)
        return admit_legacy(message, wire, sessions)
    if isinstance(message, Notification) and (claims(message.params) or modern_header(wire.version)):
        if wire.version is not None and wire.version not in MODERN and wire.version not in LEGACY:
            raise UnsupportedVersion(wire.version, MODERN)
        return Caller(REVISIONS[MODERN[-1]], {}, None, wire)
    if modern_header(wire.version):
        raise InvalidRequest("a client does not send responses in this revision")
    return admit_legacy(message, wire, sessions)


def admit_modern(request: Request, wire: TransportInfo) -> Caller:
    """Return the terms of a modern request from its own `_meta`. Raises the error of the first failing check."""
    meta = request.params.get("_meta")
    if not isinstance(meta, dict):
        raise InvalidParams(f"params._meta is missing; it has to hold {VERSION} and {CAPABILITIES}")
    version, capabilities = meta.get(VERSION), meta.get(CAPABILITIES)
    if not isinstance(version, str):
        raise InvalidParams(f"params._meta has to hold {VERSION}, a string")
    if not isinstance(capabilities, dict):
        raise InvalidParams(f"params._meta has to hold {CAPABILITIES}, an object")
    if wire.headers is not None:
        if wire.version != version:
            shown = "missing" if wire.version is None else repr(wire.version)
            raise HeaderMismatch(f"MCP-Protocol-Version has to be {version!r}, as in params._meta; it is {shown}")
        check_routing(wire.headers, request.method, request.params)
    if version not in MODERN:
        raise UnsupportedVersion(version, MODERN)
    level = meta.get(LOG_LEVEL)
    if level is not None and level not in LOG_LEVELS:
        raise InvalidParams(f"{LOG_LEVEL} has to be one of {', '.join(LOG_LEVELS)}; it is {level!r}")
    return Caller(REVISIONS[version], capabilities, level, wire)


def admit_legacy(message: Message, wire: TransportInfo, sessions: Sessions) -> Caller:
    """Return the terms of a legacy message; `initialize` opens a session. Raises UnknownSession, InvalidParams."""
    id = wire.session_id
    opens = isinstance(message, Request) and message.method == "initialize"
    if id is not None:
        try:
            session = sessions.find(id, wire.endpoint, wire.principal)
        except UnknownSession:
            if not opens:
                raise  # a client that begins anew may still send the id of its ended session, which then means nothing
        else:
            return Caller(session.revision, session.capabilities, session.level, wire, session)
    if isinstance(message, Request) and opens:
        return _open_session(message, wire, sessions)
    if wire.strict and not (isinstance(message, Request) and message.method == "ping"):
        raise InvalidRequest("Mcp-Session-Id is missing: this address needs a session, which initialize opens")
    return Caller(assumed(wire.version), {}, "info", wire)


def assumed(version: str | None) -> Revision:
    """Return the revision of a legacy request without a session."""
    return REVISIONS[version] if version in LEGACY else ASSUMED


def _open_session(request: Request, wire: TransportInfo, sessions: Sessions) -> Caller:
    requested, capabilities = request.params.get("protocolVersion"), request.params.get("capabilities", {})
    if not isinstance(requested, str):
        raise InvalidParams(
            "params.protocolVersion has to be a string", {"supported": list(LEGACY), "requested": requested}
        )
    if not isinstance(capabilities, dict):
        raise InvalidParams("params.capabilities has to be an object")
    revision = negotiated(requested)
    session = sessions.open(wire.endpoint, revision, capabilities, wire.principal, _client_name(request))
    return Caller(revision, session.capabilities, session.level, wire, session)


def _client_name(request: Request) -> str:
    """Return name and version of the client, both cut at MAX_NAME_CHARACTERS; empty if it does not give them."""
    info = request.params.get("clientInfo")
    parts = [info.get("name"), info.get("version")] if isinstance(info, dict) else []
    return (
        " ".join(part[:MAX_NAME_CHARACTERS] for part in parts if isinstance(part, str))
        .encode("utf-8", "replace")
        .decode()
    )

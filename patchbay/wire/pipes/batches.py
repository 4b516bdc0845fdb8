"""Arrays of messages in 2025-03-26 and 2024-11-05: one result for each request, none for notifications.

Source: MCP specification 2025-03-26, basic/transports; https://www.jsonrpc.org/specification, section 6.
"""

from __future__ import annotations

from typing import Any

from patchbay.catalogue.servers.server import Server
from patchbay.errors import InvalidRequest, PatchbayError
from patchbay.jsonrpc import Failure, Message, Request, Result, encode, failure, message, readable_id
from patchbay.messages.callers import TransportInfo
from patchbay.messages.versions import Revision
from patchbay.protocol.admission.admission import assumed
from patchbay.protocol.dispatch import Dispatcher

MAX_MESSAGES = 100
"""Limit on the messages in one array."""


def answer_batch(
    values: list[Any], wire: TransportInfo, dispatcher: Dispatcher, server: Server
) -> tuple[int, bytes, str | None]:
    """Return HTTP status, body and session id for an array of parsed values. Raises InvalidRequest."""
    session = None
    if wire.session_id is not None:
        session = dispatcher.services.sessions.find(wire.session_id, wire.endpoint, wire.principal)
    revision = session.revision if session is not None else assumed(wire.version)
    check_batch(values, revision)
    if session is None and wire.strict:
        raise InvalidRequest("Mcp-Session-Id is missing: this address needs a session, which initialize opens")
    alone = wire._replace(streams=False, connection=None, strict=False, way="", waits=False)
    answers = [encode(answer) for value in values for answer in _answers(value, alone, dispatcher, server)]
    id = session.id if session is not None else None
    return (200, b"[" + b",".join(answers) + b"]", id) if answers else (202, b"", id)


def check_batch(values: list[Any], revision: Revision) -> None:
    """Check an array of parsed values for a revision. Raises InvalidRequest."""
    if not revision.batches:
        raise InvalidRequest(f"an array of messages is not served in {revision.name}; send one message a request")
    if not values or len(values) > MAX_MESSAGES:
        raise InvalidRequest(f"an array of messages has to hold 1 to {MAX_MESSAGES}; it holds {len(values)}")
    if any(isinstance(value, dict) and value.get("method") == "initialize" for value in values):
        raise InvalidRequest("initialize cannot be part of an array")


def _answers(value: Any, wire: TransportInfo, dispatcher: Dispatcher, server: Server) -> list[Message]:
    try:
        incoming = message(value)
    except PatchbayError as problem:
        return [failure(readable_id(value), problem)]
    found = [answer for answer in dispatcher.exchange(wire, server)(incoming) if isinstance(answer, (Result, Failure))]
    return list(found) if isinstance(incoming, Request) else []

"""Names the reason why a request to a server at a URL got no answer.

Errors of the network often have no text: a closed connection has none. Their types and causes give the reason.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator

import httpx2

from patchbay.client.addresses.targets import mask_urls

CLOSED_EARLY = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
"""The errors of a connection that the other side closed; the first is also that of an answer that is not HTTP."""


NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG")
"""Reasons of OpenSSL for an answer in plain text; the first is that of the usual HTTP server."""


def describe_failure(problem: BaseException, has_answered: bool) -> str:
    """Return the reason of a failed request, as the end of a sentence; it is never empty.

    `has_answered` says whether the head of the answer arrived.
    """
    causes = list(_list_causes(problem))
    for cause in causes:
        reason = _describe_cause(cause)
        if reason:
            return reason
    text = next(filter(None, map(str, causes)), "")
    if _is_closed(problem, text):
        return f"it closed the connection {'in the middle of its answer' if has_answered else 'before it answered'}"
    return mask_urls(text) or type(problem).__name__


def _is_closed(problem: BaseException, text: str) -> bool:
    if isinstance(problem, httpx2.RemoteProtocolError):
        return "disconnected" in text or "peer closed" in text  # other texts are about an answer that is not HTTP
    return isinstance(problem, CLOSED_EARLY)


def _describe_cause(cause: BaseException) -> str:
    """Return the reason that one exception states by its type; "" for other types."""
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its TLS certificate is not accepted: {cause.verify_message}"
    if isinstance(cause, ssl.SSLError) and cause.reason in NOT_TLS:
        return "it does not speak TLS at this port; for plain HTTP, write http:// in place of https://"
    if isinstance(cause, ssl.SSLError):
        return f"TLS failed: {(cause.reason or str(cause)).replace('_', ' ').lower()}"
    if isinstance(cause, socket.gaierror):
        return f"the name of its host has no address: {cause.strerror}"
    if isinstance(cause, ConnectionRefusedError):
        return "the connection was refused, so no server listens at this port"
    return ""


def _list_causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an exception, those that led to it, and those in groups."""
    yield problem
    # httpcore removes the cause of some errors with `from None`; their context is the same exception.
    inner = problem.exceptions if isinstance(problem, BaseExceptionGroup) else ()
    for one in (*inner, problem.__cause__ or problem.__context__):
        if one is not None:
            yield from _list_causes(one)

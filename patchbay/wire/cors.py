"""Adds the CORS headers with which an allowed browser origin may read answers. Other origins are refused before."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from patchbay.wire.responses import Reply

HEADERS = (
    "content-type",
    "accept",
    "authorization",
    "dpop",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
)


def with_cors(environ: Mapping[str, Any], reply: Reply) -> Reply:
    """Return the reply with CORS headers if the request has an Origin header that was not refused."""
    origin = environ.get("HTTP_ORIGIN")
    if not origin or reply.status in (403, 421):
        return reply
    reply.headers += [
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", "Mcp-Session-Id, ETag, WWW-Authenticate"),
        ("Vary", "Origin"),
    ]
    if environ["REQUEST_METHOD"] == "OPTIONS":
        asked = environ.get("HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "").lower().split(",")
        extra = [name.strip() for name in asked if name.strip().startswith("mcp-param-")]
        reply.headers += [
            ("Access-Control-Allow-Headers", ", ".join([*HEADERS, *extra])),
            ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
            ("Access-Control-Max-Age", "600"),
        ]
    return reply

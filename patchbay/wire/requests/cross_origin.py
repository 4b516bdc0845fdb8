"""The headers of CORS, with which a page of an allowed other origin may read an answer.

Source: https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

from patchbay.wire.replies.reply import Reply
from patchbay.wire.requests.request import Request

CORS_HEADERS = (
    "content-type",
    "accept",
    "authorization",
    "dpop",
    "mcp-session-id",
    "mcp-protocol-version",
    "mcp-method",
    "mcp-name",
    "last-event-id",
    "traceparent",
    "tracestate",
)
"""The headers that an allowed browser origin may send; other origins are refused before."""


def with_cors(request: Request, reply: Reply) -> Reply:
    """Return the reply with CORS headers if the request has an Origin header that was not refused."""
    origin = request.headers.get("origin")
    if not origin or reply.status in (403, 421):
        return reply
    reply.headers += [
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", "Mcp-Session-Id, ETag, WWW-Authenticate"),
        ("Vary", "Origin"),
    ]
    if request.method == "OPTIONS":
        asked = request.headers.get("access-control-request-headers", "").lower().split(",")
        extra = [name.strip() for name in asked if name.strip().startswith("mcp-param-")]
        reply.headers += [
            ("Access-Control-Allow-Headers", ", ".join([*CORS_HEADERS, *extra])),
            ("Access-Control-Allow-Methods", "GET, POST, DELETE"),
            ("Access-Control-Max-Age", "600"),
        ]
    return reply

"""A plain `http(s)` URL as records: the answer to a GET of it, unless an MCP server may be there.

An MCP server answers such a GET with an event stream or a refusal, or redirects a browser; any other answer is data:
JSON, NDJSON, CSV and text as `formats.py` reads them. A GET changes nothing on a server, so it may come first; a POST,
which MCP begins with, may not. The request carries no header of the caller and no token.

Sources: MCP specification, basic/transports (GET of the MCP endpoint); RFC 9110 section 9.2.1.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from urllib.parse import urlsplit

from patchbay.client.openapi.http_client import ApiClient, ApiFailure, RedirectRefused, Reply
from patchbay.client.openapi.requests import HttpRequest
from patchbay.client.source import Record, SourceContext
from patchbay.client.sources.formats import (
    COMPRESSION_SUFFIXES,
    decode_records,
    get_format_of_media_type,
    get_format_of_name,
)
from patchbay.errors import PatchbayError

EVENT_STREAM = "text/event-stream"

MCP_REFUSAL_STATUSES = frozenset({400, 401, 403, 404, 405, 406, 415, 501})
"""Statuses with which MCP servers answer a GET: no session, no sign-in, no such method, no such media type."""

_UNSPECIFIC_MEDIA_TYPES = ("", "text/plain", "application/octet-stream", "binary/octet-stream")
"""Media types that do not name a format: the file's name decides."""

_COMPRESSED_SUFFIXES = tuple(f".{one}" for one in COMPRESSION_SUFFIXES)
"""Suffixes of compressed files, whose bytes are not records."""

_ACCEPT_HEADERS = {"Accept": "application/json, application/x-ndjson, text/csv, */*;q=0.5"}


def fetch_records(url: str, context: SourceContext) -> Iterator[Record] | PatchbayError | None:
    """Fetch the records at a URL. Return None or the refusal when an MCP server may be there.

    Raises ApiFailure for any other refusal, Unreachable, ServerTimeout, ParseError, TooLarge.
    """
    with ApiClient((url,), {}, context.get_timeout(), context.limit) as client:
        try:
            reply = client.send(HttpRequest("GET", url, _ACCEPT_HEADERS), unread=EVENT_STREAM)
        except RedirectRefused as refusal:
            return refusal
        except ApiFailure as refusal:
            if refusal.data["status"] in MCP_REFUSAL_STATUSES:
                return refusal
            raise
    return None if reply.media_type == EVENT_STREAM else _decode_reply(reply, context.limit)


def _decode_reply(reply: Reply, limit: int) -> Iterator[Record]:
    if not reply.body:
        return iter([{"status": reply.status}])
    kind = get_format_of_media_type(reply.media_type)
    if reply.media_type in _UNSPECIFIC_MEDIA_TYPES:
        path = urlsplit(reply.url).path
        named = "blob" if path.lower().endswith(_COMPRESSED_SUFFIXES) else get_format_of_name(path)
        kind = kind if named == "blob" else named
    return decode_records(io.BytesIO(reply.body), kind, limit, reply.media_type)

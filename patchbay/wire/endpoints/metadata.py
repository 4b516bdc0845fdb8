"""Serves the metadata of the hub as a protected resource, and where its issuer is, below `/.well-known/`.

Each MCP address has its own document, so that `resource` is exactly the URL that the client used. Clients of 2025-03-26
look for the metadata of the authorization server at the hub itself; they get a copy of the issuer's.
Sources: RFC 9728, section 3; RFC 8414, section 3; MCP specification, basic/authorization, of all revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import orjson

from patchbay.access.tokens.resource_metadata import WELL_KNOWN, find_resource_path, make_resource_metadata
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import failure
from patchbay.wire.replies.accept import JSON
from patchbay.wire.replies.reply import Reply, json_reply, refusal
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.cross_origin import with_cors
from patchbay.wire.requests.request import Request

SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"


class ResourceMetadata:
    """Answers requests for metadata.

    `list_issuers` returns the authorization servers that clients may use, for the URL of the hub; `scopes` are those
    that every token needs. `find_server_metadata` returns the metadata of an outside issuer, or raises
    IssuerUnavailable; None leaves requests for it to others.
    """

    def __init__(
        self,
        list_issuers: Callable[[str], Sequence[str]],
        scopes: Sequence[str],
        find_server_metadata: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._list_issuers = list_issuers
        self._scopes = scopes
        self._find_server_metadata = find_server_metadata

    def find(self, request: Request) -> Callable[[Request], Reply] | None:
        """Return what answers a request, None for one of another path."""
        is_server_metadata = request.path == SERVER_METADATA_PATH and self._find_server_metadata is not None
        return self.reply if is_server_metadata or request.path.startswith(WELL_KNOWN) else None

    def reply(self, request: Request) -> Reply:
        """Return the answer to a request for metadata."""
        try:
            reply = self._by_method(request)
        except PatchbayError as problem:
            reply = json_reply(failure(None, problem), problem.status)
        return with_cors(request, reply)

    def _by_method(self, request: Request) -> Reply:
        method = request.method
        if method == "OPTIONS":
            return Reply(204)
        if method not in ("GET", "HEAD"):
            return refusal(405, "this address accepts only GET", ("Allow", "GET, HEAD"))
        if request.path == SERVER_METADATA_PATH and self._find_server_metadata is not None:
            return _document(self._find_server_metadata())
        # The path has one character for each byte.
        path = find_resource_path(request.path.encode("latin-1").decode("utf-8", "replace"))
        if path is None:
            return refusal(404, f"there is metadata for /mcp and /mcp/<server> only, below {WELL_KNOWN}")
        base = find_base_url(request)
        return _document(make_resource_metadata(base, path, self._list_issuers(base), self._scopes))


def _document(value: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps(value), JSON, [("Cache-Control", "no-store")])

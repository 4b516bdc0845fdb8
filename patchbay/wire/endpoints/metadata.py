"""Serves the metadata of the hub as a protected resource, and where its issuer is, below `/.well-known/`.

Each MCP address has its own document, so that `resource` is exactly the URL that the client used. Clients of 2025-03-26
look for the metadata of the authorization server at the hub itself; they get a copy of the issuer's.
Sources: RFC 9728, section 3; RFC 8414, section 3; MCP specification, basic/authorization, of all revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from patchbay.access.tokens.resource_metadata import WELL_KNOWN, find_resource_path, make_resource_metadata
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import failure
from patchbay.settings import Settings
from patchbay.wire.replies.accept import JSON
from patchbay.wire.replies.reply import Reply, StartResponse, json_reply, refusal, with_cors
from patchbay.wire.requests.base_urls import find_base_url
from patchbay.wire.requests.head_checks import check_head
from patchbay.wire.requests.security import check_host_and_origin

SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"

Environ = Mapping[str, Any]


class ResourceMetadata:
    """WSGI middleware that answers requests for metadata, and passes all others to `others`.

    `list_issuers` returns the authorization servers that clients may use, for the URL of the hub; `scopes` are those
    that every token needs. `find_server_metadata` returns the metadata of an outside issuer, or raises
    IssuerUnavailable; None passes requests for it to `others`.
    """

    def __init__(
        self,
        list_issuers: Callable[[str], Sequence[str]],
        scopes: Sequence[str],
        settings: Settings,
        others: Callable[[Any, StartResponse], Iterable[bytes]],
        find_server_metadata: Callable[[], dict[str, Any]] | None = None,
    ) -> None:
        self._list_issuers = list_issuers
        self._scopes = scopes
        self._settings = settings
        self._others = others
        self._find_server_metadata = find_server_metadata

    def __call__(self, environ: Any, start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        if not path.startswith(WELL_KNOWN):
            is_server_metadata = path == SERVER_METADATA_PATH and self._find_server_metadata is not None
            if not is_server_metadata:
                return self._others(environ, start_response)
        return with_cors(environ, self.reply(environ)).send(start_response)

    def reply(self, environ: Environ) -> Reply:
        """Return the answer to a request for metadata."""
        fault = check_head(environ)
        try:
            if fault is not None:
                raise fault
            check_host_and_origin(environ.get("HTTP_HOST"), environ.get("HTTP_ORIGIN"), self._settings)
            return self._by_method(environ)
        except PatchbayError as problem:
            return json_reply(failure(None, problem), problem.status)

    def _by_method(self, environ: Environ) -> Reply:
        method = environ["REQUEST_METHOD"]
        if method == "OPTIONS":
            return Reply(204)
        if method not in ("GET", "HEAD"):
            return refusal(405, "this address accepts only GET", ("Allow", "GET, HEAD"))
        if environ["PATH_INFO"] == SERVER_METADATA_PATH and self._find_server_metadata is not None:
            return _document(self._find_server_metadata())
        # WSGI gives each byte of a path as one character.
        path = find_resource_path(environ["PATH_INFO"].encode("latin-1").decode("utf-8", "replace"))
        if path is None:
            return refusal(404, f"there is metadata for /mcp and /mcp/<server> only, below {WELL_KNOWN}")
        base = find_base_url(environ)
        return _document(make_resource_metadata(base, path, self._list_issuers(base), self._scopes))


def _document(value: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps(value), JSON, [("Cache-Control", "no-store")])

"""Serves the metadata of the hub as a protected resource, and where its issuer is, below `/.well-known/`.

Each MCP address has its own document, so that `resource` is exactly the URL that the client used. Clients of 2025-03-26
look for the metadata of the authorization server at the hub itself; they get a copy of the issuer's.
Sources: RFC 9728, section 3; RFC 8414, section 3; MCP specification, basic/authorization, of all revisions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import orjson

from patchbay.access.tokens.audiences import get_origin
from patchbay.access.tokens.resource_metadata import WELL_KNOWN, find_resource_path, make_resource_metadata
from patchbay.errors import PatchbayError
from patchbay.jsonrpc import failure
from patchbay.settings import Settings
from patchbay.wire.cors import with_cors
from patchbay.wire.request_checks import check_head
from patchbay.wire.responses import JSON, Reply, StartResponse, json_reply, refusal
from patchbay.wire.security import check_host_and_origin

SERVER_METADATA_PATH = "/.well-known/oauth-authorization-server"

Environ = Mapping[str, Any]


class ResourceMetadata:
    """WSGI middleware that answers requests for metadata, and passes all others to `others`.

    `issuers` are the authorization servers that clients may use, `scopes` those that every token needs.
    `find_server_metadata` returns the metadata of the issuer, or raises IssuerUnavailable.
    """

    def __init__(
        self,
        issuers: Sequence[str],
        scopes: Sequence[str],
        find_server_metadata: Callable[[], dict[str, Any]],
        settings: Settings,
        others: Callable[[Any, StartResponse], Iterable[bytes]],
    ) -> None:
        self._issuers = issuers
        self._scopes = scopes
        self._find_server_metadata = find_server_metadata
        self._settings = settings
        self._others = others

    def __call__(self, environ: Any, start_response: StartResponse) -> Iterable[bytes]:
        path: str = environ["PATH_INFO"]
        if path != SERVER_METADATA_PATH and not path.startswith(WELL_KNOWN):
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
            return refusal(405, "this address takes GET", ("Allow", "GET, HEAD"))
        if environ["PATH_INFO"] == SERVER_METADATA_PATH:
            return _document(self._find_server_metadata())
        path = find_resource_path(environ["PATH_INFO"])
        if path is None:
            return refusal(404, f"there is metadata for /mcp and /mcp/<server> only, below {WELL_KNOWN}")
        origin = find_client_origin(environ)
        return _document(make_resource_metadata(origin, path, self._issuers, self._scopes))


def find_client_origin(environ: Environ) -> str:
    """Return scheme, host and port of the URL that the client used. `Host` has to be checked before.

    A proxy with TLS names the scheme in `X-Forwarded-Proto`. A sender that writes this header itself changes only what
    it gets to see: the host stays one of `allowed_hosts`.
    """
    forwarded = environ.get("HTTP_X_FORWARDED_PROTO", "").partition(",")[0].strip().lower()
    scheme = forwarded if forwarded in ("http", "https") else environ["wsgi.url_scheme"]
    return get_origin(f"{scheme}://{environ['HTTP_HOST']}")


def _document(value: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps(value), JSON, [("Cache-Control", "no-store")])

"""The metadata of this hub as a protected resource: which issuer gives tokens for an address (RFC 9728).

The metadata of `https://hub.example.org/mcp/echo` is at
`https://hub.example.org/.well-known/oauth-protected-resource/mcp/echo`. It is the same for every name, so it does not
show which servers exist.
Sources: RFC 9728, sections 2 and 3; MCP specification, basic/authorization.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote, urlsplit

from patchbay.access.tokens.algorithms import ALGORITHMS
from patchbay.access.tokens.audiences import MCP_PATH, get_origin

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MAX_NAME_CHARACTERS = 512

_RESOURCE_PATH = re.compile(rf"({MCP_PATH}(/[^/\x00-\x20\x7f]{{1,{MAX_NAME_CHARACTERS}}})?/?)?")


def find_resource_path(path: str) -> str | None:
    """Return the path of the resource whose metadata is at `path` (decoded); None for another address."""
    if not path.startswith(WELL_KNOWN):
        return None
    rest = path[len(WELL_KNOWN) :]
    return "" if rest == "/" else rest if _RESOURCE_PATH.fullmatch(rest) else None


def get_metadata_url(url: str, is_resource: bool, prefix: str = "") -> str:
    """Return the address of the metadata of a resource. For another URL of the hub: of the hub as a whole.

    `prefix` is that of the hub; the well-known name comes before the path (RFC 9728, section 3.1).
    """
    path = urlsplit(url).path if is_resource else prefix
    return get_origin(url) + WELL_KNOWN + path


def make_resource_metadata(
    base: str, path: str, issuers: Sequence[str], scopes: Sequence[str] = (), name: str = "Patchbay"
) -> dict[str, Any]:
    """Return the metadata of the resource at `path` (decoded) of the hub at `base`, the URL that the client used."""
    document: dict[str, Any] = {
        "resource": base + quote(path, safe="/@:!$&'()*+,;=~"),
        "authorization_servers": list(issuers),
        "bearer_methods_supported": ["header"],
        "dpop_signing_alg_values_supported": list(ALGORITHMS),
        "resource_name": name,
    }
    if scopes:
        document["scopes_supported"] = list(scopes)
    return document

"""Resources: the URL of the MCP endpoint, or of the whole hub, that a token is for (its audience).

Source: RFC 8707, section 2; MCP specification, basic/authorization (resource parameter).
"""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from patchbay.access.tokens.audiences import MCP_PATH, get_origin, normalize_audience

MAX_RESOURCE_CHARACTERS = 400
_PATH = re.compile(r"/mcp(?:/[A-Za-z0-9_.@~-]{1,200})?", re.ASCII)


class BadResource(ValueError):
    """The resource is not an address of this hub; the message says what was expected."""


def parse_resource(resource: str | None, issuer: str) -> str:
    """Return the resource of a request without a slash at its end; the whole hub, `issuer`, if the request has none.

    `issuer` is the URL of the hub as the browser sees it. Raises BadResource.
    """
    if not resource:
        return issuer
    problem = BadResource(f"expected the URL of an MCP endpoint of this hub, such as {issuer}{MCP_PATH}")
    if len(resource) > MAX_RESOURCE_CHARACTERS:
        raise problem
    try:
        parts = urlsplit(normalize_audience(resource))
        found = get_origin(resource) + parts.path
    except ValueError as wrong:
        raise problem from wrong
    has_more = "@" in parts.netloc or "?" in resource or "#" in resource
    path = found.removeprefix(issuer)
    if not found.startswith(issuer) or has_more or not (path == "" or _PATH.fullmatch(path)):
        raise problem
    return found


def covers_resource(outer: str, inner: str, issuer: str) -> bool:
    """Whether a token for `outer` is valid at `inner`; both are resources of the hub with this issuer."""
    return outer in (issuer, issuer + MCP_PATH, inner)


def server_of(resource: str, issuer: str) -> str:
    """Return the name of the server in a resource; empty for all servers."""
    return resource.removeprefix(issuer + MCP_PATH).removeprefix("/") if resource.startswith(issuer + MCP_PATH) else ""

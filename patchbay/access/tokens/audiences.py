"""The audiences that a token may have at one address of the hub.

The resource of an address is its URL: `https://hub.example.org/mcp/echo`. A resource covers what is below it, because
a client asks for the base URL of all that it wants to use (RFC 8707, section 2): a token for
`https://hub.example.org/mcp` is valid for every server, one for `https://hub.example.org` for the whole hub, and one
for `https://hub.example.org/mcp/echo` for that server only. Addresses outside `/mcp` belong to no single server, so
they take a token for the whole hub or for `/mcp`.
Sources: RFC 8707, section 2; RFC 9068, section 4; RFC 3986, section 6.2 (normal form of scheme, host and port).
"""

from __future__ import annotations

from urllib.parse import urlsplit

from patchbay.text_cache import cached_by_text

MCP_PATH = "/mcp"
_DEFAULT_PORTS = {"https": 443, "http": 80}


@cached_by_text(1024)
def get_origin(url: str) -> str:
    """Return scheme, host and port of a URL in normal form: lower case, without the default port."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    has_port = parts.port is not None and parts.port != _DEFAULT_PORTS.get(parts.scheme)
    return f"{parts.scheme}://{host}:{parts.port}" if has_port else f"{parts.scheme}://{host}"


def list_audiences(resource: str, url: str, prefix: str = "") -> frozenset[str]:
    """Return the audiences that are accepted for a request: with the URL `resource` of an MCP endpoint, or else `url`.

    `prefix` is the path of the hub: what its host serves beside it is another resource. The audiences are without a
    slash at the end; compare them with `normalize_audience`.
    """
    if not resource:
        return _audiences_of_hub(get_origin(url) + prefix)
    if prefix:
        return _audiences_of_hub(get_origin(resource) + prefix) | {_write_resource(resource)}
    return _audiences_of_endpoint(resource)


@cached_by_text(1024)
def _audiences_of_hub(base: str) -> frozenset[str]:
    return frozenset((base, base + MCP_PATH))


@cached_by_text(1024)
def _audiences_of_endpoint(resource: str) -> frozenset[str]:
    return _audiences_of_hub(get_origin(resource)) | {_write_resource(resource)}


def _write_resource(resource: str) -> str:
    return get_origin(resource) + urlsplit(resource).path.rstrip("/")


def normalize_audience(audience: str) -> str:
    """Return an audience without a final slash, which libraries add to a URL without a path."""
    return audience.removesuffix("/")

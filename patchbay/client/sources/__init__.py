"""The sources of this program: MCP servers, HTTP APIs, object stores, and installed ones (the seam is
`client/source.py`).

HTTP APIs and object stores are loaded when an address belongs to them, because each takes longer to load than most
commands take altogether.
"""

from __future__ import annotations

from collections.abc import Iterator

from patchbay.client.source import LazySource, Record, Source, SourceContext, Sources
from patchbay.client.sources.http_targets import PLUGIN, SCHEMES, is_document
from patchbay.client.sources.mcp import McpSource
from patchbay.client.sources.objects_targets import OTHER_SCHEMES, S3_SCHEMES
from patchbay.errors import PatchbayError


def make_sources() -> Sources:
    """Make the sources of this program and those installed under the entry point group `patchbay.sources`."""
    return Sources(
        [
            McpSource(_fetch_plain_url, _is_api_described),
            LazySource(PLUGIN, SCHEMES, is_document, _load_http_source),
            LazySource("s3", S3_SCHEMES, _claim_nothing, lambda: _load_object_source("s3", S3_SCHEMES)),
            LazySource("objects", OTHER_SCHEMES, _claim_nothing, lambda: _load_object_source("objects", OTHER_SCHEMES)),
        ]
    )


def _claim_nothing(address: str) -> bool:
    return False


def _load_http_source() -> Source:
    from patchbay.client.sources.http import HttpSource

    return HttpSource()


def _load_object_source(name: str, schemes: tuple[str, ...]) -> Source:
    from patchbay.client.sources.objects import ObjectSource

    return ObjectSource(name, schemes)


def _is_api_described(url: str, context: SourceContext) -> bool:
    """Whether an HTTP API describes itself at a URL or at a usual path below it."""
    from patchbay.client.sources.http import is_described

    return is_described(url, context)


def _fetch_plain_url(url: str, context: SourceContext) -> Iterator[Record] | PatchbayError | None:
    from patchbay.client.sources.plain_urls import fetch_records

    return fetch_records(url, context)

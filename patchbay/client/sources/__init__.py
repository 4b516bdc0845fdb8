"""What fills the seam `client/source.py`: MCP servers, HTTP APIs, object stores, and what others have installed.

HTTP APIs and object stores are loaded when an address is theirs: most commands need neither, and each takes longer to
load than a command takes altogether.
"""

from __future__ import annotations

from collections.abc import Iterator

from patchbay.client.source import LateSource, Record, Source, SourceContext, Sources
from patchbay.client.sources.http_targets import PLUGIN, SCHEMES, is_document
from patchbay.client.sources.mcp import McpSource
from patchbay.client.sources.objects_targets import OTHERS, S3
from patchbay.errors import PatchbayError


def known_sources() -> Sources:
    """The sources of this program, and those installed under the entry point group `patchbay.sources`."""
    return Sources(
        [
            McpSource(_fetched, _describes),
            LateSource(PLUGIN, SCHEMES, is_document, _http),
            LateSource("s3", S3, _claims_nothing, lambda: _objects("s3", S3)),
            LateSource("objects", OTHERS, _claims_nothing, lambda: _objects("objects", OTHERS)),
        ]
    )


def _claims_nothing(address: str) -> bool:
    return False


def _http() -> Source:
    from patchbay.client.sources.http import HttpSource

    return HttpSource()


def _objects(name: str, schemes: tuple[str, ...]) -> Source:
    from patchbay.client.sources.objects import ObjectSource

    return ObjectSource(name, schemes)


def _describes(url: str, means: SourceContext) -> bool:
    """Whether an HTTP API describes itself at a URL or in a usual place below it."""
    from patchbay.client.sources.http import is_described

    return is_described(url, means)


def _fetched(url: str, means: SourceContext) -> Iterator[Record] | PatchbayError | None:
    from patchbay.client.sources.plain_urls import fetched

    return fetched(url, means)

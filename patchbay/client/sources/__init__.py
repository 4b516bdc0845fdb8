"""What fills the seam `client/source.py`: MCP servers, HTTP APIs, object stores, and what others have installed."""

from __future__ import annotations

from patchbay.client.source import Sources
from patchbay.client.sources.http import HttpSource
from patchbay.client.sources.mcp import McpSource
from patchbay.client.sources.objects import ObjectSource
from patchbay.client.sources.objects_targets import OTHERS, S3
from patchbay.client.sources.plain_urls import fetched


def known_sources() -> Sources:
    """The sources of this program, and those installed under the entry point group `patchbay.sources`."""
    return Sources([McpSource(fetched), HttpSource(), ObjectSource("s3", S3), ObjectSource("objects", OTHERS)])

"""Where uploads of a hub go, by the URL of one of its endpoints."""

from __future__ import annotations

import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.uploads import find_upload_url, upload


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1:8080/mcp", "http://127.0.0.1:8080/blobs"),
        ("http://127.0.0.1:8080/mcp/git", "http://127.0.0.1:8080/blobs"),
        ("https://example.org/hub/mcp/git@bafk?x=1#y", "https://example.org/hub/blobs"),
        ("http://127.0.0.1:8080/mcp/mcp-server-git", "http://127.0.0.1:8080/blobs"),
        ("https://example.org/mcp/mcp/git", "https://example.org/mcp/blobs"),
        ("https://example.org/sse", ""),
        ("https://example.org/mcpx", ""),
        ("https://example.org/", ""),
    ],
)
def test_uploads_go_beside_the_endpoints(url: str, expected: str) -> None:
    assert find_upload_url(url) == expected


def test_a_server_that_has_no_endpoints_of_a_hub_gets_no_upload() -> None:
    assert upload(Http("https://example.org/sse"), b"abc") is None

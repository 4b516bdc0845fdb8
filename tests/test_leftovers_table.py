"""docs/security.md says of each method and route what it leaves behind, with its limit and tests that exist.

The methods are those of the dispatcher, the routes those of the pages and of each layer in front of them. A new one
without a row fails.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from patchbay.access.limits.usage import LABELS
from patchbay.access.quotas import ROOM_BYTES_PER_SECOND
from patchbay.access.tokens.resource_metadata import WELL_KNOWN
from patchbay.protocol.methods import METHODS
from patchbay.settings import Settings
from patchbay.web.openapi.routes import ALL_ROUTES
from patchbay.wire.endpoints import mcp_2024
from patchbay.wire.rooms import http as rooms_http
from patchbay.wire.rooms import sockets
from tests.checkout import ROOT
from tests.hubs import Hub
from tests.named_tests import names_in, places_of, rows_of

PAGE = (ROOT / "docs" / "security.md").read_text("utf-8")
SECTION = PAGE[PAGE.index("### What a request leaves behind") : PAGE.index("### Apps")]
ROWS = rows_of(SECTION)
NOTIFICATIONS = ("notifications/initialized", "notifications/cancelled", "notifications/roots/list_changed")
"""The notifications that the dispatcher knows (`patchbay/protocol/dispatch.py`)."""

OF_SERVERS = ("GET /mcp/<server>", "DELETE /mcp/<server>")
"""Beside POST, which is in the table of routes (`patchbay/wire/endpoints/mcp.py`)."""

METHODS_2024 = {"sse": "GET", "messages": "POST"}

ENDPOINTS = ["ResourceMetadata", "McpOverHttp", "NativeOverHttp", "HttpSse", "WebSocketUpgrades", "RoomsOverHttp"]
ENDPOINTS += ["HealthOverHttp", "LatePages"]
"""What answers requests, the first one first; each with routes has them in `served`."""


def served() -> Iterator[str]:
    """Every method with its route that a hub serves."""
    # Another test compares the table of routes with the rules of the app (tests/web/openapi/test_document.py).
    yield from (f"{route.method} {route.path}" for route in ALL_ROUTES)
    yield from OF_SERVERS
    yield f"GET {WELL_KNOWN}"
    for part, methods in rooms_http._METHODS.items():
        yield from (f"{method} /rooms/<room>{f'/{part}' if part else ''}" for method in methods)
    parts = re.search(r"\((\w+)\|(\w+)\)", mcp_2024._PATH.pattern)
    assert parts is not None
    yield from (f"{METHODS_2024[part]} /mcp/<server>/{part}" for part in parts.groups())
    yield from ("GET " + re.sub(r"\(\?P<(\w+)>[^)]*\)", r"<\1>", pattern) for pattern in sockets.ROUTES)


def test_each_method_and_route_has_one_row() -> None:
    """48.4"""
    told = Counter(name for row in ROWS for name in re.findall(r"`([^`]+)`", row[0]))
    assert told.keys() == {*METHODS, *NOTIFICATIONS, *served()}
    assert max(told.values()) == 1


def test_each_endpoint_in_front_of_the_pages_is_known(tmp_path: Path) -> None:
    """48.4: a new endpoint may have routes of its own."""
    with closing(Hub(tmp_path, {}, access="shared")) as hub:
        pipeline: Any = hub.app.parts.pipeline
        finds = (pipeline.metadata, *pipeline.endpoints, pipeline.health)
        found = [*(type(find.__self__).__name__ for find in finds), type(pipeline.pages.app).__name__]
    assert found == ENDPOINTS


def test_each_row_says_what_is_left_its_limit_and_tests_that_exist() -> None:
    """48.4"""
    assert ROWS
    for row in ROWS:
        assert len(row) == 4 and all(row), row
        named = names_in(row[3])
        assert named, row  # a test that fits in part needs another one
        assert [name for name in named if len(places_of(name)) != 1] == [], row


def test_each_limit_by_name_is_a_quota_or_a_setting() -> None:
    """48.4"""
    known = LABELS.keys() | {ROOM_BYTES_PER_SECOND} | Settings.__dataclass_fields__.keys()
    named = {name for row in ROWS for name in re.findall(r"`([a-z_]+)`", row[2])}
    assert named <= known

"""A caller of a mounted HTTP API replaces what the operator configured, or leads a request to another path.

Sources: CVE-2026-110279 (a header of the caller replaces an upstream credential), CWE-235, CWE-22.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Hub
from tests.kinds.openapi.mounting import Json, mounted, operation, parameter
from tests.kinds.openapi.recording_api import RecordingApi, Reply

LIST = {"type": "array", "items": {"type": "integer"}}
FILTER = parameter("filter", kind="object")
CHOSEN = parameter("prefs", "cookie", kind="object", explode=True)
PATHS: Json = {
    "/pages": {"get": operation(parameter("page", kind="integer"), FILTER, CHOSEN, answer=LIST, operationId="pages")},
    "/files/{first}{second}/secret": {
        "get": operation(parameter("first", "path"), parameter("second", "path"), operationId="joined")
    },
    "/labels/{label}/secret": {"get": operation(parameter("label", "path", style="label"), operationId="label")},
}
SCHEMES: Json = {
    "key": {"type": "apiKey", "in": "query", "name": "api_key"},
    "session": {"type": "apiKey", "in": "cookie", "name": "session"},
}
CONFIGURED: Json = {
    "query": {"tenant": "ours"},
    "credentials": {"key": "${OUR_KEY}", "session": "${OUR_SESSION}"},
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, RecordingApi]]:
    folder = tmp_path_factory.mktemp("hub")
    more = {"components": {"securitySchemes": SCHEMES}, "security": [{"key": [], "session": []}]}
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("OUR_KEY", "our-key-123456")
        patched.setenv("OUR_SESSION", "our-session-123456")
        with mounted(folder, PATHS, lambda seen: Reply([1]), more, **CONFIGURED) as found:
            yield found


def call(shop: tuple[Hub, RecordingApi], tool: str, arguments: Json) -> Json:
    """The result of a call; the API forgets the requests before it."""
    hub, api = shop
    api.requests.clear()
    return dict(hub.call("shop", tool, arguments).result)


OTHERS = [
    {"next": "?page=2#"},
    {"next": "?page=2&tenant=theirs&api_key=theirs#"},
    {"next": "?%74enant=theirs&TENANT=theirs"},
    {"filter": {"tenant": "theirs", "api_key": "theirs"}},
    {"prefs": {"session": "theirs"}},
]


@pytest.mark.parametrize("arguments", OTHERS)
def test_no_argument_replaces_what_the_operator_configured(
    shop: tuple[Hub, RecordingApi], arguments: dict[str, Any]
) -> None:
    assert not call(shop, "pages", arguments)["isError"]
    seen = shop[1].requests[0]
    assert [pair for pair in seen.query if pair[0].lower() in ("tenant", "api_key")] == [
        ("api_key", "our-key-123456"),
        ("tenant", "ours"),
    ], seen.target
    assert seen.headers["Cookie"] == "session=our-session-123456"


def test_no_cookie_replaces_a_configured_header_with_cookies(tmp_path: Path) -> None:
    headers = {"Cookie": "session=ours"}
    with mounted(tmp_path, PATHS, lambda seen: Reply([1]), headers=headers) as shop:
        assert "prefs" not in str(shop[0].modern("shop", "tools/list").result)
        call(shop, "pages", {"prefs": {"session": "theirs"}})
        call(shop, "pages", {})
        assert [seen.headers["Cookie"] for seen in shop[1].requests] == ["session=ours"]


LEADING = [("joined", {"first": ".", "second": "."}), ("label", {"label": "."}), ("label", {"label": ["", ""]})]


@pytest.mark.parametrize(("tool", "arguments"), LEADING)
def test_no_argument_leads_a_path_upwards(shop: tuple[Hub, RecordingApi], tool: str, arguments: dict[str, Any]) -> None:
    result = call(shop, tool, arguments)
    assert (result["isError"], shop[1].requests) == (True, [])

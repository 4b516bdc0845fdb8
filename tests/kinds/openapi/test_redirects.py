"""Redirects of HTTP APIs: followed at the same origin, else a failure that says where they lead."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.hubs import Hub
from tests.kinds.openapi.mounting import Json, body, mounted, operation
from tests.kinds.openapi.recording_api import RecordingApi, Reply

PATHS: Json = {
    "/any": {"get": operation(), "post": operation(operationId="post_any")},
    "/save": {
        "post": operation(
            operationId="save", **body({"type": "object", "properties": {"n": {"type": "integer"}}}, "application/json")
        )
    },
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, RecordingApi]]:
    with mounted(tmp_path_factory.mktemp("hub"), PATHS) as found:
        yield found


def call(shop: tuple[Hub, RecordingApi], tool: str, arguments: Json, *told: Reply) -> Json:
    """The result of a call; the API gives these answers, one after another."""
    hub, api = shop
    left = list(told)
    api.answer = lambda seen: left.pop(0)
    api.requests.clear()
    return dict(hub.call("shop", tool, arguments).result)


def result_text(result: Json) -> str:
    return "".join(part.get("text", "") for part in result["content"])


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("tool", ["get_any", "post_any"])
def test_a_redirect_to_another_server_is_a_failure_and_is_not_followed(
    shop: tuple[Hub, RecordingApi], tool: str, status: int
) -> None:
    result = call(shop, tool, {}, Reply(None, status, {"Location": "http://127.0.0.2:9/secret?token=abc"}))
    assert result["isError"] and "redirects to http://127.0.0.2:9/secret?token=***" in result_text(result)
    assert len(shop[1].requests) == 1


@pytest.mark.parametrize(
    ("status", "expected"), [(307, ("POST", b'{"n":1}')), (308, ("POST", b'{"n":1}')), (303, ("GET", b""))]
)
def test_a_redirect_of_a_post_is_followed_at_the_same_origin(
    shop: tuple[Hub, RecordingApi], status: int, expected: tuple[str, bytes]
) -> None:
    """Issue 50, item 6: nothing was done, and the call was no failure. RFC 9110, 15.4.4, 15.4.8 and 15.4.9."""
    result = call(shop, "save", {"n": 1}, Reply(None, status, {"Location": "/other"}), Reply({"id": 7}))
    assert not result["isError"] and json.loads(result_text(result)) == {"id": 7}
    first, second = shop[1].requests
    assert (first.method, first.body) == ("POST", b'{"n":1}')
    assert (second.path, second.method, second.body) == ("/other", *expected)
    assert (second.headers["Content-Type"] is None) == (status == 303)


@pytest.mark.parametrize("status", [300, 301, 302, 304, 305])
def test_no_redirect_that_is_not_followed_is_a_success(shop: tuple[Hub, RecordingApi], status: int) -> None:
    result = call(shop, "save", {"n": 1}, Reply(None, status, {"Location": "/other"}))
    assert result["isError"] and str(status) in result_text(result)

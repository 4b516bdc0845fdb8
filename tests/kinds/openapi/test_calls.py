"""Calls of a mounted API through the hub: answers, errors, pages, streams, files, delays, credentials (issue 17.2)."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from email.message import Message
from email.parser import BytesParser
from pathlib import Path
from typing import Any

import pytest

from tests.hubs import Hub, modern_request
from tests.kinds.openapi.mounting import Json, body, mounted, operation, parameter
from tests.kinds.openapi.recording_api import Recorded, RecordingApi, Reply
from tests.waiting import until

OBJECT = {"type": "object", "properties": {"id": {"type": "integer"}}}
FILE = {"type": "string", "format": "binary"}
LIST = {"type": "array", "items": {"type": "integer"}}
PATHS: Json = {
    "/object": {"get": operation(answer=OBJECT)},
    "/list": {"get": operation(answer=LIST)},
    "/any": {"get": operation(), "post": operation(operationId="post_any")},
    "/upload": {
        "post": operation(
            operationId="upload",
            **body({"type": "object", "properties": {"file": FILE, "note": {"type": "string"}}}, "multipart/form-data"),
        )
    },
    "/raw": {"post": operation(operationId="raw", **body({}, "application/octet-stream"))},
    "/pages": {"get": operation(parameter("page", kind="integer"), answer=LIST, operationId="pages")},
    "/cursors": {
        "get": operation(
            parameter("cursor"),
            answer={"type": "object", "properties": {"items": LIST, "next_cursor": {"type": "string"}}},
            operationId="cursors",
        )
    },
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, RecordingApi]]:
    with mounted(tmp_path_factory.mktemp("hub"), PATHS) as found:
        yield found


def call(shop: tuple[Hub, RecordingApi], tool: str, arguments: Json | None = None, *told: Reply) -> Json:
    """The result of a call; the API gives these answers, one after another."""
    hub, api = shop
    left = list(told)
    api.answer = lambda seen: left.pop(0)
    api.requests.clear()
    return dict(hub.call("shop", tool, arguments or {}).result)


def result_text(result: Json) -> str:
    return "".join(part.get("text", "") for part in result["content"])


def test_json_is_structured_content_and_text(shop: tuple[Hub, RecordingApi]) -> None:
    result = call(shop, "get_object", {}, Reply({"id": 7}))
    assert (result["structuredContent"], json.loads(result_text(result)), result["isError"]) == (
        {"id": 7},
        {"id": 7},
        False,
    )


@pytest.mark.parametrize("told", [Reply({"id": "seven"}), Reply([1]), Reply(status=204), Reply(b"hello", 200)])
def test_an_answer_that_the_document_does_not_describe_is_not_a_failure(
    shop: tuple[Hub, RecordingApi], told: Reply
) -> None:
    """Clients check results against the output schema, so the structured content is an empty object then."""
    result = call(shop, "get_object", {}, told)
    assert (result["structuredContent"], result["isError"]) == ({}, False)
    assert result_text(result)


@pytest.mark.parametrize("status", [400, 404, 422, 500, 599])
def test_an_error_has_its_status_its_reason_and_its_body(shop: tuple[Hub, RecordingApi], status: int) -> None:
    result = call(shop, "get_object", {}, Reply({"detail": "no such thing", "code": 12}, status))
    assert result["isError"]
    first, _, rest = result_text(result).partition("\n")
    assert first.startswith(f"GET /object answered {status}") and first.endswith(": no such thing")
    assert json.loads(rest) == {"detail": "no such thing", "code": 12}


def test_a_large_error_is_cut(shop: tuple[Hub, RecordingApi]) -> None:
    result = call(shop, "get_object", {}, Reply(b"x" * 100_000, 500, {"Content-Type": "text/plain"}))
    assert len(result_text(result)) < 9_000
    assert "[... 100000 bytes in all]" in result_text(result)


def test_wrong_arguments_do_not_reach_the_api(shop: tuple[Hub, RecordingApi]) -> None:
    result = call(shop, "pages", {"page": "one"})
    assert result["isError"] and 'page: "one" is not of type "integer"' in result_text(result)
    assert shop[1].requests == []


@pytest.mark.parametrize(
    ("media_type", "kind"), [("image/png", "image"), ("audio/wav", "audio"), ("application/pdf", "resource")]
)
def test_bytes_are_a_block_of_their_kind(shop: tuple[Hub, RecordingApi], media_type: str, kind: str) -> None:
    [block] = call(shop, "get_any", {}, Reply(b"\x00\x01", 200, {"Content-Type": media_type}))["content"]
    assert block["type"] == kind
    data = block["data"] if kind != "resource" else block["resource"]["blob"]
    assert base64.b64decode(data) == b"\x00\x01"


def test_a_large_answer_is_a_link_to_content_of_this_hub(shop: tuple[Hub, RecordingApi]) -> None:
    result = call(shop, "get_any", {}, Reply(["x" * 1000] * 1000))
    link = next(block for block in result["content"] if block["type"] == "resource_link")
    assert link["uri"].startswith("cid://")


def test_a_large_file_is_a_link_to_content_of_this_hub(shop: tuple[Hub, RecordingApi]) -> None:
    data = bytes(range(256)) * 4096
    [link] = call(shop, "get_any", {}, Reply(data, 200, {"Content-Type": "application/pdf"}))["content"]
    assert (link["type"], link["mimeType"], link["size"]) == ("resource_link", "application/pdf", len(data))
    read = shop[0].legacy("shop", "resources/read", {"uri": link["uri"]}).result["contents"][0]
    assert base64.b64decode(read["blob"]) == data


def read_parts(seen: Recorded) -> dict[str, Message]:
    """The parts of a multipart body by their fields."""
    head = f"Content-Type: {seen.headers['Content-Type']}\r\n\r\n".encode()
    whole = BytesParser().parsebytes(head + seen.body).get_payload()
    assert isinstance(whole, list)
    parts = [part for part in whole if isinstance(part, Message)]
    return {str(part.get_param("name", header="content-disposition")): part for part in parts}


def test_a_file_is_a_data_uri_or_content_of_this_hub(shop: tuple[Hub, RecordingApi]) -> None:
    stored = shop[0].configured(b"a stored file")
    for uri, data in (("data:text/plain;base64,aGVsbG8=", b"hello"), (f"cid://{stored}", b"a stored file")):
        assert not call(shop, "upload", {"file": uri, "note": "n"}, Reply({}))["isError"]
        [seen] = shop[1].requests
        parts = read_parts(seen)
        assert parts["file"].get_payload(decode=True) == data
        assert parts["file"].get_filename()
        assert parts["note"].get_payload() == "n"
        assert not call(shop, "raw", {"body": uri}, Reply({}))["isError"]
        assert shop[1].requests[0].body == data


def test_a_file_that_is_neither_is_refused(shop: tuple[Hub, RecordingApi]) -> None:
    result = call(shop, "upload", {"file": "/etc/passwd"})
    assert result["isError"] and "expected a file as a data: URI or cid://" in result_text(result)
    assert shop[1].requests == []


def test_the_next_page_is_offered_and_read_with_its_value(shop: tuple[Hub, RecordingApi]) -> None:
    more = Reply([1, 2], 200, {"Link": '</pages?page=2&size=9>; rel="next"'})
    result = call(shop, "pages", {}, more)
    assert 'call again with "next": "?page=2&size=9"' in result_text(result)
    assert result_text(call(shop, "pages", {"next": "?page=2&size=9"}, Reply([3]))) == "[\n  3\n]"
    assert shop[1].requests[0].target == "/pages?page=2&size=9"


def test_a_cursor_in_the_answer_is_a_next_page(shop: tuple[Hub, RecordingApi]) -> None:
    result = call(shop, "cursors", {}, Reply({"items": [1], "next_cursor": "a b"}))
    assert 'call again with "next": "?cursor=a+b"' in result_text(result)
    assert (
        "next"
        not in result_text(call(shop, "cursors", {}, Reply({"items": [1], "next_cursor": None}))).splitlines()[-1]
    )


@pytest.mark.parametrize("value", ["/admin", "http://127.0.0.2/", "//x/?page=2"])
def test_next_cannot_lead_to_another_path(shop: tuple[Hub, RecordingApi], value: str) -> None:
    result = call(shop, "pages", {"next": value})
    assert result["isError"] and "expected the value of an earlier result" in result_text(result)
    assert shop[1].requests == []


def test_a_delayed_answer_is_asked_for_once_more(shop: tuple[Hub, RecordingApi]) -> None:
    delayed = Reply(None, 429, {"Retry-After": "0"})
    assert call(shop, "get_object", {}, delayed, Reply({"id": 1}))["structuredContent"] == {"id": 1}
    assert "answered 429 Too Many Requests" in result_text(call(shop, "get_object", {}, delayed, delayed))
    assert len(shop[1].requests) == 2


@pytest.mark.parametrize(("tool", "after"), [("post_any", "0"), ("get_object", "3600"), ("get_object", "soon")])
def test_a_delay_is_an_error_after_the_deadline_and_for_a_request_that_may_change_something(
    shop: tuple[Hub, RecordingApi], tool: str, after: str
) -> None:
    assert call(shop, tool, {}, Reply(None, 503, {"Retry-After": after}))["isError"]
    assert len(shop[1].requests) == 1


STREAM = {"Transfer-Encoding": "chunked"}


@pytest.mark.parametrize(
    ("media_type", "text"),
    [
        ("text/event-stream", b"event: a\ndata: one\ndata: two\n\n|: comment\ndata: three\n\n"),
        ("application/x-ndjson", b"one\ntwo\n|three\n"),
    ],
)
def test_a_stream_is_text_as_it_arrives(shop: tuple[Hub, RecordingApi], media_type: str, text: bytes) -> None:
    hub, api = shop
    api.release.clear()
    api.answer = lambda seen: Reply(text, 200, {**STREAM, "Content-Type": media_type})
    params = {"name": "get_any", "arguments": {}, "_meta": {"progressToken": "p"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    stream = hub.stream("shop", message, {"MCP-Protocol-Version": "2025-11-25"})
    frames = b""
    while b"two" not in frames:
        frames += next(stream)
    assert b"three" not in frames
    api.release.set()
    rest = b"".join(stream)
    assert b"one\\ntwo\\nthree" in rest, "the whole text is in the result"


def test_the_request_ends_when_the_caller_leaves(shop: tuple[Hub, RecordingApi]) -> None:
    hub, api = shop
    api.release.clear()
    api.hung_up.clear()
    api.answer = lambda seen: Reply(
        b"data: one\n\n|data: two\n\n", 200, {**STREAM, "Content-Type": "text/event-stream"}
    )
    params = {"name": "get_any", "arguments": {}}
    stream = hub.stream("shop", *modern_request("tools/call", params, meta={"progressToken": "p"}))
    assert b"one" in next(stream)
    stream.close()
    until(api.hung_up.is_set, "the end of the request")
    page = hub.client.get("/activity?server=shop", headers={"Accept": "application/json"}).get_json()
    assert page["records"][0]["outcome"] == "cancelled", "the deadline did not end it"


def test_cookies_of_answers_are_not_stored(shop: tuple[Hub, RecordingApi]) -> None:
    call(shop, "get_any", {}, Reply({}, 200, {"Set-Cookie": "session=of-one-caller; Path=/"}))
    call(shop, "get_any", {}, Reply({}))
    assert "Cookie" not in shop[1].requests[0].headers


SECRET = "a-very-secret-value"
SCHEMES: Json = {
    "inHeader": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "inQuery": {"type": "apiKey", "in": "query", "name": "key"},
    "inCookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "basic": {"type": "http", "scheme": "basic"},
    "client": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "/token", "scopes": {}}}},
}
SECURED: Json = {
    f"/{name}": {"get": operation(operationId=name, security=[{"unknown": []}, {name: []}])} for name in SCHEMES
}
SECURED["/open"] = {"get": operation(operationId="open", security=[])}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, RecordingApi]]:
    patch = pytest.MonkeyPatch()
    patch.setenv("THE_SECRET", SECRET)
    credentials: Json = dict.fromkeys(("inHeader", "inQuery", "inCookie", "bearer"), "${THE_SECRET}")
    credentials["basic"] = {"username": "me", "password": "${THE_SECRET}"}
    more = {"components": {"securitySchemes": SCHEMES}}

    def answer(seen: Recorded) -> Reply:
        if seen.path == "/token":
            return Reply({"access_token": "a-token", "expires_in": 3600})
        return Reply({"detail": f"not with {SECRET}"}, 403)

    with mounted(tmp_path_factory.mktemp("hub"), SECURED, answer, more, credentials=credentials) as (hub, api):
        token = {"client_id": "me", "client_secret": "${THE_SECRET}", "token_url": f"{api.url}/token"}
        definition = json.loads((hub.servers / "shop.json").read_text("utf-8"))
        definition["credentials"]["client"] = token
        before = hub.catalogue.find("shop")
        (hub.servers / "shop.json").write_text(json.dumps(definition), "utf-8")
        until(lambda: hub.catalogue.find("shop").version != before.version, "the new mount")
        until(lambda: hub.catalogue.find("shop").tools, "its tools")
        yield hub, api
    patch.undo()


def test_an_api_that_refuses_a_call_without_credentials_says_which_line_to_add(tmp_path: Path) -> None:
    """47, words: the line, the file and the variable."""
    more = {"components": {"securitySchemes": {name: SCHEMES[name] for name in ("inHeader", "basic")}}}
    paths: Json = {"/open": SECURED["/open"]}
    with mounted(tmp_path, paths, lambda seen: Reply({"detail": "who is it?"}, 401), more) as (hub, _):
        message = result_text(hub.call("shop", "open", {}).result)
    line = '"credentials": {"inHeader": "${SHOP_INHEADER}"}'
    assert f"Add the line {line} to servers/shop.json, and set this variable for the hub." in message
    assert "The API also knows basic." in message


def sent_by(secured: tuple[Hub, RecordingApi], tool: str) -> tuple[Recorded, str]:
    hub, api = secured
    api.requests.clear()
    result = hub.call("shop", tool, {}).result
    return api.requests[-1], result_text(result)


@pytest.mark.parametrize(
    ("scheme", "part"),
    [
        ("inHeader", lambda seen: seen.headers["X-Key"] == SECRET),
        ("inQuery", lambda seen: seen.query == [("key", SECRET)]),
        ("inCookie", lambda seen: seen.headers["Cookie"] == f"sid={SECRET}"),
        ("bearer", lambda seen: seen.headers["Authorization"] == f"Bearer {SECRET}"),
        (
            "basic",
            lambda seen: seen.headers["Authorization"] == f"Basic {base64.b64encode(f'me:{SECRET}'.encode()).decode()}",
        ),
        ("client", lambda seen: seen.headers["Authorization"] == "Bearer a-token"),
    ],
)
def test_a_credential_goes_where_its_scheme_says_and_is_shown_nowhere(
    secured: tuple[Hub, RecordingApi], scheme: str, part: Any
) -> None:
    seen, message = sent_by(secured, scheme)
    assert part(seen), seen
    assert SECRET not in message and "answered 403 Forbidden" in message
    hub = secured[0]
    page = hub.client.get("/servers/shop", headers={"Accept": "application/json"}).text
    assert SECRET not in page
    records = hub.client.get("/activity", headers={"Accept": "application/json"}).text
    assert SECRET not in records and scheme in records


def test_a_call_without_the_variable_of_a_credential_says_how_to_store_it(tmp_path: Path) -> None:
    more = {"components": {"securitySchemes": {"key": {"type": "apiKey", "in": "header", "name": "X-Key"}}}}
    paths = {"/a": {"get": operation(security=[{"key": []}])}}
    with mounted(tmp_path, paths, more=more, credentials={"key": "${A_KEY_THAT_IS_NOT_SET}"}) as (hub, api):
        before = len(api.requests)
        answer = hub.call("shop", "get_a")
        assert answer.result["isError"] and len(api.requests) == before
        assert answer.text == (
            "shop needs the variable A_KEY_THAT_IS_NOT_SET, which is not set: store A_KEY_THAT_IS_NOT_SET with"
            " `patchbay secret set A_KEY_THAT_IS_NOT_SET`, or set it in the environment of the hub and start it again"
            " (credentials.key needs it)"
        )


def test_an_open_operation_gets_no_credential(secured: tuple[Hub, RecordingApi]) -> None:
    seen, _ = sent_by(secured, "open")
    assert not {"X-Key", "Authorization", "Cookie"} & set(seen.headers) and seen.query == []


def test_the_token_of_a_client_is_used_again(secured: tuple[Hub, RecordingApi]) -> None:
    hub, api = secured
    hub.call("shop", "client", {})
    api.requests.clear()
    hub.call("shop", "client", {})
    assert [seen.path for seen in api.requests] == ["/client"]


def test_credentials_do_not_go_to_a_server_that_only_the_document_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("THE_SECRET", SECRET)
    more = {"servers": [{"url": "http://127.0.0.1:9"}], "components": {"securitySchemes": SCHEMES}}
    with mounted(tmp_path, {"/a": {"get": operation()}}, more=more, credentials={"bearer": "${THE_SECRET}"}) as (
        hub,
        _,
    ):
        result = hub.call("shop", "get_a", {}).result
        assert result["isError"]
        assert "headers go only to a server that you name" in result_text(result) and '"base": ' in result_text(result)


def test_a_server_on_a_private_network_that_only_the_document_names_is_refused(tmp_path: Path) -> None:
    """CWE-918."""
    with mounted(tmp_path, {"/a": {"get": operation()}}, more={"servers": [{"url": "http://127.0.0.1:9"}]}) as (hub, _):
        result = hub.call("shop", "get_a", {}).result
        assert result["isError"] and 'which is not a public address; to allow it, name it with "base": ' in result_text(
            result
        )


@pytest.mark.parametrize(("last", "expected"), [(3, [1, 2, 3]), (2, [1, 2])])
def test_pages_that_lead_to_each_other_are_kept_with_a_warning(last: int, expected: list[int], tmp_path: Path) -> None:
    """33.6: the third page leads to the second one again; the same page is not given twice."""
    pages = {"/pages": (1, 2), "/pages?page=2": (2, 3), "/pages?page=3": (last, 2)}

    def answer(seen: Recorded) -> Reply:
        number, following = pages[seen.target]
        return Reply([number], 200, {"Link": f'</pages?page={following}>; rel="next"'})

    level = {"io.modelcontextprotocol/logLevel": "warning"}
    with mounted(tmp_path, PATHS, answer, pages=10) as (hub, _):
        found = hub.modern("shop", "tools/call", {"name": "pages", "arguments": {}}, meta=level)
    *logs, result = found.messages
    assert json.loads(result_text(result["result"])) == expected
    assert ["the pages never end" in one["params"]["data"] for one in logs if "level" in one["params"]] == [True]


def test_pages_are_joined_up_to_the_limit(tmp_path: Path) -> None:
    def answer(seen: Recorded) -> Reply:
        number = int(dict(seen.query).get("page", "1"))
        return Reply([number], 200, {"Link": f'</pages?page={number + 1}>; rel="next"'} if number < 5 else {})

    with mounted(tmp_path, PATHS, answer, pages=3) as (hub, _):
        result = hub.call("shop", "pages", {}).result
        assert json.loads(result["content"][0]["text"]) == [1, 2, 3]
        assert 'call again with "next": "?page=4"' in result_text(result)
        rest = hub.call("shop", "pages", {"next": "?page=4"}).result
        assert json.loads(rest["content"][0]["text"]) == [4, 5] and len(rest["content"]) == 1

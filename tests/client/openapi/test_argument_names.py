"""Equal names of parameters and fields of the body: one rule, and a tool that can be called."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from patchbay.client.openapi.argument_names import choose_argument_names
from patchbay.client.openapi.operations import Api
from patchbay.client.openapi.requests import build_request

Json = dict[str, Any]
PLACES = ("path", "query", "header", "cookie", "body")


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ([("id", "path"), ("id", "query"), ("id", "body")], ["id", "id_query", "id_body"]),
        ([("id", "cookie"), ("id", "header"), ("id", "path")], ["id_cookie", "id_header", "id"]),
        ([("id", "query"), ("id", "path"), ("id_query", "query")], ["id_query_2", "id", "id_query"]),
        ([("body", "query"), ("body", "body")], ["body", "body_body"]),
    ],
)
def test_the_first_of_equal_names_keeps_it_and_the_others_name_their_place(
    wanted: list[tuple[str, str]], names: list[str]
) -> None:
    assert choose_argument_names(wanted) == names


def make_api(places: tuple[str, ...], is_whole_body: bool) -> Api:
    """An API with one operation whose parameters in these places, and field of the body, are called `body`."""
    rows = [{"name": "body", "in": place, "schema": {"type": "string"}} for place in places if place != "body"]
    schema: Json = {"type": "string"} if is_whole_body else {"properties": {"body": {"type": "string"}}}
    body = {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}
    put = {"operationId": "x", "parameters": rows, **(body if "body" in places else {})}
    return Api({"openapi": "3.1.0", "paths": {"/{body}" if "path" in places else "/x": {"put": put}}}, "the test")


@pytest.mark.parametrize("places", [one for size in (2, 3, 5) for one in combinations(PLACES, size)])
@pytest.mark.parametrize("is_whole_body", [False, True])
def test_every_place_gets_its_own_value_when_all_names_are_equal(places: tuple[str, ...], is_whole_body: bool) -> None:
    operation = make_api(places, is_whole_body).list_operations()["x"]
    arguments = {one.argument: f"to-{one.place}" for one in operation.parameters}
    if operation.body is not None:
        arguments[operation.body.argument if is_whole_body else next(iter(operation.body.fields or ()))] = "to-body"
    assert set(arguments) == set(operation.tool["inputSchema"]["properties"])
    call = build_request(operation, "https://h", arguments)
    expected = "https://h/" + ("to-path" if "path" in places else "x")
    assert call.url == expected + ("?body=to-query" if "query" in places else "")
    assert call.headers.get("body") == ("to-header" if "header" in places else None)
    assert call.headers.get("Cookie") == ("body=to-cookie" if "cookie" in places else None)
    sent = b'"to-body"' if is_whole_body else b'{"body":"to-body"}'
    assert call.content == (sent if "body" in places else None)

"""Random valid arguments of operations reach the API as the document says (issue 17.2).

Schemathesis makes the values from the document and writes the request itself; the API gets the same request through the
hub: the same path, query, headers, cookies and body.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from patchbay.kinds.openapi.configuration import ApiConfiguration
from patchbay.kinds.openapi.tools import ApiTool, LoadedApi, build_tools
from tests.hubs import Hub
from tests.kinds.openapi.mounting import Json, body, document, mount, operation, parameter
from tests.kinds.openapi.recording_api import Recorded, RecordingApi, recording_api
from tests.waiting import until

EXAMPLES = 10
WORD = {"type": "string", "pattern": "^[a-z]{1,6}$"}
TEXT = {"type": "string", "pattern": "^[a-zA-Z0-9 /?&=+%#.,;:_~-]{1,12}$"}
WORDS = {"type": "array", "items": WORD, "minItems": 1, "maxItems": 3}
POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
ITEM = {
    "type": "object",
    "required": ["name"],
    "additionalProperties": False,
    "properties": {
        "name": TEXT,
        "size": {"type": "number"},
        "tags": WORDS,
        "place": POINT,
        "note": {"type": ["string", "null"], "maxLength": 5},
        "filter[kind]": WORD,
    },
}
FORM = {"type": "object", "required": ["a"], "additionalProperties": False, "properties": {"a": TEXT, "b": WORDS}}


def _shaped(name: str, place: str, schema: Json, **fields: Any) -> Json:
    return {**parameter(name, place), "schema": schema, **fields}


PATHS: Json = {
    "/text/{id}": {"get": operation(_shaped("id", "path", TEXT), _shaped("q", "query", TEXT))},
    "/list/{ids}": {"get": operation(_shaped("ids", "path", WORDS), _shaped("q", "query", WORDS))},
    "/joined": {"get": operation(_shaped("q", "query", WORDS, explode=False))},
    "/piped": {"get": operation(_shaped("q", "query", WORDS, style="pipeDelimited", explode=False))},
    "/spaced": {"get": operation(_shaped("q", "query", WORDS, style="spaceDelimited", explode=False))},
    "/deep": {"get": operation(_shaped("q", "query", POINT, style="deepObject", explode=True))},
    "/object": {"get": operation(_shaped("q", "query", POINT))},
    "/label/{ids}": {"get": operation(_shaped("ids", "path", WORDS, style="label"))},
    "/matrix/{ids}": {"get": operation(_shaped("ids", "path", WORDS, style="matrix", explode=True))},
    "/headers": {"get": operation(_shaped("X-One", "header", WORD), _shaped("X-Many", "header", WORDS))},
    "/cookies": {"get": operation(_shaped("one", "cookie", WORD))},
    "/odd": {"get": operation(_shaped("filter[name]", "query", TEXT), _shaped("$top", "query", {"type": "integer"}))},
    "/same/{id}": {
        "put": operation(_shaped("id", "path", WORD), _shaped("name", "query", WORD), **body(ITEM, required=True))
    },
    "/json": {"post": operation(**body(ITEM, required=True))},
    "/array": {"post": operation(**body(WORDS, required=True))},
    "/form": {"post": operation(**body(FORM, "application/x-www-form-urlencoded", required=True))},
    "/plain": {"post": operation(**body(TEXT, "text/plain", required=True))},
}
SERIALIZED: dict[str, Callable[[Any], Json]] = {
    "/list/{ids}": lambda case: {"ids": unquote(case.path_parameters["ids"]).split(","), **case.query},
    "/joined": lambda case: {"q": case.query["q"].split(",")},
    "/piped": lambda case: {"q": case.query["q"].split("|")},
    "/spaced": lambda case: {"q": case.query["q"].split(" ")},
    "/deep": lambda case: {"q": {key[2]: int(value) for key, value in case.query.items()}},
    "/object": lambda case: {"q": {key: int(value) for key, value in case.query.items()}},
    "/label/{ids}": lambda case: {"ids": unquote(case.path_parameters["ids"])[1:].split(",")},
    "/matrix/{ids}": lambda case: {"ids": unquote(case.path_parameters["ids"]).split(";ids=")[1:]},
    "/headers": lambda case: {
        name: value.split(",") if name == "X-Many" else value for name, value in case.headers.items()
    },
}
"""The arguments of cases whose values Schemathesis keeps in the style of the document."""

OPERATIONS = [(method, path) for path, item in PATHS.items() for method in item]


@dataclass
class Mounted:
    hub: Hub
    api: RecordingApi
    tools: dict[tuple[str, str], ApiTool]
    schema: Any


@pytest.fixture(scope="module")
def mounted_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mounted]:
    with recording_api(document(PATHS)) as api:
        hub = Hub(tmp_path_factory.mktemp("hub"), {"shop.json": mount(api)}).as_operator()
        until(lambda: hub.catalogue.find("shop").tools, "the tools")
        tools = build_tools(LoadedApi("", api.url, api.document), ApiConfiguration("shop", api.url)).tools.values()
        found = {(one.operation.method, one.operation.path): one for one in tools}
        yield Mounted(hub, api, found, schemathesis.openapi.from_dict(api.document))
        hub.close()


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=str)
def test_valid_arguments_reach_the_api_as_the_document_says(mounted_api: Mounted, method: str, path: str) -> None:
    """17.2: what is valid for the document is valid for the tool, and is sent in the style of the document."""
    tool = mounted_api.tools[method, path]
    described = mounted_api.schema[path][method.upper()]

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=described.as_strategy())
    def run(case: Any) -> None:
        mounted_api.api.requests.clear()
        result = mounted_api.hub.call("shop", tool.descriptor.name, _list_arguments(tool, case)).result
        assert not result["isError"], (result, case)
        [seen] = mounted_api.api.requests
        kwargs = case.as_transport_kwargs(base_url=mounted_api.api.url)
        known = {
            key: kwargs[key]
            for key in ("method", "url", "params", "headers", "cookies", "json", "data", "files")
            if key in kwargs
        }
        _compare(seen, requests.Request(**known).prepare(), case)

    run()


def _list_arguments(tool: ApiTool, case: Any) -> Json:
    path = tool.operation.path
    if path in SERIALIZED:
        given = {key: value for key, value in (case.query or {}).items() if key}
        case.query = given if isinstance(case.query, dict) else case.query
        found = SERIALIZED[path](case) if (given or case.path_parameters or case.headers) else {}
        return {key: value for key, value in found.items() if value not in ({}, [])}
    places = {"path": "path_parameters", "query": "query", "header": "headers", "cookie": "cookies"}
    arguments: Json = {}
    for one in tool.operation.parameters:
        values = getattr(case, places[one.place]) or {}
        if one.name in values:
            value = values[one.name]
            # Schemathesis keeps the values of a path percent-encoded.
            arguments[one.argument] = _decode(value) if one.place == "path" else value
    described = tool.operation.body
    if described is not None and described.fields is not None:
        names = {name: argument for argument, name in described.fields.items()}
        arguments |= {names[name]: value for name, value in case.body.items()}
    elif described is not None:
        arguments["body"] = case.body
    return arguments


def _decode(value: Any) -> Any:
    return [unquote(one) for one in value] if isinstance(value, list) else unquote(value)


def _compare(seen: Recorded, expected: requests.PreparedRequest, case: Any) -> None:
    wanted = urlsplit(str(expected.url))
    assert unquote(seen.path) == unquote(wanted.path)
    assert sorted(seen.query) == sorted(parse_qsl(wanted.query, keep_blank_values=True))
    for name in case.headers or {}:
        if name.startswith("X-"):
            assert seen.headers[name] == expected.headers[name]
    assert seen.headers.get("Cookie") == expected.headers.get("Cookie")
    sent = expected.body.encode() if isinstance(expected.body, str) else (expected.body or b"")
    assert isinstance(sent, bytes)
    kind = str(expected.headers.get("Content-Type", ""))
    if sent:
        assert seen.headers["Content-Type"].partition(";")[0] == kind.partition(";")[0]
    if "json" in kind:
        assert json.loads(seen.body) == json.loads(sent)
    elif "urlencoded" in kind:
        assert sorted(parse_qsl(seen.body.decode())) == sorted(parse_qsl(sent.decode()))
    else:
        assert seen.body == sent

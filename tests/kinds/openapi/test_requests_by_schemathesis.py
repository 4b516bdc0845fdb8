"""Random valid arguments of operations reach the API as the document says, from a mount and from the client.

Hypothesis makes the values, Schemathesis writes the request that the document asks for, and the API gets the same
request through the hub and from the client: the same target, headers, cookies and body, byte for byte (issues 17.2 and
33). Three kinds of bodies are compared after parsing: JSON, where spaces and the order of fields mean nothing;
multipart, whose boundary is random; XML.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email.parser import BytesParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from patchbay.client.openapi.operations import Api, Operation
from patchbay.client.source import SourceContext
from patchbay.client.sources import make_sources
from patchbay.kinds.openapi.configuration import ApiConfiguration
from patchbay.kinds.openapi.tools import ApiTool, LoadedApi, build_tools
from tests.client.peers import open_context
from tests.hubs import Hub
from tests.kinds.openapi.mounting import Json, body, document, mount, operation, parameter
from tests.kinds.openapi.recording_api import Recorded, RecordingApi, recording_api
from tests.waiting import until

EXAMPLES, FULL_EXAMPLES = 2, 22
"""Calls of each operation from each side; the larger number gives more than 1,000 calls in all."""

WORD: Json = {"type": "string", "pattern": "[a-z]{1,6}"}
TEXT: Json = {"type": "string", "pattern": r"[a-zA-Z0-9 /?&=+%#.,;:_~'é-]{0,11}[a-z]"}
NUMBER: Json = {"type": "integer"}
FLAG: Json = {"type": "boolean"}
WORDS: Json = {"type": "array", "items": WORD}
TEXTS: Json = {"type": "array", "items": TEXT}
POINT: Json = {"type": "object", "properties": {"x": NUMBER, "y": TEXT}, "required": ["x", "y"]}
ITEM: Json = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": TEXT, "size": NUMBER, "tags": TEXTS, "place": POINT, "on": FLAG, "filter[kind]": WORD},
}
FORM: Json = {"type": "object", "required": ["a"], "properties": {"a": TEXT, "b": TEXTS, "c": NUMBER, "d": FLAG}}
DEEP_FORM: Json = {"type": "object", "required": ["p"], "properties": {"p": POINT, "a": TEXT}}
JOINED_FORM: Json = {"type": "object", "required": ["b"], "properties": {"a": TEXT, "b": WORDS}}
PARTS: Json = {"type": "object", "required": ["a"], "properties": {"a": WORD, "p": POINT, "csv": WORD, "tags": WORDS}}
XML: Json = {
    "type": "object",
    "required": ["id", "name"],
    "xml": {"name": "pet"},
    "properties": {
        "id": {**NUMBER, "xml": {"attribute": True}},
        "name": WORD,
        "tags": {"type": "array", "items": {**WORD, "xml": {"name": "tag"}}, "xml": {"wrapped": True}},
    },
}
FORM_TYPE, XML_TYPE = "application/x-www-form-urlencoded", "application/xml"


def _shaped(name: str, place: str, schema: Json, **fields: Any) -> Json:
    return {**parameter(name, place), "schema": schema, "required": True, **fields}


def _encoded(schema: Json, media_type: str, **encoding: Json) -> Json:
    content = {media_type: {"schema": schema, "encoding": encoding}}
    return operation(requestBody={"required": True, "content": content})


PATHS: Json = {
    "/text/{id}": {"get": operation(_shaped("id", "path", TEXT), _shaped("q", "query", TEXT))},
    "/list/{ids}": {"get": operation(_shaped("ids", "path", TEXTS), _shaped("q", "query", TEXTS))},
    "/point/{p}": {"get": operation(_shaped("p", "path", POINT), _shaped("n", "query", NUMBER))},
    "/pairs/{p}": {"get": operation(_shaped("p", "path", POINT, explode=True), _shaped("on", "query", FLAG))},
    "/joined": {"get": operation(_shaped("q", "query", TEXTS, explode=False))},
    "/piped": {"get": operation(_shaped("q", "query", TEXTS, style="pipeDelimited", explode=False))},
    "/spaced": {"get": operation(_shaped("q", "query", WORDS, style="spaceDelimited", explode=False))},
    "/deep": {"get": operation(_shaped("q", "query", POINT, style="deepObject", explode=True))},
    "/object": {"get": operation(_shaped("q", "query", POINT))},
    "/content": {"get": operation({"name": "q", "in": "query", "content": {"application/json": {"schema": WORD}}})},
    "/label/{ids}": {"get": operation(_shaped("ids", "path", TEXTS, style="label"))},
    "/labels/{ids}": {"get": operation(_shaped("ids", "path", TEXTS, style="label", explode=True))},
    "/labelled/{p}": {"get": operation(_shaped("p", "path", POINT, style="label", explode=True))},
    "/matrix/{ids}": {"get": operation(_shaped("ids", "path", TEXTS, style="matrix", explode=True))},
    "/matrices/{p}": {"get": operation(_shaped("p", "path", POINT, style="matrix", explode=True))},
    "/headers": {"get": operation(_shaped("X-One", "header", WORD), _shaped("X-Many", "header", WORDS))},
    "/cookies": {"get": operation(_shaped("one", "cookie", WORD), _shaped("two", "cookie", WORD))},
    "/odd": {"get": operation(_shaped("filter[name]", "query", TEXT), _shaped("$top", "query", NUMBER))},
    "/same/{id}": {
        "put": operation(_shaped("id", "path", TEXT), _shaped("name", "query", TEXT), **body(ITEM, required=True))
    },
    "/json": {"post": operation(**body(ITEM, required=True))},
    "/array": {"post": operation(**body(TEXTS, required=True))},
    "/form": {"post": operation(**body(FORM, FORM_TYPE, required=True))},
    "/deep-form": {"post": _encoded(DEEP_FORM, FORM_TYPE, p={"style": "deepObject", "explode": True})},
    "/joined-form": {"post": _encoded(JOINED_FORM, FORM_TYPE, b={"style": "form", "explode": False})},
    "/parts": {"post": _encoded(PARTS, "multipart/form-data", csv={"contentType": "text/csv"})},
    "/xml": {"post": operation(**body(XML, XML_TYPE, required=True))},
    "/plain": {"post": operation(**body(TEXT, "text/plain", required=True))},
}
OPERATIONS = [(method, path) for path, item in PATHS.items() for method in item]
CONTAINERS = {"path": "path_parameters", "query": "query", "header": "headers", "cookie": "cookies"}
SOURCES = make_sources()


def make_values(schema: Json) -> st.SearchStrategy[Any]:
    """Values of the few kinds of schemas above."""
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True)
    if schema["type"] == "array":
        return st.lists(make_values(schema["items"]), min_size=1, max_size=3)
    if schema["type"] == "object":
        fields = {name: make_values(one) for name, one in schema["properties"].items()}
        required = {name: fields.pop(name) for name in schema["required"]}
        return st.fixed_dictionaries(required, optional=fields)
    return st.booleans() if schema["type"] == "boolean" else st.integers(-10_000, 10_000)


@dataclass
class Side:
    """One of the two that call the API: the operations as it sees them, and how it calls one."""

    api: RecordingApi
    operations: dict[tuple[str, str], Operation]
    call: Callable[[tuple[str, str], Json], object]


@pytest.fixture(scope="module")
def api() -> Iterator[RecordingApi]:
    with recording_api(document(PATHS)) as found:
        yield found


@pytest.fixture(scope="module")
def mounted_side(api: RecordingApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    hub = Hub(tmp_path_factory.mktemp("hub"), {"shop.json": mount(api)}).as_operator()
    until(lambda: hub.catalogue.find("shop").tools, "the tools")
    built = build_tools(LoadedApi("", api.url, api.document), ApiConfiguration("shop", api.url)).tools.values()
    tools: dict[tuple[str, str], ApiTool] = {(one.operation.method, one.operation.path): one for one in built}

    def call(place: tuple[str, str], arguments: Json) -> None:
        result = hub.call("shop", tools[place].descriptor.name, arguments).result
        assert not result["isError"], (result, arguments)

    yield Side(api, {place: one.operation for place, one in tools.items()}, call)
    hub.close()


@pytest.fixture(scope="module")
def client_side(api: RecordingApi, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    listed = Api(api.document, "the test").list_operations()
    names = {(one.method, one.path): name for name, one in listed.items()}
    with open_context(tmp_path_factory.mktemp("client")) as context:

        def call(place: tuple[str, str], arguments: Json) -> None:
            read(f"openapi+{api.url}/openapi.json?operation={names[place]}", context, arguments)

        yield Side(api, {place: listed[name] for place, name in names.items()}, call)


def read(address: str, context: SourceContext, arguments: Json) -> None:
    assert list(SOURCES.find(address, context).reads(address, context, arguments))


@pytest.fixture(scope="module")
def described(api: RecordingApi) -> Any:
    return schemathesis.openapi.from_dict(api.document)


@pytest.mark.parametrize("place", OPERATIONS, ids=" ".join)
def test_a_mount_sends_what_the_document_says(mounted_side: Side, described: Any, place: tuple[str, str]) -> None:
    compare_calls(mounted_side, described, place, EXAMPLES)


@pytest.mark.parametrize("place", OPERATIONS, ids=" ".join)
def test_the_client_sends_what_the_document_says(client_side: Side, described: Any, place: tuple[str, str]) -> None:
    compare_calls(client_side, described, place, EXAMPLES)


@pytest.mark.full
@pytest.mark.parametrize("place", OPERATIONS, ids=" ".join)
def test_more_than_a_thousand_calls_are_sent_as_the_document_says(
    mounted_side: Side, client_side: Side, described: Any, place: tuple[str, str]
) -> None:
    assert len(OPERATIONS) * 2 * FULL_EXAMPLES > 1_000
    compare_calls(mounted_side, described, place, FULL_EXAMPLES)
    compare_calls(client_side, described, place, FULL_EXAMPLES)


def compare_calls(side: Side, described: Any, place: tuple[str, str], examples: int) -> None:
    """Call an operation with so many random arguments, and compare each request with that of Schemathesis."""
    method, path = place
    row = PATHS[path][method]
    rows = row["parameters"]
    values = [make_values(one.get("schema", WORD)) for one in rows]
    content = row.get("requestBody", {}).get("content", {})
    media_type, media = next(iter(content.items()), (None, None))
    whole = make_values(media["schema"]) if media else st.none()

    @settings(
        max_examples=examples,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(given_values=st.tuples(*values), given_body=whole)
    def run(given_values: tuple[Any, ...], given_body: Any) -> None:
        side.api.requests.clear()
        side.call(place, name_arguments(side.operations[place], rows, given_values, given_body))
        [seen] = side.api.requests
        compare(seen, write_request(described[path][method.upper()], rows, given_values, given_body, media_type, side))

    run()


def name_arguments(found: Operation, rows: list[Json], values: tuple[Any, ...], given_body: Any) -> Json:
    names = {(one.name, one.place): one.argument for one in found.parameters}
    arguments = {names[row["name"], row["in"]]: value for row, value in zip(rows, values, strict=True)}
    if found.body is not None and found.body.fields is not None:
        fields = {name: argument for argument, name in found.body.fields.items()}
        return arguments | {fields[name]: value for name, value in given_body.items()}
    return arguments | ({found.body.argument: given_body} if found.body is not None else {})


def write_request(
    described: Any, rows: list[Json], values: tuple[Any, ...], given_body: Any, media_type: str | None, side: Side
) -> requests.PreparedRequest:
    """The request that Schemathesis writes for these values."""
    parts: dict[str, Json] = {}
    for row, value in zip(rows, values, strict=True):
        parts.setdefault(CONTAINERS[row["in"]], {})[row["name"]] = value
    case = described.Case(**parts, **({"body": given_body, "media_type": media_type} if media_type else {}))
    for container, serialize in described.get_parameter_serializers().items():
        if getattr(case, container):
            setattr(case, container, serialize(getattr(case, container)))
    case.query = {name: json.dumps(one) if isinstance(one, bool) else one for name, one in (case.query or {}).items()}
    # Schemathesis expects the texts of a path percent-encoded; values in a style have that form too.
    for name, one in (case.path_parameters or {}).items():
        case.path_parameters[name] = getattr(one, "encoded", quote(str(one), safe=""))
    kwargs = case.as_transport_kwargs(base_url=side.api.url)
    known = ("method", "url", "params", "headers", "cookies", "json", "data", "files")
    return requests.Request(**{key: kwargs[key] for key in known if key in kwargs}).prepare()


def compare(seen: Recorded, expected: requests.PreparedRequest) -> None:
    wanted = urlsplit(str(expected.url))
    assert seen.path == wanted.path
    # RFC 3986 section 3.4: a query has no plain `|`.
    query = wanted.query.replace("|", "%7C")
    assert sorted(urlsplit(seen.target).query.split("&")) == sorted(query.split("&"))
    for name, value in expected.headers.items():
        if name.startswith("X-") and not name.startswith("X-Schemathesis"):
            assert seen.headers[name] == value
    assert seen.headers.get("Cookie") == expected.headers.get("Cookie")
    kind = str(expected.headers.get("Content-Type", ""))
    sent = expected.body.encode() if isinstance(expected.body, str) else (expected.body or b"")
    assert isinstance(sent, bytes)
    if sent:
        assert seen.headers["Content-Type"].partition(";")[0] == kind.partition(";")[0]
    if "multipart" in kind:
        assert list_parts(seen.headers["Content-Type"], seen.body) == list_parts(kind, sent)
    elif "xml" in kind:
        assert ET.canonicalize(seen.body.decode()) == ET.canonicalize(sent.decode())
    elif "json" in kind:
        value = json.loads(seen.body)
        assert value == json.loads(sent)
        assert seen.body == json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    elif "urlencoded" in kind:
        # Schemathesis encodes the separator of a joined list too, which decodes to the same text.
        assert sorted(seen.body.replace(b",", b"%2C").split(b"&")) == sorted(sent.split(b"&"))
    else:
        assert seen.body == sent


def list_parts(content_type: str, content: bytes) -> list[tuple[Any, ...]]:
    """The parts of a multipart body: name, media type, content. Text is text/plain without saying so (RFC 7578)."""
    message = BytesParser().parsebytes(f"Content-Type: {content_type}\r\n\r\n".encode() + content)
    found: list[tuple[Any, ...]] = []
    for part in message.get_payload():
        assert not isinstance(part, str)
        data = part.get_payload(decode=True)
        assert isinstance(data, bytes)
        kind = part.get_content_type()
        value = json.loads(data) if kind == "application/json" else data
        found.append((part.get_param("name", header="content-disposition"), kind, repr(value)))
    return sorted(found)


def test_the_document_gives_no_problems(api: RecordingApi, tmp_path: Path) -> None:
    described = Api(api.document, "the test")
    assert (len(described.list_operations()), described.problems) == (len(OPERATIONS), {})

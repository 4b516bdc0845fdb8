"""The bodies of requests: forms and multipart by their encoding, XML, files (OpenAPI 3.0 and 3.1)."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote
from xml.etree import ElementTree

import pytest

from patchbay.client.openapi.files import FileContent
from patchbay.client.openapi.operations import Api, Operation
from patchbay.client.openapi.requests import HttpRequest, build_request
from patchbay.errors import InvalidParams

Json = dict[str, Any]
FORM = "application/x-www-form-urlencoded"
MULTIPART = "multipart/form-data"
ANY: Json = {}


def make_operation(media_type: str, fields: Json, version: str = "3.0.3", **media: Any) -> Operation:
    """An operation with a body that has these fields."""
    content = {media_type: {"schema": {"type": "object", "properties": fields}, **media}}
    post = {"operationId": "x", "requestBody": {"required": True, "content": content}}
    return Api({"openapi": version, "paths": {"/x": {"post": post}}}, "the test").list_operations()["x"]


def build(operation: Operation, **arguments: Any) -> HttpRequest:
    return build_request(operation, "https://h", arguments)


DEEP: Json = {"style": "deepObject", "explode": True}
ENCODED: list[tuple[Json, Any, str]] = [
    ({}, {"k": "v"}, 'a={"k":"v"}'),
    ({}, ["x", "y z"], "a=x&a=y z"),
    ({}, [{"k": 1}], 'a={"k":1}'),
    ({}, None, ""),
    (DEEP, {"k": "v"}, "a[k]=v"),
    (DEEP, ["x", "y"], "a[]=x&a[]=y"),
    (DEEP, [{"price": "p", "n": 2}, {"price": "q"}], "a[0][price]=p&a[0][n]=2&a[1][price]=q"),
    (DEEP, {"address": {"city": "C"}, "to": ["x"]}, "a[address][city]=C&a[to][]=x"),
    (DEEP, "plain", "a=plain"),
    ({"style": "form"}, {"k": "v"}, "k=v"),
    ({"style": "form", "explode": False}, ["x", "y,z"], "a=x,y%2Cz"),
    ({"style": "pipeDelimited"}, ["x", "y"], "a=x|y"),
    ({"style": "spaceDelimited", "explode": False}, ["x", "y"], "a=x y"),
    ({"contentType": "application/json"}, ["x"], 'a=["x"]'),
    ({"contentType": "application/json"}, "x", 'a="x"'),
    ({"allowReserved": True}, "a/b:c", "a=a/b:c"),
]


@pytest.mark.parametrize(("encoding", "value", "sent"), ENCODED)
@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
def test_the_fields_of_a_form_follow_their_encoding(encoding: Json, value: Any, sent: str, version: str) -> None:
    operation = make_operation(FORM, {"a": {}}, version, encoding={"a": encoding})
    call = build(operation, a=value)
    body = (call.content or b"").decode()
    assert unquote(body.replace("+", " ")) == unquote(sent)
    assert ("%2C" in body) == ("%2C" in sent), "a comma inside an item does not separate"
    assert call.headers["Content-Type"] == FORM


def test_nested_parameters_are_sent_as_stripe_reads_them() -> None:
    fields = {"metadata": ANY, "expand": ANY, "line_items": ANY, "amount": {"type": "integer"}, "customer": ANY}
    operation = make_operation(FORM, fields, encoding=dict.fromkeys(("metadata", "expand", "line_items"), DEEP))
    call = build(operation, amount=5, metadata={"order": "1 2"}, expand=["customer"], line_items=[{"quantity": 1}])
    assert (call.content or b"").decode() == (
        "metadata%5Border%5D=1+2&expand%5B%5D=customer&line_items%5B0%5D%5Bquantity%5D=1&amount=5"
    )


FILE = FileContent(b"png", "image/png", "a.png")
PARTS: list[tuple[str, Json, Any, list[tuple[Any, ...]]]] = [
    ("3.0.3", {}, {"k": 1}, [("a", (None, '{"k":1}', "application/json"))]),
    ("3.0.3", {}, ["x", 2], [("a", (None, "x", None)), ("a", (None, "2", None))]),
    ("3.0.3", {}, None, []),
    ("3.0.3", {"contentType": "application/json"}, [{"k": 1}], [("a", (None, '[{"k":1}]', "application/json"))]),
    ("3.0.3", {"contentType": "text/csv"}, "1,2", [("a", (None, "1,2", "text/csv"))]),
    ("3.0.3", {}, FILE, [("a", ("a.png", b"png", "image/png"))]),
    ("3.0.3", {"contentType": "image/*"}, FILE, [("a", ("a.png", b"png", "image/png"))]),
    ("3.0.3", {"contentType": "image/jpeg, image/png"}, FILE, [("a", ("a.png", b"png", "image/png"))]),
    ("3.0.3", {"contentType": "application/zip"}, FILE, [("a", ("a.png", b"png", "application/zip"))]),
    ("3.0.3", {"contentType": "image/png"}, [FILE, FILE], [("a", ("a.png", b"png", "image/png"))] * 2),
    ("3.0.3", DEEP, {"k": 1}, [("a", (None, '{"k":1}', "application/json"))]),
    ("3.1.0", DEEP, {"k": 1}, [("a[k]", (None, "1", None))]),
    ("3.1.0", {"style": "form", "explode": False}, ["x", "y"], [("a", (None, "x,y", None))]),
]


@pytest.mark.parametrize(("version", "encoding", "value", "parts"), PARTS)
def test_each_part_of_a_multipart_body_has_its_own_type(
    version: str, encoding: Json, value: Any, parts: list[tuple[Any, ...]]
) -> None:
    """OpenAPI 3.0.4 ignores styles in multipart bodies; 3.1.1 follows them."""
    operation = make_operation(MULTIPART, {"a": {}}, version, encoding={"a": encoding})
    assert list(build(operation, a=value).files) == parts


@pytest.mark.parametrize(
    ("collection_format", "sent"), [("csv", "tags=x,y"), ("multi", "tags=x&tags=y"), ("pipes", "tags=x%7Cy")]
)
def test_a_form_of_swagger_2_follows_its_collection_format(collection_format: str, sent: str) -> None:
    tags = {"in": "formData", "name": "tags", "type": "array", "collectionFormat": collection_format}
    post = {"operationId": "x", "consumes": [FORM], "parameters": [tags]}
    operation = Api({"swagger": "2.0", "paths": {"/x": {"post": post}}}, "the test").list_operations()["x"]
    assert build(operation, tags=["x", "y"]).content == sent.encode()


PET: Json = {
    "type": "object",
    "xml": {"name": "pet", "namespace": "https://p.example/s"},
    "properties": {
        "id": {"type": "integer", "xml": {"attribute": True}},
        "name": {"type": "string"},
        "tags": {"type": "array", "items": {"type": "string", "xml": {"name": "tag"}}, "xml": {"wrapped": True}},
        "urls": {"type": "array", "items": {"type": "string", "xml": {"name": "url"}}},
        "owner": {"type": "object", "properties": {"age": {"type": "integer"}}, "xml": {"prefix": "o"}},
    },
}


def test_a_body_whose_only_media_type_is_xml_is_sent_as_xml() -> None:
    content = {"application/xml": {"schema": {"$ref": "#/components/schemas/Pet"}}}
    post = {"operationId": "x", "requestBody": {"required": True, "content": content}}
    document = {"openapi": "3.0.3", "paths": {"/x": {"post": post}}, "components": {"schemas": {"Pet": PET}}}
    operation = Api(document, "the test").list_operations()["x"]
    value = {"id": 1, "name": "a < b", "tags": ["x", "y"], "urls": ["u", "v"], "owner": {"age": 3}}
    call = build(operation, body=value)
    assert call.headers["Content-Type"] == "application/xml"
    assert (call.content or b"").decode() == (
        '<?xml version="1.0" encoding="UTF-8"?><pet xmlns="https://p.example/s" id="1"><name>a &lt; b</name>'
        "<tags><tag>x</tag><tag>y</tag></tags><url>u</url><url>v</url><o:owner><age>3</age></o:owner></pet>"
    )
    assert build(operation, body="<pet/>").content == b"<pet/>", "text is sent as it is"


def test_a_schema_without_a_name_gives_xml_a_root() -> None:
    content = {"text/xml": {"schema": {"type": "object", "properties": {"a": {"type": "boolean"}}}}}
    post = {"operationId": "x", "requestBody": {"content": content}}
    operation = Api({"openapi": "3.1.0", "paths": {"/x": {"post": post}}}, "the test").list_operations()["x"]
    assert (build(operation, body={"a": True}).content or b"").endswith(b"<root><a>true</a></root>")


@pytest.mark.parametrize("value", [{"a b": 1}, {"a><b": 1}, {"1": 1}, {"a": "\x00"}])
def test_a_name_or_a_text_that_xml_cannot_have_is_refused(value: Json) -> None:
    content = {"text/xml": {"schema": {"type": "object"}}}
    paths = {"/x": {"post": {"operationId": "x", "requestBody": {"content": content}}}}
    operation = Api({"openapi": "3.1.0", "paths": paths}, "the test").list_operations()["x"]
    with pytest.raises(InvalidParams, match=r"which XML cannot have|that an XML element can have"):
        build(operation, body=value)
    sent = build(operation, body={"é": 'a"b\n<&>'}).content or b""
    assert ElementTree.fromstring(sent)[0].text == 'a"b\n<&>'

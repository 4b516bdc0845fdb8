"""OpenAPI documents as operations and tools: those of a public collection, and how each kind of value is sent."""

from __future__ import annotations

import ipaddress
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from patchbay.client.addresses.launchers import API_DOCUMENT_PATH
from patchbay.client.contracts.contract import compute_contract_cid, compute_schema_hash
from patchbay.client.contracts.drift import detect_schema_changes
from patchbay.client.errors import Unreachable
from patchbay.client.openapi.documents import load_api_file, parse_api
from patchbay.client.openapi.http_client import ApiClient
from patchbay.client.openapi.operations import Api, DocumentError
from patchbay.client.openapi.requests import HttpRequest, build_request, choose_base_url
from patchbay.client.public_hosts import is_public, resolve_public_address
from patchbay.errors import InvalidParams
from tests.client.peers import unpacked_from_npm


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return unpacked_from_npm("@readme/oas-examples@8.2.2", tmp_path_factory.mktemp("oas"))


def test_every_document_of_a_public_collection_gives_tools_whose_schemas_are_valid(examples: Path) -> None:
    """JN-66: Swagger 2, OpenAPI 3.0 and 3.1, circular references and all; a contract is equal to itself."""
    seen: dict[str, int] = {}
    for path in sorted(examples.glob("[23].*/**/*.json")):
        api = load_api_file(path, 1 << 24)
        tools = [dict(one.tool) for one in api.list_operations().values()]
        for tool in tools:
            for schema in (tool["inputSchema"], tool.get("outputSchema", True)):
                jsonschema.Draft202012Validator.check_schema(schema)
                refs = re.findall(r'"\$ref": "#/\$defs/([^"]+)"', json.dumps(schema))
                assert all(ref in schema["$defs"] for ref in refs), path
        assert (
            len(compute_schema_hash(tools)) == 64
            and compute_contract_cid(tools)
            and not detect_schema_changes(tools, tools)
        )
        version = path.relative_to(examples).parts[0]
        seen[version] = seen.get(version, 0) + len(tools)
    assert seen == {"2.0": 35, "3.0": 480, "3.1": 163}


def api(parameter: dict[str, Any], path: str = "/x", **document: Any) -> Api:
    get = {"operationId": "x", "parameters": [{"in": "query", "name": "a", **parameter}]}
    return Api({"openapi": "3.1.0", "paths": {path: {"get": get}}, **document}, "the test")


STYLES: list[tuple[dict[str, Any], Any, str]] = [
    ({}, "a b&c", "?a=a+b%26c"),
    ({}, [1, 2], "?a=1&a=2"),
    ({"explode": False}, [1, 2], "?a=1,2"),
    ({"style": "spaceDelimited", "explode": False}, ["x", "y"], "?a=x%20y"),
    ({"style": "pipeDelimited", "explode": False}, ["x", "y"], "?a=x%7Cy"),
    ({"explode": False}, ["x,y", "z"], "?a=x%2Cy,z"),
    ({"style": "deepObject"}, {"k": 1, "l": "m"}, "?a%5Bk%5D=1&a%5Bl%5D=m"),
    ({"style": "deepObject"}, {"k": {"m": [1, 2]}}, "?a%5Bk%5D%5Bm%5D%5B%5D=1&a%5Bk%5D%5Bm%5D%5B%5D=2"),
    ({"allowReserved": True}, "a/b:c&d=#", "?a=a/b:c%26d%3D%23"),
    ({}, {"k": 1, "l": "m"}, "?k=1&l=m"),
    ({"explode": False}, {"k": 1}, "?a=k,1"),
    ({"content": {"application/json": {"schema": {"type": "object"}}}}, {"k": [1]}, "?a=%7B%22k%22%3A%5B1%5D%7D"),
    ({}, True, "?a=true"),
    ({"in": "path"}, "a/../b?c", "a%2F..%2Fb%3Fc"),
    ({"in": "path"}, [1, 2], "1,2"),
    ({"in": "path", "style": "label", "explode": True}, [1, 2], ".1.2"),
    ({"in": "path", "style": "label"}, [1, 2], ".1,2"),
    ({"in": "path", "style": "matrix"}, [1, 2], ";a=1,2"),
    ({"in": "path", "style": "matrix", "explode": True}, [1, 2], ";a=1;a=2"),
    ({"in": "path"}, ["x,y", "z"], "x%2Cy,z"),
    ({"in": "path"}, {"k": 1, "l": "m"}, "k,1,l,m"),
    ({"in": "path", "explode": True}, {"k": 1, "l": "m"}, "k=1,l=m"),
    ({"in": "path", "style": "label", "explode": True}, {"k": 1, "l": "m"}, ".k=1.l=m"),
    ({"in": "path", "style": "label"}, {"k": 1, "l": "m"}, ".k,1,l,m"),
    ({"in": "path", "style": "matrix", "explode": True}, {"k": 1, "l": "m"}, ";k=1;l=m"),
    ({"in": "path", "style": "matrix"}, "x", ";a=x"),
    ({"in": "path", "content": {"application/json": {}}}, ["x"], "%5B%22x%22%5D"),
    ({"style": "deepObject"}, ["x", "y"], "?a%5B%5D=x&a%5B%5D=y"),
    ({"style": "deepObject"}, [{"k": 1}], "?a%5B0%5D%5Bk%5D=1"),
    ({"content": {"text/plain": {"schema": {"type": "string"}}}}, "a b", "?a=a+b"),
    ({"in": "querystring", "content": {"application/json": {}}}, {"k": [1]}, "?%7B%22k%22%3A%5B1%5D%7D"),
    ({"in": "querystring", "content": {"application/x-www-form-urlencoded": {}}}, {"k": [1, 2]}, "?k=1&k=2"),
    ({}, None, ""),
]


@pytest.mark.parametrize(("parameter", "value", "sent"), STYLES)
def test_values_are_sent_in_the_style_that_the_document_says(parameter: dict[str, Any], value: Any, sent: str) -> None:
    """JN-66; OpenAPI 3.1.1, style values."""
    path = "/{a}" if parameter.get("in") == "path" else "/x"
    operation = api(parameter, path).list_operations()["x"]
    expected = f"https://h/{sent}" if path == "/{a}" else f"https://h/x{sent}"
    assert build_request(operation, "https://h", {"a": value}).url == expected


@pytest.mark.parametrize(
    ("row", "value", "cookie"),
    [
        ({}, ["x", "y"], "a=x; a=y"),
        ({"explode": False}, ["x", "y"], "a=x%2Cy"),
        ({}, "x; b=1", "a=x%3B%20b%3D1"),
        ({"style": "cookie"}, "x/y=; b", "a=x/y=%3B%20b"),
    ],
)
def test_a_cookie_is_sent_in_its_style_and_makes_no_other_cookie(row: dict[str, Any], value: Any, cookie: str) -> None:
    """OpenAPI 3.2.0: style `cookie`."""
    operation = api({"in": "cookie", **row}).list_operations()["x"]
    assert build_request(operation, "https://h", {"a": value}).headers["Cookie"] == cookie


@pytest.mark.parametrize(
    ("path", "arguments", "url"),
    [
        ("/x?kind=all", {"a": "1"}, "/x?kind=all&a=1"),
        ("/x?a=all", {}, "/x?a=all"),
        ("/x?a=all", {"a": "1"}, "/x?a=1"),
        ("/x?a={a}", {"a": "1 2"}, "/x?a=1+2"),
        ("/x?a={a}", {}, "/x"),
        ("/x?q={a}", {"a": "1&2"}, "/x?q=1%262"),
        ("/x?q={word}", {"word": "1&2"}, "/x?q=1%262"),
        ("/x{?a,page}", {"page": "3"}, "/x?page=3"),
        ("/{id}#create", {"id": "a?b#c"}, "/a%3Fb%23c"),
    ],
)
def test_a_path_may_have_a_query_and_a_fragment(path: str, arguments: dict[str, Any], url: str) -> None:
    """Real documents tell operations of one path apart in this way."""
    assert build_request(api({}, path).list_operations()["x"], "https://h", arguments).url == f"https://h{url}"


def test_a_method_that_openapi_does_not_know_is_an_operation() -> None:
    """OpenAPI 3.2.0, Path Item Object: `additionalOperations`, and the method QUERY."""
    item = {"query": {"operationId": "find"}, "additionalOperations": {"COPY": {"operationId": "copy"}}}
    found = Api({"openapi": "3.2.0", "paths": {"/x": item}}, "the test").list_operations()
    assert [build_request(one, "https://h", {}).method for one in found.values()] == ["QUERY", "COPY"]


def test_the_media_type_of_a_body_is_no_argument() -> None:
    """OpenAPI 3.1.1, Parameter Object: a header parameter `Content-Type` is ignored."""
    rows = [{"name": "content-type", "in": "header", "required": True, "schema": {"type": "string"}}]
    body = {"content": {"application/json": {"schema": {"type": "string"}}}}
    paths = {"/x": {"post": {"operationId": "x", "parameters": rows, "requestBody": body}}}
    operation = Api({"openapi": "3.0.3", "paths": paths}, "the test").list_operations()["x"]
    assert build_request(operation, "https://h", {"body": "b"}).headers == {"Content-Type": "application/json"}


@pytest.mark.parametrize("value", ["", ".", ".."])
def test_a_path_segment_that_would_lead_elsewhere_is_refused(value: str) -> None:
    """THREATS 0.3."""
    with pytest.raises(InvalidParams, match="expected a path segment"):
        build_request(api({"in": "path"}, "/{a}").list_operations()["x"], "https://h", {"a": value})


def test_a_header_with_a_line_break_is_refused() -> None:
    with pytest.raises(InvalidParams, match="expected printable ASCII for a header"):
        build_request(api({"in": "header"}).list_operations()["x"], "https://h", {"a": "x\r\nHost: y"})


@pytest.mark.parametrize(
    ("servers", "at", "base"),
    [
        ([{"url": "/v1"}], "https://h/docs/openapi.json", "https://h/v1"),
        ([{"url": "../v2/"}], "https://h/a/docs/openapi.json", "https://h/a/v2"),
        ([{"url": "https://{r}.x/v", "variables": {"r": {"default": "eu"}}}], "https://h/d", "https://eu.x/v"),
        ([], "https://h/docs/openapi.json", "https://h"),
    ],
)
def test_the_server_is_the_one_the_document_names(servers: list[dict[str, Any]], at: str, base: str) -> None:
    """JN-66; OpenAPI 3.1.1, Server Object."""
    assert choose_base_url(api({}, servers=servers).list_operations()["x"], at) == base


def test_a_document_in_a_file_without_a_server_says_what_to_give() -> None:
    with pytest.raises(InvalidParams, match=r"expected launch\.base_url="):
        choose_base_url(api({}).list_operations()["x"], "file:///tmp/openapi.json")


def test_two_arguments_of_one_name_have_two_names() -> None:
    put = {
        "operationId": "x",
        "parameters": [{"name": "id", "in": "path"}, {"name": "id", "in": "query"}],
        "requestBody": {"content": {"application/json": {"schema": {"properties": {"id": {"type": "integer"}}}}}},
    }
    operation = Api({"openapi": "3.1.0", "paths": {"/{id}": {"put": put}}}, "the test").list_operations()["x"]
    call = build_request(operation, "https://h", {"id": "1", "id_query": "2", "id_body": 3})
    assert (call.url, call.content) == ("https://h/1?id=2", b'{"id":3}')


def test_yaml_is_read_only_as_far_as_json_can_express_it() -> None:
    document = b"openapi: 3.1.0\ninfo: {title: T, version: 2020-01-01}\npaths:\n  /a: {get: {operationId: a}}\n"
    found = parse_api(document, "y")
    assert (found.title, list(found.list_operations()), found.document["info"]["version"]) == ("T", ["a"], "2020-01-01")
    with pytest.raises(DocumentError, match="bytes is not JSON"):
        parse_api(b"openapi: 3.1.0\na: !!binary aGk=\n", "y")
    with pytest.raises(DocumentError, match="expected JSON or YAML"):
        parse_api(b"openapi: !!python/object/apply:os.system ['true']\n", "y")


def test_aliases_and_merge_keys_are_replaced_by_what_they_name() -> None:
    """Issue 50, item 7: an alias refused the whole document."""
    document = b"""openapi: 3.0.3
info: {title: a, version: "1"}
x-base: &base {200: {description: x}, a: 1}
x-other: &other {b: 2, a: 3}
paths:
  /echo/a:
    get:
      operationId: aliased
      parameters: [{name: n, in: query, schema: &n {type: integer, minimum: 1}}, {name: m, in: query, schema: *n}]
      responses: {<<: *base, 404: {description: y}}
x-several: {<<: [*base, *other], b: 4}
x-text: {"<<": 1, '<<a': 2}
"""
    found = parse_api(document, "y").document
    get = found["paths"]["/echo/a"]["get"]
    assert [one["schema"] for one in get["parameters"]] == [{"type": "integer", "minimum": 1}] * 2
    assert get["responses"] == {"200": {"description": "x"}, "a": 1, "404": {"description": "y"}}
    assert found["x-several"] == {"200": {"description": "x"}, "a": 1, "b": 4}
    assert found["x-text"] == {"<<": 1, "<<a": 2}


@pytest.mark.parametrize("form", ["[{}, {}]", "{{x: {}, y: {}}}", "{{<<: [{}, {}]}}"])
def test_aliases_of_aliases_that_grow_without_bound_are_refused(form: str) -> None:
    lines = ["openapi: 3.1.0", "a0: &a0 {text: lol}"]
    lines += [f"a{n}: &a{n} {form.format(f'*a{n - 1}', f'*a{n - 1}')}" for n in range(1, 60)]
    with pytest.raises(DocumentError, match="more than 33554432 characters"):
        parse_api("\n".join(lines).encode(), "y")


def test_an_alias_of_a_node_that_contains_it_is_refused() -> None:
    with pytest.raises(DocumentError, match="contains it"):
        parse_api(b"openapi: 3.1.0\na: &x [*x]\n", "y")


def test_yaml_is_that_of_version_1_2() -> None:
    """OpenAPI 3.1.1, Format: `no`, `on` and `12:30` are text, and so is every key."""
    values = "[on, no, 12:30, 010, 0x1f, .inf, True, ~, -1, 1.5e3]"
    found = parse_api(f"openapi: 3.1.0\npaths: {{}}\nx: {{enum: {values}, 200: a, on: b}}\n".encode(), "y").document[
        "x"
    ]
    assert found == {
        "enum": ["on", "no", "12:30", "010", "0x1f", ".inf", True, None, -1, 1500.0],
        "200": "a",
        "on": "b",
    }


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (b"[]", "expected an OpenAPI document"),
        (b'{"openapi": "4.0"}', "got \"openapi\": '4.0'"),
        (b'{"openapi": "3.0.0", "openapi": "3.0.0"}', "expected JSON or YAML"),
        (b'{"openapi": "3.0.0", "paths": []}', "paths: expected an object"),
        (b"<html>", "expected"),
    ],
)
def test_a_document_that_is_not_an_api_description_is_refused(document: bytes, words: str) -> None:
    with pytest.raises(DocumentError, match=words):
        parse_api(document, "d")


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("https://h/openapi.json", True),
        ("https://h/v1/swagger.json", True),
        ("https://h/petstore.openapi.yaml", True),
        ("https://h/mcp", False),
        ("https://h/openapi", False),
        ("https://h/data.json", False),
    ],
)
def test_a_plain_url_names_an_api_document_by_its_file_name(path: str, named: bool) -> None:
    """JN-66."""
    assert bool(API_DOCUMENT_PATH.search(path)) is named


INSIDE = """
127.0.0.1 0.0.0.0 10.1.2.3 172.16.0.1 192.168.1.1 100.64.0.1 169.254.169.254 198.18.0.1 224.0.0.1 ::1 ::
::ffff:127.0.0.1 ::ffff:7f00:1 ::127.0.0.1 64:ff9b::7f00:1 64:ff9b:1::7f00:1 2002:7f00:1:: fe80::1 fc00::1
fd00:ec2::254 2001:0:4136:e378:8000:63bf:80ff:fffe 2001:db8::5efe:7f00:1 ff02::1
"""


@pytest.mark.parametrize("address", INSIDE.split())
def test_addresses_inside_are_not_public_in_any_spelling(address: str) -> None:
    """THREATS 1.7."""
    assert not is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("address", ["1.1.1.1", "2606:4700:4700::1111"])
def test_public_addresses_are_public(address: str) -> None:
    assert is_public(ipaddress.ip_address(address))


@pytest.mark.parametrize("host", ["localhost", "127.1", "2130706433", "0x7f.1", "0177.0.0.1", "[::1]"])
def test_a_host_that_resolves_inside_is_refused(host: str) -> None:
    """THREATS 1.7: every spelling that the resolver understands."""
    with pytest.raises(Unreachable, match="which is not a public address"):
        resolve_public_address(host, 80, "the document")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "169.254.169.254", "0x7f.1"])
def test_a_public_document_may_not_name_a_private_server(host: str) -> None:
    """THREATS 1.7: refused before anything is sent."""
    words = r"the document leads to .*, which is not a public address"
    with (
        ApiClient(("https://1.1.1.1/openapi.json",), {}, 5, 1000) as client,
        pytest.raises(Unreachable, match=words),
    ):
        client.send(HttpRequest("GET", f"http://{host}:9/x"))


def test_a_server_that_the_caller_names_may_be_private() -> None:
    """THREATS 1.7: the only failure is that no server answers at this port."""
    with (
        ApiClient(("http://127.0.0.1:9/openapi.json",), {}, 5, 1000) as client,
        pytest.raises(Unreachable, match="cannot be reached"),
    ):
        client.send(HttpRequest("GET", "http://127.0.0.1:9/x"))


@pytest.mark.parametrize("media_type", ["*/*", "application/*", "application/*+json", "Application/*"])
def test_a_body_of_a_range_of_media_types_is_json_where_its_schema_is_an_object(media_type: str) -> None:
    """Issue 50, item 8: an object became a file, or octets."""
    for schema in ({"type": "object", "properties": {"n": {"type": "integer"}}}, {"$ref": "#/components/schemas/N"}):
        post = {"operationId": "x", "requestBody": {"content": {media_type: {"schema": schema}}}}
        components = {"schemas": {"N": {"properties": {"n": {"type": "integer"}}}}}
        document = {"openapi": "3.1.0", "paths": {"/a": {"post": post}}, "components": components}
        call = build_request(Api(document, "the test").list_operations()["x"], "https://h", {"n": 1})
        assert (call.content, call.headers["Content-Type"]) == (b'{"n":1}', "application/json")


def test_headers_of_the_http_client_are_no_arguments() -> None:
    """Issue 50, item 12: `Content-Length: 5` on a GET hung. OpenAPI 3.1.1, Parameter Object."""
    names = ["Accept", "authorization", "Content-Length", "Host", "Transfer-Encoding", "Connection", "X-Mine"]
    rows = [{"name": name, "in": "header", "schema": {"type": "string"}} for name in names]
    rows.append({"name": "host", "in": "query", "schema": {"type": "string"}})
    get = {"operationId": "x", "parameters": rows}
    operation = Api({"openapi": "3.1.0", "paths": {"/a": {"get": get}}}, "the test").list_operations()["x"]
    assert set(operation.tool["inputSchema"]["properties"]) == {"X-Mine", "host"}


@pytest.mark.parametrize(("version", "names"), [("3.1.0", {"n", "m"}), ("3.0.3", {"n"})])
def test_properties_beside_a_reference_of_a_body_are_arguments_since_3_1(version: str, names: set[str]) -> None:
    """Issue 50, item 12: they were lost. In 3.0 they are ignored."""
    schema = {"$ref": "#/components/schemas/N", "properties": {"m": {"type": "string"}}, "required": ["m"]}
    post = {"operationId": "x", "requestBody": {"content": {"application/json": {"schema": schema}}}}
    components = {"schemas": {"N": {"properties": {"n": {"type": "integer"}}, "required": ["n"]}}}
    document = {"openapi": version, "paths": {"/a": {"post": post}}, "components": components}
    operation = Api(document, "the test").list_operations()["x"]
    assert set(operation.tool["inputSchema"]["properties"]) == names
    call = build_request(operation, "https://h", {"n": 1, "m": "x"} if "m" in names else {"n": 1})
    assert json.loads(call.content or b"") == ({"n": 1, "m": "x"} if "m" in names else {"n": 1})

"""The source for HTTP APIs, against a FastAPI program (OpenAPI 3.1) and a flask-restx program (Swagger 2)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from patchbay.client.contracts.canonical_json import ContractError
from patchbay.client.contracts.contract import store_snapshot
from patchbay.client.errors import Unreachable
from patchbay.client.openapi.http_client import ApiFailure
from patchbay.client.openapi.operations import DocumentError
from patchbay.client.profiles.layouts import parse_profile
from patchbay.client.source import SourceContext
from patchbay.client.sources import make_sources
from patchbay.errors import InvalidParams
from patchbay.events import Log
from patchbay.stores.memory import MemoryStore
from tests.client.peers import api_served, empty_server, open_context

Record = dict[str, Any]
SOURCES = make_sources()


@pytest.fixture(scope="module")
def library() -> Iterator[str]:
    with api_served("peer_fastapi.py") as url:
        yield url


@pytest.fixture(scope="module")
def trials() -> Iterator[str]:
    with api_served("peer_swagger.py") as url:
        yield url


@pytest.fixture
def context(tmp_path: Path) -> Iterator[SourceContext]:
    with open_context(tmp_path, {"TOKEN": "Bearer 123"}) as found:
        yield found


def read(address: str, context: SourceContext, **arguments: Any) -> list[Record]:
    return list(SOURCES.find(address, context).reads(address, context, arguments))


def called(url: str, context: SourceContext, operation: str, query: str = "", **arguments: Any) -> list[Record]:
    return read(f"openapi+{url}/openapi.json?operation={operation}&{query}", context, **arguments)


def profile(context: SourceContext, name: str, **fields: Any) -> str:
    context.get_profiles("http").save(parse_profile(name, {"plugin": "http", **fields}, {}, "the test"))
    return f"@{name}"


def test_operations_are_called_by_their_ids_with_arguments_typed_by_the_document(
    library: str, context: SourceContext
) -> None:
    """JN-66: path, query, header, cookie and body."""
    assert [one["id"] for one in called(library, context, "listGenes", "kind=onco&limit=2")] == [1, 3]
    assert [one["id"] for one in called(library, context, "listGenes", "ids=2&ids=5")] == [2, 5]
    assert called(library, context, "getGene", "name=GENE4") == [{"id": 4, "name": "GENE4", "kind": "other"}]
    added = called(library, context, "addGene", "name=NEW&x-reason=why&place=%7B%22chromosome%22:%227%22%7D")
    assert added[0] | {"number": 0} == {
        "number": 0,
        "reason": "why",
        "name": "NEW",
        "kind": "other",
        "place": {"chromosome": "7", "start": None},
    }
    assert called(library, context, "whoAmI", "taste=sweet")[0]["taste"] == "sweet"
    assert called(library, context, "sendForm", "name=A%26B&age=7") == [{"name": "A&B", "age": 7}]
    assert called(library, context, "removeGene", "name=x") == [{"status": 204}]
    assert called(library, context, "asTable") == [{"name": "A", "kind": "onco"}, {"name": "B", "kind": "other"}]


def test_a_callers_arguments_win_over_those_of_the_address(library: str, context: SourceContext) -> None:
    """JN-31."""
    assert len(called(library, context, "listGenes", "limit=5", limit=1)) == 1


def test_swagger_2_documents_are_called_the_same_way(trials: str, context: SourceContext) -> None:
    """JN-66: basePath, formData, a body by reference, collectionFormat."""
    address = f"openapi+{trials}/swagger.json?operation="
    assert read(f"{address}getTrial&name=N1", context)[0]["name"] == "N1"
    assert read(f"{address}noteTrial&name=N1&note=well+done", context) == [{"name": "N1", "note": "well done"}]
    assert read(f"{address}addTrial&name=N2&phase=3", context) == [{"got": {"name": "N2", "phase": 3}}]
    assert read(f"{address}listTrials&phase=2&phase=3", context) == [{"phase": 2}, {"phase": 3}]


def test_every_kind_of_pagination_gives_every_record_once(library: str, context: SourceContext) -> None:
    """JN-64, JN-66: cursor, page and link; a page is requested only when it is read."""
    everything = list(range(1, 8))
    cursor = called(
        library, context, "byCursor", "page.type=cursor&page.field=pagination.next_cursor&page.param=cursor"
    )
    assert [one["id"] for one in cursor] == everything
    assert [one["id"] for one in called(library, context, "byPage", "page.type=page")] == everything
    assert [one["id"] for one in called(library, context, "byPage", "page.type=page&page=2&size=4")] == [5, 6, 7]
    assert [one["id"] for one in called(library, context, "byLink", "page.type=link")] == everything
    assert [one["id"] for one in called(library, context, "byLink")] == [1, 2, 3]
    assert len(called(library, context, "byPage", "page.type=page&page.most=2")) == 6


def test_pages_that_never_end_are_given_with_a_warning(library: str, context: SourceContext) -> None:
    """33.6: the records up to the cursor that came twice are kept."""
    heard: list[Any] = []
    told = replace(context, on_event=heard.append)
    found = called(library, told, "endless", "page.type=cursor&page.field=next&page.param=cursor")
    assert found == [{"cursor": ""}, {"cursor": "again"}]
    (warning,) = (one for one in heard if isinstance(one, Log))
    assert warning.level == "warning"
    assert "the pages never end: 'again' came twice; the records up to it are given" in str(warning.data)


def test_an_unknown_kind_of_paging_is_an_error(library: str, context: SourceContext) -> None:
    with pytest.raises(InvalidParams, match=r"expected type .cursor, page, offset, link"):
        called(library, context, "byPage", "page.type=pages")


def test_a_refusal_of_an_api_is_an_error_with_its_status_and_message(library: str, context: SourceContext) -> None:
    with pytest.raises(ApiFailure, match=r"GET .*/genes/none: HTTP 404: no gene none") as caught:
        called(library, context, "getGene", "name=none")
    assert caught.value.data == {"status": 404, "body": {"detail": "no gene none"}}


@pytest.mark.parametrize(
    ("operation", "query", "words"),
    [
        ("getGene", "", "expected the argument 'name' .path"),
        ("getGene", "name=..", "expected a path segment"),
        ("listGenes", "colour=red", "no argument 'colour'; there are: ids, kind, limit. The tool is listGenes"),
        ("listGene", "", "there is no operation 'listGene'; did you mean 'listGenes' or 'getGene'"),
        ("addGene", "kind=onco", "expected the field 'name' in the body"),
        ("listGenes", "resource=x", "expected operation=NAME"),
        ("listGenes", "launch.arg=x", "launch.arg=: expected header.NAME="),
    ],
)
def test_a_call_that_cannot_be_made_says_what_was_expected(
    library: str, context: SourceContext, operation: str, query: str, words: str
) -> None:
    with pytest.raises(InvalidParams, match=words):
        called(library, context, operation, query)


def test_a_path_argument_cannot_change_where_a_request_goes(trials: str, context: SourceContext) -> None:
    """THREATS 0.3: path join in OpenAPI tools."""
    with pytest.raises(ApiFailure, match="HTTP 404"):
        read(f"openapi+{trials}/swagger.json?operation=getTrial&name={quote('../swagger.json?x', safe='')}", context)


def test_put_calls_an_operation_once_per_record_and_goes_on_after_a_failure(
    library: str, context: SourceContext
) -> None:
    """JN-12, JN-C17, J-F8."""
    address = f"openapi+{library}/openapi.json?operation=addGene&kind=onco"
    rows: list[Record] = [{"name": "P1", "_id": 1}, {"kind": "other"}, {"name": "P3", "kind": "other"}]
    found = list(SOURCES.find(address, context).writes(address, rows, context))
    assert [one.get("name") for one in found] == ["P1", None, "P3"]
    assert found[1]["_error"] and found[1]["type"] == "http_error" and "field 'name'" in found[1]["message"]
    assert [found[0]["kind"], found[2]["kind"]] == ["onco", "other"]


def test_explore_gives_endpoints_schemas_and_a_hash_of_the_operations(library: str, context: SourceContext) -> None:
    """JN-54, JN-66: also from the plain URL of the document, and from the server alone."""
    address = f"{library}/openapi.json"
    found = SOURCES.find(address, context).explores(address, context)
    assert (found["plugin"], found["service"]) == ("http", "127.0.0.1")
    endpoints = {one["name"]: one for one in found["discoverable"]["endpoints"]}
    assert (endpoints["getGene"]["method"], endpoints["getGene"]["path"]) == ("GET", "/genes/{name}")
    assert endpoints["getGene"]["parameters"]["name"] == {
        "title": "Name",
        "type": "string",
        "in": "path",
        "required": True,
    }
    assert "Gene" in found["discoverable"]["schemas"]
    bare = f"openapi+{library}"
    assert SOURCES.find(bare, context).versions(bare, context) == found["version_hash"]
    assert len(found["version_hash"]) == 64


def test_an_error_for_a_missing_document_names_the_urls_that_were_tried(context: SourceContext, tmp_path: Path) -> None:
    """JN-66: the usual places, below the URL and at its root."""
    words = "found no OpenAPI document; tried .*/nowhere, .*/nowhere/openapi.json.*/v3/api-docs"
    with empty_server(tmp_path) as url, pytest.raises(DocumentError, match=words):
        SOURCES.get("http").explores(f"openapi+{url}/nowhere", context)


def test_inspect_shows_operations_as_tools(library: str, context: SourceContext) -> None:
    """JN-33."""
    found = SOURCES.get("http").inspects(f"openapi+{library}/openapi.json", context)
    assert (found["server"], found["transport"], found["resources"]) == ("Gene library", "http", [])
    add = next(one for one in found["tools"] if one["name"] == "addGene")
    assert add["inputSchema"]["required"] == ["name"]
    assert add["inputSchema"]["properties"]["place"]["anyOf"][0] == {"$ref": "#/$defs/Place"}
    assert set(add["inputSchema"]["$defs"]) == {"Place"}


def test_what_a_document_describes_and_cannot_be_used_is_listed_with_the_reason(
    library: str, context: SourceContext, tmp_path: Path
) -> None:
    """Issue 33.4: never a tool without its parameters."""
    path = tmp_path / "openapi.json"
    paths = {"/who": {"get": {"operationId": "whoAmI"}}, "/a": {"get": {"operationId": "a", "$ref": "none.json"}}}
    path.write_text(json.dumps({"openapi": "3.0.3", "servers": [{"url": library}], "paths": paths}))
    address = f"openapi+file:{path}"
    reason = "not served: .*the reference 'none.json' cannot be followed: none.json: expected a readable file"
    for found in (SOURCES.get("http").inspects(address, context), SOURCES.get("http").explores(address, context)):
        [problem] = found["problems"]
        assert problem["where"] == "GET /a" and re.match(reason, problem["reason"])
    with pytest.raises(InvalidParams, match=r"there is no operation 'a'.*\n  GET /a: not served"):
        read(f"{address}?operation=a", context)
    heard: list[object] = []
    with open_context(tmp_path, on_event=heard.append) as listening:
        assert [one["name"] for one in read(address, listening)] == ["whoAmI"]
    assert [isinstance(one, Log) and "GET /a: not served" in str(one) for one in heard] == [True]


def test_headers_come_from_the_environment_and_go_only_to_their_origin(library: str, context: SourceContext) -> None:
    """JN-15: `${VAR}`; THREATS: a server that only the document names gets no credential."""
    assert called(library, context, "whoAmI", "header.Authorization=${TOKEN}")[0]["authorization"] == "Bearer 123"
    with pytest.raises(Unreachable, match=r"redirects to http://localhost:.*which is not followed"):
        called(library, context, "goAway", f"to={quote(library.replace('127.0.0.1', 'localhost'))}")


def test_a_document_may_not_lead_credentials_elsewhere(library: str, context: SourceContext, tmp_path: Path) -> None:
    path = tmp_path / "openapi.json"
    paths = {"/who": {"get": {"operationId": "whoAmI"}}}
    path.write_text(json.dumps({"openapi": "3.0.3", "servers": [{"url": library}], "paths": paths}))
    address = f"openapi+file:{path}?operation=whoAmI&header.Authorization=x"
    with pytest.raises(Unreachable, match=r"headers go only to a server that you name; expected launch.base_url="):
        read(address, context)
    assert read(f"{address}&launch.base_url={library}", context)[0]["authorization"] == "x"
    assert read(f"openapi+file:{path}?operation=whoAmI", context)[0]["authorization"] is None


def test_an_answer_beyond_the_limit_is_refused(library: str, tmp_path: Path) -> None:
    with open_context(tmp_path, limit=100_000) as context:
        assert len(called(library, context, "large", "size=1000")[0]["blob"]) > 1000
        with pytest.raises(Unreachable, match="sent more than 100000 bytes"):
            called(library, context, "large", "size=200000")


def test_a_profile_alone_describes_its_endpoints(library: str, context: SourceContext) -> None:
    """JN-64: endpoints, base_url, headers with `${VAR}`, timeout, pagination, defaults, output_format."""
    name = profile(
        context,
        "genes",
        api="genes",
        notes="Returns pages.",
        tested_with=["all"],
        schema_hash=None,
        connection={"base_url": library, "headers": {"Authorization": "${TOKEN}"}, "timeout": 20},
        endpoints={
            "all": {
                "path": "/cursor",
                "method": "GET",
                "parameters": {"limit": {"type": "integer", "default": 2}, "cursor": {"type": "integer"}},
                "output_format": "application/json",
                "pagination": {"type": "cursor", "field": "pagination.next_cursor", "param": "cursor"},
            },
            "one": {"path": "/genes/{name}", "parameters": {"name": {"required": True}}, "output_format": "text/csv"},
            "who": {"path": "/who"},
        },
    )
    assert [one["id"] for one in read(f"{name}/all", context)] == list(range(1, 8))
    assert read(f"{name}?operation=one&name=GENE2", context)[0]["id"] == 2
    assert read(f"{name}/who", context)[0]["authorization"] == "Bearer 123"
    assert {one["name"] for one in read(name, context)} == {"all", "one", "who"}
    kept = context.get_profiles("http").load("genes")
    assert (kept.fields["notes"], kept.fields["tested_with"], kept.schema_hash) == ("Returns pages.", ["all"], None)
    assert SOURCES.get("http").validates(kept, context).status == "unknown"


def test_a_profile_warns_when_an_answer_has_another_type_than_it_says(library: str, tmp_path: Path) -> None:
    """JN-50."""
    heard: list[object] = []
    with open_context(tmp_path, on_event=heard.append) as context:
        row = {"path": "/table", "output_format": "application/json"}
        name = profile(context, "table", connection={"base_url": library}, endpoints={"rows": row})
        assert len(read(f"{name}/rows", context)) == 2
    words = "Tool 'rows': Output is text/csv; the profile expects application/json"
    assert heard == [Log("warning", words, "patchbay.client")]


def test_the_contract_of_an_api_drifts_as_that_of_a_server_does(
    library: str, context: SourceContext, tmp_path: Path
) -> None:
    """JN-44, JN-45, JN-48, JN-56: a profile with a document is validated; `schema_validation: error` refuses calls."""
    path = tmp_path / "openapi.json"
    parameter = {"name": "kind", "in": "query", "schema": {"type": "string"}}
    get = {"operationId": "listGenes", "parameters": [parameter]}
    document = {"openapi": "3.0.3", "info": {}, "paths": {"/genes": {"get": get}}}
    path.write_text(json.dumps(document))
    source = SOURCES.get("http")
    expected = source.versions(f"openapi+file:{path}", context)
    name = profile(
        context,
        "drifting",
        connection={"base_url": library, "document": str(path)},
        schema_hash=expected,
        schema_validation="error",
        endpoints={"listGenes": {"parameters": {"kind": {"type": "string"}}}},
    )
    assert len(read(f"{name}/listGenes?kind=onco", context)) == 4
    get["parameters"] = [{**parameter, "schema": {"type": "integer"}}]
    path.write_text(json.dumps(document))
    result = source.validates(context.get_profiles("http").load("drifting"), context)
    assert (result.status, result.is_breaking) == ("changed", True)
    assert "kind" in result.changes[0].sentence
    context.checked_contracts.clear()
    with pytest.raises(ContractError, match="@drifting"):
        read(f"{name}/listGenes?kind=onco", context)
    assert source.explores(name, context)["version_hash"] != expected
    assert read(f"{name}/listGenes", context.without_contract_checks())


def test_a_call_can_pin_the_contract_of_an_api(library: str, tmp_path: Path) -> None:
    """X-21: `schema=CID`."""
    store = MemoryStore()
    with open_context(tmp_path, blobs=store.blobs) as context:
        tools = SOURCES.get("http").inspects(f"openapi+{library}/openapi.json", context)["tools"]
        good, other = store_snapshot(tools, store.blobs), store_snapshot(tools[:1], store.blobs)
        assert called(library, context, "listGenes", f"schema={good}")
        with pytest.raises(ContractError, match="no tool 'getGene'"):
            called(library, context, "getGene", f"name=GENE1&schema={other}")

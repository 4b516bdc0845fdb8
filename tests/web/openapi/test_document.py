"""Every page has its JSON, and all of it is in `/openapi.json`, which answers are held against (VWR-5, VWR-6).

Schemathesis makes requests from the document, good and bad ones, always the same: nothing may fail inside the hub, and
what comes back has to be what the document says.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import orjson
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from patchbay.activity.records import Filter
from patchbay.web.openapi.document import build_document, to_openapi_path
from patchbay.web.openapi.route_shapes import SCHEMAS
from patchbay.web.openapi.routes import ALL_ROUTES, PAGES, PROTOCOLS
from tests.hubs import Hub
from tests.kinds.toolset.sets import toolset, write
from tests.web.browsing import BROWSER, town_hub

DOCUMENT = "?path=specs/town/a.md"

ENDLESS = {"/activity/events", "/rooms/{room}/changes"}
"""What does not end itself, and is tested in tests/web/activity/test_stream.py and test_rooms.py."""

AMONG = 12
"""Requests for each operation."""

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = town_hub(tmp_path_factory.mktemp("town"))
    hub.call("town", "visit", {"place": "Ghent"})
    hub.call("town", "visit", {"place": 7})
    hub.call(
        "jane", "create_document", {"type": "spec", "project": "town", "path": "a.md", "title": "A", "content": "a"}
    )
    hub.app.parts.dispatcher.services.rooms.create("town", "alice", {"policy": {"history": "all"}})
    write(hub, "scripted.json", toolset(include=["town.visit"], listing={"scripts": "also"}))
    hub.call("scripted", "run_script", {"code": "import scripted\nawait scripted.visit(place='Ghent')"})
    yield hub
    hub.close()


@pytest.fixture(scope="module")
def described(hub: Hub) -> Any:
    def of_the_operator(environ: Any, start_response: Any) -> Any:
        """Requests of a program on this machine that sends the operator's token."""
        sent = {"REMOTE_ADDR": "127.0.0.1", "HTTP_AUTHORIZATION": f"Bearer {hub.token}"}
        return hub.app(environ | sent, start_response)

    return schemathesis.openapi.from_wsgi("/openapi.json", of_the_operator)


OPERATIONS = [
    (method, path)
    for path, operations in build_document()["paths"].items()
    for method in operations
    if path not in ENDLESS
]


@pytest.mark.parametrize(("method", "path"), OPERATIONS, ids=lambda each: str(each))
def test_no_request_fails_inside_the_hub_and_every_answer_is_what_the_document_says(
    described: Any, method: str, path: str
) -> None:
    operation = described[path][method.upper()]

    @settings(
        max_examples=AMONG,
        derandomize=True,
        deadline=None,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy() | operation.as_strategy(generation_mode=schemathesis.GenerationMode.NEGATIVE))
    def run(case: schemathesis.Case[Any]) -> None:
        case.call_and_validate(checks=list(CHECKS))

    run()


def test_every_route_of_the_app_is_in_the_table(hub: Hub) -> None:
    hub.app.parts.pages.load()
    served = {
        (method, rule.rule)
        for rule in hub.app.url_map.iter_rules()
        if rule.endpoint != "static"
        for method in (rule.methods or set()) - {"HEAD", "OPTIONS"}
    }
    twins = {("GET", row.suffixed) for row in ALL_ROUTES if row.suffixed}
    table = {(row.method, row.path) for row in ALL_ROUTES if row not in PROTOCOLS} | twins
    bare = {(method, re.sub(r"<\w+:(\w+)>", r"<\1>", path)) for method, path in served}
    assert bare == table


def test_the_document_is_good_and_its_shapes_are_schemas(hub: Hub) -> None:
    answer = hub.client.get("/openapi.json")
    assert answer.mimetype == "application/json"
    assert orjson.loads(answer.get_data()) == orjson.loads(orjson.dumps(build_document()))
    for shape in SCHEMAS.values():
        Draft202012Validator.check_schema(shape)
    ids = [one["operationId"] for path in build_document()["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("row", PAGES, ids=lambda row: row.path)
def test_every_page_has_its_json_by_its_address_and_by_accept(hub: Hub, row: Any) -> None:
    root = str(hub.catalogue.store.names.get("root"))
    newest = orjson.loads(hub.client.get("/activity.json").get_data())["records"][0]["id"]
    given = {"name": "jq" if "variables" not in row.path else "mcps", "address": "town", "id": newest}
    if row.path.startswith("/activity/runs"):
        given["id"] = hub.activity.recent(Filter(tool="run_script"), 1).records[0].run
    given |= {"room": "town", "server": "town"} | ({"name": "jane"} if "/documents" in row.path else {})
    version = hub.catalogue.find("jq").version
    pair = f"?old={root}&new={root}" if "history" in row.path else f"?old={version}&new={version}"
    if "/documents" in row.path:
        cid = orjson.loads(hub.client.get(f"/servers/jane/documents.json{DOCUMENT}").get_data())["cid"]
        pair = f"{DOCUMENT}&old={cid}&new={cid}"
    query = pair if row.path.endswith("compare") else f"?root={root}" if row.path.endswith("rollback") else ""
    path, twin = (re.sub(r"<(\w+)>", lambda found: given[found[1]], each) for each in (row.path, row.suffixed))
    proof = (
        {"Authorization": f"Bearer {hub.token}"}
        if row.path.startswith(
            (
                "/access",
                "/activity/runs",
                "/audit",
                "/approvals",
                "/webhooks",
                "/secrets",
                "/registry",
                "/schedules",
                "/nodes",
                "/settings",
            )
        )
        else {}
    )
    page = hub.client.get(path + query, headers=BROWSER | proof, follow_redirects=True)
    by_accept = hub.client.get(path + query, headers={"Accept": "application/json"} | proof)
    by_address = hub.client.get(twin + query, headers=BROWSER | proof)
    assert [page.status_code, by_accept.status_code, by_address.status_code] == [200, 200, 200]
    assert (page.mimetype, by_accept.mimetype, by_address.mimetype) == ("text/html", *["application/json"] * 2)
    assert "Accept" in page.headers["Vary"] and "Accept" in by_accept.headers["Vary"]
    whole = {"$ref": "#/it", "it": row.json, "components": {"schemas": SCHEMAS}}
    for answer in (by_accept, by_address):
        Draft202012Validator(whole).validate(orjson.loads(answer.get_data()))


def test_the_document_says_how_paths_are_written() -> None:
    assert to_openapi_path("/servers/<name>/compare") == "/servers/{name}/compare"


def test_a_reader_who_wants_html_at_least_as_much_gets_the_page(hub: Hub) -> None:
    for accept in ("text/html, application/json", "text/html;q=0.5, application/json;q=0.5", "*/*"):
        assert hub.client.get("/servers", headers={"Accept": accept}).mimetype == "text/html"
    assert (
        hub.client.get("/servers", headers={"Accept": "application/json, text/html;q=0.9"}).mimetype
        == "application/json"
    )

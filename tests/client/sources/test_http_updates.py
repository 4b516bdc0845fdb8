"""`http` profiles brought up to date with an API that changes: `profile create --pin`, `diff`, `update`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from patchbay import exit_codes
from tests.cli.desk import Desk


@pytest.fixture
def desk(tmp_path: Any) -> Desk:
    return Desk(tmp_path)


def describe(desk: Desk, path: str, operation: str, **parameters: dict[str, Any]) -> None:
    """Have the API be one with this operation and another one that does not change."""
    rows = [{"in": "query", "name": name, **row} for name, row in parameters.items()]
    document = {
        "openapi": "3.1.0",
        "info": {"title": "trials", "version": "1"},
        "servers": [{"url": "http://127.0.0.1:9"}],
        "paths": {
            path: {"get": {"operationId": operation, "parameters": rows}},
            "/health": {"get": {"operationId": "health"}},
        },
    }
    (desk.work / "openapi.json").write_text(json.dumps(document))


GENE = {"required": True, "schema": {"type": "string"}}
LIMIT = {"schema": {"type": "integer", "default": 50}}
ENDPOINTS = {
    "few": {"operation": "listTrials", "parameters": {"gene": {"type": "string", "required": True}}, "notes": "slow"},
    "many": {
        "path": "/trials",
        "method": "GET",
        "parameters": {"gene": {"type": "string", "required": True}, "limit": {"type": "integer", "default": 1000}},
        "pagination": {"type": "link"},
        "examples": [{"input": {"gene": "BRAF"}}],
    },
}


def pinned(desk: Desk) -> None:
    describe(desk, "/trials", "listTrials", gene=GENE, limit=LIMIT)
    whole = {
        "plugin": "http",
        "connection": {"document": str(desk.work / "openapi.json")},
        "endpoints": ENDPOINTS,
        "tested_with": ["few?gene=BRAF", "many?gene=EGFR&limit=5"],
    }
    ended = desk.quick("jn profile create trials --pin --examples", json.dumps(whole))
    assert ended.code == exit_codes.OK, ended
    assert desk.quick("jn profile validate @trials").out == "@trials: valid: The contract holds\n"


def written(desk: Desk) -> dict[str, Any]:
    path = desk.home / ".local" / "jn" / "profiles" / "http" / "trials" / "_meta.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_an_update_follows_the_api_and_keeps_the_authors_words(desk: Desk) -> None:
    """JN-45, JN-59, JN-60, JN-64, JN-66: a parameter renamed; two endpoints of one operation, by name and by path."""
    pinned(desk)
    before = written(desk)
    describe(desk, "/trials", "listTrials", query=GENE, limit=LIMIT, phase={"schema": {"type": "string"}})
    differs = desk.quick("jn profile diff @trials")
    assert (differs.code, "'gene' renamed to 'query'" in differs.out) == (exit_codes.CHANGED, True), differs
    assert desk.quick("jn profile update @trials --yes --dry-run").code == exit_codes.OK
    assert written(desk) == before

    ended = desk.quick("jn profile update @trials --yes --no-test")
    assert ended.code == exit_codes.OK, ended
    assert "Connecting to trials HTTP API..." in ended.out
    assert "Update profile to use 'query' instead of 'gene'" in ended.out
    after = written(desk)
    few, many = after["endpoints"]["few"], after["endpoints"]["many"]
    assert (few["operation"], few["notes"]) == ("listTrials", "slow")
    assert (many["operation"], many["path"], many["pagination"]) == ("listTrials", "/trials", {"type": "link"})
    assert many["examples"] == [{"input": {"query": "BRAF"}}]
    assert set(few["inputSchema"]["properties"]) == {"query", "limit", "phase"}
    assert many["inputSchema"]["properties"]["limit"]["default"] == 1000
    assert "default" not in few["inputSchema"]["properties"]["limit"]
    assert after["tested_with"] == ["few?query=BRAF", "many?query=EGFR&limit=5"]
    assert after["schema_hash"] != before["schema_hash"]
    assert desk.quick("jn profile validate @trials").out == "@trials: valid: The contract holds\n"
    assert desk.quick("jn profile diff @trials").out == "No changes.\n"


def test_an_operation_that_is_renamed_keeps_its_endpoints_and_one_that_is_gone_loses_them(desk: Desk) -> None:
    """JN-59: endpoints keep their own names; what the profile did not have is recorded when that is wanted."""
    pinned(desk)
    describe(desk, "/trials", "searchTrials", gene=GENE, limit=LIMIT)
    ended = desk.quick("jn profile update @trials --yes --no-test --all-tools")
    assert ended.code == exit_codes.OK, ended
    endpoints = written(desk)["endpoints"]
    assert {name: row["operation"] for name, row in endpoints.items()} == dict.fromkeys(("few", "many"), "searchTrials")
    assert desk.quick("jn profile validate @trials").code == exit_codes.OK
    describe(desk, "/v2/trials", "searchTrials", gene=GENE, limit=LIMIT)
    assert desk.quick("jn profile update @trials --yes --no-test").code == exit_codes.OK
    assert written(desk)["endpoints"]["many"]["path"] == "/v2/trials"
    assert "Record the tool 'health'" in ended.out
    describe(desk, "/other", "other", other=GENE)
    ended = desk.quick("jn profile update @trials --yes --no-test")
    assert (ended.code, "endpoints" in written(desk)) == (exit_codes.OK, False), ended
    assert desk.quick("jn profile validate @trials").code == exit_codes.OK


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"plugin": "http", "connection": {"base_url": "http://127.0.0.1:9"}}, "expected the API's document"),
        ({"plugin": "objects", "bucket": "/tmp"}, "expected mcp or http; profiles of objects have no schema to update"),
    ],
)
def test_a_service_without_a_schema_cannot_be_updated(desk: Desk, document: dict[str, Any], words: str) -> None:
    """JN-67: and a sentence says so."""
    assert desk.quick("jn profile create bare", json.dumps(document)).code == exit_codes.OK
    ended = desk.quick("jn profile update @bare --yes")
    assert (ended.code, words in ended.err) == (exit_codes.USAGE, True), ended

"""`http` profiles brought up to date with an API that changes: `profile create --pin`, `diff`, `update`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from patchbay import exit_codes
from tests.cli.workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Any) -> Workspace:
    return Workspace(tmp_path)


def describe(workspace: Workspace, path: str, operation: str, **parameters: dict[str, Any]) -> None:
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
    (workspace.work / "openapi.json").write_text(json.dumps(document))


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


def pinned(workspace: Workspace) -> None:
    describe(workspace, "/trials", "listTrials", gene=GENE, limit=LIMIT)
    whole = {
        "plugin": "http",
        "connection": {"document": str(workspace.work / "openapi.json")},
        "endpoints": ENDPOINTS,
        "tested_with": ["few?gene=BRAF", "many?gene=EGFR&limit=5"],
    }
    ended = workspace.quick("jn profile create trials --pin --examples", json.dumps(whole))
    assert ended.code == exit_codes.OK, ended
    assert workspace.quick("jn profile validate @trials").out == "@trials: valid: The contract holds\n"


def written(workspace: Workspace) -> dict[str, Any]:
    path = workspace.home / ".local" / "jn" / "profiles" / "http" / "trials" / "_meta.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_an_update_follows_the_api_and_keeps_the_authors_words(workspace: Workspace) -> None:
    """JN-45, JN-59, JN-60, JN-64, JN-66: a parameter renamed; two endpoints of one operation, by name and by path."""
    pinned(workspace)
    before = written(workspace)
    describe(workspace, "/trials", "listTrials", query=GENE, limit=LIMIT, phase={"schema": {"type": "string"}})
    differs = workspace.quick("jn profile diff @trials")
    assert (differs.code, "'gene' renamed to 'query'" in differs.out) == (exit_codes.CHANGED, True), differs
    assert workspace.quick("jn profile update @trials --yes --dry-run").code == exit_codes.OK
    assert written(workspace) == before

    ended = workspace.quick("jn profile update @trials --yes --no-test")
    assert ended.code == exit_codes.OK, ended
    assert "Connecting to trials HTTP API..." in ended.out
    assert "Update profile to use 'query' instead of 'gene'" in ended.out
    after = written(workspace)
    few, many = after["endpoints"]["few"], after["endpoints"]["many"]
    assert (few["operation"], few["notes"]) == ("listTrials", "slow")
    assert (many["operation"], many["path"], many["pagination"]) == ("listTrials", "/trials", {"type": "link"})
    assert many["examples"] == [{"input": {"query": "BRAF"}}]
    assert set(few["inputSchema"]["properties"]) == {"query", "limit", "phase"}
    assert many["inputSchema"]["properties"]["limit"]["default"] == 1000
    assert "default" not in few["inputSchema"]["properties"]["limit"]
    assert after["tested_with"] == ["few?query=BRAF", "many?query=EGFR&limit=5"]
    assert after["schema_hash"] != before["schema_hash"]
    assert workspace.quick("jn profile validate @trials").out == "@trials: valid: The contract holds\n"
    assert workspace.quick("jn profile diff @trials").out == "No changes.\n"


def test_an_operation_that_is_renamed_keeps_its_endpoints_and_one_that_is_gone_loses_them(workspace: Workspace) -> None:
    """JN-59: endpoints keep their own names; what the profile did not have is recorded when that is wanted."""
    pinned(workspace)
    describe(workspace, "/trials", "searchTrials", gene=GENE, limit=LIMIT)
    ended = workspace.quick("jn profile update @trials --yes --no-test --all-tools")
    assert ended.code == exit_codes.OK, ended
    endpoints = written(workspace)["endpoints"]
    assert {name: row["operation"] for name, row in endpoints.items()} == dict.fromkeys(("few", "many"), "searchTrials")
    assert workspace.quick("jn profile validate @trials").code == exit_codes.OK
    describe(workspace, "/v2/trials", "searchTrials", gene=GENE, limit=LIMIT)
    assert workspace.quick("jn profile update @trials --yes --no-test").code == exit_codes.OK
    assert written(workspace)["endpoints"]["many"]["path"] == "/v2/trials"
    assert "Record the tool 'health'" in ended.out
    describe(workspace, "/other", "other", other=GENE)
    ended = workspace.quick("jn profile update @trials --yes --no-test")
    assert (ended.code, "endpoints" in written(workspace)) == (exit_codes.OK, False), ended
    assert workspace.quick("jn profile validate @trials").code == exit_codes.OK


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ({"plugin": "http", "connection": {"base_url": "http://127.0.0.1:9"}}, "expected the API's document"),
        ({"plugin": "objects", "bucket": "/tmp"}, "expected mcp or http; profiles of objects have no schema to update"),
    ],
)
def test_a_service_without_a_schema_cannot_be_updated(
    workspace: Workspace, document: dict[str, Any], words: str
) -> None:
    """JN-67: and a sentence says so."""
    assert workspace.quick("jn profile create bare", json.dumps(document)).code == exit_codes.OK
    ended = workspace.quick("jn profile update @bare --yes")
    assert (ended.code, words in ended.err) == (exit_codes.USAGE, True), ended

"""The hub as a registry: its form, its pages, who sees what, and which programs read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from patchbay.arguments import problems, validator
from patchbay.cli.commands.patchbay import main
from tests.hubs import Hub
from tests.interaction.programs import running_hub

NOTES = '"""Notes of the team."""\n\n\ndef find(text: str) -> str:\n    """Find a note."""\n    return text\n'
OFFICIAL = "io.modelcontextprotocol.registry/official"
TIME = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$"}
SERVER = {
    "type": "object",
    "required": ["name", "description", "version", "remotes", "$schema"],
    "properties": {
        "$schema": {"const": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json"},
        "name": {"type": "string", "minLength": 3, "maxLength": 200, "pattern": "^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$"},
        "description": {"type": "string", "minLength": 1, "maxLength": 100},
        "title": {"type": "string", "minLength": 1, "maxLength": 100},
        "version": {"type": "string", "minLength": 1, "maxLength": 255},
        "remotes": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type", "url"],
                "properties": {"type": {"const": "streamable-http"}, "url": {"pattern": r"^https?://[^\s]+$"}},
                "additionalProperties": False,
            },
        },
    },
    "additionalProperties": False,
}
ENTRY = {
    "type": "object",
    "required": ["server", "_meta"],
    "properties": {
        "server": SERVER,
        "_meta": {
            "type": "object",
            "properties": {
                OFFICIAL: {
                    "type": "object",
                    "required": ["status", "isLatest", "publishedAt", "updatedAt"],
                    "properties": {
                        "status": {"const": "active"},
                        "isLatest": {"const": True},
                        "publishedAt": TIME,
                        "updatedAt": TIME,
                        "statusChangedAt": TIME,
                    },
                    "additionalProperties": False,
                }
            },
        },
    },
}
LIST = {
    "type": "object",
    "required": ["servers", "metadata"],
    "properties": {
        "servers": {"type": "array", "items": ENTRY},
        "metadata": {
            "type": "object",
            "properties": {"nextCursor": {"type": "string"}, "count": {"type": "integer"}},
            "additionalProperties": False,
        },
    },
}
"""The schemas of the API for what the hub sends (modelcontextprotocol/registry, openapi.yaml, 2025-12-01)."""


def read(hub: Hub, query: str = "", **headers: str) -> Any:
    answer = hub.client.get(f"/v0.1/servers{query}", headers=headers)
    assert answer.status_code == 200 and answer.mimetype == "application/json", answer.data
    return answer.get_json()


def names(found: Any) -> list[str]:
    return [one["server"]["name"].partition("/")[2] for one in found["servers"]]


def test_the_list_and_each_version_have_the_form_of_the_registry(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"notes.py": NOTES})
    try:
        found = read(hub, "?limit=100")
        assert problems(validator(LIST), found) == []
        assert "notes" in names(found) and found["metadata"] == {"count": len(found["servers"])}
        (entry,) = read(hub, "?search=NOTES")["servers"]
        assert entry["server"]["name"] == "localhost/notes"
        assert entry["server"]["remotes"] == [{"type": "streamable-http", "url": "http://localhost/mcp/notes"}]
        assert read(hub, "/localhost%2Fnotes/versions/latest") == entry
        assert read(hub, f"/localhost%2Fnotes/versions/{entry['server']['version']}") == entry
        assert read(hub, "/localhost%2Fnotes/versions") == {"servers": [entry], "metadata": {"count": 1}}
    finally:
        hub.close()


def test_pages_follow_each_other_and_give_each_server_once(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"notes.py": NOTES})
    try:
        whole, seen, query = names(read(hub, "?limit=100")), list[str](), "?limit=3"
        while query:
            page = read(hub, query)
            seen += names(page)
            cursor = page["metadata"].get("nextCursor")
            assert len(page["servers"]) == (3 if cursor else page["metadata"]["count"])
            query = f"?limit=3&cursor={cursor}" if cursor else ""
        assert seen == whole == sorted(set(whole))
    finally:
        hub.close()


def test_a_server_is_found_by_the_time_of_its_change_and_by_its_version(tmp_path: Path) -> None:
    hub = Hub(tmp_path, {"notes.py": NOTES})
    try:
        (entry,) = read(hub, "?search=notes")["servers"]
        at = entry["_meta"][OFFICIAL]["updatedAt"]
        assert names(read(hub, f"?search=notes&updated_since={at}")) == ["notes"]
        assert names(read(hub, "?search=notes&updated_since=2999-01-01T00:00:00Z")) == []
        assert names(read(hub, "?search=notes&version=latest")) == ["notes"]
        assert names(read(hub, "?search=notes&version=0.0.0-other")) == []
    finally:
        hub.close()


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("?limit=none", 400, "expected a whole number from 1 on"),
        ("?limit=0", 400, "expected a whole number from 1 on"),
        ("?limit=-1", 400, "expected a whole number from 1 on"),
        ("?updated_since=yesterday", 400, "expected a time of RFC 3339"),
        ("?updated_since=2026-01-31T12:00:00", 400, "expected a time of RFC 3339"),
        ("/localhost%2Fnothing/versions", 404, "Server not found"),
        ("/localhost%2Fnothing/versions/latest", 404, "Server not found"),
        ("/localhost%2Fnotes/versions/0.0.0-other", 404, "Server version not found"),
        ("/elsewhere%2Fnotes/versions/latest", 404, "Server not found"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_the_form_of_the_registry(
    tmp_path: Path, path: str, status: int, says: str
) -> None:
    hub = Hub(tmp_path, {"notes.py": NOTES})
    try:
        answer = hub.client.get(f"/v0.1/servers{path}")
        assert answer.status_code == status and says in answer.get_json()["error"]
    finally:
        hub.close()


def test_web_pages_of_other_origins_read_the_documents_of_an_open_hub_only(tmp_path: Path) -> None:
    """37.3"""
    paths = ("/v0.1/servers", "/v0.1/servers/localhost%2Fnotes/versions/latest")
    cards = ("/.well-known/ai-catalog.json", "/mcp/server-card", "/mcp/notes/server-card")
    asks = {"Access-Control-Request-Method": "GET", "Access-Control-Request-Headers": "authorization"}
    for access in ("personal", "open"):
        hub = Hub(tmp_path / access, {"notes.py": NOTES}, access=access)
        try:
            for path in (*paths, *cards):
                for origin in ("https://stranger.example", "vscode-file://vscode-app"):
                    answer = hub.client.get(path, headers={"Origin": origin})
                    asked = hub.client.options(path, headers={"Origin": origin, **asks})
                    if access == "open":
                        assert answer.status_code == asked.status_code == 200
                        assert answer.headers["Access-Control-Allow-Origin"] == "*"
                        assert "Authorization" in asked.headers["Access-Control-Allow-Headers"]
                    else:
                        assert answer.status_code == asked.status_code == 403
                        assert "Access-Control-Allow-Origin" not in answer.headers
            stranger = {"Origin": "https://stranger.example"}
            assert hub.client.post("/mcp/notes", headers=stranger, json={}).status_code == 403
            assert hub.client.get("/servers", headers=stranger).status_code == 403
            assert hub.client.get(paths[0], headers={"Host": "evil.example"}).status_code == 421
        finally:
            hub.close()


def test_a_shared_hub_shows_strangers_nothing_or_by_a_setting_what_every_caller_may_see(tmp_path: Path) -> None:
    files = {"notes.py": NOTES, "wages.py": NOTES}
    access = {"grants": [{"to": ["*"], "may": ["see"], "on": ["notes"]}, {"to": ["ann"], "may": ["see"], "on": ["*"]}]}
    for readers in ("callers", "all"):
        hub = Hub(tmp_path / readers, files, access="shared", registry_readers=readers)
        try:
            hub.as_operator()
            assert hub.client.put("/variables/access", json=access).status_code in (200, 201)
            hub.client.environ_base.pop("HTTP_AUTHORIZATION")
            answer = hub.client.get("/v0.1/servers", headers={"Accept": "application/json"})
            if readers == "callers":
                assert answer.status_code == 401
            else:
                assert names(answer.get_json()) == ["notes"]
                assert hub.client.get("/v0.1/servers/localhost%2Fwages/versions/latest").status_code == 404
                assert answer.headers["Cache-Control"] == "private, no-cache"
                assert hub.client.get("/servers", headers={"Accept": "application/json"}).status_code == 401
        finally:
            hub.close()


@pytest.mark.process
def test_the_search_command_of_another_machine_finds_a_server(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(NOTES)
    with running_hub(tmp_path / "hub", [tmp_path / "notes.py"], enable="") as hub:
        found = CliRunner().invoke(main, ["search", "notes", "--registry", hub.url])
        assert found.exit_code == 0 and "ip.127.0.0.1/notes" in found.output, found.output

"""The page of use, its JSON and its CSV: who may see what, and the sums of real calls on two nodes."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from patchbay.activity.usage import COLUMNS
from patchbay.cli.commands.patchbay import main
from tests.access.team import new_key, team_hub
from tests.hubs import Hub

SAY = {"say.py": '"""Say."""\n\n\ndef say(text: str = "hello") -> str:\n    """Say."""\n    return text\n'}

Headers = dict[str, str]


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, dict[str, Headers]]]:
    hub = team_hub(tmp_path_factory.mktemp("team"))
    keys = {name: new_key(hub, name) for name in ("robot", "ci")}
    program = hub.app.test_client()
    for name, text in (("robot", "x"), ("ci", "xy"), ("robot", "xyz")):
        assert program.post("/notes/search", json={"text": text}, headers=keys[name]).status_code == 200
    yield hub, keys
    hub.close()


def table(hub: Hub, headers: Headers, query: str = "") -> Any:
    answer = hub.app.test_client().get(f"/activity/usage.json?{query}", headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json


def operator_of(hub: Hub) -> Headers:
    return {"Authorization": f"Bearer {hub.token}"}


def test_the_operator_sees_the_use_of_each_key_and_of_each_tool(team: tuple[Hub, dict[str, Headers]]) -> None:
    hub, _ = team
    found = table(hub, operator_of(hub), "server=notes&by=key")
    sums = [(one["caller"], one["calls"], one["failed"], one["bytes_in"]) for one in found["rows"]]
    assert sums == [
        ("key:robot", 2, 0, len('{"text":"x"}') + len('{"text":"xyz"}')),
        ("key:ci", 1, 0, len('{"text":"xy"}')),
    ]
    assert found["whole"] and found["total"]["calls"] == 3 and found["total"]["bytes_out"] > 0
    tools = table(hub, operator_of(hub), "server=notes&by=tool&caller=key:robot")["rows"]
    assert [(one["server"], one["tool"], one["calls"]) for one in tools] == [("notes", "search", 2)]
    assert table(hub, operator_of(hub), "by=person&server=notes")["rows"] == []


def test_another_caller_sees_its_own_use_only(team: tuple[Hub, dict[str, Headers]]) -> None:
    hub, keys = team
    for query in ("by=tool", "by=tool&caller=key:robot", "caller=&by=tool"):
        rows = table(hub, keys["ci"], query)["rows"]
        assert [(one["caller"], one["tool"], one["calls"]) for one in rows] == [("", "search", 1)], query
    program = hub.app.test_client()
    for by in ("caller", "person", "key"):
        for path in ("/activity/usage.json", "/activity/usage.csv", "/activity/usage"):
            answer = program.get(f"{path}?by={by}", headers=keys["ci"])
            assert answer.status_code == 400 and "robot" not in answer.text, (by, path)
    for path in ("/activity/usage", "/activity/usage.csv"):
        shown = program.get(path, headers={**keys["ci"], "Accept": "text/html"})
        assert shown.status_code == 200 and "robot" not in shown.text, path
    assert program.get("/activity/usage.csv").status_code == 401


def test_the_page_leads_to_the_calls_and_to_the_files(team: tuple[Hub, dict[str, Headers]]) -> None:
    hub, _ = team
    headers = {**operator_of(hub), "Accept": "text/html"}
    program = hub.app.test_client()
    page = program.get("/activity/usage?by=tool&since=1d", headers=headers).text
    assert 'href="/activity?server=notes&amp;tool=search"' in page
    assert 'href="/activity/usage.csv?by=tool&amp;since=1d"' in page
    assert 'href="/activity/usage?' in program.get("/activity", headers=headers).text
    assert "No call matches." in program.get("/activity/usage?server=absent", headers=headers).text


def test_the_csv_has_the_rows_of_the_json_and_runs_no_formula(team: tuple[Hub, dict[str, Headers]]) -> None:
    hub, keys = team
    evil = "=cmd|' /C calc'!A0"
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": evil, "arguments": {}}}
    headers = {**keys["robot"], "MCP-Protocol-Version": "2025-11-25", "Accept": "application/json, text/event-stream"}
    hub.app.test_client().post("/mcp/notes", json=message, headers=headers)
    answer = hub.app.test_client().get("/activity/usage.csv?by=tool&server=notes", headers=operator_of(hub))
    assert answer.status_code == 200 and answer.content_type.startswith("text/csv")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="usage.csv"'
    rows = list(csv.DictReader(StringIO(answer.text, newline="")))
    found = table(hub, operator_of(hub), "by=tool&server=notes")["rows"]
    assert [row["tool"].removeprefix("'") for row in rows] == [one["tool"] for one in found]
    assert f"'{evil}" in {row["tool"] for row in rows} and tuple(rows[0]) == COLUMNS


@pytest.mark.parametrize("query", ["by=nothing", "since=yesterday", "outcome=lucky"])
def test_a_wrong_filter_of_the_use_is_refused(team: tuple[Hub, dict[str, Headers]], query: str) -> None:
    hub, _ = team
    for path in ("/activity/usage.json", "/activity/usage.csv"):
        answer = hub.app.test_client().get(f"{path}?{query}", headers=operator_of(hub))
        assert answer.status_code == 400, path


def test_the_size_of_a_secret_argument_is_not_counted(tmp_path: Path) -> None:
    config = {
        "auto_discover": True,
        "isolation": "inline",
        "tools": {
            "say": {
                "function": "say",
                "inputSchema": {"type": "object", "properties": {"text": {"type": "string", "format": "password"}}},
            }
        },
    }
    hub = Hub(tmp_path, SAY | {"say.mcp.json": json.dumps(config)})
    try:
        assert hub.call("say", "say", {"text": "hunter2"}).text == "hunter2"
        rows = table(hub, operator_of(hub), "by=tool&server=say")["rows"]
        assert [(one["calls"], one["bytes_in"]) for one in rows] == [(1, 0)]
    finally:
        hub.close()


def test_the_use_of_two_nodes_on_one_store_is_one_table_also_on_the_command_line(tmp_path: Path) -> None:
    first = Hub(tmp_path, SAY, store="sqlite")
    second = Hub(tmp_path, store="sqlite")
    try:
        for hub, texts in ((first, ("a", "b")), (second, ("c",))):
            for text in texts:
                assert hub.call("say", "say", {"text": text}).text == text
        for hub in (first, second):
            hub.app.parts.dispatcher.services.activity.flush()
        for hub in (first, second):
            rows = table(hub, operator_of(hub), "by=tool&server=say")["rows"]
            assert [(one["tool"], one["calls"]) for one in rows] == [("say", 3)]
        data = ["--data", str(tmp_path / "data"), "--by", "tool", "--server", "say"]
        run = CliRunner().invoke(main, ["usage", *data, "--format", "json"])
        assert run.exit_code == 0, run.output
        assert (json.loads(run.stdout)["tool"], json.loads(run.stdout)["calls"]) == ("say", 3)
        as_csv = CliRunner().invoke(main, ["usage", *data, "--format", "csv"]).stdout
        assert next(iter(csv.DictReader(StringIO(as_csv))))["calls"] == "3"
        as_text = CliRunner().invoke(main, ["usage", *data]).stdout.splitlines()
        assert as_text[0].split()[:3] == ["WHAT", "CALLS", "FAILED"] and as_text[-1].split()[:2] == ["all", "3"]
        assert CliRunner().invoke(main, ["usage", *data, "--since", "yesterday"]).exit_code != 0
    finally:
        first.close()
        second.close()

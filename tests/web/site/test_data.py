"""The pure functions behind pages: schemas in words, and snippets."""

from __future__ import annotations

import tomllib
from base64 import b64decode
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import orjson
import pytest
import yaml

from patchbay.client.applications.own_entry import stdio_command
from patchbay.settings import Settings
from patchbay.web.rendering.snippets import TERMINAL, snippets
from patchbay.web.site.data import MAX_SCHEMA_ROWS, describe_type, property_row, schema_rows


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "string"}, "string"),
        ({"type": "string", "format": "date"}, "string (date)"),
        ({"type": ["string", "null"]}, "string or null"),
        ({"type": "array", "items": {"type": "string"}}, "list of strings"),
        ({"type": "array"}, "list"),
        ({"enum": ["a", 1]}, "one of 'a', 1"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "integer or null"),
        ({"$ref": "#/$defs/Point"}, "Point"),
        (True, "any"),
        ({}, "any"),
        (None, "any"),
    ],
)
def test_a_schema_in_words(schema: Any, words: str) -> None:
    assert describe_type(schema) == words


def test_a_schema_that_says_little_makes_rows_all_the_same() -> None:
    assert schema_rows({"type": "object"}) == schema_rows(None) == schema_rows({"properties": 3}) == []
    assert property_row("x", True, False)["type"] == "any"
    assert property_row("x", {"default": None}, True)["has_default"]


def test_snippets_quote_what_they_are_given() -> None:
    """G31: a name or a URL cannot end the string it stands in."""
    url = 'http://localhost/mcp/x\'; rm -rf $HOME; "y"\\'
    name = "a b'$(id)\""
    for snippet in snippets(name, url):
        if snippet.client in ("Codex", "Goose"):
            read = tomllib.loads if snippet.client == "Codex" else yaml.safe_load
            (servers,) = read(snippet.text).values()
            assert url in servers[name].values()
        elif snippet.text.startswith("{"):
            (servers,) = orjson.loads(snippet.text).values()
            values = servers[name].values()
            assert ["stdio"] in values if snippet.client == "Claude Desktop" else url in values
        elif snippet.client not in ("Python", "TypeScript"):
            assert "x'\"'\"'; rm" in snippet.text
        if snippet.how == TERMINAL:
            assert "'\"'\"'$(id)" in snippet.line or name not in snippet.line
    python = next(each for each in snippets("a", url) if each.client == "Python")
    compile(python.text, "snippet", "exec")


def test_properties_inside_others_have_rows_of_their_own() -> None:
    """Objects, lists of objects and references are expanded up to a limit."""
    schema = {
        "$defs": {
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "x": {"type": "number"}}}
        },
        "properties": {
            "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
            "points": {"type": "array", "items": {"$ref": "#/$defs/node"}},
            "lost": {"$ref": "#/$defs/nobody"},
        },
    }
    found = {each["name"]: each["required"] for each in schema_rows(schema)}
    assert found["address.city"] is True
    assert {"points", "points[].x", "points[].next.x", "lost"} <= set(found)
    assert len(found) < 20


@pytest.mark.parametrize("client", [each.client for each in snippets("hub", "http://localhost/mcp")])
def test_each_client_has_one_line_with_the_right_address(client: str) -> None:
    """VWR-5."""
    url = "http://localhost:9/mcp/a"
    line = next(each.line for each in snippets("a", url) if each.client == client)
    assert "\n" not in line
    query = parse_qs(urlsplit(line).query)
    config = orjson.loads(b64decode(query["config"][0])) if "config" in query else {}
    assert url in unquote(line) or config == {"url": url} or query.get("url") == [url] or '["stdio"]' in line


def test_links_open_a_client_with_the_server_filled_in() -> None:
    """Issue 12 part 2."""
    url = "http://localhost:9/mcp/a?b=c&d"
    links = {each.client: each.link for each in snippets("my a", url) if each.link}
    assert set(links) == {"LM Studio", "Goose", "Cursor", "VS Code", "VS Code Insiders"}
    for client in ("LM Studio", "Cursor"):
        query = parse_qs(urlsplit(links[client]).query, strict_parsing=True)
        assert (query["name"], orjson.loads(b64decode(query["config"][0]))) == (["my a"], {"url": url})
    goose = parse_qs(urlsplit(links["Goose"]).query, strict_parsing=True)
    assert (goose["name"], goose["url"], goose["type"]) == (["my a"], [url], ["streamable_http"])
    for client, scheme in (("VS Code", "vscode"), ("VS Code Insiders", "vscode-insiders")):
        start, _, entry = links[client].partition("?")
        assert start == f"{scheme}:mcp/install"
        assert orjson.loads(unquote(entry)) == {"name": "my a", "type": "http", "url": url}


def test_paths_of_this_machine_are_shown_on_this_machine_only(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data", servers=tmp_path / "servers", enable=("everything", "bash"))
    assert stdio_command(settings, "a", False) == ["patchbay", "stdio", "a"]
    assert str(tmp_path / "data") in stdio_command(settings, "", True)
    assert stdio_command(settings, "", True)[-2:] == ["--enable", "everything,bash"]


def test_definitions_that_name_each_other_do_not_fill_a_page() -> None:
    """THREATS 1.8: an upstream's schema of a few lines would stand for millions of rows."""
    properties = {f"p{number}": {"$ref": "#/$defs/all"} for number in range(60)}
    schema = {"properties": properties, "$defs": {"all": {"properties": properties}}}
    assert len(schema_rows(schema)) == MAX_SCHEMA_ROWS
    assert [each["required"] for each in schema_rows({"properties": {"a": {}}, "required": 5})] == [False]

"""Entries as the documentation of MCP servers prints them for MCP clients: what is a mount, and what is said."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from patchbay.client.addresses.targets import Http
from patchbay.client.applications.client_entries import RIGHTS, UNUSED, translate
from patchbay.config import parse_config
from patchbay.errors import ConfigError
from patchbay.kind import configured_kind
from patchbay.upstreams.configuration import PERMISSION_FIELDS, mount_of

DOCKER = ["run", "-i", "--rm", "-e", "GITHUB_PERSONAL_ACCESS_TOKEN", "ghcr.io/github/github-mcp-server"]

PRINTED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "playwright-mcp",
        {"mcpServers": {"playwright": {"command": "npx", "args": ["@playwright/mcp@latest"]}}},
        {"address": "mcp+stdio:npx @playwright/mcp@latest"},
    ),
    (
        "filesystem",
        {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/My files"]},
        {"address": "mcp+npx://@modelcontextprotocol/server-filesystem?launch.arg=/srv/My%20files"},
    ),
    ("fetch", {"command": "uvx", "args": ["mcp-server-fetch"]}, {"address": "mcp+stdio:uvx mcp-server-fetch"}),
    (
        "github-mcp-server, VS Code, remote",
        {"servers": {"github": {"type": "http", "url": "https://api.githubcopilot.com/mcp/"}}},
        {"address": "https://api.githubcopilot.com/mcp/"},
    ),
    (
        "github-mcp-server, VS Code, Docker",
        {
            "mcp": {
                "inputs": [{"type": "promptString", "id": "github_token", "password": True}],
                "servers": {
                    "github": {
                        "command": "docker",
                        "args": DOCKER,
                        "env": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${input:github_token}"},
                    }
                },
            }
        },
        {
            "address": "mcp+stdio:docker run -i --rm -e GITHUB_PERSONAL_ACCESS_TOKEN ghcr.io/github/github-mcp-server",
            "environment": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_TOKEN}"},
        },
    ),
    (
        "context7",
        {"url": "https://mcp.context7.com/mcp", "headers": {"CONTEXT7_API_KEY": "${env:CONTEXT7_API_KEY}"}},
        {"address": "https://mcp.context7.com/mcp", "headers": {"CONTEXT7_API_KEY": "${CONTEXT7_API_KEY}"}},
    ),
    (
        "a server of the older transport",
        {"type": "sse", "url": "https://mcp.example/sse"},
        {"address": "mcp+https://mcp.example/sse?launch.transport=sse"},
    ),
    (
        "opencode",
        {
            "mcp": {
                "far": {"type": "local", "command": ["bun", "x", "far"], "environment": {"A": "1"}, "enabled": False}
            }
        },
        {"address": "mcp+stdio:bun x far", "environment": {"A": "1"}, "enabled": False},
    ),
    (
        "Gemini CLI",
        {"httpUrl": "https://far.example/mcp", "timeout": 600000, "includeTools": ["a"], "excludeTools": ["b"]},
        {
            "address": "https://far.example/mcp",
            "timeout": 600.0,
            "listing": {"include": ["a"], "exclude": ["b"]},
        },
    ),
    (
        "Cline",
        {"command": "node", "args": ["build/index.js"], "cwd": "/srv/far", "disabled": True, "timeout": 60},
        {
            "address": "mcp+stdio:node build/index.js?launch.cwd=/srv/far",
            "enabled": False,
            "timeout": 60.0,
        },
    ),
    (
        "a query with a reference",
        {"type": "streamable-http", "url": "https://far.example/mcp/?farApiKey=${FAR_KEY}"},
        {"address": "mcp+https://far.example/mcp/?query.farApiKey=${FAR_KEY}"},
    ),
]


@pytest.mark.parametrize(("printed", "fields"), [row[1:] for row in PRINTED], ids=[row[0] for row in PRINTED])
def test_an_entry_as_documentation_prints_it_is_a_mount(printed: dict[str, Any], fields: dict[str, Any]) -> None:
    found = parse_config(orjson.dumps(printed), "servers/far.json")
    assert found == {"kind": "upstream", **fields}
    assert mount_of("far", found, "servers/far.json").address == fields["address"]
    kind = configured_kind(printed)
    assert kind is not None
    assert kind[0].name == "upstream", "it has the rules of a mount: only an operator may give it"


def test_a_reference_in_the_query_of_a_url_is_filled_in_when_the_server_is_reached() -> None:
    printed = {"url": "https://far.example/mcp?key=${env:FAR_KEY}&lang=de"}
    mount = mount_of("far", parse_config(orjson.dumps(printed), "servers/far.json"), "servers/far.json")
    found = mount.reach({"FAR_KEY": "a&b"})
    assert isinstance(found, Http)
    assert found.url == "https://far.example/mcp?key=a%26b&lang=de"


def test_members_without_a_meaning_here_are_named_with_the_reason() -> None:
    printed = {"command": "far", "autoApprove": ["a"], "alwaysAllow": [], "trust": True, "shiny": 1, "//": "a comment"}
    found = parse_config(orjson.dumps(printed), "servers/far.json")
    assert set(found.pop("unused")) == {"autoApprove", "alwaysAllow", "trust", "shiny", "//"}
    assert found == {"kind": "upstream", "address": "mcp+stdio:far"}


WRONG: list[tuple[dict[str, Any], str, str]] = [
    ({"comand": "npx", "args": []}, "comand", "did you mean command?"),
    ({"command": "npx", "arg": ["x"]}, "arg", "did you mean args?"),
    ({"args": ["x"]}, "command", "expected command (a program) or url"),
    ({"type": "http"}, "url", "expected the URL of the server"),
    ({"type": "websocket", "url": "https://x"}, "type", "expected one of stdio, local, http"),
    ({"command": "x", "url": "https://x"}, "url", "expected command or a URL, not both"),
    ({"url": "ftp://x"}, "url", "expected an http or https URL"),
    ({"command": "x", "args": "a b"}, "", "args: expected a list of strings"),
    ({"command": "x", "env": {"A": ["b"]}}, "", "env: expected an object of strings"),
    ({"command": "x", "env": {"A": "${workspaceFolder}"}}, "", "only an editor knows ${workspaceFolder}"),
    ({"command": "x", "env": {"A": "${command:pick}"}}, "", "env.A: the hub cannot resolve ${command:pick}"),
    ({"command": "x", "envFile": ".env"}, "envFile", "write them as env"),
    ({"command": "x", "timeout": "1"}, "timeout", "expected a number"),
    ({"command": "x", "env": {"API_KEY": "sk-123"}}, "env.API_KEY", "a reference such as ${API_KEY} in place of"),
    ({"command": "x", "env": {"HEADERS": '{"A": "Bearer sk"}'}}, "env.HEADERS", "a reference such as ${HEADERS}"),
    ({"command": "x", "args": ["--api-key", "sk-123"]}, "args", "a reference such as ${API_KEY}"),
    ({"url": "https://x/mcp?api_key=sk-123"}, "url", "a reference such as ${API_KEY}"),
    ({"url": "https://x", "headers": {"Authorization": "Bearer sk-123"}}, "headers.Authorization", "a reference"),
    ({"mcpServers": {"a": {"command": "a"}, "b": {"command": "b"}}}, "mcpServers", "expected one server, found a, b"),
    ({"mcpServers": {"a": {"command": "a", "env": {"TOKEN": "t"}}}}, "mcpServers.a.env.TOKEN", "a reference such as"),
]


@pytest.mark.parametrize(("printed", "path", "says"), WRONG, ids=[f"{row[1]}: {row[2]}"[:50] for row in WRONG])
def test_a_wrong_entry_says_where_and_what_was_expected(printed: dict[str, Any], path: str, says: str) -> None:
    with pytest.raises(ConfigError) as problem:
        parse_config(orjson.dumps(printed), "servers/far.json")
    assert (problem.value.where, problem.value.path) == ("servers/far.json", path)
    assert says in problem.value.expected
    assert "sk-123" not in problem.value.message, "no error repeats a secret"


def test_an_entry_in_the_servers_folder_says_what_its_program_may_do() -> None:
    rights = {"reads": ["~/a"], "writes": ["/srv/b"], "confine": "required", "network": ["example.org"]}
    entry = {"command": "npx", "args": ["-y", "x"], **rights}
    for value in (entry, {"mcpServers": {"x": entry}}):
        found = parse_config(orjson.dumps(value), "desktop.json")
        assert {name: found[name] for name in rights} == rights and UNUSED not in found
    with pytest.raises(ConfigError, match="writes"):
        parse_config(orjson.dumps({"command": "npx", "writes": "/srv/b"}), "desktop.json")
    assert set(RIGHTS) == set(PERMISSION_FIELDS)


def test_an_entry_from_elsewhere_says_nothing_of_what_its_program_may_do() -> None:
    """A README must not open a folder, or switch the confinement off."""
    found = translate({"command": "npx", "args": ["-y", "x"], "confine": "off", "writes": ["/"]}, "the pasted text")
    assert set(found[UNUSED]) == {"confine", "writes"} and not {"confine", "writes"} & set(found)

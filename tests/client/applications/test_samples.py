"""The configurations of nine clients are read exactly: each server as a mount, or a reason. Issue 17 item 3.

The samples are written after the pages that `Application.source` names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.watching.mount_files import write_mount
from patchbay.client.addresses.targets import Stdio
from patchbay.client.applications.applications import APPLICATIONS
from patchbay.client.applications.entries import Entry
from patchbay.client.applications.mounts import Variables, mount_fields, mount_name
from patchbay.client.applications.reading import ClientFile, guess_file, is_own, read_entries
from patchbay.client.applications.references import Inexpressible
from patchbay.errors import ConfigError
from tests.client.applications.places import NAMES, machine, place_sample, sample

HOME = "/srv/ada"
ENTRY_URL = "http://127.0.0.1:8000/mcp"

EXPECTED: dict[str, dict[str, dict[str, Any] | str]] = {
    "claude-desktop": {
        "filesystem": {
            "address": "mcp+npx://@modelcontextprotocol/server-filesystem"
            "?launch.arg=/srv/ada/Desktop&launch.arg=/srv/ada/My%20Documents"
        },
        "brave-search": {
            "address": "mcp+npx://@modelcontextprotocol/server-brave-search",
            "environment": {"BRAVE_API_KEY": "${BRAVE_API_KEY}"},
        },
        "weather": {"address": "mcp+stdio:uv --directory /srv/ada/weather run weather.py"},
    },
    "claude-code": {
        "notion": {"address": "https://mcp.notion.example/mcp"},
        "asana": {
            "address": "mcp+https://mcp.asana.example/sse?launch.transport=sse",
            "headers": {"X-API-Key": "${ASANA_X_API_KEY}"},
        },
        "airtable": {
            "address": "mcp+npx://airtable-mcp-server",
            "environment": {"AIRTABLE_API_KEY": "${AIRTABLE_KEY}", "LOG_LEVEL": "${LOG_LEVEL:-info}"},
            "timeout": 120.0,
        },
        "signed": "a program makes its headers (headersHelper), which only Claude Code runs",
        "db": {
            "address": "mcp+stdio:./bin/db-server --dsn postgres://localhost/shop?launch.cwd=/srv/ada/shop",
            "enabled": False,
        },
    },
    "cursor": {
        "local-server": "args: only the client can resolve ${workspaceFolder}",
        "web-api": {
            "address": "https://api.example.com/mcp",
            "headers": {"Authorization": "Bearer ${MY_SERVICE_TOKEN}", "X-Team": "shop"},
        },
        "with-file": "it reads variables from the file of its field envFile; write them as env instead",
    },
    "vscode": {
        "perplexity": {
            "address": "mcp+npx://server-perplexity-ask",
            "environment": {"PERPLEXITY_API_KEY": "${PERPLEXITY_KEY}"},
        },
        "github": {"address": "https://api.githubcopilot.com/mcp/"},
        "socket": "expected an http or https URL, got unix:///tmp/server.sock",
    },
    "windsurf": {
        "github": {
            "address": "mcp+npx://@modelcontextprotocol/server-github",
            "environment": {"GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}"},
            "enabled": False,
        },
        "remote-http": {
            "address": "https://remote.example/mcp",
            "headers": {"API_KEY": "Bearer ${AUTH_TOKEN}"},
            "listing": {"exclude": ["delete_everything"]},
        },
        "from-file": "headers.Authorization: only the client can resolve ${file:/run/token}",
    },
    "codex": {
        "context7": {
            "address": "mcp+npx://@upstash/context7-mcp",
            "environment": {"MY_ENV_VAR": "${MY_ENV_VAR}", "LOCAL_TOKEN": "${LOCAL_TOKEN}"},
        },
        "figma": {
            "address": "https://mcp.figma.example/mcp",
            "headers": {
                "X-Figma-Region": "us-east-1",
                "X-Figma-Team": "${FIGMA_TEAM}",
                "Authorization": "Bearer ${FIGMA_OAUTH_TOKEN}",
            },
            "timeout": 90.0,
        },
        "chrome_devtools": {
            "address": "http://localhost:3000/mcp",
            "listing": {"include": ["open", "screenshot"], "exclude": ["screenshot"]},
            "enabled": False,
        },
    },
    "gemini": {
        "pythonTools": {
            "address": "mcp+stdio:python -m my_mcp_server --port 8080?launch.cwd=/srv/ada/mcp-servers/python",
            "environment": {"DATABASE_URL": "${DB_CONNECTION_STRING}", "API_KEY": "${EXTERNAL_API_KEY}"},
            "timeout": 15.0,
        },
        "httpServerWithAuth": {
            "address": "http://localhost:3000/mcp",
            "headers": {
                "Authorization": "Bearer ${HTTPSERVERWITHAUTH_AUTHORIZATION}",
                "X-Custom-Header": "custom-value",
            },
            "timeout": 5.0,
            "listing": {"include": ["safe_tool"], "exclude": ["dangerous_tool"]},
        },
        "experimental": {"address": "mcp+http://localhost:8081/sse?launch.transport=sse", "enabled": False},
        "googleCloudServer": "it signs in with the credentials of Google, which only Gemini CLI has",
    },
    "zed": {
        "local-mcp-server": {"address": "mcp+stdio:some-command arg-1 arg-2"},
        "remote-mcp-server": {
            "address": "https://remote.example/mcp",
            "headers": {"Authorization": "Bearer ${REMOTE_MCP_SERVER_AUTHORIZATION}"},
        },
        "older": {"address": "mcp+stdio:/srv/older run", "environment": {"MODE": "${MODE}"}, "enabled": False},
        "mcp-server-github": "it is an extension of Zed, which only Zed can start",
    },
    "goose": {
        "developer": "it is a part of Goose (type builtin), which only Goose can start",
        "github": {
            "address": "mcp+npx://@modelcontextprotocol/server-github",
            "environment": {
                "GITHUB_HOST": "${GITHUB_HOST}",
                "GITHUB_PERSONAL_ACCESS_TOKEN": "${GITHUB_PERSONAL_ACCESS_TOKEN}",
            },
            "timeout": 300.0,
        },
        "remote": {
            "address": "https://remote.example/mcp",
            "headers": {"Authorization": "Bearer ${REMOTE_TOKEN}"},
            "timeout": 60.0,
            "enabled": False,
        },
    },
}

SECRETS: dict[str, tuple[dict[str, str], list[str]]] = {
    "claude-desktop": ({"BRAVE_API_KEY": "BSA-0123456789"}, []),
    "claude-code": ({"ASANA_X_API_KEY": "asana-0123456789"}, ["AIRTABLE_KEY"]),
    "cursor": ({}, ["MY_SERVICE_TOKEN"]),
    "vscode": ({}, ["PERPLEXITY_KEY"]),
    "windsurf": ({"GITHUB_PERSONAL_ACCESS_TOKEN": "ghp_0123456789"}, ["AUTH_TOKEN"]),
    "codex": ({"MY_ENV_VAR": "MY_ENV_VALUE"}, ["FIGMA_OAUTH_TOKEN", "FIGMA_TEAM", "LOCAL_TOKEN"]),
    "gemini": (
        {"HTTPSERVERWITHAUTH_AUTHORIZATION": "your-api-token"},
        ["DB_CONNECTION_STRING", "EXTERNAL_API_KEY"],
    ),
    "zed": ({"REMOTE_MCP_SERVER_AUTHORIZATION": "zed-0123456789", "MODE": "fast"}, []),
    "goose": (
        {"GITHUB_HOST": "https://github.example"},
        ["GITHUB_PERSONAL_ACCESS_TOKEN", "REMOTE_TOKEN"],
    ),
}
"""The variables with the values of the file, and those whose values only the client knows."""


def describe(entry: Entry, variables: Variables) -> dict[str, Any] | str:
    try:
        fields = mount_fields(entry, entry.name, variables)
    except Inexpressible as problem:
        return str(problem)
    assert fields.pop("kind") == "upstream"
    return fields


@pytest.mark.parametrize("name", NAMES)
def test_each_server_of_a_client_is_a_mount_or_has_a_reason(name: str, tmp_path: Path) -> None:
    variables = Variables()
    entries = read_entries(place_sample(name, tmp_path), machine(Path(HOME)))
    assert {entry.name: describe(entry, variables) for entry in entries} == EXPECTED[name]
    assert (variables.values, variables.missing) == SECRETS[name]


@pytest.mark.parametrize("name", NAMES)
def test_no_secret_of_a_client_stands_in_a_definition_and_the_hub_accepts_each(name: str, tmp_path: Path) -> None:
    variables = Variables()
    for entry in read_entries(place_sample(name, tmp_path / "home"), machine(Path(HOME))):
        if isinstance(EXPECTED[name][entry.name], str):
            continue
        fields = mount_fields(entry, entry.name, variables)
        written = write_mount(tmp_path / "servers", entry.name, fields, replace=False).read_text("utf-8")
        assert not any(value in written for value in variables.values.values())


@pytest.mark.parametrize("name", NAMES)
def test_a_copy_of_a_file_is_recognized(name: str, tmp_path: Path) -> None:
    own = APPLICATIONS[name].file(machine(tmp_path))
    copy = tmp_path / "backup" / own.parent.name / own.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(sample(name))
    found = guess_file(copy, machine(tmp_path))
    assert (found.application.name, found.path) == (name, copy)


def test_a_file_of_another_name_is_read_by_its_form(tmp_path: Path) -> None:
    copy = tmp_path / "saved.jsonc"
    copy.write_bytes(sample("zed"))
    assert guess_file(copy, machine(tmp_path)).application.name == "zed"
    copy.write_text('{"other": {}}')
    with pytest.raises(ConfigError, match="found none"):
        guess_file(copy, machine(tmp_path))


def test_programs_of_a_project_start_in_the_project(tmp_path: Path) -> None:
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(sample("cursor"))
    entries = read_entries(guess_file(file, machine(Path(HOME))), machine(Path(HOME)))
    assert entries[0].target == Stdio(
        "python", (f"{tmp_path}/tools/mcp_server.py",), {"API_KEY": "${API_KEY}"}, str(tmp_path)
    )


@pytest.mark.parametrize(
    ("value", "fields"),
    [
        ({"command": "a", "args": ["--api-key", "s3cret"]}, {"address": "mcp+stdio:a --api-key '${ONE_API_KEY}'"}),
        ({"command": "a", "args": ["--token=s3cret"]}, {"address": "mcp+stdio:a '--token=${TOKEN}'"}),
        (
            {"command": "a", "args": ["-e", "GITHUB_TOKEN=x"]},
            {"address": "mcp+stdio:a -e 'GITHUB_TOKEN=${GITHUB_TOKEN}'"},
        ),
        (
            {"command": "a", "args": ["--header", "Authorization: Bearer s3cret"]},
            {"address": "mcp+stdio:a --header 'Authorization: Bearer ${ONE_AUTHORIZATION}'"},
        ),
        ({"command": "a", "args": ["pg://u:s3cret@host/db"]}, {"address": "mcp+stdio:a '${ONE_URL}'"}),
        ({"command": "a b", "args": ["?x=%&y#"]}, {"address": "mcp+stdio:'a b' '%3Fx=%25%26y%23'"}),
        ({"url": "https://x.example/mcp?api_key=s3cret"}, "its URL has a secret (api_key)"),
        ({"url": "https://u:p@x.example/mcp"}, "its URL has a secret (a password)"),
        ({"url": "https://x.example/mcp?tool=a"}, {"address": "mcp+https://x.example/mcp?launch.query=tool%3Da"}),
        ({"url": "https://x.example/mcp#part"}, "without spaces or a fragment"),
        ({"type": "ws", "url": "https://x.example"}, "its transport 'ws' is not one of MCP's"),
        ({"args": []}, "expected command (a program) or a URL"),
        ({"command": "a", "args": "b"}, "args: expected a list of strings"),
        ("text", "expected an object"),
    ],
)
def test_secrets_and_odd_values_of_an_entry(value: Any, fields: dict[str, str] | str, tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_text("{}")
    file = ClientFile(APPLICATIONS["cursor"], tmp_path / "mcp.json")
    file.path.write_bytes(file.application.form.insert("", "mcpServers", "one", value).encode())
    (entry,) = read_entries(file, machine(tmp_path))
    found = describe(entry, Variables())
    if isinstance(fields, str):
        assert isinstance(found, str)
        assert fields in found
    else:
        assert found == fields
        assert "s3cret" not in str(found)


def test_two_secrets_of_one_name_have_two_variables() -> None:
    variables = Variables()
    made = [variables.add("TOKEN", server, value) for server, value in (("a", "1"), ("b", "2"), ("c", "1"), ("b", "3"))]
    assert made == ["${TOKEN}", "${B_TOKEN}", "${TOKEN}", "${B_TOKEN_2}"]


def test_a_mount_gets_a_name_that_is_free() -> None:
    entry = Entry("my server", None)
    assert mount_name(entry, "cursor", lambda name: False) == "my-server"
    assert mount_name(entry, "cursor", lambda name: name == "my-server") == "my-server-cursor"
    assert mount_name(entry, "cursor", lambda name: not name.endswith("2")) == "my-server-cursor-2"


def test_an_entry_of_this_hub_is_recognized(tmp_path: Path) -> None:
    file = ClientFile(APPLICATIONS["cursor"], tmp_path / "mcp.json")
    for entry, own in (
        ({"url": ENTRY_URL}, True),
        ({"url": "http://localhost:8000/mcp/echo"}, True),
        ({"url": "http://localhost:8001/mcp"}, False),
        ({"url": "http://localhost:8000/other"}, False),
        ({"command": "/srv/bin/patchbay", "args": ["stdio", "echo"]}, True),
        ({"command": "python", "args": ["-m", "patchbay", "stdio"]}, True),
        ({"command": "patchbay", "args": ["serve"]}, False),
    ):
        file.path.write_bytes(file.application.form.insert("", "mcpServers", "one", entry).encode())
        (found,) = read_entries(file, machine(tmp_path))
        assert is_own(found.target, 8000) is own


def test_a_file_that_cannot_be_read_has_a_line_and_a_column(tmp_path: Path) -> None:
    for name, text, expected in (
        ("cursor", '{\n  "mcpServers": {\n    "a": nope\n', "line 3, column 10"),
        ("codex", "[mcp_servers.a]\ncommand = \n", "line 2, column 11"),
        ("goose", "extensions:\n  a: [\n", "line 3, column 1"),
    ):
        file = place_sample(name, tmp_path)
        file.path.write_text(text)
        with pytest.raises(ConfigError, match=expected):
            read_entries(file, machine(tmp_path))

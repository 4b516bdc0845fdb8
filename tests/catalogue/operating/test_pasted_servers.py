"""What documentation prints becomes the mounts that it means; secrets become references. Issue 47.11."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.operating.pasted_servers import (
    MAX_PASTED_CHARACTERS,
    describe_rights,
    describe_run,
    find_pasted_address,
    read_pasted_servers,
)
from patchbay.errors import ConfigError
from patchbay.processes.confinement.programs import ProgramPlaces

PLACES = ProgramPlaces(Path("/srv/hub/programs"))
FILES = {"command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv/My Documents"]}
FILES_ADDRESS = "mcp+npx://@modelcontextprotocol/server-filesystem?launch.arg=/srv/My%20Documents"


def program(address: str, **environment: str) -> dict[str, Any]:
    return {"kind": "upstream", "address": address} | ({"environment": environment} if environment else {})


FORMS = {
    "claude desktop": (json.dumps({"mcpServers": {"files": FILES}}), {"files": program(FILES_ADDRESS)}),
    "vs code": (
        '{"servers": {"p": {"type": "stdio", "command": "npx", "args": ["-y", "x"], "env": {"K": "${input:my-key}"}}},'
        ' "inputs": [{"id": "my-key", "type": "promptString"}]}',
        {"p": program("mcp+npx://x", K="${MY_KEY}")},
    ),
    "settings of vs code": (json.dumps({"mcp": {"servers": {"files": FILES}}}), {"files": program(FILES_ADDRESS)}),
    "zed": (json.dumps({"context_servers": {"files": FILES}}), {"files": program(FILES_ADDRESS)}),
    "a part of a file, with a comment": (
        '"memory": {\n  "command": "npx", // starts it\n  "args": ["-y", "@modelcontextprotocol/server-memory"],\n'
        '  "env": {"MEMORY_FILE_PATH": "/srv/m.json", "API_KEY": "k-1"},\n},',
        {
            "memory": program(
                "mcp+npx://@modelcontextprotocol/server-memory",
                MEMORY_FILE_PATH="/srv/m.json",
                API_KEY="${API_KEY}",
            )
        },
    ),
    "names without a section": (json.dumps({"files": FILES}), {"files": program(FILES_ADDRESS)}),
    "one server": (json.dumps(FILES), {"filesystem": program(FILES_ADDRESS)}),
    "one server with its name": (json.dumps({"name": "mine", **FILES}), {"mine": program(FILES_ADDRESS)}),
    "codex": (
        '[mcp_servers.docs]\ncommand = "npx"\nargs = ["-y", "@upstash/context7-mcp"]\n',
        {"docs": program("mcp+npx://@upstash/context7-mcp")},
    ),
    "a fenced block": ('```json\n{"command": "a"}\n```', {"a": program("mcp+stdio:a")}),
    "npx": (
        "$ npx -y @modelcontextprotocol/server-everything",
        {"everything": program("mcp+npx://@modelcontextprotocol/server-everything")},
    ),
    "uvx": (
        "uvx mcp-server-git --repository /srv/repo",
        {"git": program("mcp+stdio:uvx mcp-server-git --repository /srv/repo")},
    ),
    "variables before a command": (
        "BRAVE_API_KEY=abc npx -y @brave/brave-search-mcp-server",
        {"brave-search": program("mcp+npx://@brave/brave-search-mcp-server", BRAVE_API_KEY="${BRAVE_API_KEY}")},
    ),
    "docker over two lines": (
        "docker run -i --rm \\\n  -e GITHUB_TOKEN=ghp_0123456789 ghcr.io/github/github-mcp-server",
        {
            "github": program(
                "mcp+stdio:docker run -i --rm -e 'GITHUB_TOKEN=${GITHUB_TOKEN}' ghcr.io/github/github-mcp-server"
            )
        },
    ),
    "two lines": ("npx -y a\n# a comment\nuvx b", {"a": program("mcp+npx://a"), "b": program("mcp+stdio:uvx b")}),
    "a url": ("https://mcp.linear.app/mcp", {"linear": program("https://mcp.linear.app/mcp")}),
    "a url with a key": (
        "https://mcp.exa.ai/mcp?exaApiKey=abc&x=1",
        {"exa": program("mcp+https://mcp.exa.ai/mcp?query.exaApiKey=${EXA_EXAAPIKEY}&query.x=1")},
    ),
    "an address": ("mcp+npx://some-server@1.2.3", {"some": program("mcp+npx://some-server@1.2.3")}),
    "a document of an api": (
        "https://petstore.example/openapi.json",
        {"petstore": {"kind": "openapi", "document": "https://petstore.example/openapi.json"}},
    ),
    "a definition": ('{"kind": "upstream", "address": "mcp+npx://x"}', {"server": program("mcp+npx://x")}),
    "headers": (
        json.dumps({"type": "http", "url": "https://a.example/mcp", "headers": {"Authorization": "Bearer abc"}}),
        {"a": program("https://a.example/mcp") | {"headers": {"Authorization": "Bearer ${A_AUTHORIZATION}"}}},
    ),
    "claude mcp add, a url": (
        "claude mcp add --transport http sentry https://mcp.sentry.dev/mcp --header 'X-Team: shop'",
        {"sentry": program("https://mcp.sentry.dev/mcp") | {"headers": {"X-Team": "shop"}}},
    ),
    "claude mcp add, a program": (
        "claude mcp add --scope user --env AIRTABLE_API_KEY=KEY airtable -- npx -y airtable-mcp-server --read-only",
        {
            "airtable": program(
                "mcp+npx://airtable-mcp-server?launch.arg=--read-only", AIRTABLE_API_KEY="${AIRTABLE_API_KEY}"
            )
        },
    ),
    "claude mcp add-json": (
        """claude mcp add-json weather '{"type":"stdio","command":"/srv/weather","args":["--api-key","abc123"]}'""",
        {"weather": program("mcp+stdio:/srv/weather --api-key '${WEATHER_API_KEY}'")},
    ),
    "code --add-mcp": (
        """code --add-mcp '{"name":"x","command":"npx","args":["-y","y"]}'""",
        {"x": program("mcp+npx://y")},
    ),
    "codex mcp add": ("codex mcp add docs --env A=1 -- npx -y y", {"docs": program("mcp+npx://y", A="1")}),
    "gemini mcp add": (
        "gemini mcp add --transport sse far https://a.example/sse",
        {"far": program("mcp+https://a.example/sse?launch.transport=sse")},
    ),
    "patchbay mount": ("patchbay mount time mcp+uvx://mcp-server-time", {"time": program("mcp+uvx://mcp-server-time")}),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_paste_of_each_form_is_the_mount_that_it_means(form: str) -> None:
    text, expected = FORMS[form]
    found = read_pasted_servers(text)
    assert {one.name: dict(one.fields) for one in found} == expected
    assert [one.problem for one in found] == [""] * len(expected)
    assert all(describe_run(one.fields) and describe_rights(one.fields, one.name, PLACES) for one in found)


def test_the_variables_of_a_paste_are_named_and_no_value_of_a_secret_is_kept() -> None:
    env = {"API_KEY": "k-0123", "GIVEN": "${ELSEWHERE}", "WITH_DEFAULT": "${ANY:-one}"}
    (one,) = read_pasted_servers(json.dumps({"command": "weather", "args": ["--token", "t-0123"], "env": env}))
    assert one.variables == ("API_KEY", "ELSEWHERE", "WEATHER_TOKEN")
    assert one.dropped == ("API_KEY", "WEATHER_TOKEN")
    assert "0123" not in json.dumps(one.fields)


def test_members_without_a_use_and_servers_that_cannot_be_mounted_have_reasons() -> None:
    servers = {
        "a": {"command": "x", "autoApprove": ["y"]},
        "b": {"command": "x", "envFile": ".env"},
        "c": 5,
        "d": FILES,
    }
    found = {one.name: one for one in read_pasted_servers(json.dumps({"mcpServers": servers}))}
    assert "approved" in found["a"].unused["autoApprove"]
    assert "envFile" in found["b"].problem
    assert "expected an object with command or url" in found["c"].problem
    assert found["d"].fields == program(FILES_ADDRESS)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "it is empty"),
        ("npx a && rm x", "&& needs a shell"),
        ("git clone https://x.example; cd x", "needs a shell"),
        ("npx $(cat name)", "needs a shell"),
        ("npx 'a", "a quotation mark has no end"),
        ("hello, world", "hello, is not a program: paste a configuration"),
        ("A=1", "expected a program after the variables"),
        ("{", "at line 1, column 2"),
        ('{"a": 1}', 'expected a server with "command" or "url"'),
        ('{"mcpServers": {}}', 'expected a server with "command" or "url"'),
        ('{"kind": "static"}', 'expected a server with "command" or "url"'),
        ("[mcp_servers", "expected TOML"),
        ("claude mcp add one", "expected a name, and a command or a URL"),
        ("claude mcp add --callback-port 1 one two", "the hub does not know it"),
        ("claude mcp add one --env", "expected a value after --env"),
        ("claude mcp add-json one", "expected a name and JSON"),
        ("x" * (MAX_PASTED_CHARACTERS + 1), "expected at most"),
        (json.dumps({"mcpServers": {str(number): FILES for number in range(51)}}), "expected at most 50 servers"),
    ],
)
def test_a_text_in_no_form_says_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(ConfigError) as problem:
        read_pasted_servers(text)
    assert says in problem.value.message


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("/mcp/echo", "one of this hub"),
        ("https://user:pw@a.example/mcp", "in place of the value"),
        ("mcp+npx://", "expected"),
        ('{"kind": "upstream", "address": "mcp+npx://x", "public": true}', "public"),
        ('{"kind": "upstream", "address": "mcp+npx://x", "environment": {"API_KEY": "k"}}', "not a secret"),
    ],
)
def test_a_server_that_the_hub_would_not_mount_has_the_reason(text: str, says: str) -> None:
    (one,) = read_pasted_servers(text)
    assert not one.fields
    assert says in one.problem


def test_a_program_of_the_machine_says_whose_rights_it_has() -> None:
    (local,) = read_pasted_servers("npx -y a")
    (far,) = read_pasted_servers("https://far.example/mcp")
    assert "the program npx runs on this machine" in describe_rights(local.fields, "local", PLACES)
    assert "the hub starts nothing" in describe_rights(far.fields, "far", PLACES)


def test_a_name_of_the_hub_itself_is_not_proposed() -> None:
    (one,) = read_pasted_servers(json.dumps({"mcpServers": {"inspect me!": FILES}}))
    assert one.name == "inspect-me"
    (one,) = read_pasted_servers(json.dumps({"mcpServers": {"meta": FILES}}))
    assert one.name == "meta-server"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("https://a.example/mcp", "https://a.example/mcp"),
        ("@work", "@work"),
        ("mcp+stdio:python a.py", "mcp+stdio:python a.py"),
        ("nonsense", "nonsense"),
        (json.dumps({"mcpServers": {"files": FILES}}), FILES_ADDRESS),
        ("A=1 npx -y x", "mcp+npx://x?env.A=1"),
        (
            json.dumps({"url": "https://a.example/mcp", "headers": {"X-Team": "a b"}}),
            "mcp+https://a.example/mcp?header.X-Team=a%20b",
        ),
    ],
)
def test_a_paste_with_one_server_is_an_address_to_inspect(text: str, address: str) -> None:
    assert find_pasted_address(text) == address


def test_a_paste_with_two_servers_is_not_one_to_inspect() -> None:
    with pytest.raises(ConfigError, match="expected one server to inspect; it has a, b"):
        find_pasted_address(json.dumps({"mcpServers": {"a": FILES, "b": FILES}}))

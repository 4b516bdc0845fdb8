"""No member of an entry disappears in silence: it is taken over, named with a reason, or the entry is refused. 33.8."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.targets import Http, Stdio
from patchbay.client.applications.applications import APPLICATIONS
from patchbay.client.applications.client_entries import translate
from patchbay.client.applications.entries import Entry
from patchbay.client.applications.members import SANDBOXED
from patchbay.client.applications.mounts import Variables, mount_fields
from patchbay.client.applications.reading import ClientFile, guess_file, read_entries
from patchbay.client.applications.references import Inexpressible, References, Syntax
from patchbay.errors import ConfigError
from tests.client.applications.places import machine

URL = "https://far.example/mcp"
HOME = Path("/srv/ada")


def read(client: str, value: dict[str, Any], project: Path | None = None) -> Entry:
    """An entry as a client reads it. Raises Inexpressible."""
    row = APPLICATIONS[client]
    return row.family.read("far", value, References(row.syntax, HOME, project))


@pytest.mark.parametrize(
    ("client", "value", "expected"),
    [
        ("vscode", {"command": "a", "sandboxEnabled": True}, f"sandboxEnabled: {SANDBOXED}"),
        ("vscode", {"command": "a", "sandbox": {"network": {"allowedDomains": []}}}, f"sandbox: {SANDBOXED}"),
        ("cursor", {"command": "a", "runInSandbox": "yes"}, f"runInSandbox: {SANDBOXED}"),
        ("cursor", {"command": "a", "envFile": ".env"}, "envFile: it names a file with variables"),
        ("claude-code", {"url": URL, "headersHelper": "h"}, "headersHelper: a program makes the headers"),
        ("codex", {"url": URL, "http_headers_helper": "h"}, "http_headers_helper: a program makes the headers"),
        ("gemini", {"tcp": "ws://x"}, "tcp: it speaks over a WebSocket"),
        ("gemini", {"httpUrl": URL, "authProviderType": "service_account_impersonation"}, "authProviderType: service_"),
        ("gemini", {"httpUrl": URL, "includeTools": []}, "includeTools is empty, which allows no tool"),
        ("gemini", {"httpUrl": URL, "excludeTools": "rm"}, "excludeTools: expected a list with names of tools"),
        ("goose", {"type": "streamable_http", "uri": URL, "socket": "/s"}, "socket: the server is at a socket"),
        ("cursor", {"url": URL, "command": "a"}, "it has command and url: expected one of the two"),
        ("codex", {"url": URL, "command": "a"}, "it has command and url: expected one of the two"),
        ("cursor", {"command": "a", "type": "http"}, "its transport 'http' needs a URL, and it has none"),
        ("cursor", {"command": "a", "disabled": "yes"}, "disabled: expected true or false"),
        ("codex", {"url": URL, "auth": "chatgpt"}, "auth: only the client can sign in this way"),
        ("cursor", {"url": URL, "auth": {"CLIENT_SECRET": "s"}}, "auth: expected the id of the OAuth client"),
        ("copilot-cli", {"url": URL, "oauthClientId": "c"}, "it signs in as the OAuth client c, and the file does"),
        (
            "claude-code",
            {"url": URL, "oauth": {"clientId": "c", "authServerMetadataUrl": "https://x.example/metadata"}},
            "oauth.authServerMetadataUrl: expected a URL with /.well-known/oauth-authorization-server",
        ),
    ],
)
def test_an_entry_that_the_hub_cannot_follow_is_refused(client: str, value: dict[str, Any], expected: str) -> None:
    with pytest.raises(Inexpressible) as found:
        read(client, value)
    assert str(found.value).startswith(expected)


def test_a_sandbox_that_is_switched_off_is_no_sandbox() -> None:
    entry = read("vscode", {"command": "a", "sandboxEnabled": False, "sandbox": {"filesystem": {"denyRead": ["/"]}}})
    assert entry.target == Stdio("a")
    assert entry.notes == (("sandbox", "the rules count in a sandbox only, and it is switched off"),)


@pytest.mark.parametrize("setting", [{"tools": {"sandbox": "docker"}}, {"sandbox": True}])
def test_programs_that_gemini_cli_runs_in_its_sandbox_are_refused(setting: dict[str, Any], tmp_path: Path) -> None:
    servers = {"program": {"command": "a"}, "far": {"httpUrl": URL}}
    file = ClientFile(APPLICATIONS["gemini"], tmp_path / "settings.json")
    file.path.write_text(json.dumps({"mcpServers": servers, **setting}))
    program, far = read_entries(file, machine(tmp_path))
    assert (program.target, program.problem) == (None, f"tools.sandbox: {SANDBOXED}")
    assert far.target == Http(URL)


@pytest.mark.parametrize(
    ("name", "value"), [("sandboxEnabled", True), ("sandbox", {"network": {}}), ("tcp", "ws://x"), ("oidc", True)]
)
def test_a_pasted_entry_that_was_sandboxed_is_no_mount(name: str, value: Any) -> None:
    with pytest.raises(ConfigError, match="the hub cannot follow it") as found:
        translate({"command": "a", name: value}, "far.json")
    assert found.value.path == name


@pytest.mark.parametrize(
    ("client", "value", "noted"),
    [
        ("cursor", {"url": URL, "args": ["-v"], "env": {"A": "b"}}, ["args", "env"]),
        ("cursor", {"command": "a", "headers": {"X": "y"}, "auth": {"CLIENT_ID": "c"}}, ["headers", "auth"]),
        ("cursor", {"url": URL, "timeout": 20}, ["timeout"]),
        ("gemini", {"httpUrl": URL, "url": "https://far.example/sse", "timeout": "long"}, ["timeout", "url"]),
        ("gemini", {"httpUrl": URL, "timeout": 10**9}, ["timeout"]),
        ("codex", {"url": URL, "startup_timeout_sec": 3, "newer": {"a": 1}}, ["startup_timeout_sec", "newer"]),
        ("continue", {"url": URL, "requestOptions": {"verifySsl": False}}, ["requestOptions.verifySsl"]),
        ("windsurf", {"serverUrl": URL, "alwaysAllow": ["a"], "empty": [], "none": None}, ["alwaysAllow"]),
    ],
)
def test_a_member_that_is_not_used_is_named_with_a_reason(client: str, value: dict[str, Any], noted: list[str]) -> None:
    entry = read(client, value)
    assert [name for name, _ in entry.notes] == noted
    assert all(reason for _, reason in entry.notes)


@pytest.mark.parametrize("key", ["includeTools", "enabledTools", "enabled_tools"])
@pytest.mark.parametrize("url", ["url", "serverUrl", "httpUrl"])
def test_each_spelling_of_the_url_and_of_allowed_tools_is_taken_over(url: str, key: str) -> None:
    entry = read("cursor", {url: URL, key: ["a"], "disabledTools": ["b"]})
    assert (entry.target, entry.include, entry.exclude, entry.notes) == (Http(URL), ("a",), ("b",), ())


def test_the_oauth_client_of_an_entry_becomes_the_sign_in_of_each_caller() -> None:
    variables = Variables()
    given = {"clientId": "c", "clientSecret": "s3cret", "scopes": ["a", "b"], "issuer": "https://login.example"}
    assert mount_fields(read("gemini", {"httpUrl": URL, "oauth": given}), "far", variables) == {
        "kind": "upstream",
        "address": f"mcp+{URL}?launch.issuer=https://login.example",
        "account": "caller",
        "oauth": {"client_id": "c", "client_secret": "${FAR_CLIENT_SECRET}", "scope": "a b"},
    }
    assert variables.values == {"FAR_CLIENT_SECRET": "s3cret"}
    assert read("gemini", {"httpUrl": URL, "oauth": {**given, "enabled": False}}).sign_in is None


@pytest.mark.parametrize(
    ("document", "issuer"),
    [
        ("https://a.example/.well-known/oauth-authorization-server", "https://a.example"),
        ("https://a.example/.well-known/oauth-authorization-server/t/1", "https://a.example/t/1"),
        ("https://a.example/t/.well-known/openid-configuration", "https://a.example/t"),
    ],
)
def test_the_issuer_is_known_from_the_url_of_its_metadata(document: str, issuer: str) -> None:
    entry = read("claude-code", {"url": URL, "oauth": {"clientId": "c", "authServerMetadataUrl": document}})
    assert isinstance(entry.target, Http)
    assert entry.target.issuer == issuer


@pytest.mark.parametrize(
    ("syntax", "text", "expected"),
    [
        ("shell", "${A} ${B:-c} ${env:D}", "${A} ${B:-c} ${D}"),
        ("shell", "${CLAUDE_PROJECT_DIR:-.}/x", "/project/x"),
        ("shell", "${CLAUDE_PLUGIN_ROOT}/x", None),
        ("shell", "${input:key}", None),
        ("dollar", "$A ${B} ${C:-d}", "${A} ${B} ${C:-d}"),
        ("editor", "${env:A} ${input:my-key} ${workspaceFolder}", "${A} ${MY_KEY} /project"),
        ("editor", "${A}", None),
        ("editor", "${command:pick}", None),
        ("named", "${env:A} $B", "${A} $B"),
        ("named", "${A}", None),
        ("braces", "{env:A} {other}", "${A} {other}"),
        ("braces", "{file:~/key}", None),
        ("braces", "${A}", None),
        ("secrets", "${{ secrets.A }} ${{inputs.B}}", "${A} ${B}"),
        ("secrets", "${{ other.A }}", None),
        ("literal", "$A", "$A"),
        ("literal", "${A}", None),
    ],
)
def test_references_of_each_client_are_those_of_the_hub_or_have_a_reason(
    syntax: Syntax, text: str, expected: str | None
) -> None:
    references = References(syntax, HOME, Path("/project"))
    if expected is not None:
        assert references.translate(text, "args") == expected
        return
    with pytest.raises(Inexpressible, match=r"^args: "):
        references.translate(text, "args")


def test_the_lists_of_continue_are_read_with_their_names(tmp_path: Path) -> None:
    file = ClientFile(APPLICATIONS["continue"], tmp_path / "config.yaml")
    file.path.write_text(
        "models: []\n"
        "mcpServers:\n"
        "  - name: SQLite MCP\n    command: npx\n    args: [-y, mcp-sqlite]\n"
        "    env: {KEY: '${{ secrets.SQLITE_KEY }}'}\n"
        "  - name: Far\n    type: streamable-http\n    url: https://far.example/mcp\n"
        "    requestOptions: {headers: {X-Key: '${{ secrets.FAR }}'}}\n"
        "  - uses: org/block\n"
    )
    sqlite, far, block = read_entries(file, machine(tmp_path))
    assert (sqlite.name, sqlite.target) == ("SQLite MCP", Stdio("npx", ("-y", "mcp-sqlite"), {"KEY": "${SQLITE_KEY}"}))
    assert (far.target, far.notes) == (Http(URL, {"X-Key": "${FAR}"}), ())
    assert (block.name, block.problem) == ("server-3", "expected command (a program) or a URL")
    assert guess_file(file.path, machine(tmp_path)).file.application.name == "continue"


def test_the_servers_of_opencode_2_are_read_and_written_where_they_are(tmp_path: Path) -> None:
    file = ClientFile(APPLICATIONS["opencode"], tmp_path / "opencode.json")
    before = (
        '{\n  "mcp": {\n    "timeout": 1000,\n    "servers": {\n      "far": { "type": "remote", "url": "'
        + URL
        + '", "disabled": true, "timeout": { "startup": 1, "request": 2000 } }\n    }\n  }\n}\n'
    )
    file.path.write_text(before)
    (far,) = read_entries(file, machine(tmp_path))
    assert (far.name, far.enabled, far.seconds) == ("far", False, 2.0)
    change = file.place.plan_install("patchbay", {"type": "remote", "url": "http://127.0.0.1:8000/mcp"})
    assert change.after is not None
    assert list(json.loads(change.after)["mcp"]["servers"]) == ["far", "patchbay"]
    file.path.write_bytes(change.after)
    removed = file.place.plan_removal("patchbay").after
    assert removed is not None
    assert json.loads(removed) == json.loads(before)

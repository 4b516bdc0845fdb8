"""The configurations of fourteen clients are read exactly: each server as a mount, or a reason. Issues 17.3 and 33.8.

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
from tests.client.applications.expected_mounts import EXPECTED, NOTED, SECRETS
from tests.client.applications.places import NAMES, machine, place_sample, sample

HOME = "/srv/ada"
ENTRY_URL = "http://127.0.0.1:8000/mcp"


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
    assert {entry.name: [key for key, _ in entry.notes] for entry in entries if entry.notes} == NOTED.get(name, {})
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
    found = guess_file(copy, machine(tmp_path)).file
    assert (found.application.name, found.path) == (name, copy)


def test_a_file_of_another_name_is_read_by_its_form(tmp_path: Path) -> None:
    copy = tmp_path / "saved.jsonc"
    copy.write_bytes(sample("zed"))
    assert guess_file(copy, machine(tmp_path)).file.application.name == "zed"
    copy.write_text('{"other": {}}')
    with pytest.raises(ConfigError, match="found none"):
        guess_file(copy, machine(tmp_path))


def test_programs_of_a_project_start_in_the_project(tmp_path: Path) -> None:
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_bytes(sample("cursor"))
    entries = read_entries(guess_file(file, machine(Path(HOME))).file, machine(Path(HOME)))
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

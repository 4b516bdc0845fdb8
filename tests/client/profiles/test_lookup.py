"""Profiles: the places and their order, the three layouts, what is written, and JN's own fourteen tests."""

from __future__ import annotations

import json
import re
import stat
import threading
from pathlib import Path
from typing import Any

import pytest

from patchbay.client.addresses.address import parse_address
from patchbay.client.addresses.resolution import load_hierarchical_profile, resolve_address, resolve_profile_reference
from patchbay.client.addresses.targets import AddressError, Http, Stdio
from patchbay.client.addresses.variables import (
    ProfileError,
    substitute_env_vars,
    substitute_env_vars_recursive,
)
from patchbay.client.profiles.layouts import Profile, get_target, parse_profile
from patchbay.client.profiles.lookup import ProfileHomes, Profiles, find_homes, find_profile_paths

LAUNCH = {"command": "uv", "args": ["run", "--with", "biomcp-python", "biomcp", "run"], "transport": "stdio"}
SEARCH = {
    "tool": "search",
    "description": "Search biomedical resources",
    "parameters": {
        "gene": {"type": "string", "description": "Gene symbol", "required": True},
        "disease": {"type": "string", "required": False},
    },
}
SCHEMA = {
    "type": "object",
    "properties": {"gene": {"type": "string", "description": "Gene symbol"}, "disease": {"type": "string"}},
    "required": ["gene"],
}


@pytest.fixture
def homes(tmp_path: Path) -> ProfileHomes:
    return find_homes(tmp_path / "project", {"HOME": str(tmp_path / "home"), "JN_HOME": str(tmp_path / "bundled")})


@pytest.fixture
def profiles(homes: ProfileHomes) -> Profiles:
    return Profiles(homes)


def put(home: Path | None, name: str, **files: Any) -> Path:
    assert home is not None
    directory = home / "profiles" / "mcp" / name
    directory.mkdir(parents=True, exist_ok=True)
    for stem, value in files.items():
        (directory / f"{stem}.json").write_text(value if isinstance(value, str) else json.dumps(value))
    return directory


@pytest.fixture
def biomcp(homes: ProfileHomes) -> Path:
    return put(homes.bundled, "biomcp", _meta=LAUNCH, search=SEARCH, trial_search={"tool": "trial_search"})


def test_variables_are_replaced() -> None:
    """J-F14 (1), JN-15: `${VAR}` in a text; the form with a default too."""
    assert substitute_env_vars("Bearer ${TEST_VAR}", {"TEST_VAR": "test-value"}) == "Bearer test-value"
    assert substitute_env_vars("${A:-x}${B:-}$C", {"A": ""}) == "x$C"


def test_a_missing_variable_is_an_error() -> None:
    """J-F14 (2), J-F3: never silently empty."""
    with pytest.raises(ProfileError, match="Environment variable MISSING_VAR not set"):
        substitute_env_vars("Value: ${MISSING_VAR}", {})


def test_variables_are_replaced_in_nested_values() -> None:
    """J-F14 (3), JN-15: through objects and lists; an error names the place."""
    data = {"url": "${URL}/v1", "headers": {"Authorization": "Bearer ${KEY}"}, "list": ["${URL}", "static", 1]}
    found = substitute_env_vars_recursive(data, {"URL": "https://a", "KEY": "secret"})
    assert found == {
        "url": "https://a/v1",
        "headers": {"Authorization": "Bearer secret"},
        "list": ["https://a", "static", 1],
    }
    with pytest.raises(ProfileError, match=r"f\.json: at headers\.Authorization: Environment variable KEY not set"):
        substitute_env_vars_recursive(data, {"URL": "https://a"}, "f.json")


@pytest.mark.usefixtures("biomcp")
class TestJnsResolver:
    """The rest of JN's fourteen tests, against the functions of the same names."""

    def test_meta_is_loaded(self, profiles: Profiles) -> None:
        """J-F14 (4), JN-13, JN-39."""
        found = load_hierarchical_profile(profiles, {}, "biomcp")
        assert found["command"] == "uv" and "biomcp" in " ".join(found["args"])

    def test_meta_and_tool_are_merged(self, profiles: Profiles) -> None:
        """J-F14 (5), JN-16: the tool's file over `_meta.json`."""
        found = load_hierarchical_profile(profiles, {}, "biomcp", "search")
        assert (found["command"], found["tool"], found["inputSchema"]) == ("uv", "search", SCHEMA)
        assert "tool" not in load_hierarchical_profile(profiles, {}, "biomcp", "dynamic")

    def test_no_profile_is_an_error(self, profiles: Profiles) -> None:
        """J-F14 (6): with the places that were searched."""
        with pytest.raises(
            ProfileError, match=r"MCP server profile not found: nonexistent-xyz; searched .*\.jn/profiles/mcp"
        ):
            load_hierarchical_profile(profiles, {}, "nonexistent-xyz")

    def test_tools_are_listed_without_meta(self, profiles: Profiles) -> None:
        """J-F14 (7), JN-17."""
        assert profiles.list_server_tools("biomcp") == ["search", "trial_search"]

    @pytest.mark.parametrize(
        ("reference", "operation"),
        [
            ("@biomcp", {"type": "list_resources", "params": {}}),
            ("@biomcp/search", {"type": "call_tool", "tool": "search", "params": {}}),
            (
                "@biomcp/search?gene=BRAF&disease=Melanoma",
                {"type": "call_tool", "tool": "search", "params": {"gene": "BRAF", "disease": "Melanoma"}},
            ),
            ("@biomcp?list=tools", {"type": "list_tools", "params": {}}),
            (
                "@biomcp?resource=resource://trials/NCT12345",
                {"type": "read_resource", "resource": "resource://trials/NCT12345", "params": {}},
            ),
            ("@biomcp?tool=search&gene=A", {"type": "call_tool", "tool": "search", "params": {"gene": "A"}}),
        ],
    )
    def test_a_reference_is_resolved(self, profiles: Profiles, reference: str, operation: dict[str, Any]) -> None:
        """J-F14 (8) to (12), J-F6, JN-7, JN-8, JN-9, JN-10, JN-11: nothing, path tool, query, list, resource."""
        config, found = resolve_profile_reference(profiles, {}, reference)
        assert config["command"] == "uv" and found == operation

    def test_a_callers_parameters_are_merged(self, profiles: Profiles) -> None:
        """J-F14 (13), JN-31, JN-C12: and win."""
        found = resolve_profile_reference(profiles, {}, "@biomcp/search?gene=A&n=1", {"gene": "TP53"})[1]
        assert found["params"] == {"gene": "TP53", "n": "1"}

    def test_an_invalid_reference_is_refused(self, profiles: Profiles) -> None:
        """J-F14 (14)."""
        with pytest.raises(ProfileError, match="Invalid profile reference"):
            resolve_profile_reference(profiles, {}, "biomcp/search")


def test_the_first_place_with_a_meta_file_is_the_profile(homes: ProfileHomes, profiles: Profiles) -> None:
    """JN-14: project, then user, then bundled."""
    for home, word in (
        (homes.bundled, "bundled"),
        (homes.user, "user"),
        (homes.project, "project"),
    ):
        put(home, "x", _meta={"command": word})
        assert get_target(profiles.load("x"), {}) == Stdio(word)
    assert [path.parent.parent.name for path in find_profile_paths(homes)] == [".jn", "jn", "bundled"]
    assert profiles.list_rows()[0].place == "project"


def test_an_overlay_is_explicit(homes: ProfileHomes, profiles: Profiles, biomcp: Path) -> None:
    """J-F2: a project may say more about a tool of a bundled server, by name, and never how it is started."""
    directory = put(homes.project, "biomcp", search={"notes": "mine"}, extra={"description": "new"})
    put(homes.user, "biomcp", search={"notes": "theirs", "output_format": "text/plain"})
    found = profiles.load("biomcp")
    assert found.tools["search"]["notes"] == "mine" and found.tools["search"]["output_format"] == "text/plain"
    assert found.tools["search"]["inputSchema"] == SCHEMA and list(found.tools) == ["extra", "search", "trial_search"]
    assert found.directory == biomcp and len(found.overlays) == 3
    assert profiles.describe("biomcp")["overlays"] == [str(path) for path in found.overlays]
    put(homes.project, "biomcp", extra={"command": "evil"})
    with pytest.raises(ProfileError, match=r"extra\.json: at command: an overlay may not say how"):
        profiles.load("biomcp")
    (directory / "_meta.json").write_text(json.dumps(LAUNCH))
    assert list(profiles.load("biomcp").tools) == ["extra", "search"], "directories after the profile's own add nothing"


def test_three_layouts_are_one_profile() -> None:
    """JN-C5, JN-C6: flat, one file with tools, nested connection; `required` inside a parameter or as a list."""
    flat = parse_profile("b", LAUNCH, {"search": SEARCH}, "")
    one = parse_profile("b", {**LAUNCH, "tools": {"search": SEARCH}}, {}, "")
    nested = parse_profile("b", {"plugin": "mcp", "connection": LAUNCH, "tools": {"search": SEARCH}}, {}, "")
    as_schema = parse_profile("b", LAUNCH, {"search": {**SEARCH, "parameters": SCHEMA}}, "")
    assert flat == one == nested == as_schema
    assert flat.tools["search"]["inputSchema"] == SCHEMA


def test_the_documents_own_profiles_load() -> None:
    """JN-49, JN-51, JN-64: the full profile of the document; the minimal one; one of another plugin."""
    full = parse_profile(
        "biomcp",
        {
            "plugin": "mcp",
            "server": "biomcp",
            "description": "BioMCP: Biomedical data",
            "connection": LAUNCH,
            "schema_hash": "a3f5b8c2e1f4",
            "schema_updated": "2025-11-12",
            "tools": {
                "search": {"parameters": {"gene": {"required": True}, "disease": {}}, "output_format": "text/plain"}
            },
            "tested_with": ["search?gene=BRAF"],
        },
        {},
        "",
    )
    assert not full.is_minimal and full.tools["search"]["inputSchema"]["required"] == ["gene"]
    assert full.schema_validation == "warn"
    assert parse_profile("b", LAUNCH, {}, "").is_minimal
    connection = {"base_url": "https://api.example.org", "headers": {"Authorization": "Token ${KEY}"}, "timeout": 60}
    http = parse_profile(
        "g", {"plugin": "http", "connection": connection, "schema_hash": None, "endpoints": {"a": {}}}, {}, ""
    )
    assert http.launch == connection and http.fields["endpoints"] == {"a": {}}


@pytest.mark.parametrize(
    ("meta", "words"),
    [
        ([], "_meta.json: expected a JSON object"),
        ({}, "expected command .* or url"),
        ({"command": "a", "url": "http://h"}, "expected command .* or url"),
        ({"command": "a", "transport": "sse"}, "expected command .* or url"),
        ({"command": 1}, "at command: expected a program"),
        ({"command": "a", "args": "b"}, "at args: expected a list of strings"),
        ({"command": "a", "env": {"A": 1}}, "at env: expected an object of strings"),
        ({"command": "a", "transport": "ws"}, "at transport: expected one of stdio, auto"),
        ({"url": "ftp//x"}, "at url: expected http"),
        ({"command": "a", "connection": {"command": "b"}}, "at connection.command: expected the same"),
        ({"connection": {"command": "b", "x": 1}}, "at connection.x: expected only"),
        ({"command": "a", "schema_hash": 1}, "at schema_hash"),
        ({"command": "a", "schema_validation": "no"}, "at schema_validation: expected one of warn, error, ignore"),
        ({"command": "a", "schema_updated": "yesterday"}, "at schema_updated: expected an ISO 8601"),
        ({"command": "a", "tested_with": [1]}, "at tested_with: expected a list of strings"),
        ({"command": "a", "notes": 1}, "at notes: expected a string"),
        ({"command": "a", "tools": []}, "at tools: expected an object"),
        ({"command": "a", "tools": {"t": []}}, r"at tools\.t: expected a JSON object"),
        ({"command": "a", "tools": {"t": {"tool": "u"}}}, r"at tools\.t\.tool: expected 't'"),
        ({"command": "a", "tools": {"t": {"parameters": {"p": 1}}}}, r"at tools\.t\.parameters\.p: expected an object"),
        ({"command": "a", "tools": {"t": {"parameters": {}, "inputSchema": {}}}}, "not both"),
        ({"command": "a", "tools": {"t": {"output_format": 1}}}, "at output_format: expected a string"),
        ({"command": "a", "tools": {"t": {"examples": 1}}}, r"at tools\.t\.examples: expected a list"),
    ],
)
def test_an_error_in_a_profile_names_its_place(meta: Any, words: str) -> None:
    with pytest.raises(ProfileError, match=words):
        parse_profile("x", meta, {}, "")


def test_files_are_strict_json(homes: ProfileHomes, profiles: Profiles) -> None:
    """JN-C7: comments, dots and duplicate keys are errors that name the file; the list goes on without it."""
    for text in ('{"command": "a", // no\n}', '{"args": [...]}', '{"command": "a", "command": "b"}', ""):
        path = put(homes.user, "bad", _meta=text) / "_meta.json"
        with pytest.raises(ProfileError, match="expected strict JSON") as caught:
            profiles.load("bad")
        assert caught.value.where == str(path)
    put(homes.user, "good", _meta={"command": "a"})
    rows = {row.name: row for row in profiles.list_rows()}
    assert "strict JSON" in rows["bad"].problem and rows["good"].minimal and not rows["good"].problem


def test_a_saved_profile_is_canonical_and_loads_the_same(homes: ProfileHomes, profiles: Profiles) -> None:
    """JN-58, JN-C5: `_meta.json` plus one file per tool, under the user's directory, for any names of tools."""
    fields = {"description": "d", "schema_hash": "0" * 32, "x-own": {"kept": True}}
    tools = {name: {"inputSchema": SCHEMA} for name in ("search", "a/b", "_meta", ".hidden", "Ünï", "..")}
    profile = Profile("biomcp", "mcp", LAUNCH, fields, tools)
    directory = profiles.save(profile)
    assert homes.user and directory == homes.user / "profiles" / "mcp" / "biomcp"
    assert profiles.load("biomcp") == profile
    assert json.loads((directory / "search.json").read_text()) == {"tool": "search", "inputSchema": SCHEMA}
    assert json.loads((directory / "_meta.json").read_text())["command"] == "uv"
    assert stat.S_IMODE((directory / "_meta.json").stat().st_mode) == 0o600
    assert profiles.list_server_tools("biomcp") == sorted(tools)


def test_the_previous_version_of_a_profile_is_kept(profiles: Profiles) -> None:
    """JN-59: nothing is lost by saving or deleting; a tool that goes away goes with its file."""
    first = Profile("x", "mcp", {"command": "a"}, {}, {"t": {"notes": "1"}})
    profiles.save(first)
    profiles.save(Profile("x", "mcp", {"command": "b"}, {}, {"u": {}}))
    (stamp,) = profiles.describe("x")["versions"]
    assert profiles.list_server_tools("x") == ["u"]
    for wrong in ("no", "..", "../.versions/" + stamp):
        with pytest.raises(ProfileError, match=f"no version '{re.escape(wrong)}'; it has {stamp}"):
            profiles.restore("x", wrong)
    directory = profiles.restore("x", stamp)
    assert profiles.load("x") == first and len(profiles.describe("x")["versions"]) == 2
    profiles.restore("x")
    assert profiles.list_server_tools("x") == ["u"]
    (directory / "_meta.json").write_text('{"plugin": 1}')
    profiles.restore("x", stamp)
    assert profiles.load("x") == first
    for number in range(25):
        profiles.save(Profile("x", "mcp", {"command": str(number)}))
    assert len(profiles.describe("x")["versions"]) == 20
    home = profiles.delete("x")
    assert (home / "_meta.json").exists() and profiles.list_rows() == []
    assert profiles.restore("x") == directory and profiles.load("x").launch["command"] == "24"
    with pytest.raises(ProfileError, match="no profile and no deleted profile"):
        profiles.restore("y")


def test_examples_are_off_by_default(profiles: Profiles) -> None:
    """JN-52: never added unless asked for, never taken away unless asked for."""
    tool = {"examples": [{"input": {"gene": "BRAF"}, "output_sample": "..."}]}
    profile = Profile("x", "mcp", {"command": "a"}, {}, {"t": tool})
    profiles.save(profile)
    assert "examples" not in profiles.load("x").tools["t"]
    profiles.save(profile, examples=True)
    profiles.save(profile)
    assert profiles.load("x") == profile
    profiles.save(profile, examples=False)
    assert "examples" not in profiles.load("x").tools["t"]


def test_a_profile_that_would_not_load_is_not_saved(homes: ProfileHomes, profiles: Profiles, biomcp: Path) -> None:
    with pytest.raises(ProfileError, match="expected command"):
        profiles.save(Profile("x"))
    for name in ("..", "a/b", ".versions", ""):
        with pytest.raises(ProfileError, match="expected a name"):
            profiles.save(Profile(name, "mcp", LAUNCH))
        with pytest.raises(ProfileError, match="expected a name"):
            profiles.load(name)
    assert profiles.find_directories() == {"biomcp": biomcp}
    with pytest.raises(ProfileError, match="bundled"):
        profiles.delete("biomcp")
    with pytest.raises(ProfileError, match="expected HOME"):
        Profiles(ProfileHomes(homes.project, None, None)).save(Profile("x", "mcp", LAUNCH))


def test_a_reader_never_sees_half_a_version(profiles: Profiles) -> None:
    """JN-59: writers and readers at the same time; every profile read is one that was written."""

    def version(number: int) -> Profile:
        return Profile("x", "mcp", {"command": str(number)}, {}, {f"t{n}": {"notes": str(number)} for n in range(5)})

    profiles.save(version(0))
    over = threading.Event()

    def write() -> None:
        for number in range(1, 30):
            profiles.save(version(number))
        over.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not over.is_set():
        found = profiles.load("x")
        assert {tool["notes"] for tool in found.tools.values()} == {found.launch["command"]}
    writer.join()


def test_a_tool_file_may_start_its_tool_differently(homes: ProfileHomes, profiles: Profiles) -> None:
    """JN-16, J-F3: merged first, variables put in afterwards."""
    put(homes.user, "x", _meta={"command": "a", "env": {"K": "${KEY}"}}, t={"args": ["--only", "${T}"]})
    assert resolve_address(parse_address("@x?list=tools"), profiles, {"KEY": "1"}).target == Stdio("a", (), {"K": "1"})
    assert resolve_address(parse_address("@x/t"), profiles, {"KEY": "1", "T": "2"}).target == Stdio(
        "a", ("--only", "2"), {"K": "1"}
    )
    with pytest.raises(ProfileError, match="Environment variable KEY not set"):
        resolve_address(parse_address("@x/t"), profiles, {"T": "2"})


def test_addresses_reach_presets_urls_and_programs(homes: ProfileHomes, profiles: Profiles) -> None:
    """JN-69, JN-70: presets of the project before those of the user; variables in headers."""
    row = {"launcher": "uvx", "package": "biomcp-python", "command": "biomcp", "args": ["run"]}
    for home, name in ((homes.user, "biomcp"), (homes.project, "context7")):
        assert home is not None
        home.mkdir(parents=True)
        other = {"launcher": "npx", "package": "@upstash/context7-mcp@latest", "args": ["--x"], "env": {"K": "${KEY}"}}
        (home / "mcp-launchers.json").write_text(
            json.dumps({name: row if name == "biomcp" else other, "both": other if name == "biomcp" else row})
        )
    expected = Stdio("uv", ("run", "--with", "biomcp-python", "biomcp", "run"))
    assert resolve_address(parse_address("mcp://biomcp?tool=search"), profiles, {}).target == expected
    assert resolve_address(parse_address("mcp://both"), profiles, {}).target == expected
    found = resolve_address(parse_address("mcp://context7"), profiles, {"KEY": "1"}).target
    assert found == Stdio("npx", ("-y", "@upstash/context7-mcp@latest", "--x"), {"K": "1"})
    with pytest.raises(AddressError, match=r"no such preset in .*mcp-launchers\.json; it has biomcp, both, context7"):
        resolve_address(parse_address("mcp://other"), profiles, {})
    found = resolve_address(parse_address("mcp+http://h/?header.A=Bearer ${T}"), profiles, {"T": "1"}).target
    assert found == Http("http://h/", {"A": "Bearer 1"})
    put(homes.user, "web", _meta={"url": "${URL}", "transport": "http"})
    assert resolve_address(parse_address("@web"), profiles, {"URL": "https://h/mcp"}).target == Http("https://h/mcp")
    with pytest.raises(ProfileError, match="at url"):
        resolve_address(parse_address("@web"), profiles, {"URL": "no"})


def test_info_masks_secrets(homes: ProfileHomes, profiles: Profiles) -> None:
    """JN-62."""
    put(homes.user, "x", _meta={"command": "a", "args": ["--token", "abc"], "env": {"KEY": "abc"}, "notes": "n"})
    found = profiles.describe("x")
    assert "abc" not in json.dumps(found) and found["notes"] == "n" and found["place"] == "user"

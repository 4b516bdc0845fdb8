"""Toolsets are made and changed without JSON; a mistake names the nearest name and changes nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.catalogue.operating import past_versions, toolset_changes
from patchbay.catalogue.operating.hub_list import list_server, write_listing
from patchbay.catalogue.operating.toolset_changes import ToolsetChange, Toolsets
from patchbay.catalogue.operating.toolsets import DraftedToolset
from patchbay.catalogue.servers.list_prices import describe_price, estimate_tokens
from patchbay.catalogue.servers.server import Server
from patchbay.errors import ConfigError, PatchbayError, ReadOnly, StaleUpdate
from tests.hubs import Hub

GIT = '''
def log(repo: str, count: int = 1) -> str:
    """Show the commits."""
    return f"{repo} {count}"


def diff(path: str) -> str:
    """Show the changes."""
    return path


def push() -> str:
    """Push."""
    return ""
'''


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    found = Hub(tmp_path, {"git.py": GIT})
    yield found
    found.close()


@pytest.fixture
def toolsets(hub: Hub) -> Toolsets:
    return Toolsets(hub.catalogue, hub.servers, lambda: follow(hub))


def follow(hub: Hub) -> None:
    hub.catalogue.read_folder()
    hub.catalogue.refresh()


def do(toolsets: Toolsets, name: str, what: str, *entries: str, **more: Any) -> list[str]:
    """Make a change; return the names of the tools that the list has then."""
    return [tool["name"] for tool in toolsets.apply(name, ToolsetChange(what, entries, **more), "test")["tools"]]


def stored(hub: Hub, name: str) -> Any:
    return json.loads((hub.servers / f"{name}.json").read_text())


def test_a_toolset_is_made_of_names_addresses_and_patterns(hub: Hub, toolsets: Toolsets) -> None:
    """Issue 54, item 4."""
    assert do(toolsets, "one", "new", "git.log", "git/diff", title="One") == ["log", "diff"]
    assert stored(hub, "one") == {"kind": "toolset", "title": "One", "include": ["git.log", "git.diff"]}
    assert do(toolsets, "two", "new", "git") == ["log", "diff", "push"]
    assert do(toolsets, "three", "new", "git.*", "jq.keys") == ["log", "diff", "push", "keys"]


def test_tools_are_taken_out_as_they_were_chosen(hub: Hub, toolsets: Toolsets) -> None:
    do(toolsets, "some", "new", "git", "jq.keys")
    assert do(toolsets, "some", "remove", "push") == ["log", "diff", "keys"]
    assert stored(hub, "some")["exclude"] == ["git.push"]
    assert do(toolsets, "some", "add", "git.push") == ["log", "diff", "push", "keys"]
    assert "exclude" not in stored(hub, "some")
    assert do(toolsets, "some", "remove", "keys") == ["log", "diff", "push"]
    assert stored(hub, "some")["include"] == ["git"]
    with pytest.raises(ConfigError, match="expected one tool at least: to have none, remove the toolset"):
        do(toolsets, "some", "remove", "git")


def test_names_of_servers_and_tools_may_have_dots(tmp_path: Path) -> None:
    """Of the dots in an origin, the one after the name of a server that has the tool counts."""
    hub = Hub(tmp_path, {"git.py": GIT, "git.hub.py": GIT})
    toolsets = Toolsets(hub.catalogue, hub.servers, lambda: follow(hub))
    do(toolsets, "some", "new", "git.hub", "git.log")
    assert do(toolsets, "some", "add", "git.hub.push") == ["git__log", "git.hub__log", "diff", "push"]
    assert stored(hub, "some")["include"] == ["git.hub", "git.log"]
    assert do(toolsets, "some", "remove", "git.hub.push") == ["git__log", "git.hub__log", "diff"]
    assert stored(hub, "some")["exclude"] == ["git.hub.push"]
    do(toolsets, "some", "shape", tool="diff", shape={"new_name": "changes"})
    assert do(toolsets, "some", "remove", "git.hub.diff") == ["git__log", "git.hub__log"]
    assert stored(hub, "some")["exclude"] == ["git.hub.push", "git.hub.diff"]
    assert set(do(toolsets, "some", "add", "git")) == {"git__log", "git.hub__log", "diff", "push"}
    assert stored(hub, "some")["include"] == ["git.hub", "git.log", "git"]
    hub.close()


def test_a_tool_is_renamed_described_and_gets_fixed_arguments(hub: Hub, toolsets: Toolsets) -> None:
    do(toolsets, "shaped", "new", "git")
    assert do(toolsets, "shaped", "shape", tool="log", shape={"new_name": "history"}) == ["history", "diff", "push"]
    fixed = {"repo": {"value": "/srv"}}
    do(toolsets, "shaped", "shape", tool="history", shape={"description": "The past.", "arguments": fixed})
    (tool,) = [one for one in hub.modern("shaped", "tools/list").result["tools"] if one["name"] == "history"]
    assert tool["description"] == "The past." and "repo" not in tool["inputSchema"]["properties"]
    assert hub.call("shaped", "history", {"count": 2}).text == "/srv 2"
    do(toolsets, "shaped", "shape", tool="history", shape={"description": "", "arguments": {"repo": None}})
    assert stored(hub, "shaped")["tools"] == {"history": "git.log"}
    assert do(toolsets, "shaped", "remove", "history") == ["diff", "push"]


@pytest.mark.parametrize(
    ("what", "entries", "more", "sentence"),
    [
        ("add", ("git.lgo",), {}, "git.lgo matches no tool; did you mean git.log?"),
        ("add", ("gti",), {}, "there is no server gti; did you mean git?"),
        ("remove", ("dif",), {}, "this toolset has no tool 'dif'; did you mean diff"),
        ("shape", (), {"tool": "lgo", "shape": {"new_name": "x"}}, "did you mean log?"),
        ("shape", (), {"tool": "log", "shape": {"new_name": "diff"}}, "a tool of the toolset has this one"),
        ("shape", (), {"tool": "log", "shape": {"arguments": {"rep": {"value": 1}}}}, "did you mean repo?"),
        ("shape", (), {"tool": "log", "shape": {"arguments": {"count": {"value": "x"}}}}, "does not fit the origin"),
        ("chagne", (), {}, "expected one of new, add, remove, shape"),
    ],
)
def test_a_mistake_names_the_nearest_word_and_changes_nothing(
    hub: Hub, toolsets: Toolsets, what: str, entries: tuple[str, ...], more: dict[str, Any], sentence: str
) -> None:
    do(toolsets, "kept", "new", "git.log", "git.diff")
    before = stored(hub, "kept")
    with pytest.raises(PatchbayError) as caught:
        do(toolsets, "kept", what, *entries, **more)
    assert sentence in caught.value.message
    assert stored(hub, "kept") == before


def test_only_a_toolset_is_changed_as_one_and_names_are_new(hub: Hub, toolsets: Toolsets) -> None:
    do(toolsets, "release", "new", "git.log")
    with pytest.raises(PatchbayError, match="did you mean release"):
        do(toolsets, "relaese", "add", "git.diff")
    with pytest.raises(ConfigError, match="expected a toolset: this server has tools of its own"):
        do(toolsets, "git", "add", "jq.keys")
    with pytest.raises(ConfigError, match="expected no server release yet"):
        do(toolsets, "release", "new", "git.diff")
    with pytest.raises(ConfigError, match="this hub has a server of this name"):
        do(toolsets, "echo", "new", "git.diff")
    with pytest.raises(ConfigError, match="expected at least one tool"):
        do(toolsets, "empty", "new")


def test_the_list_of_all_servers_is_changed_like_a_toolset(hub: Hub, toolsets: Toolsets) -> None:
    """The name mcp stands for it: its built-in servers are switched in, and the tools of others are excluded."""
    assert [tool["name"] for tool in toolsets.describe("mcp")["tools"]] == ["git__log", "git__diff", "git__push"]
    assert "jq" in toolsets.describe("mcp")["unlisted"]
    assert "jq__keys" in do(toolsets, "mcp", "add", "jq")
    assert do(toolsets, "mcp", "remove", "jq", "git.push") == ["git__log", "git__diff"]
    assert do(toolsets, "mcp", "add", "git.push") == ["git__log", "git__diff", "git__push"]
    with pytest.raises(ConfigError, match=r"no tool matches git\.psuh; did you mean git\.push"):
        do(toolsets, "mcp", "remove", "git.psuh")
    with pytest.raises(ConfigError, match="expected add or remove"):
        do(toolsets, "mcp", "shape", tool="git__log", shape={"new_name": "x"})


def test_a_change_of_the_list_that_another_process_has_made_stays(hub: Hub, toolsets: Toolsets) -> None:
    """The other process has changed the variable, and this one has not read it yet."""
    other = Toolsets(hub.catalogue, hub.servers, lambda: None)
    other.apply("mcp", ToolsetChange("add", ("jq",)), "other")
    names = do(toolsets, "mcp", "add", "echo")
    assert "jq__keys" in names and "echo__echo" in names


def test_a_change_of_the_list_that_was_made_from_an_older_list_is_refused(hub: Hub, toolsets: Toolsets) -> None:
    older = hub.catalogue.listing
    do(toolsets, "mcp", "add", "jq")
    with pytest.raises(StaleUpdate, match="Repeat the change"):
        list_server(hub.catalogue.store, "echo", older, True, "other")
    with pytest.raises(StaleUpdate, match="Repeat the change"):
        write_listing(hub.catalogue.store, {"exclude": ["git__push"]}, older, "other", "an older list")
    assert "jq__keys" in do(toolsets, "mcp", "remove", "git.push")


class _Interrupted(Toolsets):
    """Another person saves a change of the same toolset while the first change is drafted."""

    def draft_change(self, server: Server, change: ToolsetChange) -> DraftedToolset:
        drafted = super().draft_change(server, change)
        if change.entries == ("git.diff",):
            self.apply(server.name, ToolsetChange("add", ("git.push",)), "another person")
        return drafted


def test_what_another_person_saves_while_a_change_is_drafted_is_not_overwritten(hub: Hub, toolsets: Toolsets) -> None:
    do(toolsets, "shared", "new", "git.log")
    interrupted = _Interrupted(hub.catalogue, hub.servers, hub.catalogue.read_folder)
    with pytest.raises(StaleUpdate, match="another configuration was saved meanwhile"):
        do(interrupted, "shared", "add", "git.diff")
    assert stored(hub, "shared")["include"] == ["git.log", "git.push"]
    assert set(do(toolsets, "shared", "add", "git.diff")) == {"log", "push", "diff"}


def test_a_price_counts_what_clients_get(hub: Hub, toolsets: Toolsets) -> None:
    do(toolsets, "priced", "new", "git.log", "git.diff")
    found = toolsets.describe("priced")
    listed = hub.modern("priced", "tools/list").result["tools"]
    sizes = [len(json.dumps(tool, separators=(",", ":"), ensure_ascii=False).encode()) for tool in listed]
    assert [tool["bytes"] for tool in found["tools"]] == sizes and found["bytes"] == sum(sizes)
    assert found["tokens"] == estimate_tokens(sum(sizes)) and found["price"] == describe_price(sizes)
    assert (estimate_tokens(0), estimate_tokens(1), estimate_tokens(8)) == (0, 1, 2)
    assert describe_price([1204]) == "1 tool, 1,204 bytes, about 301 tokens"


def test_a_read_only_hub_makes_no_toolset(tmp_path: Path) -> None:
    hub = Hub(tmp_path, boot="readonly")
    with pytest.raises(ReadOnly):
        Toolsets(hub.catalogue, hub.servers, lambda: None).apply("x", ToolsetChange("new", ("jq",)), "test")
    assert not (hub.servers / "x.json").exists()
    hub.close()


def test_the_versions_of_a_toolset_are_read_up_to_a_limit(
    hub: Hub, toolsets: Toolsets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(toolset_changes, "MAX_VERSIONS", 3)
    do(toolsets, "some", "new", "git.log", "git.diff")
    for title in ("A", "B"):
        do(toolsets, "some", "shape", tool="log", shape={"title": title})
    assert [one["number"] for one in toolsets.versions("some")["versions"]] == [3, 2, 1]
    do(toolsets, "some", "shape", tool="log", shape={"title": "C"})
    monkeypatch.delattr(past_versions, "_read_moves")  # reads the whole history
    versions = toolsets.versions("some")["versions"]
    assert [one["number"] for one in versions] == [None] * 3, "older versions are not counted"
    assert [one["current"] for one in versions] == [True, False, False]
    do(toolsets, "some", "rollback", version=versions[1]["cid"])
    assert toolsets.versions("some")["versions"][0]["cid"] == versions[1]["cid"]
    assert stored(hub, "some")["tools"]["log"]["title"] == "B"

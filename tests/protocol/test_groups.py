"""Each listed server is a group of /mcp, for clients that declare the extension (SEP-2084)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from patchbay.protocol.lists import GROUPS
from tests.catalogue.operating.test_toolset_changes import GIT
from tests.hubs import Hub

DECLARED: dict[str, Any] = {"extensions": {GROUPS: {}}}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    chosen = {"kind": "toolset", "title": "Work", "description": "For releases.", "include": ["git.log"]}
    files = {"git.py": GIT, "release.json": json.dumps(chosen)}
    found = Hub(tmp_path_factory.mktemp("groups"), files)
    yield found
    found.close()


def send(hub: Hub, server: str, method: str, **params: Any) -> Any:
    return hub.modern(server, method, params, capabilities=DECLARED)


def test_servers_and_toolsets_are_groups_and_entries_name_theirs(hub: Hub) -> None:
    """Issue 54, item 3."""
    assert send(hub, "", "groups/list").result["groups"] == [
        {"name": "git"},
        {"name": "release", "title": "Work", "description": "For releases."},
    ]
    tools = {tool["name"]: tool for tool in send(hub, "", "tools/list").result["tools"]}
    assert tools["git__push"]["_meta"][GROUPS] == ["git"] and tools["release__log"]["_meta"][GROUPS] == ["release"]
    said = send(hub, "", "server/discover").result["capabilities"]
    assert GROUPS in said["extensions"] and said["groups"] == {"listChanged": False}


def test_groups_have_only_listed_servers(hub: Hub) -> None:
    assert "jq" not in json.dumps(send(hub, "", "groups/list").result)
    hub.list_at_mcp("jq")
    assert "jq" in [group["name"] for group in send(hub, "", "groups/list").result["groups"]]
    hub.list_at_mcp()


def test_other_clients_and_other_endpoints_have_no_groups(hub: Hub) -> None:
    assert hub.modern("", "groups/list").error["code"] == -32601
    assert send(hub, "git", "groups/list").error["code"] == -32601
    assert GROUPS not in json.dumps(hub.modern("", "tools/list").result)
    assert GROUPS not in json.dumps(send(hub, "git", "tools/list").result)
    assert GROUPS not in json.dumps(hub.modern("", "server/discover").result)

"""The reference server `arbor`: conversation trees, their references, their resources, and who hears of changes."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import orjson
import pytest

from tests.hubs import MODERN, Hub, modern_request
from tests.waiting import until

READING = {
    *("tree_get", "tree_get_skeleton", "tree_list", "tree_list_scheduled", "tree_list_archived", "tree_render"),
    *("node_get", "node_get_children", "node_get_parent", "node_get_path"),
    *("context_list_leaves", "context_get_path", "context_get_handles"),
}
WRITING = {
    *("tree_create", "tree_update_metadata", "tree_claim", "tree_release"),
    *("node_create_text", "node_create_external"),
}
NOWHERE = "00000000-0000-4000-8000-000000000000"
WEEK = 7 * 24 * 3600


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    hub = Hub(tmp_path_factory.mktemp("arbor")).list_at_mcp("arbor")
    yield hub
    hub.close()


def done(hub: Hub, tool: str, **arguments: Any) -> dict[str, Any]:
    """The structured result of a call that works."""
    answer = hub.call("arbor", tool, arguments)
    assert not answer.result.get("isError"), answer.text
    return dict(answer.result["structuredContent"])


def refused(hub: Hub, tool: str, **arguments: Any) -> str:
    answer = hub.call("arbor", tool, arguments)
    assert answer.result["isError"] is True, answer.result
    return answer.text


def add_text(hub: Hub, tree: str, text: str, parent: str | None = None, **metadata: Any) -> str:
    """Add a text; answers its node."""
    more: dict[str, Any] = {"parent": parent} if parent else {}
    more |= {"metadata": metadata} if metadata else {}
    return str(done(hub, "node_create_text", tree_id=tree, content=text, **more)["node_id"])


@pytest.fixture
def tree(hub: Hub) -> str:
    return str(done(hub, "tree_create", metadata={"name": "Talk"})["tree_id"])


@pytest.fixture
def talk(hub: Hub, tree: str) -> dict[str, str]:
    """Root, a question, two answers to it, and an external node after the second."""
    root = done(hub, "tree_get_skeleton", tree_id=tree)["skeleton"]["root"]
    question = add_text(hub, tree, "Why?", role="user")
    one, two = add_text(hub, tree, "Because.", question, role="assistant"), add_text(hub, tree, "Why not?", question)
    handle = {"source": "cone", "source_version": "1.0.0", "identifier": "42"}
    found = done(hub, "node_create_external", tree_id=tree, parent=two, handle=handle)
    return {"root": root, "question": question, "one": one, "two": two, "external": found["node_id"]}


def test_all_methods_are_tools_with_schemas_titles_and_hints(hub: Hub) -> None:
    """SUB-7, SUB-43 (S-F6, S-F8): 19 methods; each schema is an object; reading ones say that they only read."""
    tools = {tool["name"]: tool for tool in hub.legacy("arbor", "tools/list").result["tools"]}
    assert set(tools) == READING | WRITING and len(tools) == 19
    for name, tool in tools.items():
        assert tool["inputSchema"]["type"] == "object", name
        assert tool["title"] and tool["description"], name
        assert tool["annotations"]["readOnlyHint"] is (name in READING), name
        assert tool["annotations"]["openWorldHint"] is False, name
        assert ("outputSchema" in tool) is (name != "tree_render"), name
    order = list(tools["node_create_text"]["inputSchema"]["properties"])
    assert order == ["tree_id", "parent", "content", "metadata"]


def test_ids_are_uuids_and_a_new_tree_has_an_empty_root(hub: Hub, tree: str) -> None:
    """SUB-43 (S-F6)."""
    assert str(UUID(tree)) == tree
    got = done(hub, "tree_get", tree_id=tree)["tree"]
    assert got["state"] == "active" and got["refs"] == {"ref_count": 1, "owners": {"system": 1}}
    assert got["metadata"] == {"name": "Talk"} and got["head"] == got["root"]
    (root,) = got["nodes"].values()
    assert (root["id"], root["parent"], root["data"]) == (got["root"], None, {"type": "text", "content": ""})


def test_nodes_know_their_parent_children_and_path(hub: Hub, tree: str, talk: dict[str, str]) -> None:
    node = done(hub, "node_get", tree_id=tree, node_id=talk["question"])["node"]
    assert node["data"] == {"type": "text", "content": "Why?"} and node["metadata"] == {"role": "user"}
    assert node["parent"] == talk["root"] and node["children"] == [talk["one"], talk["two"]]
    at = {"tree_id": tree, "node_id": talk["external"]}
    path = [talk["root"], talk["question"], talk["two"], talk["external"]]
    assert done(hub, "node_get_path", **at)["path"] == path
    assert done(hub, "node_get_parent", **at)["parent"] == talk["two"]
    assert done(hub, "node_get_parent", tree_id=tree, node_id=talk["root"])["parent"] is None
    assert done(hub, "node_get_children", tree_id=tree, node_id=talk["question"])["children"] == node["children"]
    assert [one["id"] for one in done(hub, "context_get_path", **at)["nodes"]] == path
    assert [one["identifier"] for one in done(hub, "context_get_handles", **at)["handles"]] == ["42"]
    assert done(hub, "context_list_leaves", tree_id=tree)["leaves"] == [talk["one"], talk["external"]]


def test_a_skeleton_has_the_shape_without_the_words(hub: Hub, tree: str, talk: dict[str, str]) -> None:
    skeleton = done(hub, "tree_get_skeleton", tree_id=tree)["skeleton"]
    kinds = {node: one["node_type"] for node, one in skeleton["nodes"].items()}
    assert kinds == {node: "external" if name == "external" else "text" for name, node in talk.items()}
    assert skeleton["head"] == talk["external"] and "Why?" not in orjson.dumps(skeleton).decode()


def test_a_drawing_indents_branches_only(hub: Hub, tree: str, talk: dict[str, str]) -> None:
    assert hub.call("arbor", "tree_render", {"tree_id": tree}).text.split("\n") == [
        "(empty)",
        "user: Why?",
        "├── assistant: Because.",
        "└── Why not?",
        "    [cone:42]",
    ]


def test_who_claims_and_releases_decides_whether_a_tree_stays(hub: Hub, tree: str) -> None:
    """SUB-43 (S-F6): reference counts by owner, and the states active, scheduled_delete and archived."""
    assert done(hub, "tree_claim", tree_id=tree, owner_id="me", count=2)["new_count"] == 3
    assert "me cannot release 3 references: it holds 2" in refused(
        hub, "tree_release", tree_id=tree, owner_id="me", count=3
    )
    assert done(hub, "tree_release", tree_id=tree, owner_id="me", count=2)["new_count"] == 1
    left = done(hub, "tree_release", tree_id=tree, owner_id="system")
    assert (left["new_count"], left["state"]) == (0, "scheduled_delete")
    assert tree in done(hub, "tree_list_scheduled")["tree_ids"] and tree not in done(hub, "tree_list")["tree_ids"]
    assert "tree_claim makes it active again" in refused(hub, "node_create_text", tree_id=tree, content="late")
    assert done(hub, "tree_claim", tree_id=tree, owner_id="you")["state"] == "active"
    assert tree in done(hub, "tree_list")["tree_ids"]


def test_after_a_week_a_tree_can_be_read_and_no_longer_changed(hub: Hub, tree: str, talk: dict[str, str]) -> None:
    done(hub, "tree_release", tree_id=tree, owner_id="system")
    state = hub.catalogue.hub.state("arbor")
    record = state[f"tree/{tree}"]
    state[f"tree/{tree}"] = {**record, "released_at": record["released_at"] - WEEK}
    assert tree in done(hub, "tree_list_archived")["tree_ids"]
    assert tree not in done(hub, "tree_list_scheduled")["tree_ids"]
    got = done(hub, "tree_get", tree_id=tree)["tree"]
    assert (got["state"], len(got["nodes"])) == ("archived", 5)
    assert got["archived_at"] == got["scheduled_deletion_at"] + WEEK
    changes: dict[str, dict[str, Any]] = {
        "tree_claim": {"owner_id": "me"},
        "node_create_text": {"content": "late"},
        "tree_update_metadata": {"metadata": {}},
    }
    for tool, more in changes.items():
        assert "is archived: it can be read" in refused(hub, tool, tree_id=tree, **more)


def test_a_missing_program_is_an_error_with_the_next_step(hub: Hub, tree: str) -> None:
    assert "tree_list says which there are" in refused(hub, "tree_get", tree_id=NOWHERE)
    assert "tree_get_skeleton says which there are" in refused(hub, "node_get", tree_id=tree, node_id=NOWHERE)
    assert "there is no node" in refused(hub, "node_create_text", tree_id=tree, parent=NOWHERE, content="x")
    assert "there is no node" in refused(hub, "node_get_path", tree_id=tree, node_id=NOWHERE)
    assert "tree_id" in refused(hub, "tree_get", tree_id="main")
    assert "count" in refused(hub, "tree_claim", tree_id=tree, owner_id="me", count=0)
    assert "handle" in refused(hub, "node_create_external", tree_id=tree, handle={})


def test_calls_at_once_lose_nothing(hub: Hub, tree: str) -> None:
    """Two calls that change one tree at the same moment: both changes are there afterwards."""
    with ThreadPoolExecutor(8) as pool:
        claims = [pool.submit(done, hub, "tree_claim", tree_id=tree, owner_id=f"o{n % 3}") for n in range(24)]
        nodes = [pool.submit(add_text, hub, tree, str(n)) for n in range(24)]
        counts = sorted(claim.result()["new_count"] for claim in claims)
        made = {node.result() for node in nodes}
    assert counts == list(range(2, 26))
    got = done(hub, "tree_get_skeleton", tree_id=tree)["skeleton"]
    assert got["refs"]["owners"] == {"system": 1, "o0": 8, "o1": 8, "o2": 8}
    assert set(got["nodes"][got["root"]]["children"]) == made and len(made) == 24


def test_a_tree_of_ten_thousand_nodes_is_read_and_drawn(hub: Hub) -> None:
    tree = str(done(hub, "tree_create")["tree_id"])
    root = done(hub, "tree_get_skeleton", tree_id=tree)["skeleton"]["root"]
    state, nodes, names = hub.catalogue.hub.state("arbor"), [root], dict[str, Any]()
    for number in range(10_000):
        node, parent = str(uuid4()), nodes[-1] if number % 2 else nodes[number // 4]
        data = {"type": "text", "content": f"text {number}"}
        names[f"node/{tree}/{node}"] = {"id": node, "parent": parent, "data": data, "created_at": 0, "metadata": None}
        names[f"child/{tree}/{parent}/{number:020d}.text.{node}"] = True
        nodes.append(node)
    assert state.swap(names, {})
    last = add_text(hub, tree, "the end", nodes[-1])
    # A call that takes longer than 250 ms is answered by a stream, which holds no result of this size; JSON does.
    message = {"name": "tree_get", "arguments": {"tree_id": tree}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": message}
    got = hub.send("arbor", call, {"Accept": "application/json", "MCP-Protocol-Version": "2025-11-25"})
    assert len(got.result["structuredContent"]["tree"]["nodes"]) == 10_002
    assert done(hub, "node_get_path", tree_id=tree, node_id=last)["path"][-2:] == [nodes[-1], last]
    assert "the end" in hub.call("arbor", "context_get_path", {"tree_id": tree, "node_id": last}).text
    drawn = hub.call("arbor", "tree_render", {"tree_id": tree}).result["content"]
    assert drawn[1]["type"] == "resource_link"  # larger than what a result carries itself
    read = hub.legacy("arbor", "resources/read", {"uri": f"arbor://tree/{tree}"}).result["contents"][0]
    assert len(orjson.loads(read["text"])["nodes"]) == 10_002


def test_a_conversation_with_a_branch_at_each_message_is_drawn_in_bounded_width(hub: Hub, tree: str) -> None:
    node = add_text(hub, tree, "start")
    for number in range(60):
        add_text(hub, tree, f"side {number}", node)
        node = add_text(hub, tree, f"main {number}", node)
    lines = hub.call("arbor", "tree_render", {"tree_id": tree}).text.split("\n")
    assert len(lines) == 122 and max(map(len, lines)) < 200


# Resources


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", MODERN])
def test_a_node_is_read_as_json_by_its_uri(hub: Hub, tree: str, talk: dict[str, str], version: str) -> None:
    """SUB-28 (S-F7)."""

    def read(rest: str) -> dict[str, Any]:
        uri = f"arbor://tree/{tree}{rest}"
        modern = version == MODERN
        ask = {"uri": uri}
        answer = (
            hub.modern("arbor", "resources/read", ask)
            if modern
            else hub.legacy("arbor", "resources/read", ask, version=version)
        )
        (content,) = answer.result["contents"]
        assert (content["uri"], content["mimeType"]) == (uri, "application/json")
        return dict(orjson.loads(content["text"]))

    assert read(f"/node/{talk['question']}")["data"]["content"] == "Why?"
    assert read("/node/root")["id"] == talk["root"]
    assert read("/head")["id"] == talk["external"]
    assert set(read("")["nodes"]) == set(talk.values())


def test_active_trees_and_their_heads_are_listed(hub: Hub, tree: str) -> None:
    """SUB-28 (S-F7): as they come and go, and a listener hears of it."""

    def listed() -> dict[str, Any]:
        page = hub.legacy("arbor", "resources/list").result
        found = {one["uri"]: one for one in page["resources"]}
        while "nextCursor" in page:
            page = hub.legacy("arbor", "resources/list", {"cursor": page["nextCursor"]}).result
            found |= {one["uri"]: one for one in page["resources"]}
        return found

    uri = f"arbor://tree/{tree}"
    until(lambda: {uri, f"{uri}/head"} <= listed().keys(), "the tree is listed")
    assert listed()[uri]["title"] == "Talk" and listed()[uri]["mimeType"] == "application/json"
    done(hub, "tree_release", tree_id=tree, owner_id="system")
    until(lambda: uri not in listed(), "the tree is listed no more")
    templates = {
        one["uriTemplate"] for one in hub.legacy("arbor", "resources/templates/list").result["resourceTemplates"]
    }
    assert templates == {"arbor://tree/{tree}", "arbor://tree/{tree}/head", "arbor://tree/{tree}/node/{node}"}
    everywhere = {one["uriTemplate"] for one in hub.modern("", "resources/templates/list").result["resourceTemplates"]}
    assert templates <= everywhere


def test_a_resource_that_is_not_there_has_the_code_of_its_revision(hub: Hub, tree: str) -> None:
    for rest in ("nowhere", "nowhere/head", f"{tree}/node/nowhere"):
        uri = f"arbor://tree/{rest}"
        old = hub.legacy("arbor", "resources/read", {"uri": uri}).error
        assert (old["code"], old["data"]["uri"]) == (-32002, uri)
        assert hub.modern("arbor", "resources/read", {"uri": uri}).error["code"] == -32602


def test_trees_and_nodes_are_suggested_while_a_uri_is_typed(hub: Hub, tree: str, talk: dict[str, str]) -> None:
    reference = {"type": "ref/resource", "uri": "arbor://tree/{tree}/node/{node}"}

    def suggested(name: str, value: str, **others: str) -> list[str]:
        params = {"ref": reference, "argument": {"name": name, "value": value}, "context": {"arguments": others}}
        values: list[str] = hub.legacy("arbor", "completion/complete", params).result["completion"]["values"]
        assert hub.modern("", "completion/complete", params).result["completion"]["values"] == values
        return values

    assert suggested("tree", tree[:9]) == [tree]
    assert suggested("node", "", tree=tree) == ["root", *talk.values()]
    assert suggested("node", talk["one"][:9].upper(), tree=tree) == [talk["one"]]
    assert suggested("node", "", tree=NOWHERE) == []


# Who hears of changes


def messages(stream: Any) -> Iterator[dict[str, Any]]:
    for frame in stream:
        for line in frame.decode().split("\n"):
            if line.startswith("data: ") and line[6:]:
                yield orjson.loads(line[6:])


def test_a_subscriber_of_a_session_hears_of_new_nodes(hub: Hub, tree: str) -> None:
    """SUB-29: resources/subscribe, the GET stream, notifications/resources/updated."""
    session, uri = hub.open("arbor"), f"arbor://tree/{tree}/head"
    hub.legacy("arbor", "resources/subscribe", {"uri": uri}, session=session)
    headers = {"Accept": "text/event-stream", "Mcp-Session-Id": session, "Host": "localhost"}
    response = hub.client.get("/mcp/arbor", headers=headers, buffered=False)
    frames = iter(response.response)
    next(frames)
    add_text(hub, tree, "news")
    told = next(one for one in messages(frames) if one["method"] == "notifications/resources/updated")
    assert told["params"] == {"uri": uri}
    response.close()


def test_a_modern_listener_hears_of_nodes_claims_and_new_trees(hub: Hub, tree: str, talk: dict[str, str]) -> None:
    """SUB-29: subscriptions/listen of 2026-07-28."""
    uri, node = f"arbor://tree/{tree}", f"arbor://tree/{tree}/node/{talk['two']}"
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": [uri, node]}
    stream = hub.stream("arbor", *modern_request("subscriptions/listen", {"notifications": wanted}))
    told = messages(stream)
    assert next(told)["method"] == "notifications/subscriptions/acknowledged"
    add_text(hub, tree, "news", talk["two"])
    updated = (one["params"]["uri"] for one in told if one["method"] == "notifications/resources/updated")
    assert [next(updated), next(updated)] == [node, uri]
    done(hub, "tree_claim", tree_id=tree, owner_id="me")
    assert next(updated) == uri
    new, listed = done(hub, "tree_create")["tree_id"], ""
    while new not in listed:  # changes from before may be told first
        assert next(told)["method"] == "notifications/resources/list_changed"
        listed = hub.legacy("arbor", "resources/list").body.decode()
    stream.close()


def test_trees_outlive_the_hub(tmp_path: Path) -> None:
    """SUB-43: they are kept in the store; the read-only image shows them and changes nothing."""
    first = Hub(tmp_path, store="sqlite")
    tree = str(done(first, "tree_create", metadata={"name": "Kept"})["tree_id"])
    node = add_text(first, tree, "still here")
    first.close()
    second = Hub(tmp_path, store="sqlite", boot="readonly")
    try:
        assert {tool["name"] for tool in second.legacy("arbor", "tools/list").result["tools"]} == READING
        read = second.legacy("arbor", "resources/read", {"uri": f"arbor://tree/{tree}/node/{node}"}).result
        assert "still here" in read["contents"][0]["text"]
        listed = [one["title"] for one in second.legacy("arbor", "resources/list").result["resources"]]
        assert listed == ["Kept", "Kept: head"]
    finally:
        second.close()

"""Every shipped tool is called by position over the native interface: params bind in the function's order."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.hubs import Hub
from tests.protocol.native.natives import items

Params = list[Any]

DOCUMENT = ["spec", "a.md", "Rooms", "Rooms have doors.", None, "hub", "About rooms", "Ada", ["doors"]]

CALLS: dict[str, tuple[Params, str]] = {
    "arbor.tree_create": ([{"topic": "tea"}, "ada"], '"type": "tree_created"'),
    "arbor.tree_claim": (["TREE", "ben", 2], '"new_count": 3'),
    "arbor.node_create_text": (["TREE", None, "first", {"by": "ada"}], '"type": "node_created"'),
    "arbor.node_create_external": (["TREE", None, {"kind": "note"}, {"by": "ada"}], '"type": "node_created"'),
    "arbor.node_get": (["TREE", "NODE"], '"id": "'),
    "arbor.node_get_children": (["TREE", "NODE"], '"children"'),
    "arbor.node_get_parent": (["TREE", "NODE"], '"parent"'),
    "arbor.node_get_path": (["TREE", "NODE"], '"path"'),
    "arbor.context_get_handles": (["TREE", "NODE"], '"handles"'),
    "arbor.context_get_path": (["TREE", "NODE"], '"nodes"'),
    "arbor.context_list_leaves": (["TREE"], '"leaves"'),
    "arbor.tree_get": (["TREE"], '"topic": "tea"'),
    "arbor.tree_get_skeleton": (["TREE"], '"nodes"'),
    "arbor.tree_list": ([], "TREE"),
    "arbor.tree_list_archived": ([], '"tree_ids": []'),
    "arbor.tree_list_scheduled": ([], '"tree_ids": []'),
    "arbor.tree_render": (["TREE"], "first"),
    "arbor.tree_update_metadata": (["TREE", {"topic": "milk"}], '"type": "tree_updated"'),
    "arbor.tree_release": (["TREE", "ben", 2], '"new_count": 1'),
    "bash.execute": (["echo out"], "out"),
    "claudecode.chat": (["ada", "hello", 2, True], "no session 'ada'"),
    "claudecode.chat_async": (["ada", "hello", 2, True], "no session 'ada'"),
    "claudecode.create": (["ada", "no/folder", "opus", "Be short.", False], "working_dir: expected the absolute path"),
    "claudecode.delete": (["ada"], "no session 'ada'"),
    "claudecode.fork": (["ada", "ben"], "no session 'ada'"),
    "claudecode.get": (["ada", 3], "no session 'ada'"),
    "claudecode.list": ([], '"sessions": []'),
    "claudecode.poll": (["a-stream", 2, 10], "a-stream"),
    "claudecode.streams": (["ada"], '"streams": []'),
    "cone.chat": (["ada", "hello", True], "ada"),
    "cone.create": (["ada", "a-model", "Be short.", {"by": "ben"}], '"name": "ada"'),
    "cone.set_head": (["ada", "NODE"], "NODE"),
    "cone.get": (["ada"], "ada"),
    "cone.list": ([], '"name": "ada"'),
    "cone.registry": ([], "registry"),
    "cone.delete": (["ada"], "ada"),
    "date.date": (["+%Y"], "20"),
    "echo.echo": (["hello"], "hello"),
    "everything.json_schema_2020_12_tool": (["Ada", {"city": "Bern"}, "email", "1", "a@b.org"], "Ada can be reached"),
    "everything.test_x_mcp_header": (["Bern"], "Bern"),
    "everything.test_sampling": (["hello"], "call this tool over MCP"),
    "everything.test_elicitation": (["hello"], "call this tool over MCP"),
    "everything.greet": (["Ada"], "Hello, Ada!"),
    "everything.slow_compute": ([0, "This"], "This took"),
    "everything.confirm_delete": (["a.txt"], "call this tool over MCP"),
    "health.check": ([], "healthy"),
    "health.schema": ([], "schema"),
    "jane.create_document": (DOCUMENT, '"path": "a.md"'),
    "jane.get_spec": (["hub", "a.md"], "Rooms have doors."),
    "jane.get_stdlib": (["python", "a.md"], "python"),
    "jane.list_specs": (["hub"], "a.md"),
    "jane.list_stdlibs": (["python"], "documents"),
    "jane.search": (["doors", "spec", None, "hub", True], "Rooms have doors."),
    "jane.update_document": (
        ["spec", "a.md", None, "hub", "Halls", None, None, ["doors"], "Halls have doors."],
        "a.md",
    ),
    "jq.query": ([".a", {"a": 41}], "41"),
    "jq.query_text": ([".a", '{"a": 41}'], "41"),
    "jq.keys": ([{"b": 1}], "b"),
    "jq.paths": ([{"b": 1}], '"b'),
    "jq.jq": ([".a", {"a": 41}], "41"),
    "markdown.convert": (["# Tea"], "<h1>Tea</h1>"),
    "markdown.markdown": (["# Tea"], "<h1>Tea</h1>"),
    "markdown.headings": (["# Tea"], "Tea"),
    "mcp.list_servers": ([], "arbor"),
    "mcp.describe_server": (["echo"], "echo"),
    "mcp.configuration": ([], "config"),
}
"""By method: positional params, and a part of the answer that shows that they came to the right parameters.

The rows stand in the order in which they are called; TREE is the first tree that was made, NODE the first node.
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    folder = tmp_path_factory.mktemp("shipped")
    hub = Hub(folder, enable=("everything", "bash", "claudecode"), jane_dir=str(folder / "library"))
    yield hub
    hub.close()


def test_every_shipped_tool_that_takes_something_is_called_by_position(hub: Hub) -> None:
    """X-18, SUB-C16: static schemas of the boot image have sorted properties; the function's order binds."""
    shipped = {f"{server.name}.{name}": tool for server in hub.catalogue.all() for name, tool in server.tools.items()}
    taking = {method for method, tool in shipped.items() if tool.wire["inputSchema"].get("properties")}
    assert taking - CALLS.keys() == set() and CALLS.keys() - shipped.keys() == set()
    made: dict[str, str] = {}
    wrong = {}
    for method, (params, expected) in CALLS.items():
        sent = [made.get(value, value) if isinstance(value, str) else value for value in params]
        said = items(hub, method, sent)
        shown = [{key: item[key] for key in ("data", "error", "guidance") if key in item} for item in said]
        answer = json.dumps(shown, ensure_ascii=False)
        if made.get(expected, expected) not in answer or said[0]["type"] == "guidance":
            wrong[method] = answer[:300]
        for word, key in (("TREE", "tree_id"), ("NODE", "node_id")):
            data = said[0].get("data")
            if word not in made and isinstance(data, dict) and key in data:
                made[word] = data[key]
    assert wrong == {}


def test_people_see_the_properties_in_the_order_of_the_function(hub: Hub) -> None:
    chat = hub.legacy("claudecode", "tools/list").result["tools"]
    schema = next(tool["inputSchema"] for tool in chat if tool["name"] == "chat")
    assert list(schema["properties"]) == ["session_name", "query", "max_turns", "ephemeral"]

"""A call of every tool that a released store lists, in an order in which each call finds what it needs.

A text `{name}` in arguments is a value that an earlier call of the same server kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Call:
    """A call of a tool. `keep` maps a name to the key of the structured result to keep under it.

    `fails` is a part of the message of a call that the definition itself lets fail.
    """

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    keep: Mapping[str, str] = field(default_factory=dict)
    fails: str = ""


JSON = {"a": [1, {"b": 2}]}
PLACE = {"type": "stdlib", "language": "python", "path": "lists/sort.md"}
TREE = {"tree_id": "{tree}"}
NODE = TREE | {"node_id": "{node}"}
HANDLE = {"type": "external", "source_id": "files", "source_version": "1", "identifier": "readme"}

CALLS: Mapping[str, tuple[Call, ...]] = {
    "arbor": (
        Call("tree_create", {"metadata": {"name": "one"}}, {"tree": "tree_id"}),
        Call("tree_claim", TREE | {"owner_id": "ada"}),
        Call("node_create_text", TREE | {"content": "hello"}, {"node": "node_id"}),
        Call("node_create_external", TREE | {"handle": HANDLE, "parent": "{node}"}),
        *(Call(f"node_get{what}", NODE) for what in ("", "_children", "_parent", "_path")),
        *(Call(f"context_get_{what}", NODE) for what in ("path", "handles")),
        Call("context_list_leaves", TREE),
        *(Call(f"tree_{what}", TREE) for what in ("get", "get_skeleton", "render")),
        Call("tree_update_metadata", TREE | {"metadata": {"name": "two"}}),
        *(Call(f"tree_list{what}") for what in ("", "_archived", "_scheduled")),
        Call("tree_release", TREE | {"owner_id": "ada"}),
    ),
    "bash": (Call("execute", {"command": "echo hello"}),),
    "claudecode": (
        Call("create", {"name": "one", "working_dir": "{folder}", "model": "sonnet"}),
        Call("chat", {"session_name": "one", "query": "hello"}),
        Call("chat_async", {"session_name": "one", "query": "hello"}, {"stream": "stream_id"}),
        Call("poll", {"stream_id": "{stream}"}),
        Call("streams"),
        Call("get", {"name": "one"}),
        Call("list"),
        Call("create", {"name": "two", "working_dir": "{folder}", "model": "sonnet"}),
        Call("fork", {"name": "two", "new_name": "three"}),
        Call("delete", {"name": "two"}),
    ),
    "cone": (
        Call("create", {"name": "ada", "model_id": "m"}, {"node": "head.node_id"}),
        Call("chat", {"identifier": "ada", "prompt": "hello"}),
        Call("set_head", {"identifier": "ada", "node_id": "{node}"}),
        Call("get", {"identifier": "ada"}),
        Call("list"),
        Call("registry"),
        Call("delete", {"identifier": "ada"}),
    ),
    "date": (Call("date", {"args": "+%Y"}),),
    "echo": (Call("echo", {"message": "hello"}),),
    "everything": (
        *(Call(f"test_{what}") for what in ("simple_text", "image_content", "audio_content", "embedded_resource")),
        *(Call(f"test_{what}") for what in ("multiple_content_types", "x_mcp_header", "tool_with_progress")),
        *(Call(f"test_{what}") for what in ("tool_with_logging", "logging_tool", "reconnection", "missing_capability")),
        Call("test_error_handling", fails="intentionally returns an error"),
        Call("json_schema_2020_12_tool", {"name": "Ada", "email": "ada@example.org"}),
        Call("test_sampling", {"prompt": "hello"}),
        Call("test_elicitation", {"message": "hello"}),
        *(Call(f"test_{what}") for what in ("elicitation_sep1034_defaults", "elicitation_sep1330_enums")),
        Call("test_streaming_elicitation"),
        *(Call(f"test_input_required_result_{what}") for what in ("elicitation", "sampling", "list_roots")),
        *(Call(f"test_input_required_result_{what}") for what in ("request_state", "multiple_inputs", "multi_round")),
        *(Call(f"test_input_required_result_{what}") for what in ("tampered_state", "capabilities")),
        Call("greet", {"name": "Ada"}),
        Call("slow_compute", {"seconds": 0, "label": "nothing"}),
        Call("failing_job", fails="This job intentionally fails"),
        Call("protocol_error_job", fails="This job intentionally ends in a protocol error"),
        Call("confirm_delete", {"filename": "a.txt"}),
        Call("multi_input"),
        Call("test_tool_with_task"),
        Call("test_trigger_tool_change"),
        Call("test_extra_tool"),
        Call("test_trigger_prompt_change"),
    ),
    "greeter": (Call("greet", {"name": "Ada"}),),
    "health": (Call("check"), Call("schema")),
    "hello": (Call("hello", {"name": "Ada"}), Call("add", {"a": 2, "b": 3})),
    "jane": (
        Call("create_document", PLACE | {"title": "Sort", "content": "# Sort\n\nSort a list in place.\n"}),
        Call("create_document", {"type": "spec", "project": "hub", "path": "a.md", "title": "A", "content": "Rooms."}),
        Call("search", {"query": "list place", "includeContent": True}),
        Call("search", {"query": "*"}),
        Call("get_stdlib", {"language": "python", "path": "lists/sort.md"}),
        Call("get_stdlib", {"language": "python", "path": "lists/sorted.md"}, fails="did you mean lists/sort.md?"),
        Call("get_spec", {"project": "hub", "path": "a.md"}),
        Call("list_stdlibs"),
        Call("list_stdlibs", {"language": "python"}),
        Call("list_specs", {"project": "hub"}),
        Call("update_document", PLACE | {"content": "Sort a list.", "tags": ["lists"]}),
        Call("move_document", PLACE | {"to": "sort.md"}),
        Call("document_history", PLACE | {"path": "sort.md"}),
        Call("delete_document", PLACE | {"path": "sort.md"}),
        Call("document_history", PLACE | {"path": "sort.md"}),
    ),
    "jq": (
        Call("query", {"filter": ".a", "input": JSON}),
        Call("jq", {"filter": ".a", "input": JSON}),
        Call("query_text", {"filter": ".a", "text": '{"a": 1}'}),
        Call("keys", {"input": JSON}),
        Call("paths", {"input": JSON}),
    ),
    "markdown": tuple(Call(tool, {"markdown": "# Hi"}) for tool in ("convert", "markdown", "headings")),
    "mcp": (Call("list_servers"), Call("describe_server", {"name": "jane"}), Call("configuration")),
}

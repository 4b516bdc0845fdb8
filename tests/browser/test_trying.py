"""Every tool of every reference server, called through its form, with real results. Where it asks, it is answered."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import REVISIONS, Tab

pytestmark = pytest.mark.browser

OWN = ("atelier", "hostile", "broken")
"""Servers that only these tests have."""

TOOLS: list[tuple[str, str, dict[str, Any], str]] = [
    ("echo", "echo", {"message": "Grüße <b>"}, "Grüße <b>"),
    ("date", "date", {"args": "+%Y"}, "20"),
    ("hello", "hello", {"name": "Ada"}, "Hello, Ada!"),
    ("hello", "add", {"a": 2, "b": 0.5}, "2.5"),
    ("markdown", "convert", {"markdown": "# A\n\n*b*"}, "<h1>A</h1>"),
    ("markdown", "markdown", {"markdown": "**x**"}, "<strong>x</strong>"),
    ("markdown", "headings", {"markdown": "# One\n\n## Two"}, "Two"),
    ("jq", "query", {"filter": ".a[]", "input": {"a": [7, 8]}}, "8"),
    ("jq", "query_text", {"filter": ".n", "text": '{"n":1}\n{"n":2}'}, "2"),
    ("jq", "keys", {"input": {"b": 1, "a": 2}}, "a"),
    ("jq", "paths", {"input": {"deep": [1]}}, "deep"),
    ("jq", "jq", {"filter": "length", "input": [1, 2, 3]}, "3"),
    ("mcp", "list_servers", {}, "everything"),
    ("mcp", "describe_server", {"name": "echo"}, "echo://last"),
    ("mcp", "configuration", {}, "config_cid"),
    ("health", "check", {}, "healthy"),
    ("health", "schema", {}, 'namespace: "health"'),
    ("bash", "execute", {"command": "echo $((6 * 7))"}, "42"),
    ("everything", "json_schema_2020_12_tool", {"name": "Ada", "email": "a@b.org"}, "Ada can be reached"),
    ("everything", "test_simple_text", {}, "simple text response"),
    ("everything", "test_x_mcp_header", {"region": "Zürich"}, "Routed to Zürich"),
    ("everything", "test_image_content", {}, "image/png"),
    ("everything", "test_audio_content", {}, "audio/wav"),
    ("everything", "test_embedded_resource", {}, "embedded resource content"),
    ("everything", "test_multiple_content_types", {}, "Multiple content types test:"),
    ("everything", "test_tool_with_progress", {}, "All steps are done."),
    ("everything", "test_tool_with_logging", {}, "Three lines were logged."),
    ("everything", "test_logging_tool", {}, "One line was logged."),
    ("everything", "greet", {"name": "Ada"}, "Hello, Ada!"),
    ("everything", "slow_compute", {"seconds": 0.1, "label": "It"}, "It took 0.1 seconds."),
    ("everything", "test_reconnection", {}, "while nobody listened"),
    ("everything", "test_trigger_tool_change", {}, "test_extra_tool is"),
    ("everything", "test_trigger_prompt_change", {}, "test_extra_prompt is"),
]

JANE: list[tuple[str, dict[str, Any], str]] = [
    (
        "create_document",
        {"type": "spec", "project": "town", "path": "a.md", "title": "Bells", "content": "# Ding"},
        "a.md",
    ),
    ("list_specs", {"project": "town"}, "a.md"),
    ("get_spec", {"project": "town", "path": "a.md"}, "Ding"),
    ("update_document", {"type": "spec", "project": "town", "path": "a.md", "content": "# Dong"}, "a.md"),
    ("search", {"query": "dong", "includeContent": "yes"}, "Dong"),
    (
        "create_document",
        {"type": "stdlib", "language": "lua", "path": "b.md", "title": "Loops", "content": "for"},
        "b.md",
    ),
    ("list_stdlibs", {}, "lua"),
    ("get_stdlib", {"language": "lua", "path": "b.md"}, "Loops"),
]

ARBOR = (
    *("tree_create", "node_create_text", "node_create_external", "tree_get", "tree_get_skeleton", "tree_render"),
    *("context_list_leaves", "node_get", "node_get_children", "node_get_parent", "node_get_path", "context_get_path"),
    *("context_get_handles", "tree_list", "tree_list_scheduled", "tree_list_archived", "tree_update_metadata"),
    *("tree_claim", "tree_release"),
)
CONE = ("registry", "create", "chat", "get", "set_head", "list", "delete")
CLAUDECODE = ("create", "chat", "fork", "chat_async", "poll", "list", "streams", "get", "delete")
AT_ONCE = ("test_input_required_result_multiple_inputs", "test_input_required_result_capabilities")
FAILING = ("test_error_handling", "failing_job", "protocol_error_job")

Replies = list[tuple[str, dict[str, Any]]]
SEND, MODEL, FOLDERS = "Send the answer", "Send the model's answer", "Send the folders"
NAME: tuple[str, dict[str, Any]] = (SEND, {"name": "Ada"})
CONFIRM: tuple[str, dict[str, Any]] = (SEND, {"ok": True})

ASKING: list[tuple[str, dict[str, Any], Replies, str]] = [
    ("test_sampling", {"prompt": "Say something."}, [(MODEL, {})], "LLM response:"),
    ("test_elicitation", {"message": "Who?"}, [(SEND, {"username": "Ada", "email": "a@b"})], '"username": "Ada"'),
    ("test_elicitation_sep1034_defaults", {}, [(SEND, {})], '"score": 95.5'),
    (
        "test_elicitation_sep1330_enums",
        {},
        [(SEND, {"untitledSingle": "option2", "titledSingle": "Second Option", "legacyEnum": "Option Three"})],
        '"titledSingle": "value2"',
    ),
    ("test_missing_capability", {}, [(MODEL, {})], ""),
    ("test_streaming_elicitation", {}, [CONFIRM], '"ok": true'),
    ("test_input_required_result_elicitation", {}, [NAME], "Hello, Ada!"),
    ("test_input_required_result_sampling", {}, [(MODEL, {})], ""),
    ("test_input_required_result_list_roots", {}, [(FOLDERS, {})], "Roots: file:///tmp"),
    ("test_input_required_result_request_state", {}, [CONFIRM], "state-ok"),
    ("test_input_required_result_tampered_state", {}, [CONFIRM], "Confirmed."),
    ("test_input_required_result_multi_round", {}, [NAME, (SEND, {"color": "red"})], "Ada likes red."),
]

TASKS: list[tuple[str, dict[str, Any], Replies, str]] = [
    ("confirm_delete", {"filename": "a.txt"}, [(SEND, {"confirm": True})], "a.txt was deleted"),
    ("multi_input", {}, [NAME, (SEND, {"place": "Paris"})], "Ada goes to Paris."),
    ("test_tool_with_task", {}, [NAME], "This was done in the background."),
]


def test_no_tool_of_a_reference_server_is_left_out(tab: Tab, base: str) -> None:
    """Each is called by one of the tests below."""
    called = {(server, tool) for server, tool, _, _ in TOOLS} | {("jane", tool) for tool, _, _ in JANE}
    called |= {("everything", each[0]) for each in (*ASKING, *TASKS)} | {
        ("everything", each) for each in (*AT_ONCE, *FAILING)
    }
    for server, tools in (("arbor", ARBOR), ("cone", CONE), ("claudecode", CLAUDECODE)):
        called |= {(server, name) for name in tools}
    offered = set()
    for server in tab.context.request.get(f"{base}/servers.json").json():
        if server["name"] not in OWN:
            page = tab.open(server["meta"])
            names = page.locator("#tools ~ details.item h3, section:has(#tools) details.item h3").all_text_contents()
            offered |= {(server["name"], name) for name in names}
    assert offered - called - {("everything", "test_extra_tool")} == set()
    assert len(offered) > 90


def test_the_tools_of_jane_keep_documents(tab: Tab) -> None:
    """They are made, listed, read, changed and found, each in a form that nothing was said in before."""
    for tool, arguments, shown in JANE:
        tab.open("/mcp")
        result = tab.item("jane", tool).call(**arguments)
        assert not result.get("isError"), (tool, result)
        assert shown in json.dumps(result), tool


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_tool_gives_its_real_result_through_its_form(tab: Tab, revision: str) -> None:
    """VWR-6, T14.1: in the era with sessions and in the one without."""
    for server, tool, arguments, shown in TOOLS:
        trial = tab.item(server, tool)
        trial.choose(revision)
        result = trial.call(**arguments)
        assert not result.get("isError"), (tool, result)
        assert shown in trial.shown(), (tool, trial.shown())


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(("tool", "arguments", "replies", "shown"), ASKING, ids=[each[0] for each in ASKING])
def test_every_question_is_asked_in_the_page(
    tab: Tab, revision: str, tool: str, arguments: dict[str, Any], replies: Replies, shown: str
) -> None:
    """On the open stream in the one era, by calling again with the answers in the other."""
    trial = tab.item("everything", tool)
    trial.choose(revision)
    trial.fill(**arguments)
    trial.start()
    for button, values in replies:
        trial.reply(button, **values)
    result = trial.ended()
    assert not result.get("isError"), result
    assert shown in trial.shown()


@pytest.mark.parametrize("revision", REVISIONS)
def test_several_questions_at_once_are_asked(tab: Tab, revision: str) -> None:
    """The user, the model and the folders."""
    for tool in AT_ONCE:
        trial = tab.item("everything", tool)
        trial.choose(revision)
        trial.start()
        for _ in range(3):
            asked = trial.question()
            button = next(each for each in (SEND, MODEL, FOLDERS) if asked.get_by_role("button", name=each).count())
            trial.reply(button, **({"name": "Ada"} if button == SEND else {}))
        assert not trial.ended().get("isError")


@pytest.mark.parametrize(("tool", "arguments", "replies", "shown"), TASKS, ids=[each[0] for each in TASKS])
def test_work_in_the_background_is_followed_to_its_end(
    tab: Tab, tool: str, arguments: dict[str, Any], replies: Replies, shown: str
) -> None:
    """The tasks extension of 2026-07-28."""
    trial = tab.item("everything", tool)
    trial.choose("2026-07-28")
    trial.fill(**arguments)
    trial.start()
    for button, values in replies:
        trial.reply(button, **values)
    trial.ended()
    assert shown in trial.shown()
    assert "task" in trial.ran.locator(".stream").inner_text()


def test_a_failure_is_shown_as_a_failure(tab: Tab) -> None:
    """A tool's own failure, one in the background, and an error of the protocol."""
    trial = tab.item("everything", "test_error_handling")
    assert trial.call("The tool reports an error")["isError"]
    assert "intentionally returns an error" in trial.shown()
    trial = tab.item("everything", "failing_job")
    trial.call("The tool reports an error")
    assert "This job intentionally fails" in trial.shown()
    trial = tab.item("everything", "protocol_error_job")
    trial.call("Failed")
    assert "intentionally ends in a protocol error" in trial.shown()
    trial.choose("2025-11-25")
    assert "intentionally ends" in trial.call("Failed")["message"]


def test_the_tools_of_arbor_work_together(tab: Tab) -> None:
    """A tree is made, grown, read in every way and let go, each step with what the one before answered."""

    def call(tool: str, **arguments: Any) -> Any:
        result = tab.item("arbor", tool).call(**arguments)
        assert not result.get("isError"), (tool, result)
        return result.get("structuredContent") or result["content"]

    tree = call("tree_create", metadata={"name": "oak"}, owner_id="ada")["tree_id"]
    node = call("node_create_text", tree_id=tree, content="An acorn.")["node_id"]
    call(
        "node_create_external",
        tree_id=tree,
        parent=node,
        handle={"source": "a", "source_version": "1", "identifier": "7"},
    )
    for tool in ("tree_get", "tree_get_skeleton", "tree_render", "context_list_leaves"):
        call(tool, tree_id=tree)
    for tool in (
        "node_get",
        "node_get_children",
        "node_get_parent",
        "node_get_path",
        "context_get_path",
        "context_get_handles",
    ):
        call(tool, tree_id=tree, node_id=node)
    for tool in ("tree_list", "tree_list_scheduled", "tree_list_archived"):
        call(tool)
    call("tree_update_metadata", tree_id=tree, metadata={"name": "elm"})
    call("tree_claim", tree_id=tree, owner_id="bob", count=2)
    call("tree_release", tree_id=tree, owner_id="bob", count=2)
    assert call("tree_get", tree_id=tree)["tree"]["metadata"] == {"name": "elm"}


def test_the_tools_of_cone_talk_to_a_model(tab: Tab) -> None:
    def call(tool: str, **arguments: Any) -> Any:
        result = tab.item("cone", tool).call(**arguments)
        assert not result.get("isError"), (tool, result)
        return result.get("structuredContent")

    call("registry")
    call("create", name="ada", model_id="small")
    call("chat", identifier="ada", prompt="whole answer")
    assert "all at once" in tab.item("cone", "chat").shown()
    head = call("get", identifier="ada")["cone"]["head"]
    call("set_head", identifier="ada", node_id=head["node_id"])
    call("list")
    call("delete", identifier="ada")


def test_the_tools_of_claudecode_talk_to_its_program(tab: Tab, workplace: Path) -> None:
    def call(tool: str, **arguments: Any) -> Any:
        result = tab.item("claudecode", tool).call(**arguments)
        assert not result.get("isError"), (tool, result)
        return result.get("structuredContent")

    call("create", name="one", working_dir=str(workplace), model="sonnet")
    call("chat", session_name="one", query="hello there")
    call("fork", name="one", new_name="two")
    stream = call("chat_async", session_name="two", query="hello again")["stream_id"]
    call("poll", stream_id=stream)
    for tool in ("list", "streams"):
        call(tool)
    call("get", name="one")
    call("delete", name="two")

"""Building a server: three sources of descriptors are merged, problems are reported and affect nothing else."""

from __future__ import annotations

import time
from typing import Any

import pytest

from patchbay.catalogue.building.entries import EntryContext
from patchbay.catalogue.building.transforms import Transforms
from patchbay.kinds.registry import handler_for

TOOLS = '''
def echo(message: str) -> str:
    """Discovered words."""
    return message

def shout(message: str) -> str:
    """Louder."""
    return message.upper()

def main(markdown: str = "") -> str:
    """The server itself."""
    return markdown

def _hidden() -> str:
    return "hidden"
'''


def test_configured_tools_are_listed(bench: Any) -> None:
    """T4.1, VWR-17"""
    bench.plug("echo", TOOLS, config={"tools": {"echo": {"description": "Static words"}}})
    server = bench.server("echo")
    assert list(server.tools) == ["echo"]
    assert server.tools["echo"].wire == {
        "name": "echo",
        "inputSchema": {
            "type": "object",
            "properties": {"message": {"type": "string"}},
            "required": ["message"],
            "additionalProperties": False,
        },
        "description": "Static words",
    }
    assert server.tools["echo"].source == "static"


def test_a_server_without_an_entry_is_discovered(bench: Any) -> None:
    """T4.2, V-C2, VWR-21"""
    bench.plug("talk", TOOLS)
    server = bench.server("talk")
    assert list(server.tools) == ["echo", "shout", "talk"]
    assert {one.source for one in server.tools.values()} == {"discovered"}


def test_a_server_with_an_entry_is_discovered_only_with_auto_discover(bench: Any) -> None:
    """T4.2, V-C2"""
    bench.plug("talk", TOOLS, config={"description": "quiet"})
    assert bench.server("talk").tools == {}
    bench.configure("talk", {"auto_discover": True})
    assert list(bench.server("talk").tools) == ["echo", "shout", "talk"]


def test_a_static_tool_inherits_omitted_fields_from_its_function(bench: Any) -> None:
    """V-C4, V-C6: annotations alone do not remove its schema"""
    hint = {"annotations": {"readOnlyHint": True}}
    other = {"function": "shout", "inputSchema": {"type": "object", "title": "mine"}}
    bench.plug("talk", TOOLS, config={"tools": {"shout": hint, "loud": other, "echo": {}}})
    plain = {name: one.wire for name, one in _built(bench, "plain", TOOLS).items()}
    found = bench.server("talk").tools
    assert list(found) == ["echo", "loud", "shout"]
    assert found["shout"].wire == {**plain["shout"], **hint}
    assert found["loud"].wire == {"name": "loud", "description": "Louder.", "inputSchema": other["inputSchema"]}
    assert found["echo"].wire == plain["echo"]


def test_a_static_tool_takes_the_schema_of_its_result_from_its_function(bench: Any) -> None:
    """V-C5"""
    source = "def count() -> dict[str, int]:\n    return {}\n"
    bench.plug("talk", source, config={"tools": {"count": {"description": "Counts"}}})
    plain = _built(bench, "plain", source)["count"].wire
    assert "outputSchema" in plain
    assert bench.server("talk").tools["count"].wire == {**plain, "description": "Counts"}


def test_a_shell_tool_with_annotations_alone_keeps_its_arguments(bench: Any) -> None:
    """V-C6"""
    bench.plug("date", "@bash_command date", "shell", config={"tools": {"date": {"title": "Date"}}})
    wire = bench.server("date").tools["date"].wire
    assert list(wire["inputSchema"]["properties"]) == ["args", "input"]
    assert wire["title"] == "Date"


def _built(bench: Any, name: str, source: str) -> Any:
    bench.plug(name, source)
    return bench.server(name).tools


def test_functions_without_a_listing_are_reported(bench: Any) -> None:
    """V-C2: a server without tools gives the reason"""
    bench.plug("talk", TOOLS, config={"title": "Quiet"})
    assert [one.reason for one in bench.server("talk").problems] == [
        "3 functions found and not listed: auto_discover is not true"
    ]
    bench.configure("talk", {"tools": {"echo": {}}})
    assert bench.server("talk").problems == ()


def test_a_transform_adds_tools(bench: Any) -> None:
    """T4.4, VWR-19, T10.5"""
    transform = (
        "def generate_tools(server_name, context):\n"
        "    return [{'name': server_name + '-1', 'description': 'made', 'function': 'shout'}]\n"
    )
    bench.plug("jq", TOOLS, config={"tools_transform_cid": bench.keep(transform)})
    server = bench.server("jq")
    assert server.problems == ()
    assert list(server.tools) == ["jq-1"]
    assert (server.tools["jq-1"].source, server.tools["jq-1"].target) == ("transform", {"function": "shout"})


def test_static_wins_over_transform_over_discovered(bench: Any) -> None:
    """V-C4, VWR-20"""
    transform = (
        "def generate_tools(server_name, context):\n"
        "    return [{'name': name, 'description': 'transform', 'function': 'echo'} for name in ('echo', 'shout')]\n"
    )
    config = {"auto_discover": True, "tools": {"echo": {"description": "static"}}}
    bench.plug("talk", TOOLS, config={**config, "tools_transform_cid": bench.keep(transform)})
    server = bench.server("talk")
    assert {name: one.source for name, one in server.tools.items()} == {
        "echo": "static",
        "shout": "transform",
        "talk": "discovered",
    }


@pytest.mark.parametrize(
    ("name", "entry", "config", "function"),
    [
        ("shout", {}, {}, "shout"),
        ("convert", {}, {}, "main"),
        ("convert", {}, {"function": "shout"}, "shout"),
        ("convert", {"function": "_hidden"}, {}, "_hidden"),
    ],
)
def test_a_static_tool_finds_its_function(bench: Any, name: str, entry: Any, config: Any, function: str) -> None:
    """V-C5, T8.3"""
    bench.plug("markdown", TOOLS, config={"tools": {name: entry}, **config})
    assert bench.server("markdown").tools[name].target == {"function": function}


def test_a_static_tool_without_its_function_is_a_problem_with_a_reason(bench: Any) -> None:
    """V-C5"""
    bench.plug("markdown", TOOLS, config={"tools": {"a": {"function": "gone"}, "echo": {}}})
    server = bench.server("markdown")
    assert list(server.tools) == ["echo"]
    assert "it has no function gone" in server.problems[0].reason
    assert server.problems[0].where == "tools.a"


def test_a_static_tool_streams_when_its_function_does(bench: Any) -> None:
    """VWR-32"""
    source = "from collections.abc import Iterator\n\ndef count() -> Iterator[str]:\n    yield '1'\n"
    bench.plug("talk", source, config={"tools": {"one": {"function": "count"}}})
    assert bench.server("talk").tools["one"].target == {"function": "count", "streams": True}


def test_a_shell_tool_has_its_argv_or_the_one_text_it_takes(bench: Any) -> None:
    """V-C6, T8.2"""
    named = {"type": "object", "properties": {"message": {"type": "string"}, "input": {"type": "string"}}}
    two = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "string"}}}
    tools = {
        "echo": {"description": "a"},
        "say": {"inputSchema": named},
        "both": {"inputSchema": two},
        "upper": {"argv": ["--upper", "{message}"], "timeout": 3},
    }
    bench.plug("echo", "@bash_command echo", "shell", config={"tools": tools})
    found = bench.server("echo").tools
    assert found["echo"].target == {"takes": "args"}
    assert found["say"].target == {"takes": "message"}
    assert found["both"].target == {"takes": None}
    assert found["upper"].target == {"argv": ["--upper", "{message}"], "timeout": 3}


def test_annotations_and_timeout_of_a_server_hold_for_its_tools(bench: Any) -> None:
    own = {"description": "a", "annotations": {"destructiveHint": True}}
    config = {"auto_discover": True, "annotations": {"readOnlyHint": True}, "timeout": 2, "tools": {"echo": own}}
    bench.plug("talk", TOOLS, config=config)
    server = bench.server("talk")
    assert server.timeout == 2
    assert server.tools["echo"].wire["annotations"] == {"destructiveHint": True}
    assert server.tools["shout"].wire["annotations"] == {"readOnlyHint": True}


def test_a_tool_without_annotations_gets_none(bench: Any) -> None:
    bench.plug("talk", TOOLS)
    assert "annotations" not in bench.server("talk").tools["echo"].wire


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("raise ValueError('no luck')", "generate_tools failed: ValueError: no luck"),
        ("return 'text'", "generate_tools failed: it must return a list of objects"),
        ("return [{'name': 'a b'}]", "entry 0"),
        ("return [{'name': 'a', 'function': 'gone'}]", "no function gone"),
        ("return [{'name': 'echo', 'inputSchema': {'type': 'string'}}]", 'expected "type": "object"'),
        ("return [5]", "expected an object"),
        ("return [{'name': 'a', 'colour': 1}]", "unknown field colour"),
    ],
)
def test_a_bad_transform_is_a_problem_and_affects_no_other_entry(bench: Any, body: str, expected: str) -> None:
    """T4.4: an entry on the page, not a broken list"""
    transform = bench.keep(f"def generate_tools(server_name, context):\n    {body}\n")
    bench.plug("talk", TOOLS, config={"auto_discover": True, "tools_transform_cid": transform})
    server = bench.server("talk")
    assert list(server.tools) == ["echo", "shout", "talk"]
    reasons = [problem.reason for problem in server.problems if problem.where == "generate_tools"]
    assert len(reasons) == 1
    assert expected in reasons[0]


def test_a_transform_that_hangs_is_given_up() -> None:
    """T4.4, T12.5: transforms have a deadline"""
    transforms = Transforms(EntryContext("talk", "python", "here"), handler_for, None, seconds=0.3)
    source = b"def generate_tools(server_name, context):\n    while True:\n        pass\n"
    assert transforms.run({"tools": source}) == []
    assert "generate_tools failed: timed out" in transforms.problems[0].reason


def test_transforms_add_resources_templates_and_prompts(bench: Any) -> None:
    """VWR-19, V-C9"""
    resources = (
        "def generate_resources(server_name, context):\n"
        "    return [{'uri': 'a://1', 'name': 'One', 'text': 'one'},\n"
        "            {'uriTemplate': 'a://{message}', 'name': 'Any', 'function': 'echo'},\n"
        "            {'uri': 'variable://mcps', 'name': 'Configuration'}, {'uri': 'a://2', 'name': 'Nowhere'}]\n"
    )
    prompts = (
        "def generate_prompts(server_name, context):\n"
        "    return [{'name': 'greet', 'messages': [{'content': 'Hello'}]}]\n"
    )
    config = {"resources_transform_cid": bench.keep(resources), "prompts_transform_cid": bench.keep(prompts)}
    bench.plug("talk", TOOLS, config=config)
    server = bench.server("talk")
    assert list(server.resources) == ["a://1", "variable://mcps"]
    assert list(server.templates) == ["a://{message}"]
    assert list(server.prompts) == ["greet"]
    assert "a://2 does not say where its content comes from" in server.problems[0].reason


def test_a_resource_contains_only_fields_for_clients(bench: Any) -> None:
    """T6.1, VWR-17"""
    resource = {"uri": "echo://last", "name": "Last Echo", "mimeType": "text/plain", "last_output_of": "echo"}
    bench.plug("echo", TOOLS, config={"tools": {"echo": {}}, "resources": {"last-echo": resource}})
    found = bench.server("echo").resources["echo://last"]
    assert found.wire == {"uri": "echo://last", "name": "Last Echo", "mimeType": "text/plain"}
    assert found.target == {"last_output_of": "echo"}


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"uri": "a://1", "blob": "not base64!"}, "expected base64"),
        ({"uri": "a://1", "cid": "nonsense"}, "expected a CID"),
        ({"uri": "a://1", "function": "gone"}, "no function gone"),
        ({"uri": "a://1", "last_output_of": "gone"}, "there is no tool of this name"),
    ],
)
def test_an_unreadable_resource_is_reported(bench: Any, entry: Any, expected: str) -> None:
    """V-C10"""
    bench.plug("talk", TOOLS, config={"resources": {"one": entry}})
    assert expected in bench.server("talk").problems[0].reason


def test_a_definition_that_cannot_be_read_breaks_its_own_server_alone(bench: Any) -> None:
    """T1.8, VWR-1"""
    bench.plug("bad", "def broken(:\n")
    bench.plug("good", TOOLS)
    assert "line 1" in (bench.server("bad").broken or "")
    assert bench.server("good").broken is None


def test_a_bad_configuration_breaks_its_own_server_alone(bench: Any) -> None:
    """T1.8"""
    bench.plug("bad", TOOLS, config={"tols": {}})
    bench.plug("good", TOOLS, config={"auto_discover": True})
    assert "unknown field tols" in (bench.server("bad").broken or "")
    assert bench.server("good").broken is None


@pytest.mark.parametrize("field", ["enabled", "mcp_enabled"])
def test_either_flag_disables_a_server(bench: Any, field: str) -> None:
    """V-C3, T5.6"""
    bench.plug("talk", TOOLS, config={field: False})
    assert not bench.server("talk").enabled


def test_a_server_without_code_lists_the_content_of_its_file(bench: Any) -> None:
    """Static descriptors."""
    config = {
        "kind": "static",
        "title": "Notes",
        "resources": {"a": {"uri": "note://a", "text": "A"}},
        "prompts": {"p": {"messages": [{"content": "hi"}]}},
        "tools": {"t": {}},
    }
    bench.plug("notes", bench.store.blobs.get(bench.keep(config)).decode(), "static")
    server = bench.server("notes")
    assert (server.title, list(server.resources), list(server.prompts)) == ("Notes", ["note://a"], ["p"])
    assert server.tools == {}
    assert "nothing to run" in server.problems[0].reason


def test_only_an_operator_mounts_servers(bench: Any) -> None:
    """X-16, JN-C19: a definition that came over HTTP starts no program, and sends no environment variable anywhere."""
    bench.plug("far", '{"kind": "upstream", "address": "mcp+stdio:cat"}', "static")
    assert "which needs the operator: save it as servers/" in (bench.server("far").broken or "")


def test_five_thousand_tools_are_built_in_seconds(bench: Any) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    tools = {f"tool-{number}": {"description": "d", "inputSchema": schema} for number in range(5000)}
    bench.plug("many", TOOLS, config={"tools": tools})
    begun = time.process_time()
    assert len(bench.server("many").tools) == 5000
    assert time.process_time() - begun < 5


def test_a_definition_in_no_known_coding_is_broken_alone(bench: Any) -> None:
    """T1.8: building never raises, whatever the file contains."""
    bench.plug("odd", "# -*- coding: foobar -*-\n" + TOOLS)
    bench.plug("echo", TOOLS)
    assert "coding line" in bench.server("odd").broken
    assert bench.server("echo").broken is None

"""Configurations and transforms in the form of the plan of the MCP server facility are served."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.hubs import MODERN, Hub
from tests.protocol.test_tools import listed
from tests.waiting import until

ECHO = {
    "description": "Echo server - returns input as output",
    "tools": {
        "echo": {
            "description": "Echo the provided input",
            "inputSchema": {
                "type": "object",
                "properties": {"message": {"type": "string", "description": "The message to echo"}},
                "required": ["message"],
            },
        }
    },
    "resources": {
        "last-echo": {
            "uri": "echo://last",
            "name": "Last Echo",
            "description": "The last echoed message",
            "mimeType": "text/plain",
        }
    },
    "prompts": {},
}
"""reference_templates/mcps/configs/echo.json of the plan, unchanged."""

TRANSFORM = '''
def generate_resources(server_name: str, context: dict) -> list:
    """One resource for each part of the context, and two that read a tool and a server by address."""
    texts = [("variables", sorted(context["variables"])), ("servers", sorted(context.get("servers")))]
    texts += [("mcps", [context["variables"]["mcps"][:1]]), ("nothing", context.get("secrets", ["none"]))]
    listed = [
        {"uri": f"parts://{name}", "name": name, "description": "A part", "mimeType": "text/plain", "text": str(text)}
        for name, text in texts
    ]
    return listed + [{"uri": uri, "name": uri} for uri in ("server://planned/planned?word=hi", "server://planned")]
'''

PLANNED = '''
def main(word: str, context=None) -> str:
    """Say a word."""
    return f"{word} {len(context['variables'])}"
'''


@pytest.fixture(scope="module", params=["inline", "process"])
def hub(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    config = {
        "auto_discover": True,
        "isolation": request.param,
        "annotations": {"readOnlyHint": True},
        "resources_transform_cid": "transforms/planned_resources.py",
    }
    files = {
        "parrot.sh": '#!/bin/sh\nprintf "%s" "$1"\n',
        "parrot.mcp.json": json.dumps(ECHO),
        "pair.py": "def one() -> str:\n    return '1'\n\ndef two() -> str:\n    return '2'\n",
        "pair.mcp.json": '{"auto_discover": true, "resources": {"last": {"uri": "pair://last"}}}',
        "words.sh": '#!/bin/sh\nprintf "<%s>" "$@"\n',
        "planned.py": PLANNED,
        "planned.mcp.json": json.dumps(config),
    }
    folder = tmp_path_factory.mktemp("plan")
    (folder / "servers" / "transforms").mkdir(parents=True)
    (folder / "servers" / "transforms" / "planned_resources.py").write_text(TRANSFORM)
    hub = Hub(folder, files)
    yield hub
    hub.close()


def read(hub: Hub, server: str, uri: str) -> str:
    return str(hub.modern(server, "resources/read", {"uri": uri}).result["contents"][0]["text"])


def test_a_resource_that_names_no_source_shows_the_last_output_of_the_only_tool(hub: Hub) -> None:
    """V-C10: the echo.json of the plan."""
    assert hub.call("parrot", "echo", {"message": "polly"}).text == "polly"
    assert read(hub, "parrot", "echo://last") == "polly"


def test_beside_several_tools_such_a_resource_is_a_problem_and_the_rest_is_served(hub: Hub) -> None:
    """V-C10, T1.8."""
    assert hub.call("pair", "one").text == "1"
    assert hub.modern("pair", "resources/list").result["resources"] == []
    (problem,) = hub.catalogue.find("pair").problems
    assert problem.where == "pair://last" and "does not say where its content comes from" in problem.reason


@pytest.mark.parametrize("name", ["args", "command_args"])
def test_a_shell_server_takes_its_arguments_under_both_names_of_the_plan(hub: Hub, name: str) -> None:
    """V-C6."""
    assert hub.call("words", "words", {name: "a 'b c'"}, MODERN).text == "<a><b c>"


def test_the_context_of_a_function_and_a_transform_holds_variables_and_servers(hub: Hub) -> None:
    """VWR-19."""
    assert "'mcps'" in read(hub, "planned", "parts://variables")
    assert "'echo'" in read(hub, "planned", "parts://servers") and "'planned'" in read(
        hub, "planned", "parts://servers"
    )
    assert read(hub, "planned", "parts://mcps") == "['{']"
    assert read(hub, "planned", "parts://nothing") == "['none']"
    assert hub.call("planned", "planned", {"word": "hi"}).text == "hi 1"


def test_the_context_holds_the_servers_that_are_enabled_now(tmp_path: Path) -> None:
    """VWR-15, VWR-16, VWR-19: the setting `enable` counts, and the configuration of a server; also for a transform."""
    files = {
        "asking.py": "def main(context) -> str:\n    return str(sorted(context['servers']))\n",
        "asking.mcp.json": '{"auto_discover": true, "resources_transform_cid": "t.py"}',
        "resting.sh": "#!/bin/sh\ntrue\n",
        "resting.mcp.json": '{"auto_discover": true, "enabled": false}',
        "closed.json": f'{{"kind": "documents", "root": "{tmp_path}", "mcp_enabled": false}}',
        "open.json": f'{{"kind": "documents", "root": "{tmp_path}"}}',
    }
    (tmp_path / "servers").mkdir()
    transform = TRANSFORM.replace("server://planned", "server://asking")
    (tmp_path / "servers" / "t.py").write_text(transform)
    own = Hub(tmp_path, files, enable=("bash",))
    for said in (own.call("asking", "asking").text, read(own, "asking", "parts://servers")):
        names = said[2:-2].split("', '")
        assert {"asking", "bash", "open", "echo"} <= set(names)
        assert not {"resting", "closed", "claudecode", "everything"} & set(names)
    own.close()


def test_a_listed_address_of_a_tool_or_server_reads_as_the_unlisted_one_does(hub: Hub) -> None:
    """V-C10, VWR-27."""
    listed = {one["uri"] for one in hub.modern("planned", "resources/list").result["resources"]}
    assert {"server://planned/planned?word=hi", "server://planned"} <= listed
    assert read(hub, "planned", "server://planned/planned?word=hi") == "hi 1"
    assert json.loads(read(hub, "planned", "server://planned"))["name"] == "planned"
    assert read(hub, "echo", "server://planned/planned?word=ho") == "ho 1"


def is_refused(hub: Hub, sentence: str) -> bool:
    return sentence in hub.catalogue.refused.get("far.mcp.json", "")


def test_a_transform_named_by_a_path_is_run_again_when_its_file_changes(hub: Hub, tmp_path: Path) -> None:
    """T4.4, T10.5: a path that leads out of the folder, or to no file, is refused with a sentence."""
    (tmp_path / "servers" / "t").mkdir(parents=True)
    transform = tmp_path / "servers" / "t" / "tools.py"
    named = "def generate_tools(server_name, context):\n    return [{'name': 'NAME', 'function': 'f'}]\n"
    transform.write_text(named.replace("NAME", "first"))
    (tmp_path / "servers" / "far.py").write_text("def f() -> str:\n    return 'f'\n")
    config = {"tools_transform_cid": "t/tools.py"}
    (tmp_path / "servers" / "far.mcp.json").write_text(json.dumps(config))
    own = Hub(tmp_path)
    assert own.call("far", "first").text == "f"
    transform.write_text(named.replace("NAME", "second"))
    until(lambda: "second" in listed(own, "far", MODERN), "the changed transform is run")
    assert own.call("far", "second").text == "f"
    for path, sentence in (("../app.py", "in the folder of the server"), ("t/none.py", "there is no file")):
        (tmp_path / "servers" / "far.mcp.json").write_text(json.dumps({"tools_transform_cid": path}))
        until(partial(is_refused, own, sentence), f"{path} is refused")
    own.close()

"""A script gets hostile values: as inputs, as results of a tool, and as words by which it looks for tools.

Each value is refused in words or handed on as it is; the hub goes on, and the next script runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from tests.hubs import MODERN, Answer, Hub
from tests.scripting.hubs import SCRIPTED, failure, script, scripted_hub, value
from tests.upstreams.changing import control, mount, served
from tests.waiting import until

HOSTILE = '''"""Gives hostile values."""

DEEP = []
for _ in range(300):
    DEEP = [DEEP]
VALUES = {
    "an integer of 13,000 bits": {"n": 10**4000},
    "no number": {"n": float("nan")},
    "infinity": {"n": float("inf")},
    "a lone surrogate": {"n": chr(0xD800), chr(0xDFFF): 1},
    "a deep list": {"n": DEEP},
    "names": {"__class__": 1, "": 2, "a.b": 3, chr(0): 4},
    "many objects": {"n": [{}] * 500_000},
}


def give(kind: str):
    """Give a value."""
    return VALUES[kind]
'''
AFTER = "import git\nawait git.close(number=1)"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {"hostile.py": HOSTILE, "hostile.mcp.json": SCRIPTED["git.mcp.json"]}
    folder = tmp_path_factory.mktemp("values")
    found = scripted_hub(folder, files, running_seconds=2.0, wall_seconds=20.0, memory_mib=16)
    yield found
    found.close()


def send(hub: Hub, tool: str, arguments: str) -> Answer:
    """Call a tool with arguments that are this JSON, also one that no library writes."""
    meta = {f"io.modelcontextprotocol/{key}": one for key, one in META.items()}
    body = (
        f'{{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {{"name": "{tool}", "arguments": {arguments}'
    )
    body += f', "_meta": {orjson.dumps(meta).decode()}}}}}'
    headers = {
        **{"Content-Type": "application/json", "Accept": "application/json, text/event-stream"},
        **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/call", "Mcp-Name": tool},
    }
    return Answer.of(hub.client.post("/mcp/git", data=body.encode(), headers=headers))


META = {"protocolVersion": MODERN, "clientInfo": {"name": "t", "version": "1"}, "clientCapabilities": {}}

REFUSED_INPUTS = {
    "keyword": '{"class": 1}',
    "attribute of objects": '{"__class__": 1}',
    "no name": '{"": 1}',
    "code": r'{"x = 1\nimport os": 1}',
    "compatibility form of a name": '{"\uff58": 1, "x": 2}',
    "many names": orjson.dumps({f"n{one}": one for one in range(20_000)}).decode(),
    "no object": "[1, 2]",
    "deep list": '{"x": ' + "[" * 5000 + "]" * 5000 + "}",
    "no number": '{"x": NaN}',
    "infinity": '{"x": 1e999}',
    "lone surrogate": r'{"x": "\ud800"}',
    "name twice": '{"x": 1, "x": 2}',
    "many objects": '{"x": [' + ",".join(["{}"] * 500_000) + "]}",
}


@pytest.mark.parametrize("inputs", REFUSED_INPUTS.values(), ids=REFUSED_INPUTS)
def test_inputs_that_no_script_can_use_are_refused(hub: Hub, inputs: str) -> None:
    answer = send(hub, "run_script", f'{{"code": "1 + 1", "inputs": {inputs}}}')
    last: Any = answer.last
    assert "error" in last or last["result"]["isError"], last
    assert value(script(hub, "git", AFTER)) == "closed 1"


def test_inputs_hide_names_of_python_from_their_script_alone(hub: Hub) -> None:
    given = {"print": 1, "len": 2, "asyncio": 3, "RuntimeError": 4}
    assert value(script(hub, "git", "print + len + asyncio + RuntimeError", given)) == 10
    assert value(script(hub, "git", "print(len([1]))\nisinstance(RuntimeError('x'), Exception)")) is True


def test_a_link_in_the_inputs_stays_a_text(hub: Hub) -> None:
    """No content of the hub becomes a value of a script by its identifier."""
    cid = hub.catalogue.store.blobs.put(b"what another one stored")
    for link in (f"cid://{cid}", f"CID://{cid}", f"cid://{cid}?key=x"):
        assert value(script(hub, "git", "link", {"link": link})) == link
        answer = script(hub, "git", "import git\nawait git.note(what=link)\nlink", {"link": link})
        assert value(answer) == link


@pytest.mark.parametrize(
    "kind", ["an integer of 13,000 bits", "no number", "infinity", "a lone surrogate", "a deep list"]
)
def test_a_result_that_json_cannot_say_is_a_failed_call(hub: Hub, kind: str) -> None:
    code = "import hostile\nawait hostile.give(kind=kind)"
    said = failure(script(hub, "hostile", code, {"kind": kind}))
    assert "has no JSON form" in said and "hostile.give (line 2, failed)" in said
    assert value(script(hub, "git", AFTER)) == "closed 1"


def test_names_in_a_result_reach_a_script_as_texts(hub: Hub) -> None:
    code = "import hostile\nfound = await hostile.give(kind='names')\n[found[one] for one in sorted(found)]"
    assert value(script(hub, "hostile", code)) == [2, 4, 1, 3]


def test_a_result_of_many_objects_ends_its_run_alone(hub: Hub) -> None:
    said = failure(script(hub, "hostile", "import hostile\nawait hostile.give(kind='many objects')"))
    assert "(limit memory_mib" in said and "1 call was made: hostile.give" in said
    assert value(script(hub, "git", AFTER)) == "closed 1"


QUERIES = {
    "long": "a" * 3_500_000,
    "many words": " ".join(f"w{one}" for one in range(300_000)),
    "expression": "(a+)+$.*[",
    "grammar of a search": '" OR 1=1 NEAR( * ^ git:log -',
    "line breaks": "log\n# import os\nasync def evil(): ...",
    "control characters": "\x00\x1b[2Jlog\u202e",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_hostile_query_finds_tools_or_none(hub: Hub, query: str) -> None:
    params = {"name": "find_tools", "arguments": {"query": query, "limit": 50}}
    answer = hub.modern("git", "tools/call", params)
    assert not answer.result["isError"] and "evil" not in answer.text and len(answer.text) < 5000


@pytest.mark.parametrize("limit", ["0", "-1", "51", "1e9", "1.5", "true", '"5"', "null"])
def test_a_search_has_a_limit_that_no_caller_raises(hub: Hub, limit: str) -> None:
    answer = send(hub, "find_tools", f'{{"query": "", "limit": {limit}}}')
    assert answer.last["result"]["isError"] and "limit" in answer.text


CHANGED = {"type": "object", "properties": {"text": {"type": "integer"}}, "required": ["text"]}
PLAIN = {"name": "act", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}


@pytest.mark.process
@pytest.mark.parametrize("changes", ["follow", "hold"])
def test_a_mounted_tool_whose_schema_changes_during_a_run_is_not_called(
    tmp_path_factory: pytest.TempPathFactory, changes: Any
) -> None:
    """Its arguments were checked with the types of before."""
    files = {"far.json": mount(changes, [PLAIN], listing={"scripts": "also"})}
    found = scripted_hub(tmp_path_factory.mktemp("far"), files, wall_seconds=60.0)
    until(lambda: "act" in served(found, "far"), "the mounted tool")
    code = "import asyncio\nimport far\nawait far.act(text='a')\nawait far.control(tools=tools)\n"
    code += "while True:\n    await far.act(text='b')\n    await asyncio.sleep(0.01)"
    said = failure(script(found, "far", code, {"tools": [PLAIN | {"inputSchema": CHANGED}]}))
    assert "RuntimeError: far.act" in said and "(limit" not in said
    assert "changed" in said or "no tool" in said or "there is no" in said, said
    control(found, "far", tools=[PLAIN])
    found.close()

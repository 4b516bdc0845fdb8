"""One command of the `bash` server in every delivery: the same lines, the same exit code, the same end.

Buffered and streamed MCP, the native interface over HTTP in its three forms, and natively over a pipe.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.checkout import ROOT
from tests.hubs import MODERN, Answer, Hub
from tests.wire.talks import NativeTalk, Talk

DEFINITIONS, CONFIGS = (ROOT / "reference_templates" / place for place in ("servers/definitions", "mcps/configs"))

COMMAND = "for n in 1 2 3; do echo line $n; done; printf 'no end'"
TEXT = "line 1\nline 2\nline 3\nno end"
LINES = ["line 1\n", "line 2\n", "line 3\n", "no end"]
BROKEN = "echo before; exit 3"
SORRY = "the command ended with exit code 3"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub where bash is enabled: it is dropped in, as an operator would."""
    files = {"bash.py": (DEFINITIONS / "bash.py").read_text(), "bash.mcp.json": (CONFIGS / "bash.json").read_text()}
    hub = Hub(tmp_path_factory.mktemp("same"), files)
    yield hub
    hub.close()


def buffered(hub: Hub, command: str) -> Any:
    return hub.call("bash", "execute", {"command": command}, MODERN).result


def streamed(hub: Hub, command: str) -> tuple[list[Any], Any]:
    """The progress messages of an MCP call, and its result."""
    params = {"name": "execute", "arguments": {"command": command}}
    answer = hub.modern("bash", "tools/call", params, meta={"progressToken": "t"})
    return answer.messages[:-1], answer.result


def over_http(hub: Hub, command: str, accept: str) -> list[Any]:
    """The native items of a call."""
    body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "bash.execute", "params": [command]})
    headers = {"Content-Type": "application/json", "Accept": accept, "Host": "localhost"}
    response = hub.client.post("/rpc", data=body, headers=headers)
    if accept == "application/json":
        return list(orjson.loads(response.get_data())["result"]["items"])
    if accept == "text/event-stream":
        messages = Answer.of(response).messages
    else:
        messages = [orjson.loads(line) for line in response.get_data().split(b"\n") if line]
    return [one["params"]["result"] for one in messages[1:]]


def over_a_pipe(hub: Hub, command: str) -> list[Any]:
    talk = NativeTalk(hub)
    try:
        return talk.items(talk.call("bash_execute", {"command": command}))
    finally:
        talk.close()


def natively(hub: Hub, command: str) -> dict[str, list[Any]]:
    forms = ("text/event-stream", "application/x-ndjson", "application/json")
    return {form: over_http(hub, command, form) for form in forms} | {"pipe": over_a_pipe(hub, command)}


def texts(result: Any) -> list[str]:
    return [block["text"] for block in result["content"]]


def test_one_command_says_the_same_however_it_is_delivered(hub: Hub) -> None:
    """SUB-1, SUB-4, SUB-22, SUB-24, SUB-44, SUB-7, SUB-C5, SUB-C6: MCP buffered and streamed, native HTTP, stdio."""
    assert texts(buffered(hub, COMMAND)) == [TEXT]
    told, result = streamed(hub, COMMAND)
    assert (result["content"], result["structuredContent"]) == (
        [{"type": "text", "text": TEXT}],
        {"type": "complete", "exit_code": 0},
    )
    assert "".join(one["params"]["message"] for one in told) == TEXT
    deliveries = natively(hub, COMMAND)
    first = deliveries["pipe"]
    assert [[{**item, "plexus_hash": ""} for item in items] for items in deliveries.values()] == [
        [{**item, "plexus_hash": ""} for item in first]
    ] * 4
    assert [item["type"] for item in first] == ["data"] * 6 + ["done"]
    assert "".join(item["text"] for item in first[:-1]) == TEXT
    assert [item["data"] for item in first[:-1]] == [
        {"type": "start"},
        *({"type": "stdout", "data": line} for line in LINES),
        {"type": "complete", "exit_code": 0},
    ]


def test_a_failing_command_keeps_its_output_and_its_exit_code(hub: Hub) -> None:
    """SUB-C5, SUB-C6, SUB-19: partial output, then the error."""
    for result in (buffered(hub, BROKEN), streamed(hub, BROKEN)[1]):
        assert (texts(result), result["isError"]) == (["before\n", SORRY], True)
    for items in natively(hub, BROKEN).values():
        *data, error, done = items
        assert [item["data"] for item in data] == [
            {"type": "start"},
            {"type": "stdout", "data": "before\n"},
            {"type": "complete", "exit_code": 3},
        ]
        assert "".join(item["text"] for item in data) == "before\n"
        assert (error["error"], error["recoverable"], done["type"]) == (SORRY, False, "done")


def test_streams_keep_their_names(hub: Hub) -> None:
    """SUB-44, SUB-C5: stdout and stderr."""
    for items in natively(hub, "echo out; echo err >&2").values():
        assert sorted((item["data"]["type"], item["data"]["data"]) for item in items[1:-2]) == [
            ("stderr", "err\n"),
            ("stdout", "out\n"),
        ]


def test_over_mcp_on_a_pipe_it_is_the_same_too(hub: Hub) -> None:
    """SUB-3, SUB-C15: buffered over stdio."""
    talk = Talk(hub, "bash")
    try:
        result = talk.modern("tools/call", {"name": "execute", "arguments": {"command": COMMAND}})["result"]
        assert texts(result) == [TEXT]
    finally:
        talk.close()


def test_the_first_line_is_there_before_the_command_ends(hub: Hub, tmp_path: Path) -> None:
    """SUB-5: nothing is held back natively."""
    gate = tmp_path / "gate"
    talk = NativeTalk(hub)
    try:
        id = talk.call("bash.execute", [f"echo first; until [ -e '{gate}' ]; do sleep 0.01; done; echo last"])
        talk.until(lambda one: "first" in str(one), "the first line")
        gate.touch()
        assert [item["data"].get("data") for item in talk.items(id)[1:-1]] == ["first\n", "last\n", None]
    finally:
        talk.close()

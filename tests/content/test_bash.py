"""The reference server `bash`: off unless enabled; the same output in every view; nothing left behind."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.checkout import ROOT
from tests.hubs import BOTH, MODERN, Answer, Hub, modern_request, sse_messages
from tests.waiting import until

DEFINITION = (ROOT / "reference_templates/servers/definitions/bash.py").read_text()


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub whose operator has put the definition into the servers folder; its configuration comes from the image."""
    hub = Hub(tmp_path_factory.mktemp("bash"), {"bash.py": DEFINITION})
    yield hub
    hub.close()


def run(hub: Hub, command: str, version: str = "2025-11-25") -> Answer:
    return hub.call("bash", "execute", {"command": command}, version)


def is_gone(pid: int) -> bool:
    """Whether there is no such process, or only its entry is left for its parent."""
    stat = Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def native(hub: Hub, command: str) -> list[dict[str, Any]]:
    """The items of a native call."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "bash.execute", "params": [command]}
    headers = {"Host": "localhost", "Accept": BOTH}
    answers = sse_messages(hub.client.post("/rpc", json=message, headers=headers).get_data())
    return [one["params"]["result"] for one in answers if "params" in one]


def test_it_is_off_until_an_operator_puts_it_into_the_servers_folder(tmp_path: Path) -> None:
    """SUB-7; X-16."""
    for boot in ("default", "readonly"):
        hub = Hub(tmp_path / boot, boot=boot)
        try:
            assert run(hub, "id").status == 404
            listed = hub.modern("", "tools/list").result["tools"]
            assert not [tool["name"] for tool in listed if tool["name"].startswith("bash.")]
        finally:
            hub.close()


def test_the_one_tool_says_that_it_is_dangerous(hub: Hub) -> None:
    """SUB-20 (S-F2, S-F8)."""
    (tool,) = hub.legacy("bash", "tools/list").result["tools"]
    assert (tool["name"], tool["inputSchema"]["required"]) == ("execute", ["command"])
    assert tool["annotations"] == {
        **{"readOnlyHint": False, "destructiveHint": True},
        **{"idempotentHint": False, "openWorldHint": True},
    }


@pytest.mark.parametrize("version", ["2024-11-05", "2025-06-18", "2025-11-25", MODERN])
def test_the_result_is_the_output_and_the_exit_code(hub: Hub, version: str) -> None:
    """SUB-20, SUB-C5."""
    result = run(hub, "echo one; echo two", version).result
    assert result["content"] == [{"type": "text", "text": "one\ntwo\n"}]
    assert result.get("structuredContent") == (
        None if version == "2024-11-05" else {"type": "complete", "exit_code": 0}
    )


def test_a_command_that_fails_is_an_error_with_its_output_and_exit_code(hub: Hub) -> None:
    """SUB-C5: another exit code than 0 is `isError`."""
    result = run(hub, "echo half; exit 3").result
    assert [item["text"] for item in result["content"]] == ["half\n", "the command ended with exit code 3"]
    assert result["isError"] is True
    one = run(hub, "echo none; exit 1").result
    assert one["isError"] is True
    assert [item["text"] for item in one["content"]] == ["none\n", "the command ended with exit code 1"]
    assert "exit code 127" in run(hub, "no-such-program").text
    assert "signal 9 (Killed), exit code 137" in run(hub, "kill -9 $$").text


def test_a_command_without_output_has_its_exit_code(hub: Hub) -> None:
    """SUB-23."""
    result = run(hub, "true").result
    assert (
        orjson.loads(result["content"][0]["text"])
        == result["structuredContent"]
        == {"type": "complete", "exit_code": 0}
    )


def test_the_native_view_says_each_line_with_its_stream_and_the_exit_code(hub: Hub) -> None:
    """SUB-44: `start`, `stdout{data}`, `stderr{data}`, then `complete{exit_code}`, as the document prints them."""
    items = native(hub, "echo out; sleep 0.1; echo err >&2; sleep 0.1; printf last; exit 2")
    data = [item["data"] for item in items if item["type"] == "data"]
    assert data == [
        {"type": "start"},
        {"type": "stdout", "data": "out\n"},
        {"type": "stderr", "data": "err\n"},
        {"type": "stdout", "data": "last"},
        {"type": "complete", "exit_code": 2},
    ]
    assert [item["type"] for item in items[-2:]] == ["error", "done"]


def test_all_views_of_one_command_have_the_same_content(hub: Hub) -> None:
    """SUB-C5, SUB-43: buffered, streamed and native."""
    command = "echo a; sleep 0.1; echo b >&2; sleep 0.1; printf c"
    buffered = run(hub, command).text
    params = {"name": "execute", "arguments": {"command": command}, "_meta": {"progressToken": "t"}}
    streamed = hub.legacy("bash", "tools/call", params)
    pieces = [one["params"]["message"] for one in streamed.messages[:-1]]
    assert pieces == ["a\n", "b\n", "c"] and streamed.text == buffered == "a\nb\nc"
    assert "".join(item["text"] for item in native(hub, command) if item["type"] == "data") == buffered


def test_both_streams_are_read_at_once_however_much_comes(hub: Hub) -> None:
    """S-F2: reading one stream to its end first would stop a command that fills the other."""
    text = run(hub, "for i in $(seq 3000); do echo $i; printf '%050d\\n' $i >&2; done; seq 9 | tail -1 >&2").result
    assert not text.get("isError") and text["structuredContent"]["exit_code"] == 0


def test_bytes_that_are_not_text_and_lines_without_an_end_come_through(hub: Hub) -> None:
    assert run(hub, "printf '\\xff\\xc3'; sleep 0.1; printf '\\xa4\\n'").text == "\ufffdä\n"
    first = native(hub, "head -c 200000 /dev/zero | tr '\\0' x")[1]
    assert len(first["data"]["data"]) > 60_000


@pytest.mark.parametrize(("command", "what"), [("yes", "100000 lines"), ("cat /dev/zero", "4194304 bytes")])
def test_output_without_end_is_stopped(hub: Hub, command: str, what: str) -> None:
    result = run(hub, command).result
    assert result["isError"] is True and f"it wrote more than {what}" in result["content"][-1]["text"]


def test_it_sees_no_secret_no_input_and_an_empty_folder(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-16."""
    monkeypatch.setenv("SECRET_OF_THE_HUB", "hunter2")
    assert "hunter2" not in run(hub, "env").text
    assert run(hub, "cat; ls -A; touch left-behind").text.startswith("{")
    assert run(hub, "ls -A | wc -l").text.strip() == "0"


def test_who_goes_away_stops_it_with_everything_it_started(hub: Hub) -> None:
    """SUB-5: in 2026-07-28 closing the stream is cancelling."""
    command = "sleep 300 & echo $!; (trap '' TERM; echo $BASHPID; sleep 300) & echo $$; wait"
    params = {"name": "execute", "arguments": {"command": command}}
    body, headers = modern_request("tools/call", params, meta={"progressToken": "t"})
    stream = hub.stream("bash", body, headers)
    found: list[int] = []
    while len(found) < 3:
        told = sse_messages(next(stream))
        found += [int(one["params"]["message"]) for one in told if "method" in one]
    assert not any(is_gone(pid) for pid in found)
    stream.close()
    until(lambda: all(is_gone(pid) for pid in found), "every process has ended")


def test_a_deadline_stops_it_and_keeps_its_output(tmp_path: Path) -> None:
    """SUB-5, X-15."""
    config = (ROOT / "reference_templates/mcps/configs/bash.json").read_text().replace('"timeout": 600', '"timeout": 1')
    hub = Hub(tmp_path, {"bash.py": DEFINITION, "bash.mcp.json": config})
    try:
        result = run(hub, "sleep 300 & echo $!; wait").result
        pid, why = [item["text"] for item in result["content"]]
        assert result["isError"] is True and "timed out" in why
        until(lambda: is_gone(int(pid)), "the process has ended")
    finally:
        hub.close()


def test_background_processes_end_with_the_command(hub: Hub) -> None:
    pid = int(run(hub, "sleep 300 >/dev/null 2>&1 & echo $!").text)
    until(lambda: is_gone(pid), "the process has ended")
    assert os.getpid() != pid

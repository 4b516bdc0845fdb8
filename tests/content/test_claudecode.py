"""Sessions over `claude`: a program that speaks its language stands in for it, on the PATH of the server."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.kinds.python.workers.fork_server_client import ALLOWED
from tests.checkout import ROOT
from tests.hubs import Answer, Hub
from tests.kinds.calls import alive
from tests.protocol.native.natives import items
from tests.waiting import until

REFERENCE = ROOT / "reference_templates"
DEFINITION = (REFERENCE / "servers/definitions/claudecode.py").read_text()
CONFIG: dict[str, Any] = json.loads((REFERENCE / "mcps/configs/claudecode.json").read_text())
PROGRAM = Path(__file__).with_name("claude_program.py")


class ClaudeHub:
    """A hub with claudecode plugged in, and the folder in which the stand-in keeps its notes."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.programs = folder / "bin"
        self.programs.mkdir()
        self.work = folder / "work"
        self.work.mkdir()
        path = f"{self.programs}:/usr/bin:/bin"
        config = CONFIG | {"environment": CONFIG["environment"] | {"PATH": path} | variables}
        files = {"claudecode.py": DEFINITION, "claudecode.mcp.json": json.dumps(config)}
        self.hub = Hub(folder / "hub", files)

    def install(self) -> None:
        """Put the stand-in where a program of its name is looked for."""
        program = self.programs / "claude"
        program.write_text(f"#!{sys.executable}\n{PROGRAM.read_text()}")
        program.chmod(0o755)

    def note(self, name: str) -> str:
        return (self.programs / name).read_text()

    def argv(self) -> list[str]:
        found: list[str] = json.loads(self.note("argv"))
        return found

    def call(self, tool: str, **arguments: Any) -> Answer:
        return self.hub.call("claudecode", tool, arguments)

    def value(self, tool: str, **arguments: Any) -> Any:
        result = self.call(tool, **arguments).result
        assert not result.get("isError"), result
        return result["structuredContent"]

    def create(self, name: str = "one", **more: Any) -> Any:
        return self.value("create", name=name, working_dir=str(self.work), model="sonnet", **more)

    def chat(self, query: str, name: str = "one", **more: Any) -> Answer:
        return self.call("chat", session_name=name, query=query, **more)


@pytest.fixture
def empty(tmp_path: Path) -> Iterator[ClaudeHub]:
    """Without the program."""
    claude = ClaudeHub(tmp_path, CLAUDE_LOOPBACK="http://127.0.0.1:1/mcp")
    yield claude
    claude.hub.close()


@pytest.fixture
def claude(empty: ClaudeHub) -> ClaudeHub:
    empty.install()
    return empty


def failed(answer: Answer) -> str:
    assert answer.result.get("isError"), answer.result
    return answer.text


def test_the_tools_are_those_of_the_activation(claude: ClaudeHub) -> None:
    """SUB-7, SUB-15, SUB-20"""
    tools = {tool["name"]: tool for tool in claude.hub.legacy("claudecode", "tools/list").result["tools"]}
    assert set(tools) == {"create", "chat", "get", "list", "delete", "fork", "chat_async", "poll", "streams"}
    schema = tools["chat"]["inputSchema"]
    assert (schema["type"], schema["required"]) == ("object", ["session_name", "query"])
    assert [one["type"] for one in schema["properties"]["max_turns"]["anyOf"]] == ["integer", "null"]


def test_it_is_shipped_and_off() -> None:
    """X-16: enabling it lets callers start programs."""
    image = json.loads((REFERENCE / "default.boot.source.json").read_text())
    (row,) = [row for row in image["servers"] if row["name"] == "claudecode"]
    assert row["enabled"] is False


def test_a_chat_answers_with_the_text_and_says_where_the_session_stands(claude: ClaudeHub) -> None:
    """SUB-22, SUB-20"""
    claude.create()
    answer = claude.chat("hello")
    assert answer.text == "you said hello "
    end = answer.result["structuredContent"]
    session = claude.value("get", name="one")
    assert end["type"] == "complete"
    assert end["usage"] == {"input_tokens": 3, "output_tokens": 5, "num_turns": 1}
    assert (end["new_head"], end["claude_session_id"]) == (
        session["session"]["head"],
        session["session"]["claude_session_id"],
    )
    assert [(turn["query"], turn["answer"]) for turn in session["turns"]] == [("hello", "you said hello ")]
    assert claude.note("folder") == str(claude.work)


def test_the_next_chat_goes_on_where_the_last_one_ended(claude: ClaudeHub) -> None:
    """SUB-7"""
    claude.create()
    claude.chat("first")
    claude.chat("second")
    assert claude.chat("history").text == "first | second "


def test_the_names_of_the_real_activation_are_taken_too(claude: ClaudeHub) -> None:
    """SUB-C14, SUB-20"""
    claude.create()
    assert claude.call("chat", name="one", prompt="hello").text == "you said hello "
    assert "session_name" in failed(claude.call("chat", prompt="hello"))


def test_an_ephemeral_chat_is_forgotten(claude: ClaudeHub) -> None:
    """SUB-C14"""
    claude.create()
    claude.chat("first")
    before = claude.value("get", name="one")
    assert claude.chat("history", ephemeral=True).text == "first "
    assert claude.value("get", name="one") == before
    assert claude.chat("history").text == "first "


def test_text_of_a_caller_is_never_an_option_or_a_shell_word(claude: ClaudeHub) -> None:
    """X-16: an argument vector, and the question on standard input."""
    claude.create(system_prompt="--dangerously-skip-permissions; rm -rf $HOME")
    assert claude.chat("--help $(touch pwned)", max_turns=3).text == "you said --help $(touch pwned) "
    assert claude.argv() == [
        "-p",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--model=sonnet",
        "--system-prompt=--dangerously-skip-permissions; rm -rf $HOME",
        "--max-turns=3",
    ]


def test_loopback_hands_claude_the_address_of_the_hub(claude: ClaudeHub) -> None:
    """SUB-7"""
    claude.create(loopback_enabled=True)
    claude.chat("hello")
    assert "--allowedTools=mcp__patchbay" in claude.argv()
    (given,) = [word.partition("=")[2] for word in claude.argv() if word.startswith("--mcp-config=")]
    assert json.loads(given) == {"mcpServers": {"patchbay": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}


def test_claude_sees_only_configured_variables_of_the_hub(claude: ClaudeHub) -> None:
    """V-F12: the environment is an allow-list."""
    claude.create()
    claude.chat("hello")
    names = {name for name in json.loads(claude.note("environment")) if not name.startswith("PATCHBAY_")}
    assert names <= {*ALLOWED, *CONFIG["environment"]}


def test_the_events_come_as_claude_says_them(claude: ClaudeHub) -> None:
    """SUB-24, SUB-2"""
    claude.create()
    params = {
        "name": "chat",
        "arguments": {"session_name": "one", "query": "think"},
        "_meta": {"progressToken": 7},
    }
    said = claude.hub.legacy("claudecode", "tools/call", params).messages
    texts = [one["params"]["message"] for one in said if one.get("method") == "notifications/progress"]
    assert texts == ["Using tool: Bash", "two ", "files "]
    assert said[-1]["result"]["content"] == [{"type": "text", "text": "two files "}]


@pytest.mark.parametrize(
    "params", [["one", "think"], {"session_name": "one", "query": "think"}, {"name": "one", "prompt": "think"}]
)
def test_the_native_view_has_every_event_by_its_name(claude: ClaudeHub, params: Any) -> None:
    """SUB-4, SUB-7, SUB-C14, SUB-C16"""
    claude.create()
    said = [item for item in items(claude.hub, "claudecode.chat", params) if item["type"] == "data"]
    assert {item["content_type"] for item in said} == {"claudecode.event"}
    kinds = [item["data"]["type"] for item in said]
    assert kinds == ["start", "passthrough", "thinking", "tool_use", "tool_result", "content", "content", "complete"]
    assert said[3]["data"] == {
        "type": "tool_use",
        "tool_name": "Bash",
        "tool_use_id": "t1",
        "input": {"command": "ls"},
    }
    assert "".join(item["text"] for item in said) == "two files "


def test_two_chats_at_once_of_one_session_do_not_mix(claude: ClaudeHub) -> None:
    """SUB-7: of calls at the same time, some are refused with an error; no answered turn is lost."""
    claude.create()
    answers: list[Answer] = []
    together = threading.Barrier(4)

    def talk(number: int) -> None:
        together.wait()
        answers.append(claude.chat(f"number {number}"))

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worked = [answer.text for answer in answers if not answer.result.get("isError")]
    assert worked
    turns = claude.value("get", name="one")["turns"]
    assert sorted(turn["answer"] for turn in turns) == sorted(worked)
    assert all("in the middle of a chat" in answer.text for answer in answers if answer.text not in worked)


def test_a_crash_keeps_the_messages_and_the_session(claude: ClaudeHub) -> None:
    """SUB-C6, SUB-19"""
    claude.create()
    claude.chat("first")
    before = claude.value("get", name="one")
    text = failed(claude.chat("crash"))
    assert text == "half an ansclaude ended with exit code 3 before it was done: out of luck"
    assert claude.value("get", name="one") == before
    assert claude.chat("history").text == "first "


def test_a_line_that_is_not_json_is_skipped(claude: ClaudeHub) -> None:
    """SUB-22"""
    claude.create()
    assert claude.chat("garbage").text == "fine all the same "


def test_an_error_of_claude_itself_is_an_error_and_can_be_gone_on_from(claude: ClaudeHub) -> None:
    """SUB-19"""
    claude.create()
    assert "not done claude ended with error_max_turns" in failed(claude.chat("limit"))
    assert claude.chat("history").text == "limit "


def test_a_refusal_leaves_the_session_as_it_was(claude: ClaudeHub) -> None:
    """SUB-19: the answer of a claude that is not logged in."""
    claude.create()
    claude.chat("first")
    before = claude.value("get", name="one")
    assert failed(claude.chat("login")).endswith("claude failed: Please log in")
    assert claude.value("get", name="one") == before


def test_a_cancelled_chat_ends_claude_and_all_it_started(claude: ClaudeHub) -> None:
    """SUB-5, SUB-32, X-15"""
    claude.create()
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "chat",
            "arguments": {"session_name": "one", "query": "hang"},
            "_meta": {"progressToken": 1},
        },
    }
    session = claude.hub.open("claudecode")
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    stream = claude.hub.stream("claudecode", message, headers)
    while b"still here" not in next(stream):
        pass
    assert "in the middle of a chat" in failed(claude.chat("hello"))
    assert "in the middle of a chat" in failed(claude.call("delete", name="one"))
    pids = [int(word) for word in claude.note("pids").split()]
    assert all(map(alive, pids))
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert claude.hub.send("claudecode", note, headers).status == 202
    for _ in stream:
        pass
    until(lambda: not any(map(alive, pids)), "claude and its child end")
    until(lambda: not claude.chat("hello").result.get("isError"), "the session is free again")


def test_a_program_that_stays_after_its_last_word_is_ended(claude: ClaudeHub) -> None:
    """X-15"""
    claude.create()
    assert claude.chat("stay").text == "said "


def test_a_fork_shares_the_past_and_nothing_after_it(claude: ClaudeHub) -> None:
    """SUB-7"""
    claude.create()
    claude.chat("shared")
    claude.value("fork", name="one", new_name="two")
    claude.chat("only one")
    claude.chat("only two", "two")
    assert claude.chat("history").text == "shared | only one "
    assert claude.chat("history", "two").text == "shared | only two "
    claude.value("delete", name="one")
    queries = [turn["query"] for turn in claude.value("get", name="two")["turns"]]
    assert queries == ["shared", "only two", "history"]


def test_sessions_are_listed_and_deleted(claude: ClaudeHub) -> None:
    """SUB-7"""
    claude.create("b")
    claude.create("a", system_prompt="Be brief.")
    assert [one["name"] for one in claude.value("list")["sessions"]] == ["a", "b"]
    assert claude.value("delete", name="a")["type"] == "session_deleted"
    assert "there is no session 'a'; there are: b" in failed(claude.call("get", name="a"))
    assert "there is a session 'b' already" in failed(
        claude.call("create", name="b", working_dir=str(claude.work), model="opus")
    )


@pytest.mark.parametrize("folder", ["relative", "/there/is/none", "/etc/passwd"])
def test_a_path_that_is_not_a_folder_is_refused(claude: ClaudeHub, folder: str) -> None:
    """X-16"""
    assert "working_dir" in failed(claude.call("create", name="x", working_dir=folder, model="opus"))


def test_working_folders_can_be_kept_inside_one(tmp_path: Path) -> None:
    """X-16"""
    claude = ClaudeHub(tmp_path, CLAUDE_ROOT=str(tmp_path / "work"))
    claude.create()
    assert "expected a folder in" in failed(claude.call("create", name="x", working_dir="/", model="opus"))
    claude.hub.close()


def test_without_the_program_a_chat_says_how_to_install_it(empty: ClaudeHub) -> None:
    """SUB-20"""
    empty.create()
    for tool in ("chat", "chat_async"):
        text = failed(empty.call(tool, session_name="one", query="hello"))
        assert "npm install -g @anthropic-ai/claude-code" in text


def polled(claude: ClaudeHub, stream: str) -> list[dict[str, Any]]:
    """All events of a background chat, three at a time, once it has ended."""
    until(lambda: claude.value("poll", stream_id=stream, limit=0)["status"] != "running", "the chat ends")
    events: list[dict[str, Any]] = []
    done = False
    while not done:
        page = claude.value("poll", stream_id=stream, from_seq=len(events), limit=3)
        events += page["events"]
        done = page["done"]
    return events


def test_a_background_chat_is_polled(claude: ClaudeHub) -> None:
    """SUB-5"""
    claude.create()
    stream = claude.value("chat_async", session_name="one", query="think")["stream_id"]
    events = polled(claude, stream)
    assert [event["seq"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds == ["start", "passthrough", "thinking", "tool_use", "tool_result", "content", "complete"]
    assert events[-2]["text"] == "two files "
    assert claude.chat("history").text == "think "
    assert [one["status"] for one in claude.value("streams", session_name="one")["streams"]] == ["complete"]


def test_a_failing_background_chat_is_an_error(claude: ClaudeHub) -> None:
    """SUB-19"""
    claude.create()
    stream = claude.value("chat_async", session_name="one", query="crash")["stream_id"]
    events = polled(claude, stream)
    assert [event["type"] for event in events] == ["start", "passthrough", "content", "error"]
    assert "out of luck" in events[-1]["message"]
    claude.value("delete", name="one")
    assert "there is no background chat" in failed(claude.call("poll", stream_id=stream))


def test_the_end_of_the_hub_ends_a_background_chat(tmp_path: Path) -> None:
    """SUB-5, X-15"""
    claude = ClaudeHub(tmp_path)
    claude.install()
    claude.create()
    stream = claude.value("chat_async", session_name="one", query="hang")["stream_id"]
    until(lambda: claude.value("poll", stream_id=stream)["events"][-1:] != [], "it says something")
    until(lambda: (claude.programs / "pids").is_file(), "it hangs")
    pids = [int(word) for word in claude.note("pids").split()]
    claude.hub.catalogue.close()
    until(lambda: not any(map(alive, pids)), "claude and its child end")
    claude.hub.catalogue.store.close()
    shutil.rmtree(claude.programs)

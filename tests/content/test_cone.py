"""Conversations with a model over arbor's trees: the model is a real HTTP endpoint of this machine."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from patchbay.cid import cid_of
from tests.checkout import ROOT
from tests.content.model_endpoint import KEY, Endpoint
from tests.hubs import Answer, Hub
from tests.protocol.native.natives import items
from tests.waiting import until

REFERENCE = ROOT / "reference_templates"
CONFIG: dict[str, Any] = json.loads((REFERENCE / "mcps/configs/cone.json").read_text())


def definition(name: str) -> str:
    return (REFERENCE / f"servers/definitions/{name}.py").read_text()


class ConeHub:
    """A hub with cone and arbor plugged in."""

    def __init__(self, folder: Path, **variables: str) -> None:
        transform = (REFERENCE / "mcps/transforms/cone_prompts.py").read_bytes()
        config = CONFIG | {"environment": CONFIG["environment"] | variables, "prompts_transform_cid": cid_of(transform)}
        files = {name: definition(name.removesuffix(".py")) for name in ("arbor.py", "cone.py")}
        self.hub = Hub(folder, files | {"cone.mcp.json": json.dumps(config)})

    def call(self, tool: str, **arguments: Any) -> Answer:
        return self.hub.call("cone", tool, arguments)

    def value(self, tool: str, **arguments: Any) -> Any:
        result = self.call(tool, **arguments).result
        assert not result.get("isError"), result
        return result["structuredContent"]

    def create(self, name: str = "ada", **more: Any) -> Any:
        return self.value("create", name=name, model_id="small", **more)

    def chat(self, prompt: str, name: str = "ada", **more: Any) -> Answer:
        return self.call("chat", identifier=name, prompt=prompt, **more)

    def tree(self, name: str = "ada") -> list[tuple[str, str]]:
        """What leads to a cone's head: role and text of each node."""
        head = self.value("get", identifier=name)["cone"]["head"]
        nodes = self.hub.call("arbor", "context_get_path", head).result["structuredContent"]["nodes"]
        return [((node["metadata"] or {}).get("role", ""), node["data"]["content"]) for node in nodes]

    def nodes(self, name: str = "ada") -> int:
        """How many nodes a cone's tree has in all."""
        head = self.value("get", identifier=name)["cone"]["head"]
        answer = self.hub.call("arbor", "tree_get", {"tree_id": head["tree_id"]})
        return len(answer.result["structuredContent"]["tree"]["nodes"])

    def prompts(self) -> dict[str, Any]:
        found = self.hub.legacy("cone", "prompts/list").result["prompts"]
        return {prompt["name"]: prompt for prompt in found}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def cone_hub(tmp_path: Path, endpoint: Endpoint) -> Iterator[ConeHub]:
    cone_hub = ConeHub(tmp_path, CONE_URL=f"{endpoint.url}/", CONE_KEY=KEY)
    yield cone_hub
    cone_hub.hub.close()


def failed(answer: Answer) -> str:
    assert answer.result.get("isError"), answer.result
    return answer.text


def test_the_tools_are_those_of_the_activation(cone_hub: ConeHub) -> None:
    """SUB-7, SUB-15"""
    tools = {tool["name"]: tool for tool in cone_hub.hub.legacy("cone", "tools/list").result["tools"]}
    assert set(tools) == {"create", "get", "list", "delete", "chat", "set_head", "registry"}
    assert tools["chat"]["inputSchema"]["required"] == ["identifier", "prompt"]
    assert all(tool["inputSchema"]["type"] == "object" for tool in tools.values())


def test_a_chat_streams_the_answer_and_keeps_it_in_the_tree(cone_hub: ConeHub, endpoint: Endpoint) -> None:
    """SUB-2, SUB-22"""
    cone_hub.create(system_prompt="Be brief.")
    answer = cone_hub.chat("hi")
    assert answer.text == "Hello, world"
    end = answer.result["structuredContent"]
    assert (end["type"], end["usage"], end["finish_reason"]) == ("chat_complete", {"total_tokens": 7}, "stop")
    assert end["new_head"] == cone_hub.value("get", identifier="ada")["cone"]["head"]
    assert cone_hub.tree() == [("", ""), ("user", "hi"), ("assistant", "Hello, world")]
    (asked,) = endpoint.asked
    assert (asked["model"], asked["stream"]) == ("small", True)
    assert asked["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}]


def test_the_pieces_come_as_progress(cone_hub: ConeHub) -> None:
    """SUB-24"""
    cone_hub.create()
    params = {"name": "chat", "arguments": {"identifier": "ada", "prompt": "hi"}, "_meta": {"progressToken": 7}}
    said = cone_hub.hub.legacy("cone", "tools/call", params).messages
    texts = [one["params"]["message"] for one in said if one.get("method") == "notifications/progress"]
    assert texts == ["Hello", ", ", "world"]


def test_the_native_view_has_every_event_by_its_name(cone_hub: ConeHub) -> None:
    """SUB-4, SUB-7"""
    cone_hub.create()
    said = [item for item in items(cone_hub.hub, "cone.chat", ["ada", "hi"]) if item["type"] == "data"]
    assert {item["content_type"] for item in said} == {"cone.event"}
    kinds = [item["data"]["type"] for item in said]
    assert kinds == ["chat_start", "chat_content", "chat_content", "chat_content", "chat_complete"]
    assert [item["data"]["content"] for item in said[1:4]] == ["Hello", ", ", "world"]
    (made, *_) = items(cone_hub.hub, "cone.create", {"name": "bob", "model_id": "small"})[-2:]
    assert made["data"]["type"] == "cone_created"


def test_two_chats_at_once_branch_and_neither_is_lost(cone_hub: ConeHub) -> None:
    """SUB-7"""
    cone_hub.create()
    threads = [threading.Thread(target=cone_hub.chat, args=(f"number {number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cone_hub.nodes() == 9
    path = cone_hub.tree()
    assert [role for role, _ in path][-2:] == ["user", "assistant"]


def test_the_model_gets_the_path_to_the_head(cone_hub: ConeHub) -> None:
    """SUB-7"""
    cone_hub.create()
    cone_hub.chat("one")
    assert cone_hub.chat("recall two").text == "oneHello, worldrecall two"


def test_set_head_goes_back_and_the_tree_branches(cone_hub: ConeHub) -> None:
    """SUB-7"""
    cone_hub.create()
    cone_hub.chat("one")
    place = cone_hub.value("get", identifier="ada")["cone"]["head"]["node_id"]
    cone_hub.chat("two")
    moved = cone_hub.value("set_head", identifier="ada", node_id=place)
    assert (moved["type"], moved["new_head"]["node_id"]) == ("head_updated", place)
    cone_hub.chat("three")
    assert [text for role, text in cone_hub.tree() if role == "user"] == ["one", "three"]
    assert cone_hub.nodes() == 7
    assert failed(cone_hub.call("set_head", identifier="ada", node_id="00000000-0000-4000-8000-000000000000"))


def test_an_ephemeral_chat_leaves_the_tree_as_it_was(cone_hub: ConeHub) -> None:
    """SUB-7"""
    cone_hub.create()
    assert cone_hub.chat("hi", ephemeral=True).text == "Hello, world"
    assert cone_hub.nodes() == 1


def test_an_endpoint_that_does_not_stream_is_understood(cone_hub: ConeHub) -> None:
    """SUB-3"""
    cone_hub.create()
    assert cone_hub.chat("whole").text == "all at once"


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("limit", "answered 429 Too Many Requests: no, limit (try again after 20 seconds)"),
        ("broken", "answered 500 Internal Server Error: no, broken"),
        ("moved", "answered 302 Found: no, moved"),
        ("cut", "broke off in the middle of its answer"),
        ("short", "broke off in the middle of its answer"),
        ("fault", "failed: the model fell over"),
        ("noise", "sent no JSON object in its stream: b'{not json'"),
    ],
)
def test_a_failing_endpoint_is_an_error_and_the_tree_stays(cone_hub: ConeHub, prompt: str, said: str) -> None:
    """SUB-19, SUB-C6"""
    cone_hub.create()
    assert said in failed(cone_hub.chat(prompt))
    assert cone_hub.nodes() == 1
    assert cone_hub.chat("hi").text == "Hello, world"


def test_a_wrong_key_is_an_error_that_does_not_show_it(tmp_path: Path, endpoint: Endpoint) -> None:
    """SUB-19, X-16"""
    cone_hub = ConeHub(tmp_path, CONE_URL=endpoint.url, CONE_KEY="sk-wrong-5678")
    cone_hub.create()
    text = failed(cone_hub.chat("hi"))
    assert "answered 401 Unauthorized: Incorrect API key provided: Bearer ***" in text
    assert "sk-wrong-5678" not in text
    cone_hub.hub.close()


def test_a_silent_endpoint_is_left_when_the_call_is_cancelled(cone_hub: ConeHub, endpoint: Endpoint) -> None:
    """SUB-5, SUB-32, X-15"""
    cone_hub.create()
    session = cone_hub.hub.open("cone")
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    params = {"name": "chat", "arguments": {"identifier": "ada", "prompt": "slow"}, "_meta": {"progressToken": 1}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    stream = cone_hub.hub.stream("cone", message, headers)
    while b"world" not in next(stream):
        pass
    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    assert cone_hub.hub.send("cone", note, headers).status == 202
    for _ in stream:
        pass
    until(endpoint.gone.is_set, "the connection is closed")
    assert cone_hub.nodes() == 1


def test_a_missing_endpoint_is_an_error(tmp_path: Path) -> None:
    """SUB-19"""
    cone_hub = ConeHub(tmp_path, CONE_URL="http://127.0.0.1:9/v1")
    cone_hub.create()
    assert "the model's endpoint cannot be reached" in failed(cone_hub.chat("hi"))
    cone_hub.hub.close()


def test_without_an_endpoint_the_callers_own_model_is_asked(tmp_path: Path) -> None:
    """SUB-8"""
    cone_hub = ConeHub(tmp_path)
    cone_hub.create(system_prompt="Be brief.")
    assert "set CONE_URL" in failed(cone_hub.chat("hi"))
    params = {"name": "chat", "arguments": {"identifier": "ada", "prompt": "hi"}}
    asked = cone_hub.hub.modern("cone", "tools/call", params, {"sampling": {}}).result
    (key,) = asked["inputRequests"]
    request = asked["inputRequests"][key]
    assert request["method"] == "sampling/createMessage"
    assert request["params"]["systemPrompt"] == "Be brief."
    assert request["params"]["messages"] == [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    said = {"role": "assistant", "content": {"type": "text", "text": "My own words"}, "model": "m"}
    again = params | {"requestState": asked["requestState"], "inputResponses": {key: said}}
    answer = cone_hub.hub.modern("cone", "tools/call", again, {"sampling": {}})
    assert answer.text == "My own words"
    assert cone_hub.tree() == [("", ""), ("user", "hi"), ("assistant", "My own words")]
    assert cone_hub.value("registry")["executor"] == "nobody"
    cone_hub.hub.close()


def test_the_registry_lists_the_models_of_the_endpoint(cone_hub: ConeHub) -> None:
    """SUB-7"""
    assert cone_hub.value("registry") == {
        "type": "registry",
        "executor": "endpoint",
        "models": [{"id": "large"}, {"id": "small"}],
    }


def test_models_can_be_narrowed(tmp_path: Path, endpoint: Endpoint) -> None:
    """SUB-7"""
    cone_hub = ConeHub(tmp_path, CONE_URL=endpoint.url, CONE_KEY=KEY, CONE_MODELS="small, tiny")
    assert cone_hub.value("registry")["models"] == [{"id": "small"}, {"id": "tiny"}]
    text = failed(cone_hub.call("create", name="x", model_id="large"))
    assert "expected one of small, tiny" in text
    cone_hub.hub.close()


def test_cones_are_found_by_name_and_by_uuid_and_deleted(cone_hub: ConeHub) -> None:
    """SUB-7"""
    made = cone_hub.create(metadata={"for": "tests"})
    assert made["type"] == "cone_created"
    cone_hub.create("bob")
    by_name = cone_hub.value("get", identifier="ada")
    assert (
        by_name
        == cone_hub.value("get", identifier=made["cone_id"])
        == cone_hub.value("get", identifier=made["cone_id"].upper())
    )
    assert by_name["cone"]["metadata"] == {"for": "tests"}
    assert "there is a cone 'ada' already" in failed(cone_hub.call("create", name="ada", model_id="small"))
    assert "name: expected" in failed(cone_hub.call("create", name=made["cone_id"], model_id="small"))
    assert [cone["name"] for cone in cone_hub.value("list")["cones"]] == ["ada", "bob"]
    assert cone_hub.value("delete", identifier=made["cone_id"])["type"] == "cone_deleted"
    assert "there is no cone 'ada'; there are: bob" in failed(cone_hub.call("get", identifier="ada"))
    scheduled = cone_hub.hub.call("arbor", "tree_list_scheduled", {}).result["structuredContent"]
    assert scheduled["tree_ids"] == [made["head"]["tree_id"]]


def test_each_cone_with_a_system_prompt_is_a_prompt(cone_hub: ConeHub) -> None:
    """SUB-30, SUB-43: and a server without prompts lists none."""
    assert cone_hub.prompts() == {}
    assert cone_hub.hub.legacy("jq", "prompts/list").result["prompts"] == []
    cone_hub.create(system_prompt="You are Ada.")
    cone_hub.create("plain")
    until(cone_hub.prompts, "the prompt is listed")
    (prompt,) = cone_hub.prompts().values()
    assert (prompt["name"], [(one["name"], one["required"]) for one in prompt["arguments"]]) == (
        "cone:ada",
        [("query", True)],
    )
    given = cone_hub.hub.legacy("cone", "prompts/get", {"name": "cone:ada", "arguments": {"query": "Who are you?"}})
    assert [message["content"]["text"] for message in given.result["messages"]] == ["You are Ada.", "Who are you?"]
    assert cone_hub.hub.legacy("cone", "prompts/get", {"name": "cone:ada"}).error["code"] == -32602
    cone_hub.value("delete", identifier="ada")
    until(lambda: not cone_hub.prompts(), "the prompt is gone")


def test_the_prompts_of_cones_are_in_the_aggregate_too(cone_hub: ConeHub) -> None:
    """SUB-30"""
    cone_hub.create(system_prompt="You are Ada.")
    until(cone_hub.prompts, "the prompt is listed")
    names = [prompt["name"] for prompt in cone_hub.hub.modern("", "prompts/list").result["prompts"]]
    # Desktop clients refuse a name with a colon, so the name ends with a digest.
    name = "cone__cone_ada_d94cb50c"
    assert name in names
    params = {"name": name, "arguments": {"query": "Who?"}}
    assert len(cone_hub.hub.modern("", "prompts/get", params).result["messages"]) == 2


@pytest.mark.parametrize(
    ("key", "words"), [(f"{KEY}\r\n", ""), (f"{KEY}\nmore", "CONE_KEY: expected a key of printable")]
)
def test_a_key_with_a_line_end_works_or_is_refused_and_never_shown(
    tmp_path: Path, endpoint: Endpoint, key: str, words: str
) -> None:
    """THREATS 1.5: a caller gets no secret."""
    cone_hub = ConeHub(tmp_path, CONE_URL=endpoint.url, CONE_KEY=key)
    cone_hub.create()
    answer = cone_hub.chat("hi")
    cone_hub.hub.close()
    assert (words or "Hello, world") in answer.text and KEY not in answer.text

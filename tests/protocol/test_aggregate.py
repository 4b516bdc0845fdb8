"""All servers at one address: names, sessions, changes, collisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from patchbay.catalogue.aggregate.public_names import public_name
from tests.hubs import MODERN, Hub, modern_request
from tests.protocol.test_tools import listed
from tests.waiting import until


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    files = {
        "a.py": "def one() -> str:\n    return 'a.one'\n",
        "snake_case.py": "def two_words() -> str:\n    return 'snake_case.two_words'\n",
        "snake.py": "def case_two() -> str:\n    return 'snake.case_two'\n",
        "left.json": '{"resources": {"r": {"uri": "x://same", "name": "r", "text": "left"}}}',
        "right.json": '{"resources": {"r": {"uri": "x://same", "name": "r", "text": "right"},'
        ' "own": {"uri": "x://own", "name": "own", "text": "mine"}},'
        ' "prompts": {"p": {"arguments": [{"name": "t"}], "messages":'
        ' [{"role": "user", "content": {"type": "text", "text": "about {{t}}"}}]}},'
        ' "completions": {"p": {"t": ["apes"]}}}',
        "dot.b.py": "def c() -> str:\n    return 'dot.b c'\n",
        "dot.py": "def fine() -> str:\n    return 'fine'\n",
        "dot.mcp.json": '{"tools": {"b.c": {"function": "fine"}}}',
    }
    hub = Hub(tmp_path_factory.mktemp("all"), files).list_at_mcp("*")
    yield hub
    hub.close()


def names(hub: Hub) -> set[str]:
    return set(listed(hub, "", MODERN))


def test_tools_of_every_server_are_called_by_server_and_tool(hub: Hub) -> None:
    """X-8, SUB-15."""
    assert {"a__one", "snake_case__two_words", "echo__echo", "jq__jq", "mcp__list_servers"} <= names(hub)
    assert hub.call("", "a__one", {}, MODERN).text == "a.one"
    assert hub.call("", "echo__echo", {"message": "all"}, MODERN).text.strip() == "all"


def test_every_name_fits_the_pattern_of_desktop_clients(hub: Hub) -> None:
    """X-8: a client withholds a whole server for one name that does not fit."""
    prompts = [prompt["name"] for prompt in hub.modern("", "prompts/list").result["prompts"]]
    assert "right__p" in prompts
    assert [name for name in [*names(hub), *prompts] if not re.fullmatch(r"[a-zA-Z0-9_-]{1,49}", name)] == []


def test_the_dotted_names_of_before_can_still_be_called(hub: Hub) -> None:
    """SUB-15: a client that remembers `server.tool` goes on working."""
    assert hub.call("", "a.one", {}, MODERN).text == "a.one"
    assert hub.call("", "echo.echo", {"message": "all"}, MODERN).text.strip() == "all"
    prompt = hub.modern("", "prompts/get", {"name": "right.p", "arguments": {"t": "ants"}}).result
    assert prompt["messages"][0]["content"]["text"] == "about ants"
    params = {"ref": {"type": "ref/prompt", "name": "right.p"}, "argument": {"name": "t", "value": "a"}}
    assert hub.modern("", "completion/complete", params).result["completion"]["values"] == ["apes"]


def test_the_examples_for_tests_are_not_served_unless_they_are_switched_on(hub: Hub, tmp_path: Path) -> None:
    assert not any(name.startswith(("everything__", "bash__", "claudecode__")) for name in names(hub))
    other = Hub(tmp_path, enable=("everything", "bash"))
    assert {"everything__test_simple_text", "bash__execute"} <= names(other)
    assert not any(name.startswith("claudecode__") for name in names(other))
    other.close()


def test_the_underscore_form_goes_to_the_longest_server_name_that_fits(hub: Hub) -> None:
    """SUB-35: SUB-C13, X-8."""
    assert hub.call("", "snake_case_two_words", {}, MODERN).text == "snake_case.two_words"
    assert hub.call("", "snake_case_two", {}, MODERN).text == "snake.case_two"


def test_a_name_of_two_servers_belongs_to_the_server_with_the_longest_name(hub: Hub) -> None:
    """X-8: a server chooses the names of its tools, not its own name; each tool has an address of its own."""
    assert hub.call("", "dot.b.c", {}, MODERN).text == "dot.b c"
    assert hub.call("dot.b", "c", {}, MODERN).text == "dot.b c"
    assert hub.call("", public_name("dot.b", "c"), {}, MODERN).text == "dot.b c"
    assert hub.call("", public_name("dot", "b.c"), {}, MODERN).text == "fine"
    reasons = {problem.where: problem.reason for problem in hub.catalogue.aggregate().refused["dot"]}
    assert "the tools of dot.b have this name" in reasons["dot.b.c"]


def test_of_two_servers_with_one_uri_the_first_one_keeps_it(hub: Hub) -> None:
    """X-8: the page of the other one says so, and its endpoint serves it."""
    assert hub.modern("", "resources/read", {"uri": "x://same"}).result["contents"][0]["text"] == "left"
    assert hub.modern("right", "resources/read", {"uri": "x://same"}).result["contents"][0]["text"] == "right"
    (problem,) = hub.catalogue.aggregate().refused["right"]
    assert problem.where == "x://same"
    assert problem.reason == "not served at /mcp: left had it first, before right; /mcp/right serves it"
    page = hub.client.get("/servers/right", headers={"Host": "localhost", "Accept": "text/html"}).get_data(as_text=True)
    assert "left had it first" in page


def test_resources_prompts_and_completions_find_their_server(hub: Hub) -> None:
    read = hub.modern("", "resources/read", {"uri": "x://own"}).result["contents"][0]
    assert read["text"] == "mine"
    prompt = hub.modern("", "prompts/get", {"name": "right__p", "arguments": {"t": "ants"}}).result
    assert prompt["messages"][0]["content"]["text"] == "about ants"
    params = {"ref": {"type": "ref/prompt", "name": "right__p"}, "argument": {"name": "t", "value": "a"}}
    assert hub.modern("", "completion/complete", params).result["completion"]["values"] == ["apes"]


def test_skills_of_every_server_are_there(tmp_path: Path) -> None:
    hub = Hub(tmp_path, enable=("everything",))
    (skill, *_) = hub.modern("", "skills/list").result["skills"]
    read = hub.modern("", "resources/read", {"uri": skill["resources"][-1]["uri"]})
    assert read.result["contents"][0]["text"]
    hub.close()


def test_a_legacy_client_needs_a_session_here(hub: Hub) -> None:
    """X-3: strict, unlike /mcp/<server>."""
    without = hub.legacy("", "tools/list")
    assert (without.status, without.error["code"]) == (400, -32600)
    array = hub.send("", [{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}])
    assert (array.status, array.error["code"]) == (400, -32600)
    assert hub.legacy("", "ping").result == {}
    session = hub.open("")
    assert hub.legacy("", "tools/list", session=session).status == 200
    assert hub.legacy("a", "tools/list", session=session).status == 404
    result = hub.legacy("", "initialize", {"protocolVersion": "2025-11-25"}, version=None).result
    assert result["serverInfo"]["name"] == "patchbay" and "- a" in result["instructions"]


def test_a_change_of_any_server_is_announced(hub: Hub) -> None:
    stream = hub.stream("", *modern_request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}))

    def messages() -> Iterator[Any]:
        for frame in stream:
            for line in frame.decode().split("\n"):
                if line.startswith("data: "):
                    yield orjson.loads(line[6:])

    heard = messages()
    next(heard)
    (hub.servers / "late.py").write_text("def late() -> str:\n    return 'late'\n")
    assert next(heard)["method"] == "notifications/tools/list_changed"
    until(lambda: "late__late" in names(hub), "the new tool is listed")
    stream.close()


def test_the_list_is_in_the_same_order_every_time(hub: Hub) -> None:
    first = [list(listed(hub, "", MODERN)) for _ in range(3)]
    assert first[0] == first[1] == first[2]


def test_a_person_gets_the_page_and_a_client_the_stream(hub: Hub) -> None:
    """X-5."""
    page = hub.client.get("/mcp", headers={"Host": "localhost", "Accept": "text/html"})
    assert page.mimetype == "text/html" and page.status_code == 200
    headers = {"Host": "localhost", "Accept": "text/event-stream", "Mcp-Session-Id": hub.open("")}
    stream = hub.client.get("/mcp", headers=headers, buffered=False)
    assert stream.mimetype == "text/event-stream"
    stream.close()

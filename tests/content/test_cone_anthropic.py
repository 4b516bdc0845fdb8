"""Cones over an endpoint that speaks the Anthropic Messages API. Issue 12 part 7."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.content.anthropic_endpoint import KEY, MessagesEndpoint, messages_endpoint
from tests.content.test_cone import Desk, failed


@pytest.fixture
def endpoint() -> Iterator[MessagesEndpoint]:
    with messages_endpoint() as running:
        yield running


@pytest.fixture
def desk(tmp_path: Path, endpoint: MessagesEndpoint) -> Iterator[Desk]:
    desk = Desk(tmp_path, CONE_URL=f"{endpoint.url}/v1", CONE_API="anthropic", CONE_KEY=KEY)
    yield desk
    desk.hub.close()


def create(desk: Desk, **more: str) -> None:
    desk.value("create", name="ada", model_id="claude-small", **more)


def test_a_chat_streams_the_answer_and_keeps_it(desk: Desk, endpoint: MessagesEndpoint) -> None:
    create(desk, system_prompt="Be brief.")
    answer = desk.chat("hi")
    assert answer.text == "Hello, world"
    end = answer.result["structuredContent"]
    assert (end["finish_reason"], end["usage"]) == ("end_turn", {"input_tokens": 5, "output_tokens": 3})
    assert desk.tree() == [("", ""), ("user", "hi"), ("assistant", "Hello, world")]
    desk.chat("again")
    body, headers = endpoint.asked[-1]
    assert (body["model"], body["system"], body["stream"], body["max_tokens"] > 0) == (
        "claude-small",
        "Be brief.",
        True,
        True,
    )
    assert [(one["role"], one["content"]) for one in body["messages"]] == [
        ("user", "hi"),
        ("assistant", "Hello, world"),
        ("user", "again"),
    ]
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("prompt", "said"),
    [("limit", "answered 429 "), ("fault", "failed: Overloaded"), ("cut", "broke off in the middle of its answer")],
)
def test_a_chat_that_fails_keeps_nothing_and_says_why(desk: Desk, prompt: str, said: str) -> None:
    create(desk)
    words = failed(desk.chat(prompt))
    assert said in words
    assert "arbor" not in words
    assert KEY not in words
    assert desk.nodes() == 1


def test_the_models_are_those_that_the_endpoint_lists(desk: Desk) -> None:
    found = desk.value("registry")
    assert (found["executor"], [one["id"] for one in found["models"]]) == ("endpoint", ["claude-large", "claude-small"])
    refused = failed(desk.call("create", name="bob", model_id="gpt"))
    assert "model_id: expected one of claude-large, claude-small; got 'gpt'" in refused


def test_an_unknown_api_is_an_error(tmp_path: Path, endpoint: MessagesEndpoint) -> None:
    desk = Desk(tmp_path, CONE_URL=endpoint.url, CONE_API="other", CONE_KEY=KEY)
    try:
        create(desk)
        assert "CONE_API: expected openai or anthropic, got 'other'" in failed(desk.chat("hi"))
    finally:
        desk.hub.close()
